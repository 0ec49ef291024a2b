//! The read paths: point reads, batches of them, and scans.

mod blocking_cursor;
mod cursor;
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
pub use iterator::{DbIterator, Direction, IteratorMode};
pub use multi_get::{Answers, PinnedSlices};
pub use multi_get_stream::MultiGetStream;
pub use options::ReadOptions;
pub use stream::DbStream;
