//! Copies of data: checkpoints, backups, exports, external table files, lists of files.

pub(crate) mod backup;
pub(crate) mod backup_options;
pub(crate) mod checkpoint;
pub(crate) mod deletions;
pub(crate) mod env_options;
pub(crate) mod export;
pub(crate) mod family_metadata;
mod fields;
pub(crate) mod ingest;
pub(crate) mod live_files;
pub(crate) mod metadata_filter;
pub(crate) mod sst_file_writer;
pub(crate) mod storage_info;
pub(crate) mod trace;
