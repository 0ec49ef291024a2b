//! The archive of obsolete logs, which the change feed does not read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koeldb::fs::{FileSystem, ManualClock, MemoryFileSystem, Purpose, WriteOptions};
use koeldb::{Db, Env, ErrorKind, Options};

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

/// Writes `value` to the keys, each in a log of its own.
fn write(db: &Db, keys: std::ops::Range<u32>, value: &[u8]) {
    for key in keys {
        db.put(format!("{key:03}"), value).unwrap();
        db.flush().unwrap();
    }
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
    let gone = db.get_updates_since(1).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
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
    assert_eq!(archived_logs(&db), 5);
    archived.clock.advance(Duration::from_secs(2));
    write(&db, 5..6, b"value");
    assert_eq!(archived_logs(&db), 2);
}

#[test]
fn archived_logs_go_by_size_oldest_first() {
    let archived = Archived::new(&[("WAL_size_limit_MB", "1")]);
    let db = archived.open();
    write(&db, 0..20, &[1; 100_000]);
    let bytes = archived_bytes(&db);
    assert!((900_000..=1 << 20).contains(&bytes), "{bytes}");
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
    let gone = db.get_updates_since(recovered + 1).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}
