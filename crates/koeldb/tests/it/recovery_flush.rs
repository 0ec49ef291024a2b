//! `avoid_flush_during_recovery`: recovered data stays in memtables, and in its logs.

use std::path::Path;

use koeldb::fs::{
    FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy, SystemClock,
    WriteOptions as WriteFileOptions,
};
use koeldb::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbBuilder, Env, Options, RecoveryMode,
    WriteOptions,
};

use crate::prelude::creating;
use crate::scratch::ScratchDir;

fn open(fs: &MemoryFileSystem, avoids: bool) -> Db {
    let env = Env::new(
        std::sync::Arc::new(fs.clone()),
        std::sync::Arc::new(SystemClock),
    );
    let mut options = creating();
    options
        .set_avoid_flush_during_recovery(avoids)
        .set_env(&env);
    let mut builder: DbBuilder = Db::builder(&options);
    for name in ["default", "other"] {
        builder.column_family(ColumnFamilyDescriptor::new(
            name,
            ColumnFamilyOptions::from(&options),
        ));
    }
    builder.open("/db").unwrap()
}

fn names(fs: &MemoryFileSystem, extension: &str) -> Vec<String> {
    let entries = fs.list(Path::new("/db")).unwrap();
    let names = entries.into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(extension)).collect()
}

fn check(db: &Db, keys: u32) {
    let other = db.cf_handle("other").unwrap();
    for key in 0..keys {
        let cf = if key % 3 == 0 {
            &other
        } else {
            db.default_cf()
        };
        assert!(
            cf.get(format!("{key:03}")).unwrap().is_some(),
            "{key} of {keys}"
        );
    }
}

#[test]
fn recovered_data_stays_in_memtables_and_survives_the_next_crash() {
    let mut fs = MemoryFileSystem::new();
    let mut sync = WriteOptions::new();
    sync.set_sync(true);
    let mut keys = 0;
    for session in 0..4 {
        let db = open(&fs, true);
        assert!(db.recovery_report().tables_written.is_empty());
        assert!(names(&fs, ".sst").is_empty());
        check(&db, keys);
        let other = db.cf_handle("other").unwrap();
        for _ in 0..10 {
            let cf = if keys % 3 == 0 {
                &other
            } else {
                db.default_cf()
            };
            // Before this, the logs of earlier sessions are synced.
            cf.put_opt(format!("{keys:03}"), "value", &sync).unwrap();
            keys += 1;
        }
        assert_eq!(names(&fs, ".log").len(), session + 1);
        fs = fs.crash_image(SurvivalPolicy::Strict, 1);
        drop(db);
    }
    let db = open(&fs, true);
    check(&db, keys);
    db.flush().unwrap();
    // A flush has ended for its caller when its table is installed; the logs are removed behind that.
    db.wait_for_compact(None).unwrap();
    assert_eq!(names(&fs, ".log").len(), 1);
    check(&db, keys);
    drop(db);
    let db = open(&fs, false);
    assert_eq!(
        db.recovery_report()
            .logs
            .iter()
            .map(|log| log.batches)
            .sum::<u64>(),
        0
    );
    check(&db, keys);
}

#[test]
fn without_the_option_or_after_damage_recovered_data_goes_to_tables() {
    for damages in [false, true] {
        let fs = MemoryFileSystem::new();
        let db = open(&fs, true);
        for key in 0..20 {
            db.put(format!("{key:03}"), "value").unwrap();
        }
        let image = fs.crash_image(SurvivalPolicy::Generous, 1);
        drop(db);
        if damages {
            let log = Path::new("/db").join(&names(&image, ".log")[0]);
            let bytes = image.metadata(&log).unwrap().len;
            image.truncate(&log, bytes - 3).unwrap();
        }
        let db = open(&image, damages);
        assert_eq!(names(&image, ".sst").len(), 1);
        assert_eq!(names(&image, ".log").len(), 1);
        assert_eq!(db.range(..).count(), if damages { 19 } else { 20 });
    }
}

/// A log behind a gap was kept beside the logs of later writes, which use its numbers again.
#[test]
fn a_log_that_recovery_gave_up_is_not_kept() {
    let fs = MemoryFileSystem::new();
    let env = Env::new(
        std::sync::Arc::new(fs.clone()),
        std::sync::Arc::new(SystemClock),
    );
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_max_write_buffer_number(10)
        .set_min_write_buffer_number_to_merge(5)
        .set_env(&env);
    let db = Db::open(&options, "/db").unwrap();
    let log = db.log_files().unwrap().pop().unwrap().path;
    db.put("k0", "first").unwrap();
    let kept = usize::try_from(fs.metadata(&log).unwrap().len).unwrap();
    db.put("k1", vec![b'x'; 70 << 10]).unwrap();
    db.put("k2", "given up").unwrap();
    let image = fs.crash_image(SurvivalPolicy::Generous, 1);
    drop(db);
    // The first log loses its last record, the second one stays.
    let bytes = image.read_all(&log, 1 << 20, Purpose::Read).unwrap();
    image.remove_file(&log).unwrap();
    let mut file = image.create(&log, &WriteFileOptions::default()).unwrap();
    file.append(&bytes[..kept]).unwrap();
    file.close().unwrap();

    let db = open(&image, true);
    assert!(db.recovery_report().dropped_anything());
    db.put("k2", "after").unwrap();
    drop(db);
    let env = Env::new(std::sync::Arc::new(image), std::sync::Arc::new(SystemClock));
    let mut options = Options::new();
    options
        .set_wal_recovery_mode(RecoveryMode::SkipAnyCorruptedRecords)
        .set_env(&env);
    let (db, _) = Db::open_cf(&options, "/db", ["other"]).unwrap();
    assert_eq!(db.get("k2").unwrap().as_deref(), Some(&b"after"[..]));
}

#[test]
fn recovery_keeps_the_memory_limit_if_that_is_enforced() {
    for (enforces, limit) in [(false, 200_000), (true, 0), (true, 200_000)] {
        let dir = ScratchDir::new();
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_disable_auto_compactions(true)
            .set_avoid_flush_during_shutdown(true)
            .set_enforce_write_buffer_manager_during_recovery(enforces);
        let db = Db::open(&options, dir.path()).unwrap();
        for key in 0..1000 {
            db.put(format!("{key:04}"), [7; 1000]).unwrap();
        }
        drop(db);
        options.set_db_write_buffer_size(limit);
        let db = Db::open(&options, dir.path()).unwrap();
        let tables = db.live_files().len();
        if enforces && limit > 0 {
            assert!((4..12).contains(&tables), "{tables}");
        } else {
            assert_eq!(tables, 1);
        }
        assert_eq!(db.range(..).count(), 1000);
    }
}
