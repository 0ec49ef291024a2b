//! Writing a table.
