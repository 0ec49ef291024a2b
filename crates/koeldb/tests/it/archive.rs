//! The archive of obsolete logs, and the change feed that reads it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{FileSystem, ManualClock, MemoryFileSystem, Purpose, WriteOptions};
use koeldb::{BatchEntry, Db, Env, ErrorKind, Options, WriteBatch};

/// A database in memory with a clock that the test moves.
struct Archived {
    fs: Arc<dyn FileSystem>,
    clock: Arc<ManualClock>,
    options: Options,
}

impl Archived {
    fn new(limits: &[(&str, &str)]) -> Self {
        let clock = Arc::new(ManualClock::new());
        clock.advance(Duration::from_secs(1_000_000));
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::with_clock(clock.clone()));
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_env(&Env::new(Arc::clone(&fs), clock.clone()));
        for (name, value) in limits {
            let text = format!("{name}={value}");
            options
                .apply_str(&text, &koeldb::ConfigOptions::new())
                .unwrap();
        }
        Archived { fs, clock, options }
    }

    fn open(&self) -> Db {
        Db::open(&self.options, "/db").unwrap()
    }
}

/// Writes `value` to the keys, each in a log of its own, and waits for the ends of the flushes,
/// which archive the logs.
fn write(db: &Db, keys: std::ops::Range<u32>, value: &[u8]) {
    for key in keys {
        db.put(format!("{key:03}"), value).unwrap();
        db.flush().unwrap();
    }
    db.wait_for_compact(None).unwrap();
}

/// Waits for a purge, which may come later than the flush that causes it.
fn wait_until(what: impl Fn() -> bool) {
    crate::wait::until("the purge of the archive", what);
}

fn archived_logs(db: &Db) -> usize {
    let logs = db.log_files().unwrap().into_iter();
    logs.filter(|log| log.is_archived).count()
}

fn archived_bytes(db: &Db) -> u64 {
    let logs = db.log_files().unwrap().into_iter();
    logs.filter(|log| log.is_archived)
        .map(|log| log.bytes)
        .sum()
}

#[test]
fn obsolete_logs_are_archived_also_by_an_open() {
    let archived = Archived::new(&[("WAL_ttl_seconds", "3600")]);
    let db = archived.open();
    write(&db, 0..5, b"value");
    db.put("005", "value").unwrap();
    assert_eq!(archived_logs(&db), 5);
    drop(db);
    // The last log is replayed, and archived then.
    let db = archived.open();
    write(&db, 6..8, b"value");
    assert_eq!(archived_logs(&db), 8);
    drop(db);
    // Without the option obsolete logs are removed, and archived ones stay.
    let mut options = archived.options.clone();
    options.set_wal_ttl_seconds(Duration::ZERO);
    let db = Db::open(&options, "/db").unwrap();
    let before = archived_bytes(&db);
    write(&db, 8..10, b"value");
    assert_eq!(archived_bytes(&db), before);
}

#[test]
fn archived_logs_go_by_age() {
    let archived = Archived::new(&[("WAL_ttl_seconds", "3600")]);
    let db = archived.open();
    write(&db, 0..4, b"value");
    archived.clock.advance(Duration::from_secs(3599));
    write(&db, 4..5, b"value");
    wait_until(|| archived_logs(&db) == 5);
    archived.clock.advance(Duration::from_secs(2));
    write(&db, 5..6, b"value");
    wait_until(|| archived_logs(&db) == 2);
}

#[test]
fn archived_logs_go_by_size_oldest_first() {
    let archived = Archived::new(&[("WAL_size_limit_MB", "1")]);
    let db = archived.open();
    write(&db, 0..20, &[1; 100_000]);
    wait_until(|| (900_000..=1 << 20).contains(&archived_bytes(&db)));
}

/// The keys of the feed from `seqno` on, up to its present end.
fn keys_since(db: &Db, seqno: u64) -> koeldb::Result<Vec<String>> {
    let mut keys = Vec::new();
    for update in db.get_updates_since(seqno)? {
        for entry in update?.batch.iter() {
            if let BatchEntry::Put { key, .. } = entry? {
                keys.push(String::from_utf8(key.to_vec()).unwrap());
            }
        }
    }
    Ok(keys)
}

fn keys(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|key| format!("{key:03}")).collect()
}

#[test]
fn a_feed_begins_in_the_archive_also_in_that_of_the_last_open() {
    let archived = Archived::new(&[("WAL_ttl_seconds", "3600")]);
    let db = archived.open();
    write(&db, 0..5, b"value");
    db.put("005", "value").unwrap();
    for from in 0..6 {
        assert_eq!(
            keys_since(&db, from.into()).unwrap(),
            keys(from.max(1) - 1..6)
        );
    }
    // Nothing was logged since the last switch.
    db.flush().unwrap();
    assert_eq!(keys_since(&db, 2).unwrap(), keys(1..6));
    db.put("006", "value").unwrap();
    drop(db);
    let db = archived.open();
    assert_eq!(keys_since(&db, 1).unwrap(), keys(0..7));
    write(&db, 7..10, b"value");
    let mut updates = db.get_updates_since(3).unwrap();
    assert_eq!(updates.by_ref().map(Result::unwrap).count(), 8);
    write(&db, 10..12, b"value");
    assert_eq!(updates.map(Result::unwrap).count(), 2);
    db.put("012", "value").unwrap();
    drop(db);
    // The logs before the last open do not say where those before them ended.
    let db = archived.open();
    db.put("013", "value").unwrap();
    assert_eq!(keys_since(&db, 10).unwrap(), keys(9..14));
    let gone = keys_since(&db, 7).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
}

/// A batch of puts of the keys that ends with a no-op, as a group does whose last member is a
/// transaction without operations.
fn ends_in_noop(keys: std::ops::Range<u32>) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(format!("{key:03}"), "value");
    }
    let mut data = batch.into_data();
    data.push(0x0d);
    WriteBatch::from_data(data).unwrap()
}

#[test]
fn operations_before_a_noop_keep_a_number_each_in_the_feed_and_across_an_open() {
    let archived = Archived::new(&[("WAL_ttl_seconds", "3600")]);
    let db = archived.open();
    db.write(&ends_in_noop(0..3)).unwrap();
    db.write(&ends_in_noop(3..5)).unwrap();
    assert_eq!(keys_since(&db, 1).unwrap(), keys(0..5));
    assert_eq!(db.latest_sequence_number(), 5);
    drop(db);
    let db = archived.open();
    assert_eq!(db.latest_sequence_number(), 5);
    assert_eq!(keys_since(&db, 1).unwrap(), keys(0..5));
    db.put("005", "value").unwrap();
    assert_eq!(keys_since(&db, 5).unwrap(), keys(3..6));
    assert_eq!(keys_since(&db, 6).unwrap(), keys(5..6));
}

#[test]
fn a_feed_keeps_the_archived_logs_that_it_has_not_read() {
    let archived = Archived::new(&[("WAL_ttl_seconds", "3600")]);
    let db = archived.open();
    write(&db, 0..5, b"value");
    let mut updates = db.get_updates_since(2).unwrap();
    archived.clock.advance(Duration::from_secs(4000));
    write(&db, 5..7, b"value");
    let seen: Vec<_> = updates
        .by_ref()
        .map(|update| update.unwrap().sequence_number)
        .collect();
    assert_eq!(seen, [2, 3, 4, 5, 6, 7]);
    drop(updates);
    write(&db, 7..8, b"value");
    // A feed that begins meanwhile would keep all logs.
    wait_until(|| archived_logs(&db) == 3);
    let gone = keys_since(&db, 1).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[test]
fn an_archived_log_that_ends_early_or_is_another_one_is_refused() {
    let archived = Archived::new(&[("WAL_ttl_seconds", "3600")]);
    let db = archived.open();
    write(&db, 0..5, b"value");
    let mut logs = db.log_files().unwrap();
    logs.sort_by_key(|log| log.number);
    // That of sequence number 3.
    let log = &logs[2];
    let bytes = archived
        .fs
        .read_all(&log.path, 1 << 20, Purpose::Read)
        .unwrap();
    let replace = |bytes: &[u8]| {
        archived.fs.remove_file(&log.path).unwrap();
        let mut file = archived
            .fs
            .create(&log.path, &WriteOptions::default())
            .unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
    };
    assert_eq!(keys_since(&db, 3).unwrap(), keys(2..5));
    for length in 0..bytes.len() {
        replace(&bytes[..length]);
        let error = keys_since(&db, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{length} bytes: {error}");
    }
    replace(&bytes);
    assert_eq!(keys_since(&db, 2).unwrap(), keys(1..5));
}

#[test]
fn the_feed_never_shows_batches_that_recovery_gave_up() {
    let archived = Archived::new(&[("WAL_ttl_seconds", "3600")]);
    let db = archived.open();
    let log = db.log_files().unwrap().pop().unwrap().path;
    for key in 0..6 {
        db.put(format!("{key:03}"), "before").unwrap();
    }
    drop(db);
    let mut bytes = archived.fs.read_all(&log, 1 << 20, Purpose::Read).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    archived.fs.remove_file(&log).unwrap();
    let mut file = archived.fs.create(&log, &WriteOptions::default()).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
    let db = archived.open();
    assert!(db.recovery_report().dropped_anything());
    assert!(
        archived
            .fs
            .exists(&Path::new("/db/archive").join(log.file_name().unwrap()))
            .unwrap()
    );
    let recovered = db.latest_sequence_number();
    assert!((1..6).contains(&recovered));
    for key in 0..5 {
        db.put(format!("{key:03}"), "after").unwrap();
    }
    let updates: Vec<_> = db
        .get_updates_since(recovered + 1)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(updates.len(), 5);
    for update in updates {
        let data = update.batch.data();
        assert!(data.windows(5).any(|window| window == b"after"));
    }
    write(&db, 5..6, b"after");
    let count = |from| {
        db.get_updates_since(from)
            .map(|updates| updates.map(Result::unwrap).count())
    };
    assert_eq!(count(recovered + 1).unwrap(), 6, "from the archive");
    let gone = count(recovered).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}
