//! Blocks of entries.
