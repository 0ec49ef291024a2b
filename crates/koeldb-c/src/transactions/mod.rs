//! Transactions, pessimistic and optimistic.
