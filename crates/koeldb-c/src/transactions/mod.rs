//! Transactions, pessimistic and optimistic, and indexed batches.
//!
//! A database with transactions is a [`koeldb::Db`]: most of its functions are those of `data`.

pub(crate) mod indexed_batch;
pub(crate) mod indexed_lists;
pub(crate) mod many;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod transaction;
