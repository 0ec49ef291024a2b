//! The checks of every recovered database (`docs/reliability.md`, checkers).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use koeldb::fs::{EntryKind, FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy};
use koeldb::{
    ColumnFamily, CompactRangeOptions, Db, IteratorMode, Options, ReadOptions, RecoveryMode,
    Timestamp, WriteBatch, WriteOptions,
};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Content, Entries, History, Legality, Shot};

use crate::script::{Script, may_refuse};
use crate::session::{PATH, REPAIRING, image_options, open_script};

/// Anything that takes longer counts as hanging.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A timestamp after all others.
const LAST: Timestamp = (u64::MAX >> 1).to_le_bytes();

/// Returns the contents of all column families, read in every way.
///
/// A difference between the ways is an error (V6).
pub(crate) fn content(db: &Db) -> Result<Content, String> {
    db.cf_handles()
        .iter()
        .map(|family| {
            let entries =
                entries(family).map_err(|error| format!("family {:?}: {error}", family.name()))?;
            Ok((family.name().to_owned(), entries))
        })
        .collect()
}

/// Whether the keys of a family have timestamps.
pub(crate) fn is_dated(family: &ColumnFamily) -> bool {
    family.options().get_comparator().timestamp_bytes() > 0
}

/// Has reads of a family whose keys have timestamps see the newest versions.
pub(crate) fn newest(family: &ColumnFamily, mut reads: ReadOptions) -> ReadOptions {
    if is_dated(family) {
        reads.set_timestamp(u64::MAX.to_le_bytes());
    }
    reads
}

type Entry = (Vec<u8>, Vec<u8>);

fn entries(family: &ColumnFamily) -> Result<Entries, String> {
    let reads = newest(family, ReadOptions::new());
    let scan = |mode| -> Result<Vec<Entry>, String> {
        family
            .iterator_opt(mode, &reads)
            .map(|entry| match entry {
                Ok((key, value)) => Ok((key.to_vec(), value.to_vec())),
                Err(error) => Err(format!("scan: {error}")),
            })
            .collect()
    };
    let forward = scan(IteratorMode::Start)?;
    let mut backward = scan(IteratorMode::End)?;
    backward.reverse();
    if forward != backward {
        return Err("scans in both directions differ".to_owned());
    }
    let entries: Entries = forward.iter().cloned().collect();
    if entries.len() != forward.len() || !forward.is_sorted() {
        return Err("a scan is out of order".to_owned());
    }
    let mut keys: Vec<Vec<u8>> = (0..40).map(|n| format!("k{n:03}").into_bytes()).collect();
    keys.extend(entries.keys().cloned());
    let many = family.multi_get_opt(&keys, &reads);
    for (key, found) in keys.iter().zip(&many) {
        let expected = entries.get(key).map(Vec::as_slice);
        let found = found.map_err(|error| format!("multi_get: {error}"))?;
        let one = family.get_opt(key, &reads);
        let one = one.map_err(|error| format!("get: {error}"))?;
        if found != expected || one.as_deref() != expected {
            return Err(format!(
                "lookups of {} differ from a scan",
                key.escape_ascii()
            ));
        }
    }
    Ok(entries)
}

/// The names of the files in the directories of the database.
pub(crate) fn names(fs: &MemoryFileSystem) -> BTreeSet<String> {
    ["/db", "/logs"]
        .iter()
        .filter_map(|directory| fs.list(Path::new(directory)).ok())
        .flatten()
        .map(|entry| entry.name)
        .collect()
}

/// Adds the paths of all files and directories below a directory, and the contents of the files.
fn collect_entries(
    fs: &MemoryFileSystem,
    directory: &Path,
    entries: &mut BTreeMap<PathBuf, Option<Vec<u8>>>,
) -> koeldb::Result<()> {
    for entry in fs.list(directory)? {
        let path = directory.join(&entry.name);
        let content = match entry.kind {
            EntryKind::Directory => {
                collect_entries(fs, &path, entries)?;
                None
            }
            _ => Some(fs.read_all(&path, u64::MAX, Purpose::Other)?),
        };
        entries.insert(path, content);
    }
    Ok(())
}

fn file_number(name: &str) -> Option<u64> {
    let digits = name
        .strip_suffix(".sst")
        .or_else(|| name.strip_suffix(".blob"))
        .or_else(|| name.strip_suffix(".log"))
        .or_else(|| name.strip_prefix("MANIFEST-"))?;
    digits.parse().ok()
}

/// The checker of one script's images.
pub(crate) struct Checker<'c> {
    script: &'c Script,
    history: &'c History,
    /// One of this many images is checked in every way.
    pub(crate) thorough_one_in: u64,
    /// Images checked, those of crashes during recovery included.
    pub(crate) images: AtomicU64,
    /// Opens that a recovery mode let fail.
    pub(crate) refusals: AtomicU64,
    /// Images of crashes during recovery.
    pub(crate) second_images: AtomicU64,
    /// Blob files with values of logs.
    pub(crate) blob_files: AtomicU64,
}

impl<'c> Checker<'c> {
    pub(crate) fn new(script: &'c Script, history: &'c History, thorough_one_in: u64) -> Self {
        Checker {
            script,
            history,
            thorough_one_in,
            images: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            second_images: AtomicU64::new(0),
            blob_files: AtomicU64::new(0),
        }
    }

    /// Recovers an image and judges it.
    pub(crate) fn check(&self, shot: &Shot) -> Result<(), String> {
        let checked = catch_unwind(AssertUnwindSafe(|| self.judge(shot)));
        let checked = checked.unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("panicked: {}", text.unwrap_or("?")))
        });
        checked.map_err(|error| format!("{shot}: {error}"))
    }

    fn options(&self, image: &MemoryFileSystem) -> Options {
        image_options(self.script, image)
    }

    fn mode(&self) -> RecoveryMode {
        let mut options = Options::new();
        (self.script.options)(&mut options);
        options.get_wal_recovery_mode()
    }

    fn judge(&self, shot: &Shot) -> Result<(), String> {
        self.images.fetch_add(1, Ordering::Relaxed);
        let legality = self.script.legality(self.mode(), shot.policy);
        let is_thorough = mix(shot.seed).is_multiple_of(self.thorough_one_in);
        // A copy for later checks, before recovery changes anything.
        let untouched = is_thorough.then(|| shot.image.crash_image(SurvivalPolicy::Generous, 0));
        let options = self.options(&shot.image);
        if shot.note == REPAIRING {
            Db::repair(&options, PATH).map_err(|error| format!("repair: {error}"))?;
        }
        let before = names(&shot.image);
        let db = match open_script(self.script, &options) {
            Ok(db) => db,
            Err(error) => {
                self.refusals.fetch_add(1, Ordering::Relaxed);
                let is_allowed = may_refuse(self.mode(), shot.policy) && error.is_corruption();
                return if is_allowed {
                    Ok(())
                } else {
                    Err(format!("open: {error}"))
                };
            }
        };
        let blob_files = db.recovery_report().blob_files_written.len() as u64;
        self.blob_files.fetch_add(blob_files, Ordering::Relaxed);
        let found = content(&db)?;
        let judged = self.history.judge(&found, &shot.bounds, legality);
        judged.map_err(|error| format!("{error}\n  {}", db.recovery_report()))?;
        check_files(&db, &shot.image, &before)?;
        if !is_thorough {
            return Ok(());
        }
        db.verify_checksums()
            .map_err(|error| format!("verify: {error}"))?;
        let seqno = db.latest_sequence_number();
        db.close().map_err(|error| format!("close: {error}"))?;
        drop(db);
        self.check_again(shot, &found, seqno, legality)?;
        if let Some(untouched) = untouched
            && shot.note != REPAIRING
        {
            self.check_interrupted(&untouched, shot.seed, &found)?;
        }
        Ok(())
    }

    /// Checks that a second open finds the same, and that later writes survive the next crash.
    ///
    /// These are V8, and V10 and V11.
    fn check_again(
        &self,
        shot: &Shot,
        found: &Content,
        seqno: u64,
        legality: Legality,
    ) -> Result<(), String> {
        let options = self.options(&shot.image);
        let db =
            open_script(self.script, &options).map_err(|error| format!("open again: {error}"))?;
        if content(&db)? != *found {
            return Err("a second open finds something else".to_owned());
        }
        if db.latest_sequence_number() < seqno {
            return Err("the sequence number went backwards".to_owned());
        }
        let mut synced = WriteOptions::new();
        synced.set_sync(true);
        let mut expected = found.clone();
        let mut put = |db: &Db, key: &str, options: &WriteOptions| -> Result<Content, String> {
            let mut batch = WriteBatch::new();
            batch.put_cf(db.default_cf(), key, "after");
            batch
                .update_timestamps(LAST)
                .and_then(|()| db.write_opt(&batch, options))
                .map_err(|error| format!("put: {error}"))?;
            let entries = expected.entry("default".to_owned()).or_default();
            entries.insert(key.into(), "after".into());
            Ok(expected.clone())
        };
        let owed = put(&db, "zz synced", &synced)?;
        let all = put(&db, "zz unsynced", &WriteOptions::new())?;
        let policies = SurvivalPolicy::ALL;
        let choice = usize::try_from(shot.seed % policies.len() as u64).unwrap();
        let left = shot.image.crash_image(policies[choice], shot.seed);
        if legality != Legality::OldestDropped {
            // A compaction of the whole tree, in addition to the crash.
            db.compact_all(&CompactRangeOptions::new())
                .map_err(|error| format!("compact: {error}"))?;
            if content(&db)? != all {
                return Err("compaction changed the content".to_owned());
            }
        }
        drop(db);
        self.images.fetch_add(1, Ordering::Relaxed);
        let db = match open_script(self.script, &self.options(&left)) {
            Ok(db) => db,
            Err(error) if may_refuse(self.mode(), policies[choice]) && error.is_corruption() => {
                return Ok(());
            }
            Err(error) => return Err(format!("open after a second crash: {error}")),
        };
        let after = content(&db)?;
        if after != owed && after != all {
            return Err("what was written after recovery was lost in the next crash".to_owned());
        }
        Ok(())
    }

    /// Recovery that is interrupted anywhere ends in the same content (G8).
    fn check_interrupted(
        &self,
        untouched: &MemoryFileSystem,
        seed: u64,
        found: &Content,
    ) -> Result<(), String> {
        let images: Arc<Mutex<Vec<(u64, SurvivalPolicy, MemoryFileSystem)>>> = Arc::default();
        let taken = Arc::clone(&images);
        let policies = SurvivalPolicy::ALL;
        untouched.observe_mutations(move |fs, operation| {
            let seed = mix(seed ^ operation);
            let policy = policies[usize::try_from(seed % policies.len() as u64).unwrap()];
            let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.push((operation, policy, fs.crash_image(policy, seed)));
        });
        match open_script(self.script, &self.options(untouched)) {
            Ok(db) => drop(db),
            Err(error) => return Err(format!("a copy does not open: {error}")),
        }
        untouched.observe_mutations(|_, _| ());
        let images = std::mem::take(&mut *images.lock().unwrap_or_else(PoisonError::into_inner));
        let mut opened = HashSet::new();
        for (operation, policy, image) in images {
            let mut entries = BTreeMap::new();
            collect_entries(&image, Path::new("/"), &mut entries)
                .map_err(|error| format!("the files of an image: {error}"))?;
            // The same files recover to the same content.
            if !opened.insert(entries) {
                continue;
            }
            self.images.fetch_add(1, Ordering::Relaxed);
            self.second_images.fetch_add(1, Ordering::Relaxed);
            let context = || format!("recovery interrupted before {operation} under {policy:?}");
            let db = open_script(self.script, &self.options(&image))
                .map_err(|error| format!("{}: {error}", context()))?;
            if content(&db)? != *found {
                return Err(format!("{}: another content", context()));
            }
        }
        Ok(())
    }
}

/// Checks that there is no orphan and no missing file (V9), and that file numbers are new (O13).
pub(crate) fn check_files(
    db: &Db,
    fs: &MemoryFileSystem,
    before: &BTreeSet<String>,
) -> Result<(), String> {
    let after = names(fs);
    let tables: BTreeSet<String> = after
        .iter()
        .filter(|name| name.ends_with(".sst"))
        .cloned()
        .collect();
    let live: BTreeSet<String> = db
        .live_files()
        .into_iter()
        .map(|file| file.name.trim_start_matches('/').to_owned())
        .collect();
    if tables != live {
        return Err(format!("tables on disk {tables:?}, in the tree {live:?}"));
    }
    let blob_files: BTreeSet<String> = after
        .iter()
        .filter(|name| name.ends_with(".blob"))
        .cloned()
        .collect();
    let live: BTreeSet<String> = db
        .live_blob_files()
        .into_iter()
        .map(|file| file.name.trim_start_matches('/').to_owned())
        .collect();
    if blob_files != live {
        return Err(format!(
            "blob files on disk {blob_files:?}, in the tree {live:?}"
        ));
    }
    let largest = before
        .iter()
        .filter_map(|name| file_number(name))
        .max()
        .unwrap_or(0);
    let reused = after
        .difference(before)
        .find(|name| file_number(name).is_some_and(|number| number <= largest));
    match reused {
        Some(name) => Err(format!("{name} has a number that was used before")),
        None => Ok(()),
    }
}
