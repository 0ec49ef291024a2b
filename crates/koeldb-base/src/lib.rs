//! Types that all layers of KoelDB share: keys, cursors, lookups, coding, checksums, codecs,
//! errors, counters.
//!
//! The crate opens no file and starts no thread. Its only global state is thread numbers and cached
//! answers of the system, and in each thread the perf context, counters of statistics and contexts
//! of codecs. All types are `Send`, and `Sync` where they are shared.
//!
//! - [`error`]: the error type. [`pinned`]: values that outlive their read.
//! - [`key`], [`comparator`], [`prefix`], [`range_del`]: internal keys, their order, and range
//!   tombstones.
//! - [`timestamp`]: user-defined timestamps, which end the keys of some column families.
//! - [`cursor`], [`lookup`]: scans and point reads over sorted runs of entries.
//! - [`coding`], [`checksum`], [`codec`]: encoding. [`file_name`]: file names of a database
//!   directory.
//! - [`entity`]: values with named columns. [`merge_operator`]: user code that combines values.
//!   [`stats`], [`perf`]: counters of a database, and of a thread. [`buckets`]: the buckets of
//!   histograms.
//! - [`nearest`]: suggestions for misspelt names. [`limits`]: bounds on sizes that files declare.
//! - [`biased`]: a cell that its thread reaches without a locked instruction. [`arc_ref`], [`tied`]:
//!   references to shared objects that readers need not count. [`sync`]: synchronization primitives
//!   that Loom models replace.

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

pub mod arc_ref;
pub mod biased;
pub mod buckets;
pub mod checksum;
pub mod codec;
pub mod coding;
pub mod comparator;
pub mod cursor;
pub mod entity;
pub mod error;
pub mod file_name;
pub mod key;
pub mod limits;
pub mod lookup;
pub mod merge_operator;
mod nearest;
pub mod perf;
pub mod pinned;
pub mod prefix;
pub mod range_del;
pub mod stats;
pub mod sync;
pub mod tied;
pub mod timestamp;

pub use arc_ref::ArcRef;
pub use comparator::{Comparator, KeyOrder};
pub use cursor::{Blocking, Cursor, Fault};
pub use error::{Error, ErrorKind, Result};
pub use key::{InternalKey, SeqNo, ValueType};
pub use limits::Limits;
pub use lookup::Lookup;
pub use nearest::nearest;
pub use pinned::{Buffer, PinnedSlice};
pub use timestamp::Timestamp;
