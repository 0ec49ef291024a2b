//! Write batches with an index, so that the operations of a batch can be read before it is written.
//!
//! [`WriteBatchWithIndex`] wraps a [`WriteBatch`], whose bytes do not depend on the index. `index`
//! maps each key to its newest operation; an operation links to the previous one of the same key,
//! so that a rollback to a save point costs what it takes back. `effect` combines the operations on
//! a key. From the first cursor on, `delta` has the operations in sorted order, too, and `cursor`
//! merges them with a cursor over the database.

mod batch;
mod cursor;
mod delta;
mod effect;
mod index;

#[cfg(test)]
mod tests;

pub use batch::{BatchValue, WriteBatchWithIndex};
pub use cursor::BatchCursor;
