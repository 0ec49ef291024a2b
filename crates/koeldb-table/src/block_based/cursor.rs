//! A scan through a table.
