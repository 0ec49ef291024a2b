//! Directories that RocksDB and KoelDB write in turn, KoelDB under load: blob files with collection,
//! entities, several directories, flushes of several families together, timestamps.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, ConfigOptions, Db, DbPath, Options,
    StringAppend, WriteBatch,
};
use koeldb_testkit::Random;

use crate::expected::{Entries, Expected};
use crate::golden;
use crate::prelude::creating;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

/// The options of the column families of both engines.
const FAMILY: [(&str, &str); 7] = [
    ("enable_blob_files", "true"),
    ("min_blob_size", "100"),
    ("blob_file_size", "20000"),
    ("enable_blob_garbage_collection", "true"),
    ("blob_garbage_collection_age_cutoff", "0.6"),
    ("paranoid_file_checks", "true"),
    ("target_file_size_base", "16384"),
];

/// The threads that write.
const WRITERS: u64 = 4;

struct Case {
    name: &'static str,
    families: &'static [&'static str],
    has_entities: bool,
}

/// The last values that a thread wrote for its keys; `None` for deletions.
type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Writes to all families from several threads, while others flush and compact; adds to `expected`.
fn load(db: &Db, case: &Case, round: u64, expected: &mut Expected) {
    let families: Vec<ColumnFamily> = case
        .families
        .iter()
        .map(|name| db.cf_handle(name).unwrap())
        .collect();
    let is_done = AtomicBool::new(false);
    let write = |thread: u64| {
        let mut random = Random::new(round * 100 + thread);
        let mut own: Vec<Changes> = vec![Vec::new(); families.len()];
        for step in 0..600_u64 {
            let key = format!("load{thread}{:03}", random.below(120)).into_bytes();
            let value = format!("{round} {step} ")
                .repeat(usize::try_from(random.below(60)).unwrap())
                .into_bytes();
            let is_deletion = random.below(8) == 0;
            let is_entity = case.has_entities && random.below(3) == 0;
            let mut batch = WriteBatch::new();
            for (family, own) in families.iter().zip(&mut own) {
                if is_deletion {
                    batch.delete_cf(family, &key);
                    own.push((key.clone(), None));
                } else {
                    if is_entity {
                        let columns = [(&b""[..], &value[..]), (b"name", b"column")];
                        batch.put_entity_cf(family, &key, &columns).unwrap();
                    } else {
                        batch.put_cf(family, &key, &value);
                    }
                    own.push((key.clone(), Some(value.clone())));
                }
            }
            db.write(&batch).unwrap();
        }
        own
    };
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|thread| scope.spawn(move || write(thread)))
            .collect();
        let maintains = || {
            while !is_done.load(Ordering::Acquire) {
                db.flush().unwrap();
                for family in &families {
                    family.compact_range(..).unwrap();
                }
            }
        };
        let maintainer = scope.spawn(maintains);
        let written: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect();
        is_done.store(true, Ordering::Release);
        maintainer.join().unwrap();
        written
    });
    for own in written {
        for (family, changes) in families.iter().zip(own) {
            let entries = expected.family(family.name());
            for (key, value) in changes {
                match value {
                    Some(value) => drop(entries.insert(key, value)),
                    None => drop(entries.remove(&key)),
                }
            }
        }
    }
}

fn found(db: &Db) -> Expected {
    let mut found = Expected::default();
    for family in db.cf_handles() {
        let entries: Entries = family
            .range(..)
            .map(Result::unwrap)
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        *found.family(family.name()) = entries;
    }
    found
}

fn three_times(case: &Case, options: &Options, path: &Path, settings: &[String]) {
    let Some(java) = Java::find() else { return };
    let mut settings: Vec<String> = settings.to_vec();
    settings.extend(FAMILY.map(|(name, value)| format!("cf:{name}={value}")));
    settings.push("merge=stringappend".to_owned());
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut options = options.clone();
    options
        .set_merge_operator(StringAppend::default())
        .set_write_buffer_size(64 << 10)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_max_bytes_for_level_base(64 << 10);
    let text: String = FAMILY
        .map(|(name, value)| format!("{name}={value};"))
        .concat();
    options.apply_str(&text, &ConfigOptions::new()).unwrap();
    let open = || {
        let mut builder = Db::builder(&options);
        for name in case.families.iter().filter(|&&name| name != "default") {
            let family = ColumnFamilyOptions::from(&options);
            builder.column_family(ColumnFamilyDescriptor::new(*name, family));
        }
        builder.open(path).unwrap()
    };
    for round in 0..3 {
        let what = format!("{}, round {round}", case.name);
        let mut written = settings.clone();
        if !path.join("CURRENT").exists() {
            written.push("create=true");
        }
        java.write(path, &written);
        let mut expected = java.check(path, &settings).found;
        let db = open();
        for &name in case.families {
            expected.family(name);
        }
        assert!(found(&db) == expected, "{what}: written by RocksDB");
        load(&db, case, round, &mut expected);
        assert!(found(&db) == expected, "{what}: written by us");
        db.verify_checksums().unwrap();
        assert!(!db.live_blob_files().is_empty(), "{what}");
        db.close().unwrap();
        drop(db);
        assert!(
            java.check(path, &settings).found == expected,
            "{what}: read by RocksDB"
        );
    }
}

#[test]
fn blob_files_with_collection() {
    let dir = ScratchDir::new();
    let case = Case {
        name: "blobs",
        families: &["default"],
        has_entities: false,
    };
    three_times(&case, &creating(), &dir.join("db"), &[]);
}

#[test]
fn entities() {
    let dir = golden::copy_of("entities-blobs");
    let case = Case {
        name: "entities",
        families: &["default"],
        has_entities: true,
    };
    three_times(&case, &creating(), dir.path(), &[]);
}

#[test]
fn several_directories() {
    let dir = ScratchDir::new();
    let paths = [
        DbPath::new(dir.join("fast"), 40_000),
        DbPath::new(dir.join("slow"), 1 << 30),
    ];
    let texts = paths
        .iter()
        .map(|path| format!("{}:{}", path.path.display(), path.target_size));
    let setting = format!("db_paths={}", texts.collect::<Vec<_>>().join(","));
    let mut options = creating();
    options.set_db_paths(paths.clone());
    let case = Case {
        name: "paths",
        families: &["default"],
        has_entities: false,
    };
    three_times(&case, &options, &dir.join("db"), &[setting]);
}

#[test]
fn families_flushed_together() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_atomic_flush(true);
    let case = Case {
        name: "atomic flush",
        families: &["default", "other", "third"],
        has_entities: false,
    };
    let setting = "atomic_flush=true".to_owned();
    three_times(&case, &options, &dir.join("db"), &[setting]);
}

#[test]
fn timestamps() {
    let Some(java) = Java::find() else { return };
    let dir = golden::copy_of("timestamps-collected");
    let comparator = "leveldb.BytewiseComparator.u64ts";
    let script = ScratchDir::new();
    let mut time = 20_u64;
    for round in 0..3_u64 {
        let db = golden::open_as_written(dir.path());
        let family = db.default_cf();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut random = Random::new(round * 10 + thread);
                        for step in 0..300_u64 {
                            let key = format!("load{thread}{:02}", random.below(30));
                            let at = (time + step / 50).to_le_bytes();
                            if random.below(6) == 0 {
                                family.delete_with_ts(&key, at).unwrap();
                            } else {
                                let value = format!("{round} {step}");
                                family.put_with_ts(&key, at, &value).unwrap();
                            }
                        }
                    })
                })
                .collect();
            let maintainer = scope.spawn(|| {
                while !is_done.load(Ordering::Acquire) {
                    family.flush().unwrap();
                    family.compact_range(..).unwrap();
                }
            });
            writers
                .into_iter()
                .for_each(|writer| writer.join().unwrap());
            is_done.store(true, Ordering::Release);
            maintainer.join().unwrap();
        });
        if round == 1 {
            family
                .increase_full_history_ts_low((time + 2).to_le_bytes())
                .unwrap();
            family.compact_range(..).unwrap();
        }
        let times: Vec<u64> = [5, 11].into_iter().chain(time..time + 9).collect();
        let ours = golden::at_times(&db, &times);
        db.close().unwrap();
        drop(db);
        let texts: Vec<String> = times.iter().map(u64::to_string).collect();
        let mut arguments = vec![comparator];
        arguments.extend(texts.iter().map(String::as_str));
        assert_eq!(
            java.timestamps("read", dir.path(), &arguments),
            ours,
            "round {round}"
        );
        // RocksDB writes newer versions of some keys.
        time += 7;
        let mut lines = String::new();
        for index in 0..30 {
            let key = [format!("load0{index:02}").as_bytes(), &time.to_le_bytes()].concat();
            let mut batch = WriteBatch::new();
            batch.put(&key, format!("of RocksDB {round}"));
            for byte in batch.data() {
                lines.push_str(&format!("{byte:02x}"));
            }
            lines.push('\n');
        }
        lines.push_str("flush\ncompact\n");
        std::fs::write(script.join("script"), lines).unwrap();
        let script = script.join("script").display().to_string();
        java.timestamps("write", dir.path(), &[comparator, &script]);
        let theirs = java.timestamps("read", dir.path(), &arguments);
        let db = golden::open_as_written(dir.path());
        assert_eq!(golden::at_times(&db, &times), theirs, "round {round}");
        db.close().unwrap();
        time += 1;
    }
}
