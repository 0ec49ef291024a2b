//! The read paths: point reads, batches of them, and scans; snapshots, cursors and iterators.
//!
//! A read searches a super-version up to a sequence number. It may use all storeys below, but needs
//! little of those above `state`: the device reads and the references that keep a database open
//! (`engine`), and the end of a snapshot is told to `background`.

mod blob_values;
mod blocking_cursor;
mod cursor;
mod cursor_counts;
mod dated;
mod entity;
mod futures;
mod get;
mod iterator;
mod multi_get;
mod multi_get_stream;
mod operands;
mod options;
mod prefix_use;
pub(crate) mod scan;
mod scan_plan;
mod scan_tombstones;
pub(crate) mod snapshot;
mod stream;
mod suspended;

pub use cursor::DbCursor;
pub(crate) use dated::is_written_since;
pub use iterator::{DbIterator, Direction, IteratorMode};
pub use multi_get::{Answers, PinnedSlices};
pub use multi_get_stream::MultiGetStream;
pub use options::ReadOptions;
pub use stream::DbStream;
