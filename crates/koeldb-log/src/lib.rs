//! KoelDB's record logs: the format and the files of the write-ahead log.
//!
//! A log is a sequence of records in blocks of 32 KiB, in RocksDB's format; the MANIFEST is a log
//! too. This crate frames and verifies records. Readers interpret the records (a write batch, a
//! version edit) and react to damage (fail, stop, continue); this crate decides which damage is
//! reported, by the [`RecoveryMode`].
//!
//! - [`format`](mod@format): the on-disk format. [`writer`]: writes records. [`reader`]: reads
//!   records from any file.
//! - [`wal`]: the files of the write-ahead log. [`survey`]: counts intact records after damage.
//!
//! Writers and readers belong to one thread at a time. They share nothing, but for the handle that
//! syncs a log concurrently with its writer ([`beside`]).

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

pub mod beside;
pub mod format;
pub mod reader;
pub mod survey;
mod tear;
pub mod wal;
pub mod writer;

pub use beside::LogSync;
pub use reader::{Problem, ProblemKind, RecordAndSizes, RecordReader, RecoveryMode};
pub use wal::WalWriter;
pub use writer::{RecordWriter, RecordWriterOptions, WalCompression};

#[cfg(test)]
mod testing;
