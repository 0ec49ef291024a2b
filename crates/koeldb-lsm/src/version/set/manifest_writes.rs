//! Edits on their way to the MANIFEST: appended to the live one, or with the whole state to a new one.

use std::sync::Arc;

use koeldb_base::stats::{HistogramKind, Stopwatch};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::WriteOptions;
use koeldb_log::RecordWriter;

use super::VersionSet;
use crate::current::write_current;
use crate::manifest::{self, ColumnFamilySnapshot, ManifestReader, ManifestSnapshot};
use crate::version::edit::{VersionEdit, WalAddition};
use crate::version::version::Version;

/// The error of a failed MANIFEST write, and whether its edits may be on disk nevertheless.
struct Unwritten {
    error: Error,
    uncertain: bool,
}

impl VersionSet {
    /// Writes edits durably to the MANIFEST, which it replaces if it has grown too large.
    ///
    /// `versions` are the resulting ones; if it stays unknown whether the edits are on disk, their
    /// files stay live.
    pub(super) fn write(
        &mut self,
        mut edits: Vec<VersionEdit>,
        versions: &[Arc<Version>],
    ) -> Result<()> {
        if self.options.read_only {
            return Err(Error::not_supported("the database is open read-only"));
        }
        self.fill_logs(&mut edits);
        let percent = 100 + u64::from(self.options.manifest_space_amp_percent);
        let bytes_max = self.snapshot_bytes.saturating_mul(percent) / 100;
        let bytes_max = self.options.manifest_bytes_max.max(bytes_max);
        let written = match self.manifest.take() {
            Some(records) if records.len() < bytes_max => self.append(records, &mut edits),
            _ => self.roll(&mut edits),
        };
        match written {
            Ok(records) => {
                self.manifest = Some(records);
                self.note(&edits);
                Ok(())
            }
            Err(Unwritten { error, uncertain }) => {
                if uncertain {
                    let current = self.families.values().map(|family| &family.current);
                    self.uncertain
                        .extend(versions.iter().chain(current).cloned());
                }
                Err(error.context("MANIFEST"))
            }
        }
    }

    /// Verifies the MANIFEST by reading it; if it is damaged, replaces it with a verified new one.
    ///
    /// Returns the damage that was found; `None` also if no MANIFEST was begun yet.
    ///
    /// # Errors
    /// Those of the file system, and `Corruption` if the new MANIFEST is damaged too.
    pub fn verify_manifest(&mut self) -> Result<Option<Error>> {
        if self.manifest.is_none() {
            return Ok(None);
        }
        let Err(damage) = self.read_manifest() else {
            return Ok(None);
        };
        if damage.kind() != ErrorKind::Corruption {
            return Err(damage);
        }
        // The next edit begins a new one.
        self.manifest = None;
        self.write(vec![VersionEdit::default()], &[])?;
        self.read_manifest()?;
        Ok(Some(damage))
    }

    /// Reads all edits of the MANIFEST to verify it; fails also for an incomplete last record.
    fn read_manifest(&self) -> Result<()> {
        let mut reader = ManifestReader::open(&*self.fs, &self.directory, self.manifest_number)?;
        while reader.next_edits()?.is_some() {}
        match reader.dropped_tail() {
            Some(tail) => {
                let message = format!("{} at offset {}", tail.kind, tail.offset);
                Err(reader.located(Error::corruption(message)))
            }
            None => Ok(()),
        }
    }

    /// Changes the size limits at which the MANIFEST is replaced, and its file options.
    ///
    /// (`max_manifest_file_size`, `max_manifest_space_amp_pct`)
    pub fn set_manifest_options(
        &mut self,
        bytes_max: u64,
        space_amp_percent: u32,
        file: WriteOptions,
    ) {
        self.options.manifest_bytes_max = bytes_max;
        self.options.manifest_space_amp_percent = space_amp_percent;
        self.options.manifest_file = file;
    }

    /// Appends edits to the live MANIFEST and syncs it.
    fn append(
        &mut self,
        mut records: RecordWriter,
        edits: &mut [VersionEdit],
    ) -> Result<RecordWriter, Unwritten> {
        self.fill_counters(edits, false);
        let mut record = std::mem::take(&mut self.record);
        let appended = manifest::append_all(&mut records, edits, &mut record);
        self.record = record;
        let stopwatch = Stopwatch::start_for(self.options.statistics.as_ref());
        let synced = appended.and_then(|()| records.sync());
        if let (Some(statistics), Some(stopwatch)) = (&self.options.statistics, stopwatch) {
            stopwatch.record(statistics, HistogramKind::ManifestFileSyncMicros);
        }
        match synced {
            Ok(()) => {
                self.uncertain.clear();
                Ok(records)
            }
            Err(error) => Err(Unwritten {
                error,
                uncertain: true,
            }),
        }
    }

    /// Creates a new MANIFEST with the current state and the edits, and points CURRENT at it.
    fn roll(&mut self, edits: &mut [VersionEdit]) -> Result<RecordWriter, Unwritten> {
        let number = self.numbers.next();
        self.fill_counters(edits, true);
        let snapshot = self.snapshot();
        let file_options = &self.options.manifest_file;
        let records = manifest::write(
            &*self.fs,
            &self.directory,
            number,
            file_options,
            &snapshot,
            edits,
        )
        .map_err(|error| Unwritten {
            error,
            uncertain: false,
        })?;
        write_current(&*self.fs, &self.directory, number).map_err(|error| Unwritten {
            error,
            uncertain: true,
        })?;
        self.manifest_number = number;
        self.snapshot_bytes = records.len();
        self.dropped_comparators.clear();
        self.uncertain.clear();
        Ok(records)
    }

    /// Returns the current state of the version set, as the start of a new MANIFEST.
    #[must_use]
    pub fn snapshot(&self) -> ManifestSnapshot {
        ManifestSnapshot {
            db_id: self.db_id.clone().filter(|_| self.options.write_db_id),
            wals: self
                .wals
                .iter()
                .map(|(&number, &synced_bytes)| WalAddition {
                    number,
                    synced_bytes,
                })
                .collect(),
            min_log_number_to_keep: self.min_log_number_to_keep,
            max_column_family: self.max_column_family,
            last_seqno: self.last_seqno,
            families: self
                .families
                .values()
                .map(|family| ColumnFamilySnapshot {
                    id: family.id,
                    name: family.name.clone(),
                    log_number: family.log_number,
                    version: Arc::clone(&family.current),
                })
                .collect(),
            in_one_directory: false,
        }
    }
}
