//! The words all layers of KoelDB speak: keys and their order, cursors, look-ups, merge operators, coding,
//! checksums, codecs, errors and counters.
//!
//! Its job is vocabulary: it opens no file, starts no thread and holds no global state. Everything here is
//! `Send`, and `Sync` where it is shared.
//!
//! - [`error`]: the one error type. [`pinned`]: values that outlive their read.
//! - [`key`], [`comparator`], [`prefix`], [`range_del`]: what is stored and how it is ordered and hidden.
//! - [`cursor`], [`lookup`]: how a scan and a point read travel through runs of entries.
//! - [`coding`], [`checksum`], [`codec`]: bytes. [`file_name`]: the names in a database directory.
//! - [`merge_operator`]: user code that combines values. [`stats`]: counters. [`sabotage`]: bugs on purpose.
//! - [`limits`]: bounds on what files may ask for.
//! - [`biased`]: a value that its thread reaches without a locked instruction. [`sync`]: what models replace.

pub mod biased;
pub mod checksum;
pub mod codec;
pub mod coding;
pub mod comparator;
pub mod cursor;
pub mod error;
pub mod file_name;
pub mod key;
pub mod limits;
pub mod lookup;
pub mod merge_operator;
pub mod pinned;
pub mod prefix;
pub mod range_del;
pub mod sabotage;
pub mod stats;
pub mod sync;

pub use comparator::{Comparator, KeyOrder};
pub use cursor::{Blocking, Cursor, Fault};
pub use error::{Error, ErrorKind, Result};
pub use key::{InternalKey, SeqNo, ValueType};
pub use limits::Limits;
pub use lookup::Lookup;
pub use pinned::{Buffer, PinnedSlice};
