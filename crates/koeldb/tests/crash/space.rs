//! A disk that repeatedly fills up.
//!
//! Writes fail with the reason, reads continue, nothing is damaged, and when there is space again
//! the database accepts writes without a reopen.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{Clock, FileSystem, MemoryFileSystem, PosixFileSystem, SystemClock};
use koeldb::{
    BytewiseComparatorWithU64Ts, Db, Env, ErrorDetail, Options, WriteBatch, WriteOptions,
    WriteOutcome,
};
use koeldb_testkit::{Content, Entries, Floors, Random, Summary};

use crate::{ScratchDir, check};

/// The time within which writes must be accepted after space is freed (`docs/reliability.md`, B3).
const RESUME_WITHIN: Duration = Duration::from_secs(120);

/// A disk that can be filled and freed.
trait Disk {
    fn fs(&self) -> Arc<dyn FileSystem>;
    fn path(&self) -> PathBuf;
    /// Leaves space for approximately this many bytes.
    fn fill(&self, left: u64);
    fn free(&self);
}

struct Memory(MemoryFileSystem);

impl Disk for Memory {
    fn fs(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.0.clone())
    }

    fn path(&self) -> PathBuf {
        "/db".into()
    }

    fn fill(&self, left: u64) {
        self.0.set_byte_budget(Some(self.0.bytes_used() + left));
    }

    fn free(&self) {
        self.0.set_byte_budget(None);
        self.0.set_file_budget(None);
    }
}

/// A small file system of the machine's, filled by a file.
struct Mounted {
    directory: ScratchDir,
}

impl Mounted {
    /// `None` where nothing may be mounted.
    fn new() -> Option<Self> {
        let directory = ScratchDir::new();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"])
            .arg(&directory.path)
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Mounted { directory })
    }

    fn ballast(&self) -> PathBuf {
        self.directory.path.join("ballast")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(&self.directory.path)
            .status();
    }
}

impl Disk for Mounted {
    fn fs(&self) -> Arc<dyn FileSystem> {
        Arc::new(PosixFileSystem::new())
    }

    fn path(&self) -> PathBuf {
        self.directory.path.join("db")
    }

    fn fill(&self, left: u64) {
        self.free();
        let free = self.fs().free_space(&self.directory.path).unwrap();
        let bytes = usize::try_from(free.saturating_sub(left)).unwrap();
        match std::fs::write(self.ballast(), vec![b'b'; bytes]) {
            // A compaction took some of the space: the disk is full anyway.
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {}
            written => written.unwrap(),
        }
    }

    fn free(&self) {
        let _ = std::fs::remove_file(self.ballast());
    }
}

fn options(disk: &dyn Disk, tiny_manifest: bool, has_blobs: bool) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_target_file_size_base(16 << 10)
        .set_max_bytes_for_level_base(64 << 10)
        .set_level_zero_file_num_compaction_trigger(3)
        .set_bgerror_resume_retry_interval(Duration::from_millis(50))
        .set_env(&Env::new(disk.fs(), Arc::new(SystemClock)));
    if tiny_manifest {
        options
            .set_max_manifest_file_size(1)
            .set_max_manifest_space_amp_pct(0);
    }
    if has_blobs {
        options
            .set_enable_blob_files(true)
            .set_min_blob_size(300)
            .set_blob_file_size(16 << 10)
            .set_enable_blob_gc(true);
    }
    options
}

#[derive(Default)]
struct Tally {
    cycles: u64,
    failed_writes: u64,
    failed_opens: u64,
    /// Blob files that opens wrote with values of logs.
    blob_files: u64,
    slowest_resume: Duration,
}

/// The certain and the possible contents of the database.
struct Expected {
    entries: Entries,
    /// Keys whose last write failed.
    uncertain: Vec<(Vec<u8>, Vec<u8>)>,
    random: Random,
    written: u64,
}

impl Expected {
    fn write(&mut self, db: &Db) -> koeldb::Result<()> {
        self.written += 1;
        let key = format!("k{:03}", self.random.below(200)).into_bytes();
        let mut value = format!("{}:", self.written).into_bytes();
        for _ in 0..self.random.below(120) {
            value.extend_from_slice(&self.random.draw().to_le_bytes());
        }
        let mut options = WriteOptions::new();
        options.set_sync(self.random.chance(1, 8));
        let mut batch = WriteBatch::new();
        batch.put_cf(db.default_cf(), &key, &value);
        batch.update_timestamps(self.written.to_le_bytes())?;
        match db.write_opt(&batch, &options) {
            Ok(()) => {
                self.entries.insert(key, value);
                Ok(())
            }
            Err(error) => {
                if error.write_outcome() != Some(WriteOutcome::NotApplied) {
                    self.uncertain.push((key, value));
                }
                Err(error)
            }
        }
    }

    fn check(&self, content: &Content, may_have_failed: bool) -> Result<(), String> {
        let found = content.get("default").ok_or("no default family")?;
        for key in self.entries.keys().chain(found.keys()) {
            let is_there = found.get(key) == self.entries.get(key);
            let is_a_failed_one = may_have_failed
                && self
                    .uncertain
                    .iter()
                    .any(|(of, value)| of == key && found.get(key) == Some(value));
            if !is_there && !is_a_failed_one {
                return Err(format!("{} has another value", key.escape_ascii()));
            }
        }
        Ok(())
    }
}

fn is_for_want_of_space(error: &koeldb::Error) -> bool {
    error.detail() == Some(ErrorDetail::NoSpace) || error.to_string().contains("space")
}

/// Fills the disk, writes until a failure, frees space, and waits for writes to be accepted.
fn cycle(
    disk: &dyn Disk,
    db: &Db,
    expected: &mut Expected,
    tally: &mut Tally,
    resumes_itself: bool,
) -> Result<(), String> {
    disk.fill(expected.random.below(120 << 10));
    let failed = (1..5000).find_map(|written| {
        if written % 500 == 0 {
            // Compactions freed space, which others now use.
            disk.fill(0);
        }
        expected.write(db).err()
    });
    let error = failed.ok_or("a full disk takes writes")?;
    if !is_for_want_of_space(&error) {
        return Err(format!("a full disk fails with: {error}"));
    }
    tally.failed_writes += 1;
    // Reads continue, and do not show failed writes.
    expected.check(&check::content(db)?, false)?;
    disk.free();
    let begun = SystemClock.now();
    loop {
        if !resumes_itself {
            // Busy while the database tries by itself.
            let _ = db.resume();
        }
        match expected.write(db) {
            Ok(()) => break,
            Err(error) if SystemClock.now() - begun > RESUME_WITHIN => {
                return Err(format!("no writes after there is room again: {error}"));
            }
            Err(_) => SystemClock.sleep(Duration::from_millis(5)),
        }
    }
    tally.slowest_resume = tally.slowest_resume.max(SystemClock.now() - begun);
    expected.check(&check::content(db)?, false)?;
    tally.cycles += 1;
    Ok(())
}

/// Opening a database needs room; without, it fails, and nothing is lost.
fn open_without_space(
    disk: &dyn Disk,
    options: &Options,
    expected: &mut Expected,
    tally: &mut Tally,
) -> Result<Db, String> {
    disk.fill(expected.random.below(8 << 10));
    let opened = Db::open(options, disk.path());
    match opened {
        Err(error) if !is_for_want_of_space(&error) => return Err(format!("open: {error}")),
        Err(_) => tally.failed_opens += 1,
        Ok(db) => {
            tally.blob_files += db.recovery_report().blob_files_written.len() as u64;
            drop(db);
        }
    }
    disk.free();
    let db = Db::open(options, disk.path()).map_err(|error| format!("open with room: {error}"))?;
    tally.blob_files += db.recovery_report().blob_files_written.len() as u64;
    let content = check::content(&db)?;
    expected.check(&content, true)?;
    // Failed writes that are visible now are permanent.
    expected.uncertain.clear();
    expected.entries = content.get("default").cloned().unwrap_or_default();
    Ok(db)
}

fn run(disk: &dyn Disk, seed: u64, cycles: u64) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let has_blobs = !seed.is_multiple_of(2);
    let mut options = options(disk, (seed / 2).is_multiple_of(2), has_blobs);
    if seed % 3 == 2 {
        options.set_comparator(BytewiseComparatorWithU64Ts);
    }
    let mut expected = Expected {
        entries: Entries::new(),
        uncertain: Vec::new(),
        random: Random::new(seed),
        written: 0,
    };
    let mut db = Db::open(&options, disk.path()).map_err(|error| error.to_string())?;
    for number in 0..cycles {
        cycle(disk, &db, &mut expected, &mut tally, number % 4 == 3)?;
        if number % 5 == 4 {
            // The process dies while the disk is full.
            disk.fill(0);
            let _ = expected.write(&db);
            let _ = db.close();
            drop(db);
            db = open_without_space(disk, &options, &mut expected, &mut tally)?;
        }
    }
    db.verify_checksums().map_err(|error| error.to_string())?;
    Ok(tally)
}

fn report(suite: &'static str, seed: u64, begun: f64, tally: &Tally, failures: u64, floor: u64) {
    Summary {
        suite,
        seed,
        figures: vec![
            ("cycles", tally.cycles),
            ("failed_writes", tally.failed_writes),
            ("failed_opens", tally.failed_opens),
            ("blob_files_of_logs", tally.blob_files),
            (
                "slowest_resume_ms",
                u64::try_from(tally.slowest_resume.as_millis()).unwrap_or(u64::MAX),
            ),
        ],
        seconds: crate::seconds() - begun,
        failures,
    }
    .finish("cycles", floor);
}

#[test]
fn a_full_disk_loses_nothing_and_is_got_over() {
    let begun = crate::seconds();
    let seed = crate::seed();
    let cycles = Floors::chosen().of(10, 20, 100);
    let mut sum = Tally::default();
    let mut failures = 0;
    for seed in [seed, seed + 1] {
        let disk = Memory(MemoryFileSystem::new());
        match run(&disk, seed, cycles) {
            Ok(tally) => {
                sum.cycles += tally.cycles;
                sum.failed_writes += tally.failed_writes;
                sum.failed_opens += tally.failed_opens;
                sum.blob_files += tally.blob_files;
                sum.slowest_resume = sum.slowest_resume.max(tally.slowest_resume);
            }
            Err(text) => {
                failures += 1;
                eprintln!("KOELDB_SEED={seed}: {text}");
            }
        }
    }
    report("space", seed, begun, &sum, failures, cycles * 2);
    assert!(sum.blob_files > 0, "no recovery wrote a blob file");
}

/// Like the previous test, on a real file system; needs the right to mount one.
///
/// The short form skips it.
#[test]
fn a_full_file_system_loses_nothing_and_is_got_over() {
    let cycles = Floors::chosen().of(0, 20, 100);
    if cycles == 0 {
        return;
    }
    let Some(disk) = Mounted::new() else {
        eprintln!("notice: nothing may be mounted here; no real file system is filled");
        return;
    };
    let begun = crate::seconds();
    let seed = crate::seed();
    let tally =
        run(&disk, seed, cycles).unwrap_or_else(|text| panic!("KOELDB_SEED={seed}: {text}"));
    report("space-tmpfs", seed, begun, &tally, 0, cycles);
}

#[test]
fn without_file_names_left_nothing_is_lost() {
    let disk = Memory(MemoryFileSystem::new());
    let options = options(&disk, false, false);
    let mut expected = Expected {
        entries: Entries::new(),
        uncertain: Vec::new(),
        random: Random::new(crate::seed()),
        written: 0,
    };
    let db = Db::open(&options, Path::new("/db")).unwrap();
    for _ in 0..3 {
        let files = disk.0.list(Path::new("/db")).unwrap().len() as u64;
        disk.0.set_file_budget(Some(files));
        let failed = (0..5000).find_map(|_| expected.write(&db).err());
        assert!(failed.is_some(), "no file can be made and all is well");
        disk.free();
        let begun = SystemClock.now();
        while expected.write(&db).is_err() {
            assert!(SystemClock.now() - begun < RESUME_WITHIN, "no writes");
            SystemClock.sleep(Duration::from_millis(5));
        }
        assert_eq!(expected.check(&check::content(&db).unwrap(), false), Ok(()));
    }
}
