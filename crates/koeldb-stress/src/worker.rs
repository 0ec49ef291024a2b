//! A worker: opens the database, verifies every key, and writes until it is killed.
//!
//! Each thread has its own keys, so it knows their versions. A key has the same version in all
//! column families, because each change is one batch over all of them: a column family that differs
//! shows a torn batch or an unlogged one.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use koeldb::{
    BottommostLevelCompaction, ColumnFamily, ColumnFamilyOptions, CompactRangeOptions,
    ConfigOptions, Db, Env, LogLevel, Logger, Options, ReadOptions, Severity, Snapshot,
    SstFileManager, WideColumns, WriteBatch, WriteOptions, WriteOutcome, associative_merge,
};
use koeldb_fs::{
    Clock, Failure, FaultFileSystem, FaultRule, FileSystem, PosixFileSystem, SystemClock,
};
use koeldb_testkit::Random;
use koeldb_testkit::random::mix;
use koeldb_testkit::variety::{Drawer, Drawn, Suite};

use crate::Flags;
use crate::copies::Copies;
use crate::expected::{Expected, Version};
use crate::feed::Feed;
use crate::own::{OwnFamilies, with_own};

/// The exit status of a worker after an injected fault that it cannot recover from.
pub(crate) const GAVE_UP: i32 = 3;

/// The exit status of a worker in which a thread panicked.
const PANICKED: i32 = 101;

/// The column of entities besides the default one, with the value that the entity was put with.
const COPY: &[u8] = b"copy";

/// A logger that discards everything.
struct NoLog;

impl Logger for NoLog {
    fn log(&self, _level: LogLevel, _message: std::fmt::Arguments<'_>) {}

    fn is_enabled(&self, _: LogLevel) -> bool {
        false
    }
}

/// A worker process: its database, expected versions, copies and injected faults.
pub(crate) struct Life {
    pub(crate) db: Db,
    pub(crate) families: Vec<ColumnFamily>,
    pub(crate) expected: Expected,
    pub(crate) flags: Flags,
    pub(crate) copies: Copies,
    pub(crate) own_families: OwnFamilies,
    /// The file system with injected faults, if any.
    pub(crate) faults: Option<Arc<FaultFileSystem>>,
    /// Whether half of the writes are not logged.
    pub(crate) leaves_out_log: bool,
    is_over: AtomicBool,
}

/// Converts an I/O error of recording expected versions to text.
pub(crate) fn note(result: std::io::Result<()>) -> Result<(), String> {
    result.map_err(|error| error.to_string())
}

/// Returns the key with this number: `key` and eight decimal digits.
pub(crate) fn key(number: u64) -> Vec<u8> {
    format!("key{number:08}").into_bytes()
}

/// Parses the number of a key; `None` if it is not one of this program's.
pub(crate) fn number_of(key: &[u8]) -> Option<u64> {
    let digits = key.strip_prefix(b"key")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether the keys of a family have timestamps.
pub(crate) fn is_dated(family: &ColumnFamily) -> bool {
    family.options().get_comparator().timestamp_bytes() > 0
}

/// Returns options of reads of the newest versions, at a snapshot if there is one.
pub(crate) fn newest(family: &ColumnFamily, snapshot: Option<&Snapshot>) -> ReadOptions {
    let mut reads = snapshot.map_or_else(ReadOptions::new, ReadOptions::at);
    if is_dated(family) {
        reads.set_timestamp(u64::MAX.to_le_bytes());
    }
    reads
}

/// A column family's name and options.
pub(crate) type NamedFamily = (String, ColumnFamilyOptions);

/// Draws random options for a worker; returns them, the column families and what was drawn.
///
/// A column family keeps its style in all workers.
fn options(
    flags: &Flags,
    life: u64,
    fs: Arc<dyn FileSystem>,
) -> Result<(Options, Vec<NamedFamily>, Drawn), String> {
    let count = 1 + usize::try_from(flags.families).map_err(|error| error.to_string())?;
    let mut styles = Random::new(mix(flags.seed));
    let drawer = Drawer::of_families(Suite::Stress, &mut styles, count);
    let drawer = drawer.with_timestamps(styles);
    let drawn = drawer.draw(&mut Random::new(mix(flags.seed ^ life << 32)));
    let how = ConfigOptions::new();
    let mut families = Vec::new();
    for (number, text) in drawn.families.iter().enumerate() {
        // The last operand is the value.
        let newest = associative_merge("newest", |_, _, newer, result| {
            result.extend_from_slice(newer);
            Ok(())
        });
        let mut family = ColumnFamilyOptions::default();
        family
            .set_merge_operator(newest)
            .apply_str(text, &how)
            .map_err(|error| format!("{text}: {error}"))?;
        let name = match number.checked_sub(1) {
            None => "default".to_owned(),
            Some(number) => format!("family{number}"),
        };
        families.push((name, family));
    }
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_logger(NoLog)
        .set_env(&Env::new(fs, Arc::new(SystemClock)))
        .apply_str(&drawn.database, &how)
        .map_err(|error| format!("{}: {error}", drawn.database))?;
    Ok((options, families, drawn))
}

/// Limits the rate at which tables are deleted, in half of the workers.
fn slow_removals(options: &mut Options, flags: &Flags, life: u64) {
    if mix(flags.seed ^ life) & 1 == 0 {
        let slow = SstFileManager::builder().delete_rate_bytes_per_second(1 << 20);
        options.set_sst_file_manager(&slow.bytes_max_delete_chunk(16 << 10).build());
    }
}

/// Makes any panic end the process, also on threads on which the engine catches panics.
fn end_at_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(PANICKED);
    }));
}

/// Runs one worker process: verifies the database, then writes; with 0 seconds it only verifies.
pub(crate) fn run(flags: &Flags, number: u64) -> Result<ExitCode, String> {
    end_at_panics();
    let key_count = flags.threads * flags.keys;
    let expected = Expected::open(&flags.expected(), key_count).map_err(|e| e.to_string())?;
    let below: Arc<dyn FileSystem> = Arc::new(PosixFileSystem::new());
    let faults = (flags.fault_one_in > 0).then(|| {
        let seed = mix(flags.seed ^ number);
        Arc::new(FaultFileSystem::new(Arc::clone(&below), seed))
    });
    let fs = match &faults {
        Some(faults) => Arc::clone(faults) as Arc<dyn FileSystem>,
        None => below,
    };
    let (mut options, families, drawn) = options(flags, number, fs)?;
    let copies = Copies::new(flags, &options, &families);
    slow_removals(&mut options, flags, number);
    let own_families = OwnFamilies::open(&flags.expected(), flags.threads);
    let own_families = own_families.map_err(|error| error.to_string())?;
    let mut builder = Db::builder(&options);
    builder.column_families(with_own(&options, &flags.db, &families, flags.threads));
    let context = |error: &dyn Display| format!("life {number} with {drawn}\n  {error}");
    let db = builder.open(&flags.db).map_err(|error| context(&error))?;
    let handles = families.iter().map(|(name, _)| db.cf_handle(name));
    let life = Life {
        families: handles.collect::<Option<_>>().unwrap_or_default(),
        db,
        own_families,
        expected,
        flags: flags.clone(),
        copies,
        faults,
        leaves_out_log: Random::new(mix(flags.seed ^ mix(number))).chance(1, 3),
        is_over: AtomicBool::new(false),
    };
    life.look().map_err(|error| context(&error))?;
    if flags.panic {
        std::thread::spawn(|| panic!("--panic"));
    }
    let outcome = life.work(number).map_err(|error| context(&error))?;
    if outcome == ExitCode::SUCCESS {
        life.db.close().map_err(|error| context(&error))?;
    }
    Ok(outcome)
}

impl Life {
    /// Verifies every key after a restart: each has a possible version, and no others exist.
    ///
    /// The version must be the same in all column families unless it was written without log.
    fn look(&self) -> Result<(), String> {
        let key_count = self.flags.threads * self.flags.keys;
        for number in 0..key_count {
            let mut found: Vec<Version> = Vec::new();
            for family in &self.families {
                let value = family.get_opt(key(number), &newest(family, None));
                let value = value.map_err(|error| error.to_string())?;
                let version = self.expected.identify(number, value.as_deref());
                found.push(version.ok_or_else(|| {
                    format!(
                        "key {number} of {:?} is {:?}, which cannot be: {}",
                        family.name(),
                        value.map(|value| String::from_utf8_lossy(&value).into_owned()),
                        self.expected.describe(number)
                    )
                })?);
            }
            let version = found.first().copied().unwrap_or(Version::NONE);
            if found.iter().all(|other| *other == version) {
                note(self.expected.settle(number, version))?;
            } else if self.expected.may_differ(number) {
                self.agree(number)?;
            } else {
                return Err(format!(
                    "key {number} has different versions in families: {found:?}; {}",
                    self.expected.describe(number)
                ));
            }
        }
        for thread in 0..self.flags.threads {
            self.scan(thread, None)?;
            let settled = self.settle_own(thread)?;
            settled.map_err(|error| format!("thread {thread}'s family: {error}"))?;
        }
        Ok(())
    }

    /// Writes a new version of a key to all column families after they kept different ones.
    fn agree(&self, number: u64) -> Result<(), String> {
        let version = self.expected.begun(number).next(false);
        let mut batch = WriteBatch::new();
        for family in &self.families {
            batch.put_cf(
                family,
                key(number),
                version.value(number).unwrap_or_default(),
            );
        }
        self.date(&mut batch)?;
        note(self.expected.begin(number, version, true))?;
        self.db.write(&batch).map_err(|error| error.to_string())?;
        note(self.expected.acknowledge(number, true))
    }

    /// Gives the keys of families that have timestamps a new one.
    ///
    /// No entry has a timestamp above its sequence number, so that it is after those of all others.
    fn date(&self, batch: &mut WriteBatch) -> Result<(), String> {
        let time = self.db.latest_sequence_number() + 1;
        let dated = batch.update_timestamps(time.to_le_bytes());
        dated.map_err(|error| error.to_string())
    }

    /// Returns the range of key numbers that belong to a thread.
    pub(crate) fn own(&self, thread: u64) -> std::ops::Range<u64> {
        thread * self.flags.keys..(thread + 1) * self.flags.keys
    }

    /// Compares scans of the thread's keys in every column family with the expected versions.
    fn scan(&self, thread: u64, at: Option<(&Snapshot, &[Version])>) -> Result<(), String> {
        let own = self.own(thread);
        let versions: Vec<Version> = match at {
            Some((_, versions)) => versions.to_vec(),
            None => self.versions_of(thread),
        };
        let expected: Vec<(Vec<u8>, Vec<u8>)> = own
            .clone()
            .zip(versions)
            .filter_map(|(number, version)| Some((key(number), version.value(number)?)))
            .collect();
        for family in &self.families {
            let range = key(own.start)..key(own.end);
            let reads = newest(family, at.map(|(snapshot, _)| snapshot));
            let entries = family.range_opt(range, &reads);
            let found: Result<Vec<_>, koeldb::Error> = entries
                .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                .collect();
            let found = found.map_err(|error| format!("scan: {error}"))?;
            if found != expected {
                let same = found.iter().zip(&expected).take_while(|(a, b)| a == b);
                let at_entry = same.count();
                let shown = |entries: &[(Vec<u8>, Vec<u8>)]| {
                    entries.get(at_entry).map(|(key, value)| {
                        let value = String::from_utf8_lossy(value).into_owned();
                        (String::from_utf8_lossy(key).into_owned(), value)
                    })
                };
                return Err(format!(
                    "a scan of thread {thread} in {:?}{} has {:?} where {:?} is expected: {} entries, {} expected",
                    family.name(),
                    if at.is_some() { " at a snapshot" } else { "" },
                    shown(&found),
                    shown(&expected),
                    found.len(),
                    expected.len()
                ));
            }
        }
        Ok(())
    }

    /// Runs the worker's threads until it is killed or finds an error.
    fn work(&self, life: u64) -> Result<ExitCode, String> {
        let until = SystemClock.now() + Duration::from_secs(self.flags.seconds);
        if self.flags.seconds == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(faults) = &self.faults {
            let chance = 1_000_000 / self.flags.fault_one_in.max(1);
            for failure in [Failure::Device, Failure::NoSpace] {
                faults.add_rule(FaultRule::fail(failure).on_mutations().chance(chance));
            }
        }
        let outcomes: Vec<Result<bool, String>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.flags.threads)
                .map(|thread| {
                    scope.spawn(move || {
                        let seed = mix(self.flags.seed ^ mix(life) ^ thread << 48);
                        let worked = self.work_alone(thread, &mut Random::new(seed), until);
                        if !matches!(worked, Ok(true)) {
                            self.is_over.store(true, Ordering::Relaxed);
                        }
                        worked
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a thread panicked".to_owned()))
            };
            threads.into_iter().map(join).collect()
        });
        let mut all_well = true;
        for outcome in outcomes {
            all_well &= outcome?;
        }
        Ok(match all_well {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(u8::try_from(GAVE_UP).unwrap_or(1)),
        })
    }

    /// Runs random operations in one thread; `false` if an injected fault requires a restart.
    fn work_alone(
        &self,
        thread: u64,
        random: &mut Random,
        until: Duration,
    ) -> Result<bool, String> {
        let mut snapshot: Option<(Snapshot, Vec<Version>)> = None;
        let mut feed: Option<Feed> = None;
        while !self.is_over.load(Ordering::Relaxed) && SystemClock.now() < until {
            let copies = self.flags.copy_one_in;
            let done = match random.below(1000) {
                _ if copies > 0 && random.chance(1, copies) => {
                    self.copy(thread, random, &mut feed)?
                }
                0..700 => self.change(thread, random)?,
                700..850 => self.read(thread, random)?,
                850..900 => self.scan(thread, None).map(|()| true)?,
                900..940 => {
                    if let Some((snapshot, versions)) = &snapshot {
                        self.scan(thread, Some((snapshot, versions)))?;
                    }
                    snapshot = Some((self.db.snapshot(), self.versions_of(thread)));
                    true
                }
                940..960 => self.flush(thread, || self.db.flush())?,
                960..965 => self.compact(thread, random)?,
                965..980 => self.tolerate(self.db.flush_wal(random.chance(1, 2)))?,
                980..985 => {
                    let size = ["65536", "131072"][usize::from(random.chance(1, 2))];
                    self.tolerate(
                        self.db
                            .default_cf()
                            .set_options([("write_buffer_size", size)]),
                    )?
                }
                985..990 => self.tolerate(self.db.verify_checksums())?,
                _ => self.read_all(thread).map(|()| true)?,
            };
            if !done {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compacts the whole database, or a random range of the thread's own keys.
    fn compact(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        let mut how = CompactRangeOptions::new();
        how.set_exclusive_manual_compaction(random.chance(1, 2))
            .set_max_subcompactions([0, 3][usize::from(random.chance(1, 2))])
            .set_bottommost_level_compaction(match random.chance(1, 2) {
                true => BottommostLevelCompaction::Force,
                false => BottommostLevelCompaction::IfHaveCompactionFilter,
            });
        if random.chance(1, 2) {
            return self.flush(thread, || self.db.compact_all(&how));
        }
        let own = self.own(thread);
        let from = own.start + random.below(own.end - own.start);
        let to = (from + random.below(20)).min(own.end);
        self.tolerate(self.families[0].compact_range_opt(key(from)..key(to), &how))
    }

    /// Reads the thread's own keys by one `MultiGet`, and compares the values.
    fn read_all(&self, thread: u64) -> Result<(), String> {
        let keys: Vec<Vec<u8>> = self.own(thread).map(key).collect();
        let family = &self.families[0];
        for (number, found) in self
            .own(thread)
            .zip(&family.multi_get_opt(&keys, &newest(family, None)))
        {
            let found = found.map_err(|error| format!("multi_get: {error}"))?;
            self.compare(number, family, found)?;
        }
        Ok(())
    }

    /// Runs one of: own column family change, change feed check, ingestion, comparison of a copy.
    fn copy(
        &self,
        thread: u64,
        random: &mut Random,
        feed: &mut Option<Feed>,
    ) -> Result<bool, String> {
        match random.below(12) {
            10.. => self.change_own(thread, random),
            0..4 => self.follow(thread, feed),
            4..6 => {
                // Ingested entries are in no log.
                *feed = None;
                self.ingest(thread, random)
            }
            _ => self.compare_copy(thread, random),
        }
    }

    /// Returns the acknowledged versions of the keys of a thread.
    pub(crate) fn versions_of(&self, thread: u64) -> Vec<Version> {
        let own = self.own(thread);
        own.map(|number| self.expected.acknowledged(number))
            .collect()
    }

    /// Runs a flush; if it succeeds, records that previously acknowledged writes survive a crash.
    fn flush(
        &self,
        thread: u64,
        call: impl FnOnce() -> koeldb::Result<()>,
    ) -> Result<bool, String> {
        let versions = self.versions_of(thread);
        let flushed = call();
        if flushed.is_ok() {
            for (number, version) in self.own(thread).zip(versions) {
                note(self.expected.flushed(number, version))?;
            }
        }
        self.tolerate(flushed)
    }

    /// Fails unless `found` is the value of the key's acknowledged version.
    fn compare(
        &self,
        number: u64,
        family: &ColumnFamily,
        found: Option<&[u8]>,
    ) -> Result<(), String> {
        let version = self.expected.acknowledged(number);
        if version.value(number).as_deref() == found {
            return Ok(());
        }
        Err(format!(
            "key {number} of {:?} is not at {version:?}, but {:?}",
            family.name(),
            found.map(String::from_utf8_lossy)
        ))
    }

    /// Gets a random key of the thread from every column family, and checks the values.
    fn read(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        let number = thread * self.flags.keys + random.below(self.flags.keys);
        for family in &self.families {
            let reads = newest(family, None);
            let found = family.get_opt(key(number), &reads);
            let found = found.map_err(|error| error.to_string())?;
            self.compare(number, family, found.as_deref())?;
            let columns = family.get_entity_opt(key(number), &reads);
            let columns = columns.map_err(|error| format!("get_entity: {error}"))?;
            let value = columns.as_ref().map(WideColumns::default_value);
            self.compare(number, family, value)?;
            // Merges keep the other column.
            if columns.is_some_and(|columns| columns.is_entity() && columns.get(COPY).is_none()) {
                let name = family.name();
                return Err(format!("key {number} of {name:?} has lost a column"));
            }
        }
        Ok(true)
    }

    /// Returns whether to continue after the result of an operation other than a write.
    pub(crate) fn tolerate(&self, result: koeldb::Result<()>) -> Result<bool, String> {
        match result {
            Ok(()) => Ok(true),
            Err(_) if self.faults.is_some() => Ok(self.resume()),
            // Another thread has already given up.
            Err(_) if self.is_over.load(Ordering::Relaxed) => Ok(true),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Resumes the database after a background error (`Resume`); returns whether it succeeded.
    pub(crate) fn resume(&self) -> bool {
        for _ in 0..50 {
            match self.db.resume() {
                Ok(()) => return true,
                Err(error) if error.severity() > Severity::Hard => return false,
                Err(_) => SystemClock.sleep(Duration::from_millis(10)),
            }
        }
        false
    }

    /// Puts, as values or entities, merges or deletes one or several consecutive keys in all column families.
    fn change(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        let own = self.own(thread);
        let is_logged = self.flags.sync || !self.leaves_out_log || random.chance(1, 2);
        // The last tenth of the keys alternates between puts and single deletions.
        let singles = own.end - self.flags.keys / 10..own.end;
        if random.chance(1, 10) && !singles.is_empty() {
            let number = singles.start + random.below(singles.end - singles.start);
            let version = self.expected.begun(number);
            let version = version.next(!version.is_deleted());
            let mut batch = WriteBatch::new();
            for family in &self.families {
                match version.value(number) {
                    Some(value) => batch.put_cf(family, key(number), value),
                    None => batch.single_delete_cf(family, key(number)),
                };
            }
            // Column families with different versions would need another put.
            return self.write(&mut batch, &[(number, version)], true, random);
        }
        let first = own.start + random.below(singles.start - own.start);
        let kind = random.below(100);
        let count = match kind {
            0..70 => 1,
            _ => 1 + random.below(12).min(singles.start - first - 1),
        };
        let deletes = (55..80).contains(&kind);
        let changes: Vec<(u64, Version)> = (first..first + count)
            .map(|number| (number, self.expected.begun(number).next(deletes)))
            .collect();
        let mut batch = WriteBatch::new();
        for family in &self.families {
            if deletes && count > 1 {
                batch.delete_range_cf(family, key(first), key(first + count));
                continue;
            }
            for (number, version) in &changes {
                match version.value(*number) {
                    None => batch.delete_cf(family, key(*number)),
                    Some(value) if kind.is_multiple_of(5) => {
                        batch.merge_cf(family, key(*number), value)
                    }
                    // Entities have no timestamps.
                    Some(value) if kind.is_multiple_of(7) && !is_dated(family) => {
                        let columns = [(&b""[..], &value), (COPY, &value)];
                        let put = batch.put_entity_cf(family, key(*number), &columns);
                        put.map_err(|error| error.to_string())?
                    }
                    Some(value) => batch.put_cf(family, key(*number), value),
                };
            }
        }
        self.write(&mut batch, &changes, is_logged, random)
    }

    /// Writes a batch of new versions of keys; `false` if an injected fault requires a restart.
    fn write(
        &self,
        batch: &mut WriteBatch,
        changes: &[(u64, Version)],
        is_logged: bool,
        random: &mut Random,
    ) -> Result<bool, String> {
        self.date(batch)?;
        for (number, version) in changes {
            debug_assert_eq!(
                self.expected.acknowledged(*number),
                self.expected.begun(*number)
            );
            note(self.expected.begin(*number, *version, is_logged))?;
        }
        let mut options = WriteOptions::new();
        options
            .set_sync(self.flags.sync || is_logged && random.chance(1, 30))
            .disable_wal(!is_logged);
        match self.db.write_opt(batch, &options) {
            Ok(()) => {
                for (number, _) in changes {
                    note(self.expected.acknowledge(*number, is_logged))?;
                }
                Ok(true)
            }
            Err(error) if self.faults.is_some() => {
                if error.write_outcome() != Some(WriteOutcome::NotApplied) {
                    return Ok(false);
                }
                for (number, _) in changes {
                    note(self.expected.take_back(*number))?;
                }
                Ok(self.resume())
            }
            Err(error) => Err(format!("write: {error}")),
        }
    }
}
