//! Backups in RocksDB's format: many backups of databases in one directory, which share tables.
//!
//! - [`layout`]: the directory and its names. [`meta`]: the list of files of a backup.
//! - [`engine`]: the backups of a directory, verification, removal. [`create`]: making a backup.
//!   [`restore`]: restoring one. [`options`]: the options of all three. [`notes`]: the checksums of
//!   blob files.

mod create;
mod engine;
mod layout;
mod meta;
mod notes;
mod options;
mod restore;

pub use engine::{BackupEngine, BackupStopHandle};
pub use layout::{BackupId, ShareFilesNaming};
pub use options::{
    BackupEngineOptions, BackupFileInfo, BackupInfo, CreateBackupOptions, RestoreMode,
    RestoreOptions,
};
pub use restore::RestoreReport;
