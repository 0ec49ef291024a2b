//! The tail of a MANIFEST that another process writes.
//!
//! Each [`ManifestTail::read`] applies the edits that were appended since the last one. If CURRENT
//! names another MANIFEST, the state is built anew from that, with the open readers of unchanged
//! tables. An incomplete record or atomic group at the end is not written yet.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{Result, SeqNo};
use koeldb_fs::FileSystem;

use super::column_family::ColumnFamilyVersions;
use super::recovery::{ColumnFamilySpecs, Recovered, Replay};
use crate::current::read_current;
use crate::file_meta::FileMeta;
use crate::manifest::ManifestReader;

/// The number of times that CURRENT is read again because the MANIFEST that it named is gone.
const ATTEMPTS: usize = 10;

/// The database state that a MANIFEST follower has read so far.
#[derive(Debug)]
pub struct TailedState {
    /// The id of the database, if the MANIFEST has one.
    pub db_id: Option<String>,
    /// The last sequence number in use, as recorded.
    pub last_seqno: SeqNo,
    /// The number below which no family needs a log.
    pub min_log_number_to_keep: FileNumber,
    /// The opened column families, by id.
    pub families: BTreeMap<u32, ColumnFamilyVersions>,
}

/// A follower of the MANIFEST of another process's database (`ReactiveVersionSet`).
#[derive(Debug)]
pub struct ManifestTail {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    specs: ColumnFamilySpecs,
    number: FileNumber,
    reader: ManifestReader,
    replay: Replay,
    /// Whether applying an edit failed, so that the state is not valid.
    is_broken: bool,
}

impl ManifestTail {
    /// Opens the MANIFEST that CURRENT names and replays its edits.
    ///
    /// # Errors
    /// See [`VersionSet::recover`](super::VersionSet::recover).
    pub fn open(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        specs: ColumnFamilySpecs,
    ) -> Result<Self> {
        let (number, reader, replay) = read_current_manifest(&*fs, directory, &specs)?;
        Ok(ManifestTail {
            fs,
            directory: directory.to_owned(),
            specs,
            number,
            reader,
            replay,
            is_broken: false,
        })
    }

    /// Catches up: applies the edits written since the last call; returns their number.
    ///
    /// A new MANIFEST counts with all edits in it. After an error the state is unchanged or, if an
    /// edit could not be applied, read anew by the next call.
    ///
    /// # Errors
    /// See [`VersionSet::recover`](super::VersionSet::recover).
    pub fn read(&mut self) -> Result<u64> {
        let number = read_current(&*self.fs, &self.directory)?;
        if number == self.number && !self.is_broken {
            match self.read_on() {
                // The MANIFEST may have been replaced since.
                Err(_) if read_current(&*self.fs, &self.directory)? != number => {}
                read => return read,
            }
        }
        let (number, reader, replay) =
            read_current_manifest(&*self.fs, &self.directory, &self.specs)?;
        take_over_readers(&self.replay, &replay);
        let edits = replay.edit_count;
        (self.number, self.reader, self.replay) = (number, reader, replay);
        self.is_broken = false;
        Ok(edits)
    }

    /// Applies the edits appended to the MANIFEST that is being followed; returns their number.
    fn read_on(&mut self) -> Result<u64> {
        let before = self.replay.edit_count;
        let old: Vec<_> = self.replay.versions().cloned().collect();
        self.is_broken = true;
        if !self
            .reader
            .resume(&*self.fs, &self.directory, self.number)?
        {
            self.is_broken = false;
            return Ok(0);
        }
        self.replay.run(&mut self.reader)?;
        self.replay.check_comparators()?;
        self.replay
            .settle()
            .map_err(|error| self.reader.located(error))?;
        self.is_broken = false;
        let files = old.iter().flat_map(|version| version.files());
        reuse_readers(files.map(|(_, file)| file), &self.replay);
        Ok(self.replay.edit_count.saturating_sub(before))
    }

    /// The number of the MANIFEST that is being followed.
    #[must_use]
    pub fn manifest_number(&self) -> FileNumber {
        self.number
    }

    /// The number of edits applied from the MANIFEST that is being followed.
    #[must_use]
    pub fn edit_count(&self) -> u64 {
        self.replay.edit_count
    }

    /// Returns the database state after the edits applied so far.
    ///
    /// # Errors
    /// `Corruption` if the MANIFEST lacks counters.
    pub fn state(&self) -> Result<TailedState> {
        let recovered = self.recovered()?;
        Ok(TailedState {
            db_id: recovered.db_id,
            last_seqno: recovered.last_seqno,
            min_log_number_to_keep: recovered.min_log_number_to_keep,
            families: recovered.families,
        })
    }

    /// Returns the database state after the edits applied so far, as recovery would.
    pub(super) fn recovered(&self) -> Result<Recovered> {
        self.replay.recovered()
    }
}

/// Replays the MANIFEST that CURRENT names; retries if CURRENT changed during a failed replay.
fn read_current_manifest(
    fs: &dyn FileSystem,
    directory: &Path,
    specs: &ColumnFamilySpecs,
) -> Result<(FileNumber, ManifestReader, Replay)> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let number = read_current(fs, directory)?;
        let read = || {
            let mut reader = ManifestReader::open(fs, directory, number)?;
            let mut replay = Replay::new(Some(specs.clone()));
            replay.run(&mut reader)?;
            replay.check_comparators()?;
            replay.settle().map_err(|error| reader.located(error))?;
            Ok((number, reader, replay))
        };
        match read() {
            Err(_) if attempt < ATTEMPTS && read_current(fs, directory)? != number => {}
            read => return read,
        }
    }
}

/// Copies the open readers of the tables in `old` to the metadata of the same tables in `new`.
fn take_over_readers(old: &Replay, new: &Replay) {
    let files = old.versions().flat_map(|version| version.files());
    reuse_readers(files.map(|(_, file)| file), new);
}

/// Copies the open readers and entry statistics of `old` files to the same tables in `new`.
fn reuse_readers<'f>(old: impl Iterator<Item = &'f Arc<FileMeta>>, new: &Replay) {
    let old: HashMap<FileNumber, &Arc<FileMeta>> = old.map(|file| (file.number, file)).collect();
    for (_, file) in new.versions().flat_map(|version| version.files()) {
        if let Some(old) = old.get(&file.number)
            && !Arc::ptr_eq(old, file)
            && is_same_table(old, file)
            && let Some(reader) = old.reader.get()
        {
            let _ = file.reader.set(Arc::clone(reader));
            file.entry_stats.copy_from(&old.entry_stats);
            file.record_references(reader.properties());
        }
    }
}

/// Whether two metadata describe the same table, not just the same, possibly reused, number.
fn is_same_table(a: &FileMeta, b: &FileMeta) -> bool {
    (a.number, a.bytes, a.unique_id) == (b.number, b.bytes, b.unique_id)
        && (a.smallest_seqno, a.largest_seqno) == (b.smallest_seqno, b.largest_seqno)
        && a.smallest == b.smallest
        && a.largest == b.largest
}
