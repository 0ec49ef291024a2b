//! The POSIX file system.
//!
//! Most calls use the standard library; `rustix` adds advice, preallocation and free space, and
//! `libc` the calls that neither has: open-file-description locks, range write-back, and the
//! figures of the allocator.
//!
//! - New files are created exclusively, without following a link in the last component; their mode
//!   is 0666 less the umask, that of directories 0700. Existing files are opened without blocking
//!   and must be regular.
//! - A writable file that failed once stays failed.
//! - Direct reads and writes bypass the page cache. A file opened again for appending is written
//!   through it.
//! - Locks are record locks, which RocksDB respects.
//!
//! `system`: the file system. `reader`, `writer`, `direct_writer`, `lock`: open files and locks.
//! `allocator`: figures of the memory allocator.

mod allocator;
mod direct_writer;
mod lock;
mod reader;
mod system;
mod writer;

pub use allocator::allocator_figures;
pub use system::PosixFileSystem;
