//! Filters: what a table surely does not hold.
