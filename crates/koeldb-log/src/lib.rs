//! KoelDB's record logs: the bytes and the files of the write-ahead log.
//!
//! A log is a sequence of records in blocks of 32 KiB, as RocksDB writes it; the MANIFEST is a log too. This
//! crate frames and checks records. What a record means (a write batch, a version edit) and what follows from
//! damage (fail, stop, go on) is left to those who read it; which damage is reported is decided here, by the
//! [`RecoveryMode`].
//!
//! - [`format`](mod@format): the bytes. [`writer`]: records to a file. [`reader`]: records from a file, whatever it holds.
//! - [`wal`]: the files of the write-ahead log: their names, their order, their life. [`survey`]: what is intact behind damage.
//!
//! Writers and readers belong to one thread at a time; nothing is shared between them.

pub mod format;
pub mod reader;
pub mod survey;
pub mod wal;
pub mod writer;

pub use reader::{Problem, ProblemKind, RecordReader, RecoveryMode};
pub use wal::WalWriter;
pub use writer::{RecordWriter, RecordWriterOptions, WalCompression};

#[cfg(test)]
mod testing;
