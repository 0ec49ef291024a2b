//! Databases, column families, reads, writes, batches and iterators.

pub(crate) mod db;
