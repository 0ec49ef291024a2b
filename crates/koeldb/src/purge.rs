//! Removing files that nobody needs any more, and only those.
//!
//! A table leaves the tree by a durable edit; its metadata lives on in the versions that readers and jobs still
//! hold. Its file goes when the last of them has let go, which the weak reference here shows.

use std::sync::{Arc, Mutex, Weak};

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::sabotage::{Sabotage, is_on};
use koeldb_base::sync::lock_plain as lock;
use koeldb_lsm::FileMeta;

use crate::inner::DbInner;
use crate::listener::Event;

/// Tables that left the tree and may still be read.
#[derive(Debug, Default)]
pub(crate) struct Purge {
    retired: Mutex<Vec<(FileNumber, Weak<FileMeta>)>>,
    /// Logs and MANIFESTs that were needed when last looked.
    manifests: Mutex<Vec<FileNumber>>,
}

impl Purge {
    /// Notes tables that a durable edit took out of the tree.
    pub(crate) fn retire<'f>(&self, files: impl IntoIterator<Item = &'f Arc<FileMeta>>) {
        let mut retired = lock(&self.retired);
        retired.extend(
            files
                .into_iter()
                .map(|file| (file.number, Arc::downgrade(file))),
        );
    }

    fn take_unused(&self) -> Vec<FileNumber> {
        let mut unused = Vec::new();
        lock(&self.retired).retain(|(number, file)| {
            let is_used = file.strong_count() > 0;
            if !is_used {
                unused.push(*number);
            }
            is_used
        });
        unused
    }
}

impl DbInner {
    /// Removes tables, logs and MANIFESTs that nothing needs. What cannot be removed is an orphan that the next open
    /// removes.
    pub(crate) fn remove_obsolete_files(&self) {
        if self.read_only {
            return;
        }
        let (is_uncertain, manifest) = {
            let versions = lock(&self.versions);
            (versions.is_uncertain(), versions.oldest_manifest())
        };
        // After a failed MANIFEST write it is not known what the disk says: nothing may go (O21).
        if is_uncertain {
            return;
        }
        for number in self.purge.take_unused() {
            let path = file_name::table(self.factory.directory(), number);
            match self.fs.remove_file(&path) {
                Ok(()) => self.notify(&Event::TableFileDeleted(number)),
                Err(error) => self
                    .info_log
                    .warn(format_args!("removing {}: {error}", path.display())),
            }
        }
        self.remove_obsolete_logs();
        let old_manifests: Vec<FileNumber> = {
            let mut known = lock(&self.purge.manifests);
            if known.last() != Some(&manifest) {
                known.push(manifest);
            }
            let (old, live) = known.iter().partition(|&&number| number < manifest);
            *known = live;
            old
        };
        for number in old_manifests {
            // Gone already if it was never the live one.
            let _ = self
                .fs
                .remove_file(&file_name::manifest(&self.path, number));
        }
    }

    fn remove_obsolete_logs(&self) {
        let min_needed = {
            let versions = lock(&self.versions);
            let recorded = versions
                .families()
                .map(koeldb_lsm::version::Family::log_number);
            let needed = match is_on(Sabotage::LogRemovedEarly) {
                true => recorded.max(),
                false => recorded.min(),
            };
            needed.unwrap_or(0)
        };
        let obsolete: Vec<(FileNumber, u64)> = {
            let mut logs = lock(&self.closed_logs);
            let (old, live) = logs.iter().partition(|(number, _)| *number < min_needed);
            *logs = live;
            old
        };
        for (number, _) in obsolete {
            let path = file_name::wal(&self.wal_dir, number);
            if let Err(error) = self.fs.remove_file(&path) {
                self.info_log
                    .warn(format_args!("removing {}: {error}", path.display()));
            }
        }
    }
}
