//! Directories of a program on this crate are opened and changed by RocksDB, and the reverse.
//!
//! RocksDB is the Java library that `KOELDB_ROCKSDBJNI_JAR` names, behind `Check.java` of the engine's
//! tests. Without it the test prints a notice, and fails with `CI=true`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use rocksdb::{
    BlockBasedOptions, ColumnFamilyDescriptor, DB, DBCompressionType, IteratorMode, Options,
    WriteBatch,
};

type Contents = BTreeMap<(String, Vec<u8>), Vec<u8>>;

struct Java {
    class_path: String,
}

impl Java {
    fn find() -> Option<Java> {
        let Some(jar) = std::env::var_os("KOELDB_ROCKSDBJNI_JAR") else {
            let is_required = std::env::var("CI").as_deref() == Ok("true");
            assert!(!is_required, "KOELDB_ROCKSDBJNI_JAR is not set");
            eprintln!("notice: KOELDB_ROCKSDBJNI_JAR is not set; nothing is checked against it");
            return None;
        };
        let jar = jar.to_string_lossy();
        let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../koeldb/tests/java/Check.java");
        let mut javac = Command::new("javac");
        javac.args(["-cp", &jar, "-d"]).arg(&classes).arg(source);
        assert!(javac.status().unwrap().success());
        let class_path = format!("{jar}:{}", classes.display());
        Some(Java { class_path })
    }

    fn run(&self, what: &str, dir: &Path) -> String {
        let mut java = Command::new("java");
        java.args(["-cp", &self.class_path, "Check", what])
            .arg(dir)
            .arg("merge=stringappend");
        let output = java.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Everything that RocksDB reads: from both ends, by key, with verified checksums.
    fn contents(&self, dir: &Path) -> Contents {
        let bytes = |hex: &str| -> Vec<u8> {
            let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(digits).collect()
        };
        let text = self.run("check", dir);
        let entries = text.lines().filter_map(|line| line.strip_prefix("entry\t"));
        entries
            .map(|entry| {
                let parts: Vec<&str> = entry.split('\t').collect();
                ((parts[0].to_owned(), bytes(parts[1])), bytes(parts[2]))
            })
            .collect()
    }
}

fn open(dir: &Path) -> DB {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let mut tables = BlockBasedOptions::default();
    tables.set_bloom_filter(10.0, false);
    tables.set_block_size(1024);
    options.set_block_based_table_factory(&tables);
    options.set_write_buffer_size(64 << 10);
    options.set_compression_type(DBCompressionType::Snappy);
    // As RocksDB's `stringappend`, which reads the operands there.
    options.set_merge_operator_associative("koel.append", |_, old, operands| {
        let parts: Vec<&[u8]> = old.into_iter().chain(operands).collect();
        Some(parts.join(&b','))
    });
    let families =
        ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
    DB::open_cf_descriptors(&options, dir, families).unwrap()
}

fn contents(db: &DB) -> Contents {
    let mut all = Contents::new();
    for name in ["default", "other"] {
        let cf = db.cf_handle(name).unwrap();
        for item in db.iterator_cf(&cf, IteratorMode::Start) {
            let (key, value) = item.unwrap();
            all.insert((name.to_owned(), key.to_vec()), value.to_vec());
        }
    }
    all
}

/// A program's life: puts, merges, deletions of both kinds, flushes, a compaction, and a log.
fn live(db: &DB, round: usize) {
    for name in ["default", "other"] {
        let cf = db.cf_handle(name).unwrap();
        for index in 0..2000 {
            let key = format!("key{:05}", index * 7 % 2000);
            let value = format!("{round} {index} {}", "x".repeat(index % 90));
            db.put_cf(&cf, key, value).unwrap();
        }
        for index in 0..100 {
            db.merge_cf(&cf, format!("merged{}", index % 10), format!("{index}"))
                .unwrap();
        }
        db.flush_cf(&cf).unwrap();
        db.delete_range_cf(&cf, format!("key00{round}10"), format!("key00{round}50"))
            .unwrap();
        db.compact_range_cf(&cf, Some("key00500"), None::<&str>);
        let mut batch = WriteBatch::default();
        for index in 0..50 {
            batch.delete_cf(&cf, format!("key{:05}", 1000 + index * 3));
            batch.put_cf(&cf, format!("log{index}"), "in the log");
            batch.merge_cf(&cf, "merged0", "late");
        }
        db.write(batch).unwrap();
    }
}

#[test]
fn one_directory_serves_both_engines_in_turn() {
    let Some(java) = Java::find() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let db = open(dir.path());
        live(&db, round);
        let ours = contents(&db);
        assert!(ours.len() > 2000);
        drop(db);
        assert!(
            java.contents(dir.path()) == ours,
            "round {round}: RocksDB reads the same"
        );
        java.run("write", dir.path());
        let theirs = java.contents(dir.path());
        assert!(theirs.len() > ours.len() || round > 0);
        let db = open(dir.path());
        assert!(contents(&db) == theirs, "round {round}: we read the same");
        for ((name, key), value) in theirs.iter().step_by(17) {
            let cf = db.cf_handle(name).unwrap();
            assert_eq!(db.get_cf(&cf, key).unwrap().as_ref(), Some(value));
        }
    }
}
