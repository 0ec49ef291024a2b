//! Writing indexes.
