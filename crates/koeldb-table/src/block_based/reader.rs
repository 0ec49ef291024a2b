//! The open table.
