//! The archive: obsolete logs that are kept for tools that read them.
//!
//! With `WAL_ttl_seconds` or `WAL_size_limit_MB` an obsolete log is moved to `archive/` instead of
//! being removed. Archived logs are never replayed. The move is not synced: after a power cut the
//! log may be back, and the next open removes it. Logs leave the archive by age, then by total
//! size, oldest first. The logs that a recovery kept there because of damage obey the same limits.
//! The change feed reads an archived log if the next log says where it ends (`updates::logs`): it may
//! end in batches that a recovery gave up.

use std::collections::BTreeSet;
use std::path::Path;

use koeldb_base::Result;
use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_fs::FileSystem;
use koeldb_fs::small_file::{create_dir_durably, second_name};
use koeldb_log::RecoveryMode;
use koeldb_log::wal::archive_directory;

use crate::batch::{Link, LinkKind};
use crate::options::DbOptions;

/// The limits of the WAL archive: `WAL_ttl_seconds` and `WAL_size_limit_MB`; 0 for none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArchiveLimits {
    seconds_max: u64,
    bytes_max: u64,
}

impl ArchiveLimits {
    /// Returns the archive limits of the options; `None` if obsolete logs are not archived.
    pub(crate) fn of(options: &DbOptions) -> Option<Self> {
        let limits = ArchiveLimits {
            seconds_max: options.WAL_ttl_seconds,
            bytes_max: options.WAL_size_limit_MB.saturating_mul(1 << 20),
        };
        (limits.seconds_max > 0 || limits.bytes_max > 0).then_some(limits)
    }
}

/// Moves an obsolete log to the directory `archive`.
pub(crate) fn keep(fs: &dyn FileSystem, wal_dir: &Path, number: FileNumber) -> Result<()> {
    let archive = archive_directory(wal_dir);
    create_dir_durably(fs, &archive)?;
    let log = file_name::wal(wal_dir, number);
    let (kept, exists) = second_name(fs, &log, &archive)?;
    if exists {
        // Recovery has kept it there because of damage.
        return fs.remove_file(&log);
    }
    fs.rename(&log, &kept)
}

/// Returns the logs that the link record of a later log names: all of their batches took effect.
///
/// A log that is replaced because it failed is not named by the next one.
pub(crate) fn predecessors(fs: &dyn FileSystem, wal_dir: &Path) -> Result<BTreeSet<FileNumber>> {
    let mut found = BTreeSet::new();
    for entry in fs.list(wal_dir)? {
        let Some(FileKind::Wal(number)) = file_name::parse(&entry.name) else {
            continue;
        };
        let mode = RecoveryMode::TolerateCorruptedTailRecords;
        let mut reader = koeldb_log::wal::open(fs, wal_dir, number, mode)?;
        let link = reader.next_record()?.and_then(Link::decode);
        found.extend(
            link.filter(|link| link.kind == LinkKind::Follows)
                .map(|link| link.before),
        );
    }
    Ok(found)
}

/// Removes archived logs beyond the limits of age and size, but none from `needed_from` on.
pub(crate) fn purge(
    fs: &dyn FileSystem,
    wal_dir: &Path,
    limits: ArchiveLimits,
    unix_secs: u64,
    needed_from: FileNumber,
) -> Result<()> {
    let archive = archive_directory(wal_dir);
    let mut logs = Vec::new();
    for entry in fs.list(&archive)? {
        if let Some(FileKind::Wal(number)) = file_name::parse(&entry.name) {
            let path = archive.join(&entry.name);
            let metadata = fs.metadata(&path)?;
            logs.push((number, metadata, path));
        }
    }
    logs.sort_by_key(|(number, ..)| *number);
    let mut bytes: u64 = logs.iter().map(|(_, metadata, _)| metadata.len).sum();
    for (_, metadata, path) in logs.iter().filter(|(number, ..)| *number < needed_from) {
        let age = unix_secs.saturating_sub(metadata.modified_unix_secs);
        let is_old = limits.seconds_max > 0 && age > limits.seconds_max;
        let is_surplus = limits.bytes_max > 0 && bytes > limits.bytes_max;
        if is_old || is_surplus {
            fs.remove_file(path)?;
            bytes = bytes.saturating_sub(metadata.len);
        }
    }
    Ok(())
}
