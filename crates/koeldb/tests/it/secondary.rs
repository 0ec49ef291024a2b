//! Secondaries and followers: views of a primary that works, and files that it removes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use koeldb::fs::{
    Clock, FaultAction, FaultRule, FileSystem, OpenOptions, Operation, Purpose, SystemClock,
};
use koeldb::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, ErrorKind, KeepTables, Options,
    ReadOptions, ReverseBytewiseComparator, SecondaryOptions, Snapshot, StringAppend,
    TransactionDbOptions, WriteBatch,
};
use koeldb_testkit::Random;

use crate::storage::{HERE, Storage};

mod interop;

const OWN: &str = "/own";

fn open(options: &Options) -> Db {
    Db::builder(options)
        .other_column_families(options.cf_options())
        .secondary(OWN)
        .open(HERE)
        .unwrap()
}

fn tables(storage: &Storage, directory: &str) -> Vec<String> {
    let entries = storage.memory.list(directory.as_ref()).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".sst")).collect()
}

/// All entries by name of the column family.
pub(crate) type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

pub(crate) fn contents_of(families: &[ColumnFamily], options: &ReadOptions) -> Contents {
    let mut contents = Contents::new();
    for family in families {
        let entries = family.range_opt(.., options).map(|entry| {
            let (key, value) = entry.unwrap();
            (key.to_vec(), value.to_vec())
        });
        let entries: BTreeMap<_, _> = entries.collect();
        for (key, value) in &entries {
            let found = family.get_opt(key, options).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]), "{key:?}");
        }
        let keys: Vec<&Vec<u8>> = entries.keys().collect();
        let found = family.multi_get_opt(&keys, options);
        assert!(found.iter().all(|found| matches!(found, Ok(Some(_)))));
        contents.insert(family.name().to_owned(), entries);
    }
    contents
}

fn contents(db: &Db) -> Contents {
    contents_of(&db.cf_handles(), &ReadOptions::new())
}

#[test]
fn a_view_moves_only_when_it_catches_up() {
    let storage = Storage::new();
    let primary = Db::open(&storage.options(), HERE).unwrap();
    primary.put("a", "1").unwrap();
    let secondary = Db::open_as_secondary(&storage.options(), HERE, OWN).unwrap();
    assert_eq!(secondary.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    primary.put("a", "2").unwrap();
    primary.flush().unwrap();
    primary.put("b", "1").unwrap();
    assert_eq!(secondary.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    let before = secondary.snapshot();
    let report = secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(report.sequence_number, 3);
    assert!(report.edits > 0 && report.batches >= 1, "{report:?}");
    assert_eq!(secondary.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(secondary.get("b").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(before.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    let idle = secondary.try_catch_up_with_primary().unwrap();
    assert_eq!((idle.edits, idle.batches), (0, 0));
    let error = secondary.put("c", "1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    let error = primary.try_catch_up_with_primary().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}

#[test]
fn tables_that_the_primary_removes_stay_until_no_view_needs_them() {
    for keep in [KeepTables::Links, KeepTables::Descriptors] {
        let storage = Storage::new();
        let primary = Db::open(&storage.options(), HERE).unwrap();
        for round in 0..3 {
            for index in 0..100 {
                primary
                    .put(format!("key{index}"), format!("{round}"))
                    .unwrap();
            }
            primary.flush().unwrap();
        }
        let mut options = SecondaryOptions::new();
        options.set_keep(keep);
        let secondary = Db::builder(&storage.options())
            .secondary_opt(OWN, &options)
            .open(HERE)
            .unwrap();
        let expected = contents(&secondary);
        let links = if keep == KeepTables::Links { 3 } else { 0 };
        assert_eq!(tables(&storage, OWN).len(), links);
        primary.delete_range("key0", "key9").unwrap();
        primary.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(contents(&secondary), expected, "{keep:?}");
        let cursor = secondary.cursor();
        secondary.try_catch_up_with_primary().unwrap();
        assert_eq!(contents(&secondary), contents(&primary));
        drop(cursor);
        let begun = SystemClock.now();
        while tables(&storage, OWN).len() > links.min(1) {
            assert!(SystemClock.now() - begun < Duration::from_secs(120));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(secondary);
        assert!(tables(&storage, OWN).is_empty());
    }
}

#[test]
fn links_that_a_crash_left_are_removed_by_the_next_open() {
    let storage = Storage::new();
    let primary = Db::open(&storage.options(), HERE).unwrap();
    primary.put("a", "1").unwrap();
    primary.flush().unwrap();
    open(&storage.options()).close().unwrap();
    let fs: &dyn FileSystem = &storage.memory;
    let table = storage.only(".sst");
    fs.link(&table, &Path::new(OWN).join("000777.sst")).unwrap();
    let secondary = open(&storage.options());
    assert_eq!(tables(&storage, OWN).len(), 1);
    assert_eq!(secondary.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn the_directory_of_a_secondary_is_its_own() {
    let storage = Storage::new();
    let options = storage.options();
    let primary = Db::open(&options, HERE).unwrap();
    primary.put("a", "1").unwrap();
    Db::open(&options, "/other").unwrap().close().unwrap();
    for own in [HERE, "/db/own", "/other"] {
        let error = Db::open_as_secondary(&options, HERE, own).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{own}: {error}");
    }
    let secondary = Db::open_as_secondary(&options, HERE, OWN).unwrap();
    Db::open_as_secondary(&options, HERE, OWN).unwrap_err();
    secondary.close().unwrap();
    Db::open_as_secondary(&options, HERE, OWN).unwrap();
    let mut bounded = options.clone();
    bounded.set_max_open_files(100);
    let mut how = SecondaryOptions::new();
    how.set_keep(KeepTables::Descriptors);
    let error = Db::builder(&bounded)
        .secondary_opt("/own3", &how)
        .open(HERE)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    Db::open_as_secondary(&bounded, HERE, "/own3").unwrap();
    let missing = Db::open_as_secondary(&options, "/nowhere", "/own2").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidArgument, "{missing}");
}

#[test]
fn another_database_at_the_path_is_refused() {
    let storage = Storage::new();
    let options = storage.options();
    let primary = Db::open(&options, HERE).unwrap();
    primary.put("a", "1").unwrap();
    let secondary = open(&options);
    drop(primary);
    Db::destroy(&options, HERE).unwrap();
    let primary = Db::open(&options, HERE).unwrap();
    primary.put("a", "2").unwrap();
    primary.put("a", "3").unwrap();
    let error = secondary.try_catch_up_with_primary().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    assert_eq!(secondary.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_restored_earlier_state_is_refused_by_every_catch_up() {
    for is_flushed in [false, true] {
        let storage = Storage::new();
        let options = storage.options();
        let primary = Db::open(&options, HERE).unwrap();
        primary.put("a", "1").unwrap();
        primary.create_checkpoint("/earlier").unwrap();
        for number in 0..20 {
            primary.put(format!("old{number:02}"), "1").unwrap();
        }
        if is_flushed {
            primary.flush().unwrap();
        }
        let secondary = open(&options);
        let expected = contents(&secondary);
        drop(primary);
        Db::destroy(&options, HERE).unwrap();
        let fs: &dyn FileSystem = &storage.memory;
        // The lock file stays.
        for entry in fs.list(HERE.as_ref()).unwrap_or_default() {
            fs.remove_file(&Path::new(HERE).join(entry.name)).unwrap();
        }
        fs.create_dir_all(HERE.as_ref()).unwrap();
        for entry in fs.list("/earlier".as_ref()).unwrap() {
            let from = Path::new("/earlier").join(&entry.name);
            fs.link(&from, &Path::new(HERE).join(&entry.name)).unwrap();
        }
        let primary = Db::open(&options, HERE).unwrap();
        for round in 0..3 {
            primary.put(format!("new{round}"), "1").unwrap();
            let error = secondary.try_catch_up_with_primary().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
            assert_eq!(contents(&secondary), expected, "{is_flushed} {round}");
            // From the second round on it is ahead.
            for number in 0..30 {
                primary.put(format!("more{number}"), "1").unwrap();
            }
        }
    }
}

/// Replaces the file by a copy in which `change` was applied to the bytes.
fn rewrite(storage: &Storage, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let fs: &dyn FileSystem = &storage.memory;
    let file = fs.open(path, &OpenOptions::default()).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len()).unwrap()];
    file.read_exact_at(0, &mut bytes).unwrap();
    change(&mut bytes);
    fs.remove_file(path).unwrap();
    create(storage, path, &bytes);
}

fn create(storage: &Storage, path: &Path, bytes: &[u8]) {
    let options = koeldb::fs::WriteOptions::new(Purpose::Open);
    let mut file = storage.memory.create(path, &options).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn damage_is_an_error_of_every_catch_up() {
    for is_old_log in [false, true] {
        let storage = Storage::new();
        let mut options = storage.options();
        options.create_missing_column_families(true);
        let (primary, [other]) = Db::open_cf(&options, HERE, ["other"]).unwrap();
        primary.put("a", "1").unwrap();
        let secondary = open(&options);
        let expected = contents(&secondary);
        primary.put("b", "the-lost-value").unwrap();
        primary.put("c", "1").unwrap();
        let log = storage.only(".log");
        if is_old_log {
            // A new log, while the first family still needs the old one.
            other.put("x", "1").unwrap();
            other.flush().unwrap();
            primary.put("d", "1").unwrap();
        }
        let flip = |bytes: &mut Vec<u8>| {
            let at = bytes.windows(4).position(|part| part == b"lost");
            bytes[at.unwrap() - 1] ^= 1;
        };
        rewrite(&storage, &log, flip);
        for _ in 0..3 {
            let error = secondary.try_catch_up_with_primary().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(contents(&secondary), expected);
        }
        rewrite(&storage, &log, flip);
        secondary.try_catch_up_with_primary().unwrap();
        assert_eq!(contents(&secondary), contents(&primary));
    }
}

#[test]
fn a_log_that_is_recycled_while_it_is_read_is_not_used() {
    let storage = Storage::new();
    let options = storage.options();
    let primary = Db::open(&options, HERE).unwrap();
    primary.put("a", "1").unwrap();
    let secondary = open(&options);
    primary.put("b", "1").unwrap();
    let (log, memory) = (storage.only(".log"), storage.memory.clone());
    let worker = primary.clone();
    let flush = FaultAction::Call(Arc::new(move |_| {
        worker.flush().unwrap();
        let begun = SystemClock.now();
        while memory.exists(&log).unwrap() {
            assert!(SystemClock.now() - begun < Duration::from_secs(120));
            std::thread::sleep(Duration::from_millis(1));
        }
    }));
    // The log is removed when the secondary has opened it, and has other bytes.
    for action in [flush, FaultAction::FlipReadBits(500)] {
        let rule = FaultRule::new(action).on(&[Operation::Read]);
        storage.faults.add_rule(rule.suffix(".log").nth(1));
    }
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&secondary), contents(&primary));
    assert_eq!(storage.faults.injection_count(), 2);
}

#[test]
fn edits_that_a_failed_catch_up_read_are_installed_by_the_next() {
    let storage = Storage::new();
    let primary = Db::open(&storage.options(), HERE).unwrap();
    let mut how = SecondaryOptions::new();
    how.set_retries(0);
    let secondary = Db::builder(&storage.options())
        .secondary_opt(OWN, &how)
        .open(HERE)
        .unwrap();
    primary.put("a", "1").unwrap();
    primary.flush().unwrap();
    let fs: &dyn FileSystem = &storage.memory;
    let (table, away) = (storage.only(".sst"), Path::new("/away"));
    fs.rename(&table, away).unwrap();
    for _ in 0..2 {
        secondary.try_catch_up_with_primary().unwrap_err();
        assert_eq!(secondary.get("a").unwrap(), None);
    }
    fs.rename(away, &table).unwrap();
    let report = secondary.try_catch_up_with_primary().unwrap();
    assert!(report.edits > 0, "{report:?}");
    assert_eq!(contents(&secondary), contents(&primary));
    let idle = secondary.try_catch_up_with_primary().unwrap();
    assert_eq!((idle.edits, idle.batches), (0, 0));
}

#[test]
fn a_column_family_that_returns_with_another_order_is_refused() {
    let storage = Storage::new();
    let options = storage.options();
    let primary = Db::open(&options, HERE).unwrap();
    let old = primary.create_cf("x", options.cf_options()).unwrap();
    let mut builder = Db::builder(&options);
    let secondary = builder.column_family("x").secondary(OWN).open(HERE);
    let secondary = secondary.unwrap();
    let expected = contents(&secondary);
    primary.drop_cf(&old).unwrap();
    let mut reversed = ColumnFamilyOptions::new();
    reversed.set_comparator(ReverseBytewiseComparator);
    let new = primary.create_cf("x", &reversed).unwrap();
    new.put("a", "1").unwrap();
    new.put("b", "1").unwrap();
    new.flush().unwrap();
    for _ in 0..2 {
        let error = secondary.try_catch_up_with_primary().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(contents(&secondary), expected);
    }
    primary.drop_cf(&new).unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&secondary), contents(&primary));
}

#[test]
fn tables_of_others_in_the_own_directory_are_refused_and_stay() {
    let storage = Storage::new();
    let options = storage.options();
    let _primary = Db::open(&options, HERE).unwrap();
    let fs: &dyn FileSystem = &storage.memory;
    fs.create_dir_all(OWN.as_ref()).unwrap();
    create(&storage, &Path::new(OWN).join("000007.sst"), b"precious");
    for keep in [KeepTables::Auto, KeepTables::Links, KeepTables::Descriptors] {
        let mut how = SecondaryOptions::new();
        how.set_keep(keep);
        let error = Db::builder(&options)
            .secondary_opt(OWN, &how)
            .open(HERE)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(tables(&storage, OWN), ["000007.sst"]);
    }
}

#[test]
fn a_follower_shows_what_is_flushed_and_refreshes_itself() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_follower_refresh_catchup_period_ms(Duration::from_millis(2));
    let leader = Db::open(&options, HERE).unwrap();
    leader.put("a", "1").unwrap();
    let follower = Db::open_as_follower(&options, OWN, HERE).unwrap();
    assert_eq!(follower.get("a").unwrap(), None);
    leader.flush().unwrap();
    leader.put("b", "1").unwrap();
    let begun = SystemClock.now();
    while follower.get("a").unwrap().is_none() {
        assert!(SystemClock.now() - begun < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(follower.get("b").unwrap(), None);
    follower.close().unwrap();
}

#[test]
fn a_prepared_transaction_shows_when_it_is_committed() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_transactions(&TransactionDbOptions::new());
    let primary = Db::open(&options, HERE).unwrap();
    let mut transaction = primary.transaction();
    transaction.put("a", "1").unwrap();
    let prepared = transaction.prepare("one").unwrap();
    let secondary = open(&storage.options());
    assert_eq!(secondary.get("a").unwrap(), None);
    primary.put("b", "1").unwrap();
    primary.flush().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(secondary.get("a").unwrap(), None);
    // A copy would not have the undecided transaction.
    let refused = secondary.create_checkpoint("/copy").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
    prepared.commit().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    secondary.create_checkpoint("/copy").unwrap();
    assert_eq!(secondary.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_secondary_lists_the_undecided_transactions_of_its_primary() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_transactions(&TransactionDbOptions::new());
    let primary = Db::open(&options, HERE).unwrap();
    let prepare = |name: &str, value: &str| {
        let mut transaction = primary.transaction();
        transaction.put(name, value).unwrap();
        transaction.prepare(name).unwrap()
    };
    let listed = |db: &Db| {
        let all = db.prepared_transactions().into_iter();
        let mut all: Vec<_> = all
            .map(|one| (one.name().to_vec(), one.batch().data().to_vec()))
            .collect();
        all.sort();
        all
    };
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut prepared = Vec::new();
    let secondary = open(&storage.options());
    for (at, name) in names.into_iter().enumerate() {
        prepared.push(prepare(name, "1"));
        if at % 2 == 0 {
            primary.put("other", "1").unwrap();
            primary.flush().unwrap();
        }
    }
    assert_eq!(listed(&secondary), []);
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(listed(&secondary).len(), names.len());
    assert_eq!(listed(&secondary), listed(&primary));
    // It decides nothing.
    let there = secondary.prepared_transaction("a").unwrap();
    for refused in [there.commit().map(drop), there.rollback()] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotSupported);
    }
    prepared[0].commit().unwrap();
    prepared[1].rollback().unwrap();
    prepare("b", "2");
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(listed(&secondary).len(), 5);
    assert_eq!(listed(&secondary), listed(&primary));
    // One that opens later finds them as well.
    secondary.close().unwrap();
    drop(secondary);
    let secondary = open(&storage.options());
    assert_eq!(listed(&secondary), listed(&primary));
}

#[test]
fn a_log_that_changes_while_it_is_read_is_read_again() {
    for action in [FaultAction::FlipReadBits(1), FaultAction::ShortRead] {
        let storage = Storage::new();
        let options = storage.options();
        let primary = Db::open(&options, HERE).unwrap();
        primary.put("a", "1").unwrap();
        let strike = || {
            let rule = FaultRule::new(action.clone()).on(&[Operation::Read]);
            storage.faults.add_rule(rule.suffix(".log").limit(1));
        };
        strike();
        let secondary = open(&options);
        assert_eq!(contents(&secondary), contents(&primary));
        for round in 0..5_u64 {
            primary.put(format!("b{round}"), "1").unwrap();
            strike();
            secondary.try_catch_up_with_primary().unwrap();
            assert_eq!(contents(&secondary), contents(&primary));
            assert_eq!(storage.faults.injection_count(), round + 2);
        }
    }
}

/// A primary with the record of its states, and secondaries that follow it.
struct Histories {
    random: Random,
    storage: Storage,
    options: Options,
    primary: Option<Db>,
    now: Contents,
    record: BTreeMap<u64, Contents>,
    snapshots: Vec<(Snapshot, Vec<ColumnFamily>, Contents)>,
    secondary: Option<Db>,
    copies: u32,
    /// The undecided transactions by name: each puts its name at one key of the default family.
    undecided: BTreeMap<String, String>,
    prepared_count: u32,
}

const NAMES: [&str; 3] = ["one", "two", "three"];

impl Histories {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let storage = Storage::new();
        let mut options = storage.options();
        options
            .set_write_buffer_size([4 << 10, 64 << 20][usize::from(random.chance(1, 2))])
            .set_max_manifest_file_size([1, 4 << 10, 1 << 30][random.index(3)])
            .set_max_manifest_space_amp_pct(0)
            .set_merge_operator(Arc::new(StringAppend::new(",")))
            .set_enable_pipelined_write(random.chance(1, 4));
        // Range deletions cannot lock their keys.
        let mut locks = TransactionDbOptions::new();
        locks.set_skip_concurrency_control(true);
        options.set_transactions(&locks);
        let primary = Db::open(&options, HERE).unwrap();
        let now = Contents::from([("default".to_owned(), BTreeMap::new())]);
        Histories {
            random,
            storage,
            options,
            primary: Some(primary),
            record: BTreeMap::from([(0, now.clone())]),
            now,
            snapshots: Vec::new(),
            secondary: None,
            copies: 0,
            undecided: BTreeMap::new(),
            prepared_count: 0,
        }
    }

    fn prepare(&mut self) {
        let primary = self.primary.clone().unwrap();
        self.prepared_count += 1;
        let key = format!("of a transaction {}", self.random.below(6));
        if self.undecided.values().any(|taken| *taken == key) {
            return;
        }
        // Names return, once they are decided.
        let name = format!("{}", self.prepared_count % 5);
        let mut transaction = primary.transaction();
        transaction.put(&key, &name).unwrap();
        match transaction.prepare(&name) {
            Ok(_) => drop(self.undecided.insert(name, key)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}"),
        }
    }

    fn decide(&mut self) {
        let primary = self.primary.clone().unwrap();
        let Some((name, key)) = self.undecided.pop_first() else {
            return;
        };
        let prepared = primary.prepared_transaction(&name).unwrap();
        if self.random.chance(1, 3) {
            prepared.rollback().unwrap();
        } else {
            prepared.commit().unwrap();
            let entries = self.now.get_mut("default").unwrap();
            entries.insert(key.into(), name.into());
        }
    }

    fn write(&mut self) {
        let primary = self.primary.clone().unwrap();
        let families = primary.cf_handles();
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.random.below(4) {
            let family = &families[self.random.index(families.len())];
            let entries = self.now.get_mut(family.name()).unwrap();
            let (key, kind) = (
                format!("key{:03}", self.random.below(60)),
                self.random.below(10),
            );
            let value = format!("{:x}", self.random.draw()).repeat(8);
            match kind {
                0..6 => {
                    batch.put_cf(family, &key, &value);
                    entries.insert(key.into(), value.into());
                }
                6 | 7 => {
                    batch.delete_cf(family, &key);
                    entries.remove(key.as_bytes());
                }
                8 => {
                    batch.merge_cf(family, &key, &value);
                    let merged = entries.entry(key.into()).or_default();
                    if !merged.is_empty() {
                        merged.push(b',');
                    }
                    merged.extend_from_slice(value.as_bytes());
                }
                _ => {
                    let to = format!("key{:03}", self.random.below(60));
                    if key < to {
                        batch.delete_range_cf(family, &key, &to);
                        entries
                            .retain(|at, _| at[..] < *key.as_bytes() || at[..] >= *to.as_bytes());
                    }
                }
            }
        }
        primary.write(&batch).unwrap();
    }

    fn change_families(&mut self) {
        let primary = self.primary.clone().unwrap();
        let name = NAMES[self.random.index(3)];
        match primary.cf_handle(name) {
            Some(family) => {
                primary.drop_cf(&family).unwrap();
                self.now.remove(name);
            }
            None => {
                primary.create_cf(name, self.options.cf_options()).unwrap();
                self.now.insert(name.to_owned(), BTreeMap::new());
            }
        }
    }

    fn reopen(&mut self) {
        self.primary = None;
        let mut builder = Db::builder(&self.options);
        builder.other_column_families(self.options.cf_options());
        self.primary = Some(builder.open(HERE).unwrap());
    }

    fn catch_up(&mut self) {
        let primary = self.primary.clone().unwrap();
        let secondary = match &self.secondary {
            Some(secondary) => {
                secondary.try_catch_up_with_primary().unwrap();
                secondary.clone()
            }
            None => {
                let secondary = open(&self.options);
                self.secondary = Some(secondary.clone());
                secondary
            }
        };
        let seqno = secondary.latest_sequence_number();
        assert_eq!(seqno, primary.latest_sequence_number());
        assert_eq!(contents(&secondary), self.now, "at {seqno}");
        let listed = secondary.prepared_transactions().into_iter();
        let listed: Vec<_> = listed.map(|one| one.name().to_vec()).collect();
        assert!(
            listed
                .iter()
                .map(Vec::as_slice)
                .eq(self.undecided.keys().map(String::as_bytes)),
            "{listed:?} at {seqno}"
        );
        self.record.insert(seqno, self.now.clone());
        if self.random.chance(1, 3) {
            let snapshot = secondary.snapshot();
            assert_eq!(snapshot.sequence_number(), seqno);
            self.snapshots
                .push((snapshot, secondary.cf_handles(), self.now.clone()));
        }
    }

    /// The view that the secondary has, and those of its snapshots.
    fn check(&mut self) {
        if let Some(secondary) = &self.secondary {
            let seqno = secondary.latest_sequence_number();
            assert_eq!(contents(secondary), self.record[&seqno], "at {seqno}");
        }
        for (snapshot, families, expected) in &self.snapshots {
            let found = contents_of(families, &ReadOptions::at(snapshot));
            assert_eq!(
                found,
                *expected,
                "snapshot at {}",
                snapshot.sequence_number()
            );
        }
        if self.snapshots.len() > 3 {
            self.snapshots.remove(0);
        }
    }

    fn checkpoint(&mut self) {
        let Some(secondary) = &self.secondary else {
            return;
        };
        if !secondary.prepared_transactions().is_empty() {
            let refused = secondary.create_checkpoint("/refused").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
            return;
        }
        self.copies += 1;
        let target = format!("/copies/{}", self.copies);
        let report = secondary.create_checkpoint(&target).unwrap();
        assert_eq!(report.sequence_number, secondary.latest_sequence_number());
        let mut builder = Db::builder(&self.options);
        builder.other_column_families(self.options.cf_options());
        let copy = builder.open(&target).unwrap();
        assert_eq!(contents(&copy), self.record[&report.sequence_number]);
        copy.put("key000", "goes on").unwrap();
        copy.verify_checksums().unwrap();
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            let primary = self.primary.clone().unwrap();
            match self.random.below(100) {
                0..52 => self.write(),
                52..56 => self.prepare(),
                56..60 => self.decide(),
                60..68 => {
                    let families = primary.cf_handles();
                    let family = &families[self.random.index(families.len())];
                    family.flush().unwrap();
                }
                68..71 => primary.compact_all(&CompactRangeOptions::new()).unwrap(),
                71..75 => self.change_families(),
                75..78 => {
                    drop(primary);
                    self.reopen();
                }
                78..92 => self.catch_up(),
                92..94 => self.checkpoint(),
                94 => {
                    self.snapshots.clear();
                    self.secondary = None;
                }
                _ => self.check(),
            }
        }
        self.catch_up();
        self.check();
        assert!(tables(&self.storage, HERE).len() < 200);
    }
}

#[test]
fn every_view_is_the_record_at_its_sequence_number() {
    let seeds = match std::env::var("KOELDB_SEED") {
        Ok(seed) => seed.parse().unwrap()..seed.parse::<u64>().unwrap() + 1,
        Err(_) => 0..20,
    };
    for seed in seeds {
        let run = || Histories::new(seed).run(250);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        if let Err(panic) = outcome {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn readers_see_whole_batches_in_order_while_the_primary_flushes_and_compacts() {
    let storage = Storage::new();
    let mut options = storage.options();
    options
        .set_write_buffer_size(16 << 10)
        .set_max_manifest_file_size(4 << 10)
        .set_max_manifest_space_amp_pct(0)
        .set_level_zero_file_num_compaction_trigger(2);
    let primary = Db::open(&options, HERE).unwrap();
    let other = primary
        .create_cf("other", &ColumnFamilyOptions::new())
        .unwrap();
    let secondary = open(&options);
    let twin = secondary.cf_handle("other").unwrap();
    let (stop, reached) = (AtomicBool::new(false), AtomicU64::new(0));
    let number = |value: Option<koeldb::PinnedSlice>| {
        value.map_or(0, |value| {
            let text = std::str::from_utf8(&value).unwrap();
            text.trim_start_matches('0').parse::<u64>().unwrap_or(0)
        })
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=4000_u64 {
                let value = format!("{round:0200}");
                let mut batch = WriteBatch::new();
                batch.put("a", &value);
                batch.put(format!("fill{:03}", round % 97), &value);
                batch.put_cf(&other, "b", &value);
                primary.write(&batch).unwrap();
                if round % 500 == 0 {
                    other.flush().unwrap();
                }
            }
            stop.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut before = 0;
                while !stop.load(Ordering::Acquire) {
                    let latest = number(secondary.get("a").unwrap());
                    assert!(latest >= before, "{latest} after {before}");
                    before = latest;
                    let snapshot = secondary.snapshot();
                    let a = number(snapshot.get("a").unwrap());
                    let b = number(snapshot.get_cf(&twin, "b").unwrap());
                    assert_eq!(a, b);
                    assert!(a >= latest);
                    // Every batch wrote one of these keys.
                    let newest = snapshot.range(b"fill".as_slice()..).map(|entry| {
                        let value = entry.unwrap().1;
                        let text = std::str::from_utf8(&value).unwrap();
                        text.trim_start_matches('0').parse::<u64>().unwrap()
                    });
                    assert_eq!(newest.max().unwrap_or(0), a);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                match secondary.try_catch_up_with_primary() {
                    Ok(_) => {
                        reached.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::TryAgain, "{error}"),
                }
            }
        });
    });
    assert!(reached.load(Ordering::Relaxed) > 0);
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(contents(&secondary), contents(&primary));
}
