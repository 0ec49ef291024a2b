//! Write batches in RocksDB's serialized form, so that a batch is its own log record.
//!
//! The format ([`format`](mod@format)), the batch that is built in it, checksums of its operations, and
//! the links between logs, which are batches, and the keys of logs from before timestamps were switched on
//! or off. The bottom storey, which uses no other.

mod format;
mod link;
mod protection;
mod rekey;
mod write_batch;

pub use format::BatchEntry;
pub(crate) use format::{
    BatchIter, HEADER_BYTES, Operation, Record, check_count, entry_at, header, tag,
};
pub(crate) use link::{Link, LinkKind};
pub(crate) use protection::{sum_of, verify};
pub(crate) use rekey::{KeyChange, with_changed_keys};
pub use write_batch::WriteBatch;
