//! The open table, whatever its format.

/// An open table.
#[derive(Debug)]
pub enum TableReader {}
