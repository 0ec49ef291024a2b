//! Files, directories and clocks, each behind a trait.
//!
//! Everything in KoelDB that touches storage or time goes through [`FileSystem`] and [`Clock`], so
//! that any run can be replayed and any failure injected. This crate does not interpret the content
//! of files.
//!
//! - [`file`](mod@file): the traits. [`clock`]: time.
//! - [`posix`]: the real file system. [`memory`]: one in memory, with crash images.
//! - [`layer`]: layers over file systems: [`fault`] injects faults, [`latency`] delays reads,
//!   [`trace`] records calls.
//! - [`rate_limit`]: limits on the bytes moved per second.
//! - [`read_driver`]: parallel reads, by io_uring or threads.
//! - [`aligned`]: memory for direct reads. [`resident`]: files held in memory. [`huge_pages`]:
//!   huge-page statistics. [`small_file`]: files that are replaced atomically. [`directory_lock`]:
//!   the lock of a database directory. [`origin`]: the process that an object belongs to.
//!
//! File systems and random-access files are shared by threads; a writable file has one owner.

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

pub mod aligned;
pub mod clock;
pub mod directory_lock;
pub mod fault;
pub mod file;
mod host;
pub mod huge_pages;
pub mod latency;
pub mod layer;
pub mod memory;
pub mod origin;
#[cfg(unix)]
pub mod posix;
mod random;
pub mod rate_limit;
pub mod read_driver;
pub mod resident;
pub mod small_file;
pub mod trace;
mod write_buffer;

pub use aligned::AlignedBuffer;
pub use clock::{Clock, ManualClock, SystemClock};
pub use fault::{Failure, FaultAction, FaultFileSystem, FaultRule};
pub use file::{
    AccessHint, DirEntry, EntryKind, FileLock, FileSync, FileSystem, MappedPages, Metadata,
    OpenOptions, Purpose, REUSED_ZEROS, REUSED_ZEROS_UNIT, RandomAccessFile, WritableFile,
    WriteOptions, is_link_refused,
};
pub use host::{ProcessUsage, host_name, process_usage};
pub use latency::LatencyFileSystem;
pub use layer::Operation;
pub use memory::{MemoryFileSystem, SurvivalPolicy};
pub use origin::Origin;
#[cfg(unix)]
pub use posix::{PosixFileSystem, allocator_figures};
pub use rate_limit::{IoPriority, RateLimiter, RateLimiterBuilder, RateLimiterMode};
pub use read_driver::AsyncReads;
pub use trace::{TraceDetail, TraceFileSystem};
