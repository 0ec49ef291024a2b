//! Copies of a database and of its tables: into another directory, out of one, and as a feed.
//!
//! Checkpoints, backups, exports and lists of live files start with a [`capture`] of the state that
//! they copy; ingestion and imports take tables in; a feed returns the logged batches ([`updates`]).
//! The readers and writers of table files need no database. This is the top storey: a copy may use all
//! others, among them the handles of its database and the opening of another.

pub(crate) mod backup;
pub(crate) mod capture;
pub(crate) mod checkpoint;
pub(crate) mod deletions;
pub(crate) mod export;
pub(crate) mod ingest;
pub(crate) mod live_files;
pub(crate) mod sst_file_reader;
pub(crate) mod sst_file_sorter;
pub(crate) mod sst_file_writer;
pub(crate) mod updates;
