//! The protocol of remote compaction, RocksDB's: jobs that another process runs.
//!
//! A primary with a [`CompactionService`](crate::CompactionService) describes a compaction
//! ([`format`]) and gives it to the service. A worker (`remote_worker`) opens the same files without
//! lock or log, writes new tables into a directory of its own, and describes them. The primary
//! checks every one of them ([`accept`]), takes them into its directory and installs the edit;
//! otherwise it compacts locally. The transport of messages and files belongs to the service.

pub(crate) mod accept;
pub(crate) mod format;
