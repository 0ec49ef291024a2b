//! Immutable files of sorted entries (placeholder).

/// An open table.
#[derive(Debug)]
pub enum TableReader {}
