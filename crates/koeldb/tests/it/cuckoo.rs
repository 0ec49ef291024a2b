//! Column families of cuckoo tables: the format is used where possible, and RocksDB can read it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use koeldb::{
    BottommostLevelCompaction, CompactRangeOptions, ConfigOptions, CuckooResidency,
    CuckooTableOptions, Db, Event, Options, PinnedSlices, ReadOptions, Uint64Add, WriteBatch,
};

use crate::expected::Expected;
use crate::rocksdb::{Java, Tool};
use crate::scratch::ScratchDir;

/// The number that ends a cuckoo table.
const MAGIC: u64 = 0x9267_89d0_c5f1_7873;

fn options(mmap: bool) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_allow_mmap_reads(mmap)
        .set_cuckoo_table_factory(&CuckooTableOptions::new());
    options
}

/// Returns which tables of a directory are cuckoo tables.
fn are_cuckoo(dir: &ScratchDir) -> Vec<bool> {
    let is_cuckoo = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes.ends_with(&MAGIC.to_le_bytes())
    };
    dir.all("sst").iter().map(is_cuckoo).collect()
}

fn key(number: u32) -> Vec<u8> {
    format!("key{number:09}").into_bytes()
}

fn value(number: u32, round: u8) -> Vec<u8> {
    let mut value = vec![round; 30];
    value[..4].copy_from_slice(&number.to_le_bytes());
    value
}

/// Fills a directory with tables of level 0 and of the last level.
fn fill(db: &Db, expected: &mut Expected) {
    let entries = expected.family("default");
    for round in 0..3 {
        let mut batch = WriteBatch::new();
        for number in (0..2000).step_by(round + 1) {
            let round = u8::try_from(round).unwrap();
            batch.put(key(number), value(number, round));
            entries.insert(key(number), value(number, round));
        }
        db.write(&batch).unwrap();
        for number in (u32::try_from(round).unwrap()..2000).step_by(131) {
            db.delete(key(number)).unwrap();
            entries.remove(&key(number));
        }
        db.flush().unwrap();
        if round == 1 {
            db.compact_all(&CompactRangeOptions::new()).unwrap();
        }
    }
}

#[test]
fn tables_of_every_level_are_cuckoo_tables_and_read() {
    for mmap in [false, true] {
        let dir = ScratchDir::new();
        let mut expected = Expected::default();
        let db = Db::open(&options(mmap), dir.path()).unwrap();
        fill(&db, &mut expected);
        assert_eq!(are_cuckoo(&dir), [true, true]);
        expected.check(&db, "written");
        db.verify_checksums().unwrap();
        let mut values = PinnedSlices::new();
        let keys: Vec<Vec<u8>> = (0..2100).map(key).collect();
        for keys in keys.chunks(97) {
            db.multi_get_into(keys, &ReadOptions::new(), &mut values);
            for (key, value) in keys.iter().zip(&values) {
                let wanted = expected.families["default"].get(key);
                assert_eq!(value.unwrap(), wanted.map(Vec::as_slice));
            }
        }
        db.close().unwrap();
        // The OPTIONS file restores the format, and tables are opened by their own format.
        let loaded = Options::load_latest(dir.path(), &ConfigOptions::new()).unwrap();
        assert_eq!(loaded.options.get_table_format().name(), "CuckooTable");
        for options in [loaded.options, Options::new()] {
            let db = Db::open(&options, dir.path()).unwrap();
            expected.check(&db, "opened again");
            db.close().unwrap();
        }
    }
}

#[test]
fn a_table_answers_alike_wherever_it_lies_and_says_where() {
    let dir = ScratchDir::new();
    let mut expected = Expected::default();
    {
        let db = Db::open(&options(true), dir.path()).unwrap();
        fill(&db, &mut expected);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        db.close().unwrap();
    }
    for (residency, place) in [
        (CuckooResidency::Auto, "mmap"),
        (CuckooResidency::Mapped, "mmap"),
        (CuckooResidency::MappedHuge, "mmap"),
        (CuckooResidency::Copied, "copy"),
        (CuckooResidency::Paged, "read"),
    ] {
        let mut table = CuckooTableOptions::new();
        table.set_residency(residency);
        let mut options = options(true);
        options.set_cuckoo_table_factory(&table);
        let db = Db::open(&options, dir.path()).unwrap();
        assert!(db.get(key(5)).unwrap().is_some());
        let told = db.property_value("koeldb.cuckoo-residency").unwrap();
        let told = told.unwrap_or_default();
        assert!(told.starts_with(&format!("{place}: 1 tables, ")), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        expected.check(&db, place);
        db.close().unwrap();
    }
    let mut table = CuckooTableOptions::new();
    table.set_residency(CuckooResidency::MappedHuge);
    let mut unmapped = options(false);
    unmapped.set_cuckoo_table_factory(&table);
    let error = Db::open(&unmapped, dir.path()).unwrap_err().to_string();
    assert!(error.contains("allow_mmap_reads=true"), "{error}");
    table
        .set_residency(CuckooResidency::Paged)
        .set_keep_versions(true);
    unmapped.set_cuckoo_table_factory(&table);
    let error = Db::open(&unmapped, dir.path()).unwrap_err().to_string();
    assert!(error.contains("keep_versions"), "{error}");
}

/// A copied table is read and verified at open, also if the file is mapped.
#[test]
fn damage_to_a_table_that_is_copied_is_found_when_it_is_opened() {
    let dir = ScratchDir::new();
    let mut table = CuckooTableOptions::new();
    table.set_residency(CuckooResidency::Copied);
    let mut options = options(true);
    options.set_cuckoo_table_factory(&table);
    {
        let db = Db::open(&options, dir.path()).unwrap();
        fill(&db, &mut Expected::default());
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        db.close().unwrap();
    }
    let path = dir.all("sst").remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = Db::open(&options, dir.path()).unwrap_err();
    assert_eq!(error.kind(), koeldb::ErrorKind::Corruption, "{error}");
}

#[test]
fn what_has_no_place_in_a_cuckoo_table_is_told_and_stays() {
    let dir = ScratchDir::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut options = options(false);
    let listener = {
        let told = Arc::clone(&told);
        move |event: &Event<'_>| {
            if let Event::TableFellBack(info) = event {
                told.lock().unwrap().push(info.reason.clone());
            }
        }
    };
    options
        .set_merge_operator(Uint64Add)
        .set_disable_auto_compactions(true)
        .add_event_listener(listener);
    let db = Db::open(&options, dir.path()).unwrap();
    let mut expected = Expected::default();
    let number = |number: u64| number.to_le_bytes();
    for index in 0..100 {
        db.put(key(index), number(u64::from(index))).unwrap();
        expected
            .family("default")
            .insert(key(index), number(u64::from(index)).to_vec());
    }
    db.flush().unwrap();
    assert!(told.lock().unwrap().is_empty());
    let fell_back = |because: &str| {
        db.flush().unwrap();
        // The flush returns when its table is visible, which may be before listeners are called.
        let deadline = Instant::now() + Duration::from_secs(120);
        while told.lock().unwrap().is_empty() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let reasons = std::mem::take(&mut *told.lock().unwrap());
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(reasons[0].contains(because), "{reasons:?}");
    };

    db.put(key(0), "another length").unwrap();
    db.put(key(1), number(7)).unwrap();
    fell_back("values must have the same length");
    db.put(key(0), number(6)).unwrap();
    db.put(b"a longer key than others", number(7)).unwrap();
    db.put(key(1), number(7)).unwrap();
    fell_back("keys must have the same length");
    db.merge(key(2), number(10)).unwrap();
    fell_back("Merge cannot be stored");
    let snapshot = db.snapshot();
    db.put(key(3), number(30)).unwrap();
    let later = db.snapshot();
    db.put(key(3), number(300)).unwrap();
    fell_back("snapshot needs an older version");
    let mut at = ReadOptions::new();
    at.set_snapshot(&snapshot);
    assert_eq!(
        db.get_opt(key(3), &at).unwrap().as_deref(),
        Some(&number(3)[..])
    );
    at.set_snapshot(&later);
    assert_eq!(
        db.get_opt(key(3), &at).unwrap().as_deref(),
        Some(&number(30)[..])
    );
    db.delete_range(key(50), key(60)).unwrap();
    fell_back("range deletions");

    let entries = expected.family("default");
    entries.insert(key(0), number(6).to_vec());
    entries.insert(b"a longer key than others".to_vec(), number(7).to_vec());
    entries.insert(key(1), number(7).to_vec());
    entries.insert(key(2), number(12).to_vec());
    entries.insert(key(3), number(300).to_vec());
    entries.retain(|entry, _| *entry < key(50) || *entry >= key(60));
    expected.check(&db, "mixed");
    drop((snapshot, later, at));
    let log = std::fs::read_to_string(dir.join("LOG")).unwrap();
    assert!(
        log.contains("is block-based: no cuckoo table: range deletions"),
        "{log}"
    );

    // Only the longer key still requires another format.
    db.delete(b"a longer key than others").unwrap();
    expected
        .family("default")
        .remove(&b"a longer key than others"[..]);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(are_cuckoo(&dir), [true], "{:?}", told.lock().unwrap());
    expected.check(&db, "compacted");
}

/// With `keep_versions` only range deletions and keys of another length make a table block-based.
///
/// RocksDB reports that it does not know the format.
#[test]
fn versions_operands_and_any_length_stay_in_cuckoo_tables_if_asked_for() {
    let dir = ScratchDir::new();
    let mut table = CuckooTableOptions::new();
    table.set_keep_versions(true);
    let mut options = options(true);
    options
        .set_cuckoo_table_factory(&table)
        .set_merge_operator(Uint64Add)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    let number = |number: u64| number.to_le_bytes();
    for index in 0..300 {
        db.put(key(index), number(1)).unwrap();
    }
    let first = db.snapshot();
    for index in (0..300).step_by(3) {
        db.merge(key(index), number(10)).unwrap();
    }
    for index in (1..300).step_by(3) {
        db.put(key(index), vec![b'v'; usize::try_from(index).unwrap()])
            .unwrap();
    }
    let second = db.snapshot();
    for index in (2..300).step_by(6) {
        db.delete(key(index)).unwrap();
    }
    let check = |when: &str| {
        let mut at_first = ReadOptions::new();
        at_first.set_snapshot(&first);
        let mut at_second = ReadOptions::new();
        at_second.set_snapshot(&second);
        let keys: Vec<Vec<u8>> = (0..310).map(key).collect();
        for (options, before, deleted) in [
            (at_first, true, false),
            (at_second, false, false),
            (ReadOptions::new(), false, true),
        ] {
            let mut values = PinnedSlices::new();
            db.multi_get_into(&keys, &options, &mut values);
            let mut expected = Vec::new();
            for index in 0..310_u32 {
                let value = match index {
                    300.. => None,
                    _ if before => Some(number(1).to_vec()),
                    _ if index % 3 == 0 => Some(number(11).to_vec()),
                    _ if index % 3 == 1 => Some(vec![b'v'; usize::try_from(index).unwrap()]),
                    _ if deleted && index % 6 == 2 => None,
                    _ => Some(number(1).to_vec()),
                };
                let found = db.get_opt(key(index), &options).unwrap();
                assert_eq!(found.map(|found| found.to_vec()), value, "{when}: {index}");
                let found = values.get(index as usize).unwrap();
                assert_eq!(found, value.as_deref(), "{when}: {index}");
                expected.extend(value.map(|value| (key(index), value)));
            }
            let scanned: Vec<(Vec<u8>, Vec<u8>)> = db
                .default_cf()
                .range_opt(.., &options)
                .map(|entry| {
                    entry
                        .map(|(key, value)| (key.to_vec(), value.to_vec()))
                        .unwrap()
                })
                .collect();
            assert!(scanned == expected, "{when}");
        }
    };
    check("in memory");
    db.flush().unwrap();
    check("flushed");
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    check("compacted");
    db.verify_checksums().unwrap();
    let bytes = std::fs::read(dir.only("sst")).unwrap();
    assert!(bytes.ends_with(b"koelcuck"));
    drop((first, second));
    db.close().unwrap();
    if let Some(tool) = Tool::sst_dump() {
        let file = format!("--file={}", dir.only("sst").display());
        let text = tool.attempt(&[&file, "--command=scan"]).text;
        assert!(text.contains("magic number"), "{text}");
    }
}

#[test]
fn a_snapshot_sees_past_a_newer_entry_and_operands_find_their_base() {
    let dir = ScratchDir::new();
    let mut options = options(true);
    options
        .set_merge_operator(Uint64Add)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", 1_u64.to_le_bytes()).unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    let snapshot = db.snapshot();
    db.put("key", 5_u64.to_le_bytes()).unwrap();
    db.put("new", 5_u64.to_le_bytes()).unwrap();
    db.flush().unwrap();
    assert_eq!(are_cuckoo(&dir), [true, true]);
    let mut at = ReadOptions::new();
    at.set_snapshot(&snapshot);
    let read =
        |key: &str, options: &ReadOptions| db.get_opt(key, options).unwrap().map(|v| v.to_vec());
    assert_eq!(read("key", &at), Some(1_u64.to_le_bytes().to_vec()));
    assert_eq!(read("new", &at), None);
    db.merge("key", 10_u64.to_le_bytes()).unwrap();
    assert_eq!(
        read("key", &ReadOptions::new()),
        Some(15_u64.to_le_bytes().to_vec())
    );
    assert_eq!(read("key", &at), Some(1_u64.to_le_bytes().to_vec()));
}

#[test]
fn pinned_values_outlive_their_file_and_the_database() {
    for mmap in [false, true] {
        let dir = ScratchDir::new();
        let db = Db::open(&options(mmap), dir.path()).unwrap();
        for number in 0..100 {
            db.put(key(number), value(number, 1)).unwrap();
        }
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        let before = dir.only("sst");
        let pinned = db.get(key(42)).unwrap().unwrap();
        for number in 0..100 {
            db.put(key(number), value(number, 2)).unwrap();
        }
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert!(!before.exists());
        db.close().unwrap();
        drop(db);
        drop(dir);
        assert_eq!(&pinned[..], value(42, 1));
    }
}

/// Gets and multi-gets during flushes and compactions that replace and delete every table.
#[test]
fn readers_find_every_key_while_tables_are_replaced() {
    const KEYS: u32 = 200;
    const ROUNDS: u8 = 25;
    for mmap in [false, true] {
        let dir = ScratchDir::new();
        let db = Db::open(&options(mmap), dir.path()).unwrap();
        let fill = |round: u8| {
            let mut batch = WriteBatch::new();
            for number in 0..KEYS {
                batch.put(key(number), value(number, round));
            }
            db.write(&batch).unwrap();
        };
        fill(0);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..4_u32 {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
                    let mut values = PinnedSlices::new();
                    let mut rounds = vec![0_u8; keys.len()];
                    let mut pinned = Vec::new();
                    let mut number = reader;
                    while !done.load(Ordering::Relaxed) {
                        number = (number + 7) % KEYS;
                        let index = usize::try_from(number).unwrap();
                        let found = db.get(&keys[index]).unwrap().unwrap();
                        let round = found[29];
                        assert_eq!(found[..], value(number, round));
                        assert!(round >= rounds[index]);
                        rounds[index] = round;
                        pinned.push((number, round, found));
                        if pinned.len() == 500 {
                            db.multi_get_into(&keys, &ReadOptions::new(), &mut values);
                            for (number, found) in (0..).zip(&values) {
                                let found = found.unwrap().unwrap();
                                assert_eq!(found, value(number, found[29]));
                            }
                            for (number, round, found) in pinned.drain(..) {
                                assert_eq!(found[..], value(number, round));
                            }
                        }
                    }
                });
            }
            for round in 1..=ROUNDS {
                fill(round);
                if round % 3 == 0 {
                    db.flush().unwrap();
                } else {
                    db.compact_all(&CompactRangeOptions::new()).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        db.close().unwrap();
    }
}

/// A directory of the published shape: 8-byte integers to 4 bytes.
fn numbers(dir: &Path, table: &CuckooTableOptions) -> Expected {
    let mut options = options(true);
    options
        .set_cuckoo_table_factory(table)
        .set_target_file_size_base(100_000);
    let db = Db::open(&options, dir).unwrap();
    let mut expected = Expected::default();
    for number in 0..30_000_u64 {
        let key = (number * 0x9e37_79b9).to_le_bytes();
        let value = u32::try_from(number).unwrap().to_le_bytes();
        db.put(key, value).unwrap();
        expected
            .family("default")
            .insert(key.to_vec(), value.to_vec());
    }
    // The only table of the flush would be moved; this way it is split.
    let mut how = CompactRangeOptions::new();
    how.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.compact_all(&how).unwrap();
    for number in (0..30_000_u64).step_by(7) {
        let key = (number * 0x9e37_79b9).to_le_bytes();
        db.put(key, [0xab; 4]).unwrap();
        expected
            .family("default")
            .insert(key.to_vec(), vec![0xab; 4]);
    }
    db.flush().unwrap();
    db.close().unwrap();
    expected
}

#[test]
fn rocksdb_11_8_reads_our_cuckoo_tables() {
    let Some(java) = Java::find() else {
        return;
    };
    let mut tables = [(); 4].map(|()| CuckooTableOptions::new());
    tables[1].set_use_module_hash(false);
    tables[2].set_identity_as_first_hash(true);
    tables[3].set_cuckoo_block_size(1).set_hash_ratio(0.7);
    for table in tables {
        let dir = ScratchDir::new();
        let expected = numbers(dir.path(), &table);
        let kinds = are_cuckoo(&dir);
        assert!(kinds.len() > 3 && kinds.iter().all(|&is| is), "{kinds:?}");
        let verdict = java.check(dir.path(), &["table={id=CuckooTable;}"]);
        assert!(verdict.found.families == expected.families, "{table:?}");
        // And ours again, after RocksDB has opened it.
        let db = Db::open(&options(false), dir.path()).unwrap();
        for (key, value) in &expected.families["default"] {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_slice()));
        }
    }
}

#[test]
fn rocksdb_7_8_scans_our_cuckoo_tables() {
    let Some(ldb) = Tool::ldb() else {
        return;
    };
    let dir = ScratchDir::new();
    let mut expected = Expected::default();
    let db = Db::open(&options(true), dir.path()).unwrap();
    fill(&db, &mut expected);
    db.close().unwrap();
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02X}")).collect() };
    let found = ldb.scan(dir.path(), "default");
    let wanted = expected.families["default"].iter();
    assert!(
        found
            .into_iter()
            .eq(wanted.map(|(key, value)| (hex(key), hex(value))))
    );
    for (key, value) in expected.families["default"].iter().step_by(500) {
        let text = ldb.run(&[
            &format!("--db={}", dir.path().display()),
            "--try_load_options",
            "--value_hex",
            "get",
            &String::from_utf8_lossy(key),
        ]);
        assert_eq!(text.trim().trim_start_matches("0x"), hex(value));
    }
}
