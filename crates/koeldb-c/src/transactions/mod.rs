//! Transactions, pessimistic and optimistic, and indexed batches.
//!
//! A database of transactions is the engine's database: most of its rows are functions of `data`.

pub(crate) mod indexed_batch;
pub(crate) mod indexed_lists;
pub(crate) mod many;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod transaction;
