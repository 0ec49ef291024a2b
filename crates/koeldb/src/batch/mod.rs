//! Write batches in RocksDB's serialized form, so that a batch is its own log record.

mod format;
mod link;
mod protection;
mod write_batch;

pub use format::BatchEntry;
pub(crate) use format::{
    BatchIter, HEADER_BYTES, Operation, Record, check_count, entry_at, header, tag,
};
pub(crate) use link::{Link, LinkKind};
pub(crate) use protection::{sum_of, verify};
pub use write_batch::WriteBatch;
