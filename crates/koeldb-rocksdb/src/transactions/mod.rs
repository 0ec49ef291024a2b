//! Databases with transactions, pessimistic and optimistic.

mod optimistic;
mod options;
mod pessimistic;
mod transaction;

pub use optimistic::OptimisticTransactionDB;
pub use options::{OptimisticTransactionOptions, TransactionDBOptions, TransactionOptions};
pub use pessimistic::TransactionDB;
pub use transaction::Transaction;
