//! The file system of a POSIX machine.
//!
//! Most calls are the standard library's; `rustix` adds advice, preallocation and free space, and `libc` the two
//! calls that neither has: open-file-description locks and range write-back.
//!
//! - New files are created exclusively and no link in the last component is followed; they get mode 0666 less the
//!   umask, directories 0700. Files that exist are opened without blocking and must be regular.
//! - A writable file that failed once stays failed.
//! - Direct I/O is for reads. Writes asked to be direct go through the page cache: the engine writes tables
//!   once and in large pieces, where the page cache costs little.
//! - Locks are record locks, which RocksDB respects.
//!
//! `system`: the file system. `reader`, `writer`, `lock`: what it hands out.

mod lock;
mod reader;
mod system;
mod writer;

pub use system::PosixFileSystem;
