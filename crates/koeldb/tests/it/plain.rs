//! Plain tables in a database: the format, its fallbacks, and RocksDB's settings.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use koeldb::{
    CompactRangeOptions, ConfigOptions, Db, EncodingType, ErrorKind, Event, FixedPrefix, Options,
    PlainTableOptions, ReverseBytewiseComparator, StringAppend,
};

use crate::device::{self, Device, Model, Random, batch, check_damage_and_scans, modes, uncached};
use crate::expected::Expected;
use crate::model;
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

/// The last bytes of a plain table.
const MAGIC: [u8; 8] = 0x4f34_18eb_7a8f_13b8_u64.to_le_bytes();

fn plain_options(table: &PlainTableOptions) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_prefix_extractor(FixedPrefix::new(3))
        .set_plain_table_factory(table)
        .set_merge_operator(StringAppend::default());
    options
}

/// Whether each table of a directory is a plain one.
fn are_plain(dir: &ScratchDir) -> Vec<bool> {
    let tables = dir.all("sst");
    let is_plain = |path: &Path| std::fs::read(path).unwrap().ends_with(&MAGIC);
    tables.iter().map(|path| is_plain(path)).collect()
}

/// Collects the reasons for fallbacks to another format.
fn fallbacks_of(options: &mut Options) -> Arc<Mutex<Vec<String>>> {
    let reasons = Arc::<Mutex<Vec<String>>>::default();
    let noted = Arc::clone(&reasons);
    options.add_event_listener(move |event: &Event<'_>| {
        if let Event::TableFellBack(info) = event {
            noted.lock().unwrap().push(info.reason.clone());
        }
    });
    reasons
}

fn settings() -> Vec<PlainTableOptions> {
    let mut all = Vec::new();
    for encoding in [EncodingType::Plain, EncodingType::Prefix] {
        for (store_index, user_key_len, sparseness) in [(false, 0, 16), (true, 6, 4), (true, 0, 0)]
        {
            let mut table = PlainTableOptions::new();
            table
                .set_encoding_type(encoding)
                .set_store_index_in_file(store_index)
                .set_user_key_len(user_key_len)
                .set_index_sparseness(sparseness);
            all.push(table);
        }
    }
    all
}

/// Keys of six bytes.
fn key(number: u32) -> Vec<u8> {
    format!("key{number:03}").into_bytes()
}

fn check(db: &Db, expected: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let entries = |entry: koeldb::Result<(_, koeldb::PinnedSlice)>| {
        let (key, value): (koeldb::PinnedSlice, _) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    };
    let forward: BTreeMap<_, _> = db.range(..).map(entries).collect();
    assert!(&forward == expected, "forward scan");
    let backward: BTreeMap<_, _> = db.range(..).rev().map(entries).collect();
    assert!(&backward == expected, "backward scan");
    for number in 0..300 {
        let key = key(number);
        assert_eq!(
            db.get(&key).unwrap().as_deref(),
            expected.get(&key).map(Vec::as_slice)
        );
    }
    for wrong in ["", "k", "ke", "key", "key00", "key0001", "kez000"] {
        assert!(db.get(wrong).unwrap().is_none(), "{wrong}");
    }
}

#[test]
fn tables_are_plain_from_flush_to_the_last_level() {
    for (number, table) in settings().into_iter().enumerate() {
        let dir = ScratchDir::new();
        let mut options = plain_options(&table);
        options.set_allow_mmap_reads(number % 2 == 0);
        let fallbacks = fallbacks_of(&mut options);
        let mut db = Db::open(&options, dir.path()).unwrap();
        let mut expected = BTreeMap::new();
        for round in 0..3_u32 {
            for number in (0..200).filter(|number| number % 3 != round) {
                let value = format!("{round}-{number}").repeat(1 + number as usize % 9);
                db.put(key(number), &value).unwrap();
                expected.insert(key(number), value.into_bytes());
            }
            for number in (0..200).filter(|number| number % 7 == round) {
                db.delete(key(number)).unwrap();
                expected.remove(&key(number));
            }
            for number in (0..200).filter(|number| number % 11 == round) {
                db.merge(key(number), "m").unwrap();
                let value = expected.entry(key(number)).or_default();
                let separator: &[u8] = if value.is_empty() { b"" } else { b"," };
                let merged = [value.as_slice(), separator, b"m"].concat();
                *value = merged;
            }
            db.flush().unwrap();
            check(&db, &expected);
        }
        assert!(are_plain(&dir).iter().all(|&plain| plain));
        let snapshot = db.snapshot();
        let then = expected.clone();
        db.put(key(250), "new").unwrap();
        expected.insert(key(250), b"new".to_vec());
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        check(&db, &expected);
        let read = koeldb::ReadOptions::at(&snapshot);
        assert_eq!(db.range_opt(.., &read).count(), then.len());
        drop(snapshot);
        db.verify_checksums().unwrap();
        db.close().unwrap();
        drop(db);
        assert!(are_plain(&dir).iter().all(|&plain| plain));
        assert!(!are_plain(&dir).is_empty());
        assert_eq!(fallbacks.lock().unwrap().as_slice(), [""; 0]);

        // With the OPTIONS file, read-only.
        let loaded = Options::load_latest(dir.path(), &ConfigOptions::new()).unwrap();
        db = Db::builder(&loaded.options)
            .read_only()
            .open(dir.path())
            .unwrap();
        check(&db, &expected);
    }
}

#[test]
fn random_operations_answer_as_the_model() {
    for (seed, table) in (100..).zip(settings()) {
        let mut options = model::base_options();
        options
            .set_prefix_extractor(FixedPrefix::new(4))
            .set_plain_table_factory(&table);
        model::run(seed, &options, 800);
    }
    let mut table = PlainTableOptions::new();
    table.set_hash_ratio(0.0);
    let mut options = model::base_options();
    options.set_plain_table_factory(&table);
    model::run(200, &options, 800);
}

#[test]
fn what_a_plain_table_cannot_hold_is_written_and_told() {
    let mut table = PlainTableOptions::new();
    table.set_user_key_len(6);
    let dir = ScratchDir::new();
    let mut options = plain_options(&table);
    let fallbacks = fallbacks_of(&mut options);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key001", "value").unwrap();
    db.put("long key", "value").unwrap();
    db.flush().unwrap();
    db.put("key002", "value").unwrap();
    db.flush().unwrap();
    db.delete_range("key003", "key005").unwrap();
    db.put("key006", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(are_plain(&dir), [false, true, false]);
    assert_eq!(
        fallbacks.lock().unwrap().as_slice(),
        [
            "no plain table: all keys must have 6 bytes (user_key_len), but there is one of 8",
            "no plain table: range deletions cannot be stored",
        ]
    );
    db.delete("long key").unwrap();
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    let keys: Vec<Vec<u8>> = db
        .range(..)
        .map(|entry| entry.unwrap().0.to_vec())
        .collect();
    assert_eq!(keys, [b"key001", b"key002", b"key006"]);
    drop(db);
    assert_eq!(are_plain(&dir), [true]);
}

#[test]
fn what_rocksdb_refuses_is_refused() {
    let refused = |table: &PlainTableOptions, with_prefix: bool| {
        let dir = ScratchDir::new();
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_plain_table_factory(table);
        if with_prefix {
            options.set_prefix_extractor(FixedPrefix::new(3));
        }
        Db::open(&options, dir.path()).unwrap_err()
    };
    let error = refused(&PlainTableOptions::new(), false);
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(
        error.message().contains("needs a prefix_extractor"),
        "{error}"
    );
    let mut table = PlainTableOptions::new();
    table.set_hash_ratio(-1.0);
    let error = refused(&table, true);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("hash_table_ratio=-1"), "{error}");
}

#[test]
fn another_prefix_extractor_is_refused_and_a_scan_needs_none() {
    let dir = ScratchDir::new();
    let mut options = plain_options(&PlainTableOptions::new());
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key001", "value").unwrap();
    db.flush().unwrap();
    drop(db);
    options.set_prefix_extractor(FixedPrefix::new(4));
    let error = Db::open(&options, dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(
        error
            .message()
            .contains("Prefix extractor given doesn't match"),
        "{error}"
    );
    let mut table = PlainTableOptions::new();
    table.set_full_scan_mode(true);
    options.set_plain_table_factory(&table);
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(db.range(..).count(), 1);
    assert_eq!(db.range("key001"..).count(), 1);
    let error = db.get("key001").unwrap_err();
    assert!(
        error.message().contains("not allowed in full scan mode"),
        "{error}"
    );
}

#[test]
fn the_prefix_extractor_stays_while_the_database_is_open() {
    let dir = ScratchDir::new();
    let db = Db::open(&plain_options(&PlainTableOptions::new()), dir.path()).unwrap();
    let family = db.default_cf();
    for extractor in ["fixed:4", "nullptr"] {
        let error = family
            .set_options([("prefix_extractor", extractor)])
            .unwrap_err();
        assert!(
            error
                .message()
                .contains("were written with rocksdb.FixedPrefix.3"),
            "{error}"
        );
    }
    family
        .set_options([("prefix_extractor", "fixed:3")])
        .unwrap();
    family
        .set_options([("plain_table_factory", "{store_index_in_file=true;}")])
        .unwrap();
    db.put("key001", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("key001").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_repair_finds_plain_tables_again() {
    for is_reversed in [false, true] {
        let dir = ScratchDir::new();
        let mut options = plain_options(&PlainTableOptions::new());
        if is_reversed {
            options.set_comparator(ReverseBytewiseComparator);
        }
        let db = Db::open(&options, dir.path()).unwrap();
        for number in 0..100 {
            db.put(key(number), "value").unwrap();
        }
        db.flush().unwrap();
        drop(db);
        std::fs::remove_file(dir.join("CURRENT")).unwrap();
        Db::repair(&options, dir.path()).unwrap();
        let db = Db::open(&options, dir.path()).unwrap();
        assert_eq!(db.range(..).count(), 100);
        assert!(db.get(key(50)).unwrap().is_some());
    }
}

#[test]
fn a_family_may_change_its_format() {
    let dir = ScratchDir::new();
    let options = plain_options(&PlainTableOptions::new());
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key001", "plain").unwrap();
    db.flush().unwrap();
    drop(db);
    let mut options = Options::new();
    options.set_prefix_extractor(FixedPrefix::new(3));
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key002", "block-based").unwrap();
    db.flush().unwrap();
    assert_eq!(are_plain(&dir), [true, false]);
    assert_eq!(db.get("key001").unwrap().as_deref(), Some(&b"plain"[..]));
    assert_eq!(db.range(..).count(), 2);
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(db.range(..).rev().count(), 2);
    assert_eq!(db.get("key001").unwrap().as_deref(), Some(&b"plain"[..]));
}

/// Fills a database with tables of several levels, and returns the contents.
fn fill(db: &Db) -> Expected {
    let mut expected = Expected::default();
    let entries = expected.family("default");
    for round in 0..4_u32 {
        for number in (0..900).filter(|number| number % 4 >= round) {
            let value = format!("{round}-{number}").repeat(number as usize % 30);
            db.put(key(number), &value).unwrap();
            entries.insert(key(number), value.into_bytes());
        }
        for number in (0..900).filter(|number| number % 13 == round) {
            db.delete(key(number)).unwrap();
            entries.remove(&key(number));
        }
        db.flush().unwrap();
        if round == 1 {
            db.compact_all(&CompactRangeOptions::new()).unwrap();
        }
    }
    expected
}

#[test]
fn rocksdb_11_8_reads_our_plain_tables_in_total_order() {
    let Some(java) = Java::find() else {
        return;
    };
    for store_index in [false, true] {
        let dir = ScratchDir::new();
        let mut table = PlainTableOptions::new();
        table
            .set_hash_ratio(0.0)
            .set_store_index_in_file(store_index);
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_plain_table_factory(&table);
        let db = Db::open(&options, dir.path()).unwrap();
        let expected = fill(&db);
        db.close().unwrap();
        drop(db);
        assert_eq!(are_plain(&dir), [true; 3]);
        let factory = "table={id=PlainTable;hash_table_ratio=0;}";
        let verdict = java.check(dir.path(), &[factory]);
        assert!(verdict.found.families == expected.families, "{store_index}");
    }
}

/// Tables with direct reads and without mmap are read in pieces.
///
/// Rows may span pieces, and those of a batch are read together.
#[test]
fn tables_that_are_read_directly_are_read_in_pieces() {
    const KEYS: u64 = 700;
    let mut cases: Vec<_> = settings().into_iter().map(|table| (table, true)).collect();
    let mut total_order = PlainTableOptions::new();
    total_order.set_hash_ratio(0.0);
    cases.push((total_order, false));
    for (seed, (mut table, has_prefixes)) in (0..).zip(cases) {
        if table.get_user_key_len() == 6 {
            table.set_user_key_len(8);
        }
        let mut options = Options::new();
        options
            .set_use_direct_reads(true)
            .set_plain_table_factory(&table)
            .set_merge_operator(StringAppend::default());
        if has_prefixes {
            options.set_prefix_extractor(FixedPrefix::new(6));
        }
        let device = Device::new(seed);
        let db = device.open_plainly(&options);
        let mut model = Model::new();
        let mut random = Random::new(seed);
        for run in 0..2 {
            for number in (run..KEYS).step_by(1 + usize::try_from(run).unwrap()) {
                let key = device::key(number);
                let length = match random.below(60) {
                    0 => 40_000,
                    _ => random.index(90),
                };
                let value = "v".repeat(length) + &number.to_string();
                match random.below(8) {
                    0 => {
                        db.merge(&key, &value).unwrap();
                        let all = model.entry(key).or_default();
                        if !all.is_empty() {
                            all.push(b',');
                        }
                        all.extend_from_slice(value.as_bytes());
                    }
                    1 => {
                        db.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    _ => {
                        db.put(&key, &value).unwrap();
                        model.insert(key, value.into_bytes());
                    }
                }
            }
            db.flush().unwrap();
        }
        db.close().unwrap();
        let db = device.open(&options);
        let cold = uncached();
        // Opens the tables.
        db.get_opt(device::key(7), &cold).unwrap();
        device.damage.take_reads();
        for _ in 0..4 {
            let keys = batch(&mut random, KEYS);
            for mode in modes(&cold) {
                for (key, found) in keys.iter().zip(&db.multi_get_opt(&keys, &mode)) {
                    let expected = model.get(key).map(Vec::as_slice);
                    assert!(found.unwrap() == expected, "{}", key.escape_ascii());
                }
            }
        }
        // The minimum for one key.
        device.damage.take_reads();
        let mut fewest = u64::MAX;
        for number in 0..50 {
            db.get_opt(device::key(number), &cold).unwrap();
            let reads = device.damage.take_reads();
            fewest = fewest.min(reads.iter().map(|(_, part)| part.end - part.start).sum());
        }
        assert!(fewest <= 200_000, "{fewest} bytes");
        check_damage_and_scans(&device, &db, &model, &device::key(11));
    }
}
