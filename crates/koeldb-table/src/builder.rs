//! A table being written.
