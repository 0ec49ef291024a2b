//! Writing blocks of entries.
