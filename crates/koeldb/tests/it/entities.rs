//! Wide-column entities: what reads, scans, merges, compactions and reopens show of the columns.

use std::collections::BTreeMap;

use koeldb::{
    BatchValue, BottommostLevelCompaction, Columns, CompactRangeOptions, CompactionFilter,
    CompactionFilterContext, CompactionFilterFactory, CompactionStyle, CuckooTableOptions, Db,
    Decision, ErrorKind, Options, PlainTableOptions, ReadOptions, Snapshot, SstFileWriter,
    StringAppend, TransactionDbOptions, TransactionOptions, WideColumns, WriteBatch,
    WriteBatchWithIndex,
};

use crate::history::model::{Change, encode};
use crate::history::theirs::{RocksDb, hex};
use crate::prelude::{creating, in_memory};
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;

/// The columns of a key.
type Row = BTreeMap<Vec<u8>, Vec<u8>>;

/// A small generator, so that a printed seed replays a run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key{:02}", self.below(30)).into_bytes()
    }

    /// Draws columns, in any order, with or without the default one.
    pub(crate) fn columns(&mut self, step: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let names = ["", "a", "b", "long name of a column", "\u{ff}"];
        let mut columns = Vec::new();
        let first = self.below(5);
        for at in 0..5 {
            let name = names[usize::try_from((at + first) % 5).unwrap()];
            if self.below(2) == 0 {
                let bytes = usize::try_from(self.below(4) * self.below(60)).unwrap();
                let value = format!("{name}{step}").into_bytes().into_iter().cycle();
                columns.push((name.as_bytes().to_vec(), value.take(bytes).collect()));
            }
        }
        columns
    }
}

/// The contents of a database by key.
#[derive(Clone, Default)]
struct Model(BTreeMap<Vec<u8>, Row>);

impl Model {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.0.insert(key, Row::from([(Vec::new(), value)]));
    }

    fn merge(&mut self, key: Vec<u8>, operand: &[u8]) {
        match self.0.get_mut(&key) {
            None => self.put(key, operand.to_vec()),
            Some(row) => {
                let value = row.entry(Vec::new()).or_default();
                value.push(b',');
                value.extend_from_slice(operand);
            }
        }
    }

    fn remove_range(&mut self, from: &[u8], to: &[u8]) {
        self.0.retain(|key, _| &key[..] < from || &key[..] >= to);
    }
}

fn row(columns: Columns<'_>) -> Row {
    columns.to_vec().into_iter().collect()
}

fn rows(columns: &WideColumns) -> Row {
    row(columns.columns())
}

fn default_of(row: &Row) -> &[u8] {
    row.get(&b""[..]).map(Vec::as_slice).unwrap_or_default()
}

/// Compares the entries of a cursor with the model, forward, backward, and after turns.
macro_rules! check_cursor {
    ($cursor:ident, $model:ident, $what:ident) => {
        let mut step = $cursor.seek_to_first().unwrap();
        for (key, expected) in &$model.0 {
            assert!(step, "{}: no entry of {}", $what, key.escape_ascii());
            assert_eq!($cursor.key(), Some(&key[..]), "{}", $what);
            assert_eq!(row($cursor.columns().unwrap()), *expected, "{}", $what);
            assert_eq!($cursor.value(), Some(default_of(expected)), "{}", $what);
            step = $cursor.next().unwrap();
        }
        assert!(!step && $cursor.columns().is_none(), "{}", $what);
        let mut step = $cursor.seek_to_last().unwrap();
        for (key, expected) in $model.0.iter().rev() {
            assert!(step && $cursor.key() == Some(&key[..]), "{}", $what);
            assert_eq!(row($cursor.columns().unwrap()), *expected, "{}", $what);
            step = $cursor.prev().unwrap();
        }
        assert!(!step, "{}", $what);
        // Turns of direction.
        for key in $model.0.keys() {
            assert!($cursor.seek(key).unwrap());
            let here = row($cursor.columns().unwrap());
            if $cursor.next().unwrap() {
                assert!($cursor.prev().unwrap());
                assert_eq!(row($cursor.columns().unwrap()), here, "{}", $what);
                assert_eq!(here, $model.0[key], "{}", $what);
            }
        }
    };
}

/// Compares every kind of read with the model.
fn check(db: &Db, snapshot: Option<&Snapshot>, model: &Model, what: &str) {
    let mut options = ReadOptions::new();
    if let Some(snapshot) = snapshot {
        options.set_snapshot(snapshot);
    }
    let keys: Vec<String> = (0..30).map(|at| format!("key{at:02}")).collect();
    let values = db.multi_get_opt(&keys, &options);
    let entities = db.multi_get_entity_opt(&keys, &options);
    for (at, key) in keys.iter().enumerate() {
        let what = format!("{what}, {key}");
        let expected = model.0.get(key.as_bytes());
        let found = db.get_entity_opt(key, &options).unwrap();
        assert_eq!(found.as_ref().map(rows).as_ref(), expected, "{what}");
        assert_eq!(*entities[at].as_ref().unwrap(), found, "{what}");
        if let Some(snapshot) = snapshot {
            assert_eq!(snapshot.get_entity(key).unwrap(), found, "{what}");
        }
        let value = expected.map(default_of);
        assert_eq!(
            db.get_opt(key, &options).unwrap().as_deref(),
            value,
            "{what}"
        );
        assert_eq!(values.get(at).unwrap(), value, "{what}");
    }
    let mut cursor = db.cursor_opt(&options);
    check_cursor!(cursor, model, what);
}

/// Compares every kind of read of an indexed batch with the model of the database that has it.
fn check_batch(batch: &WriteBatchWithIndex, db: &Db, model: &Model, what: &str) {
    let family = db.default_cf();
    let options = ReadOptions::new();
    let keys: Vec<String> = (0..30).map(|at| format!("key{at:02}")).collect();
    let values = batch.multi_get(family, &keys, &options);
    let entities = batch.multi_get_entity(family, &keys, &options);
    for (at, key) in keys.iter().enumerate() {
        let what = format!("{what}, {key}");
        let expected = model.0.get(key.as_bytes());
        let found = batch.get_entity(family, key).unwrap();
        assert_eq!(found.as_ref().map(rows).as_ref(), expected, "{what}");
        assert_eq!(*entities[at].as_ref().unwrap(), found, "{what}");
        let value = expected.map(default_of);
        let found = batch.get(family, key).unwrap();
        assert_eq!(found.as_deref(), value, "{what}");
        assert_eq!(values[at].as_ref().unwrap().as_deref(), value, "{what}");
        match batch.get_entity_from_batch(family, key).unwrap() {
            BatchValue::Value(columns) => assert_eq!(Some(&rows(&columns)), expected, "{what}"),
            BatchValue::Deleted => assert_eq!(None, expected, "{what}"),
            _ => {}
        }
    }
    let mut cursor = batch.cursor(family);
    check_cursor!(cursor, model, what);
}

/// Adds random operations to a batch or transaction, whose verbs `$put` and so on call.
macro_rules! operations {
    ($random:expr, $model:expr, $step:expr, $put:expr, $entity:expr, $merge:expr, $delete:expr) => {
        for _ in 0..$random.below(8) {
            let key = $random.key();
            match $random.below(5) {
                0 => {
                    $put(&key, b"plain");
                    $model.put(key, b"plain".to_vec());
                }
                1 | 2 => {
                    let columns = $random.columns($step);
                    $entity(&key, &columns);
                    $model.0.insert(key, columns.into_iter().collect());
                }
                3 => {
                    $merge(&key, b"merged");
                    $model.merge(key, b"merged");
                }
                _ => {
                    $delete(&key);
                    $model.0.remove(&key);
                }
            }
        }
    };
}

fn run(seed: u64, steps: usize, options: &Options) {
    let dir = ScratchDir::new();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut db = Db::open(options, dir.path()).unwrap();
    let mut model = Model::default();
    let has_locks = seed.is_multiple_of(2);
    let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
    for step in 0..steps {
        let what = format!("seed {seed}, step {step}");
        let key = random.key();
        match random.below(100) {
            0..15 => {
                let value = format!("plain{step}").into_bytes();
                db.put(&key, &value).unwrap();
                model.put(key, value);
            }
            15..40 => {
                let columns = random.columns(step);
                db.put_entity(&key, &columns).unwrap();
                model.0.insert(key, columns.into_iter().collect());
            }
            40..60 => {
                let operand = format!("m{step}");
                db.merge(&key, &operand).unwrap();
                model.merge(key, operand.as_bytes());
            }
            60..68 => {
                db.delete(&key).unwrap();
                model.0.remove(&key);
            }
            // It cannot lock its keys.
            68..71 if !has_locks => {
                let to = random.key();
                let (from, to) = if key <= to { (key, to) } else { (to, key) };
                db.delete_range(&from, &to).unwrap();
                model.remove_range(&from, &to);
            }
            71..74 => {
                let mut batch = WriteBatchWithIndex::new(random.below(2) == 0);
                let family = db.default_cf();
                operations!(
                    random,
                    model,
                    step,
                    |key: &[u8], value: &[u8]| batch.put(key, value).len(),
                    |key: &[u8], columns: &_| batch
                        .put_entity_cf(family, key, columns)
                        .unwrap()
                        .len(),
                    |key: &[u8], operand: &[u8]| batch.merge(key, operand).len(),
                    |key: &[u8]| batch.delete(key).len()
                );
                check_batch(&batch, &db, &model, &what);
                db.write(batch.batch()).unwrap();
            }
            74..80 => {
                let cell = std::cell::RefCell::new(db.transaction());
                operations!(
                    random,
                    model,
                    step,
                    |key: &[u8], value: &[u8]| cell.borrow_mut().put(key, value).unwrap(),
                    |key: &[u8], columns: &_| cell.borrow_mut().put_entity(key, columns).unwrap(),
                    |key: &[u8], operand: &[u8]| cell.borrow_mut().merge(key, operand).unwrap(),
                    |key: &[u8]| cell.borrow_mut().delete(key).unwrap()
                );
                let mut transaction = cell.into_inner();
                check_batch(transaction.batch(), &db, &model, &what);
                let found = transaction.get_entity_for_update(&key).unwrap();
                assert_eq!(
                    found.as_ref().map(rows).as_ref(),
                    model.0.get(&key),
                    "{what}"
                );
                transaction.commit().unwrap();
            }
            80..88 => db.flush().unwrap(),
            88..91 => db.compact_range(..).unwrap(),
            91..94 => {
                if snapshots.len() > 2 {
                    snapshots.remove(0);
                }
                snapshots.push((db.snapshot(), model.clone()));
            }
            94..96 => {
                snapshots.clear();
                drop(db);
                db = Db::open(options, dir.path()).unwrap();
            }
            _ => {
                check(&db, None, &model, &what);
                for (snapshot, model) in &snapshots {
                    check(&db, Some(snapshot), model, &what);
                }
            }
        }
    }
    check(&db, None, &model, &format!("seed {seed}, at the end"));
    for (snapshot, model) in &snapshots {
        check(
            &db,
            Some(snapshot),
            model,
            &format!("seed {seed}, snapshot"),
        );
    }
}

fn appending() -> Options {
    let mut options = creating();
    options.set_merge_operator(StringAppend::new(","));
    options
}

#[test]
fn random_operations_on_columns_agree_with_a_model() {
    for seed in 0..8_u64 {
        let mut options = appending();
        match seed % 4 {
            1 => {
                options.set_max_successive_merges(2);
            }
            2 => {
                options.set_compaction_style(CompactionStyle::Universal);
                options.set_max_sequential_skip_in_iterations(0);
            }
            3 => {
                let mut tables = PlainTableOptions::new();
                tables.set_hash_ratio(0.0);
                options.set_plain_table_factory(&tables);
                options.set_allow_mmap_reads(true);
            }
            _ => {}
        }
        if seed.is_multiple_of(2) {
            options.set_transactions(&TransactionDbOptions::new());
        }
        run(seed, 300, &options);
    }
}

#[test]
fn rocksdb_and_koeldb_read_and_merge_the_entities_of_each_other() {
    let Some(java) = Java::find() else {
        return;
    };
    let mut rocks = RocksDb::start(java);
    let dir = ScratchDir::new();
    let path = dir.path().display().to_string();
    let family = "merge_operator=stringappend;disable_auto_compactions=true";
    let open = ["open", "strings", &path, "", "default", "bytewise", family];
    let options = appending();
    let mut random = Random(0x5eed);
    let mut model = Model::default();
    for round in 0..12 {
        let batch = |random: &mut Random, model: &mut Model| {
            let mut batch = WriteBatch::new();
            operations!(
                random,
                model,
                round,
                |key: &[u8], value: &[u8]| batch.put(key, value).len(),
                |key: &[u8], columns: &_| batch.put_entity(key, columns).unwrap().len(),
                |key: &[u8], operand: &[u8]| batch.merge(key, operand).len(),
                |key: &[u8]| batch.delete(key).len()
            );
            batch
        };
        let what = format!("round {round}");
        let db = Db::open(&options, dir.path()).unwrap();
        check(&db, None, &model, &what);
        for part in 0..3 {
            db.write(&batch(&mut random, &mut model)).unwrap();
            if (round + part) % 2 == 0 {
                db.flush().unwrap();
            }
        }
        if round % 5 == 4 {
            db.compact_range(..).unwrap();
        }
        check(&db, None, &model, &what);
        db.close().unwrap();
        drop(db);

        rocks.execute(&open).unwrap();
        let judge = |rocks: &mut RocksDb, model: &Model| {
            let found = rocks.dump("default", None, true).unwrap();
            let expected: Vec<(Vec<u8>, Vec<u8>)> = model
                .0
                .iter()
                .map(|(key, row)| (key.clone(), default_of(row).to_vec()))
                .collect();
            assert_eq!(found, expected, "{what}, RocksDB");
        };
        judge(&mut rocks, &model);
        for part in 0..3 {
            let batch = batch(&mut random, &mut model);
            let write = ["write", "-", &hex(batch.data())];
            rocks.execute(&write).unwrap();
            if (round + part) % 3 == 0 {
                rocks.execute(&["flush", "1", "default"]).unwrap();
            }
        }
        if round % 3 == 1 {
            let compact = ["compact", "default", "-", "-", "f", "-1"];
            rocks.execute(&compact).unwrap();
        }
        judge(&mut rocks, &model);
        rocks.execute(&["close"]).unwrap();
    }
    let db = Db::open(&options, dir.path()).unwrap();
    check(&db, None, &model, "at the end");
}

#[test]
fn a_batch_has_the_bytes_that_rocksdb_writes() {
    let columns = vec![
        (b"".to_vec(), b"value".to_vec()),
        (b"name".to_vec(), vec![7; 200]),
    ];
    let change = Change::PutEntity(b"key".to_vec(), columns.clone());
    let mut batch = WriteBatch::new();
    batch.put_entity("key", &columns).unwrap();
    assert_eq!(batch.data(), encode(&[(0, change)]));
}

#[test]
fn a_name_occurs_once_in_an_entity() {
    let db = Db::open(&in_memory(), "/db").unwrap();
    let twice = [("a", "1"), ("b", "2"), ("a", "3")];
    let before = db.latest_sequence_number();
    let error = db.put_entity("key", &twice).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"a\""), "{error}");
    assert_eq!(
        error.write_outcome(),
        Some(koeldb::WriteOutcome::NotApplied)
    );
    let mut batch = WriteBatch::new();
    batch.put("kept", "1");
    assert!(batch.put_entity("key", &twice).is_err());
    assert_eq!(batch.len(), 1);
    assert_eq!(db.latest_sequence_number(), before);
    // An entity may have no columns.
    db.put_entity("key", &[] as &[(&str, &str)]).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b""[..]));
    assert!(db.get_entity("key").unwrap().unwrap().is_empty());
    assert_eq!(db.get_entity("none").unwrap(), None);
}

#[test]
fn cuckoo_tables_give_way_to_block_based_ones_for_entities() {
    let mut options = in_memory();
    options.set_cuckoo_table_factory(&CuckooTableOptions::new());
    let db = Db::open(&options, "/db").unwrap();
    let filled = || {
        for at in 0..50 {
            db.put(format!("key{at:02}"), "value").unwrap();
        }
    };
    filled();
    db.put_entity("key07", &[("a", "1")]).unwrap();
    db.flush().unwrap();
    let columns = db.get_entity("key07").unwrap().unwrap();
    assert_eq!(columns.get("a"), Some(&b"1"[..]));
    db.put("key07", "value").unwrap();
    db.compact_range(..).unwrap();
    // Only cuckoo tables of one level.
    let found = db.multi_get_entity(&["key07", "none"]);
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert_eq!(found[0].as_ref().unwrap().default_value(), b"value");
    assert_eq!(found[1], None);
    assert!(!db.get_entity("key08").unwrap().unwrap().is_entity());
}

#[test]
fn a_table_with_entities_is_written_and_ingested() {
    let dir = ScratchDir::new();
    let options = appending();
    let db = Db::open(&options, dir.path().join("db")).unwrap();
    let path = dir.path().join("entities.sst");
    let mut writer = SstFileWriter::create(options.cf_options(), &path).unwrap();
    writer.put_entity("a", &[("x", "1"), ("", "2")]).unwrap();
    let error = writer
        .put_entity("b", &[("x", "1"), ("x", "2")])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    writer.put("b", "plain").unwrap();
    writer.finish().unwrap();
    db.default_cf().ingest_external_file(&[&path]).unwrap();
    db.merge("a", "3").unwrap();
    db.compact_range(..).unwrap();
    let columns = db.get_entity("a").unwrap().unwrap();
    assert_eq!(columns.default_value(), b"2,3");
    assert_eq!(columns.get("x"), Some(&b"1"[..]));
    assert!(!db.get_entity("b").unwrap().unwrap().is_entity());
}

#[test]
fn a_ttl_database_has_no_entities() {
    let db = Db::open_with_ttl(&in_memory(), "/db", std::time::Duration::ZERO).unwrap();
    let error = db.put_entity("key", &[("a", "1")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    db.put("key", "value").unwrap();
    let columns = db.get_entity("key").unwrap().unwrap();
    assert_eq!(columns.default_value(), b"value");
    assert_eq!(
        db.multi_get_entity(&["key"])[0].as_ref().unwrap(),
        &Some(columns)
    );
    let mut cursor = db.cursor();
    assert!(cursor.seek_to_first().unwrap());
    assert_eq!(cursor.columns().unwrap().default_value(), b"value");
}

#[test]
fn a_malformed_entity_is_corruption_for_its_readers_only() {
    let db = Db::open(&in_memory(), "/db").unwrap();
    let mut rep = vec![0; 8];
    rep.extend_from_slice(b"\x02\0\0\0\x16\x03bad\x04\x01\x02\x00\x09\x16\x04next\x03\x07\x00\x00");
    db.write(&WriteBatch::from_data(rep).unwrap()).unwrap();
    db.put("aaa", "good").unwrap();
    for is_flushed in [false, true] {
        if is_flushed {
            db.flush().unwrap();
        }
        for key in ["bad", "next"] {
            let errors = [
                db.get(key).map(|_| ()),
                db.get_entity(key).map(|_| ()),
                db.multi_get(&[key]).get(0).map(|_| ()),
                db.multi_get_entity(&[key]).remove(0).map(|_| ()),
                db.get_merge_operands(key).map(|_| ()),
            ];
            for error in errors {
                assert_eq!(error.unwrap_err().kind(), ErrorKind::Corruption);
            }
        }
        assert_eq!(db.get("aaa").unwrap().as_deref(), Some(&b"good"[..]));
        let mut cursor = db.cursor();
        assert!(cursor.seek_to_first().unwrap());
        assert_eq!(cursor.next().unwrap_err().kind(), ErrorKind::Corruption);
        let error = cursor.seek_to_last().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    db.delete("bad").unwrap();
    db.delete("next").unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(db.range(..).map(Result::unwrap).count(), 1);
}

/// Removes entities that have a column `drop`, and changes others.
struct ByColumns;

impl CompactionFilter for ByColumns {
    fn filter(&mut self, _level: u32, key: &[u8], value: &[u8]) -> Decision {
        match key {
            b"plain to entity" => {
                Decision::ChangeEntity(vec![(b"b".to_vec(), value.to_vec()), (vec![], vec![b'd'])])
            }
            _ => Decision::Keep,
        }
    }

    fn filter_entity(&mut self, _level: u32, key: &[u8], columns: Columns<'_>) -> Decision {
        if columns.get("drop").is_some() {
            return Decision::Remove;
        }
        match key {
            b"entity to plain" => Decision::Change(columns.get("a").unwrap().to_vec()),
            b"entity to entity" => {
                let mut columns = columns.to_vec();
                columns.retain(|(name, _)| name != b"a");
                Decision::ChangeEntity(columns)
            }
            _ => Decision::Keep,
        }
    }
}

impl CompactionFilterFactory for ByColumns {
    fn name(&self) -> &str {
        "by columns"
    }

    fn create(&self, _context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(ByColumns))
    }
}

#[test]
fn compaction_filters_see_columns_and_return_them() {
    let mut options = in_memory();
    options.set_compaction_filter_factory(ByColumns);
    let db = Db::open(&options, "/db").unwrap();
    db.put("plain to entity", "value").unwrap();
    db.put_entity("entity to plain", &[("a", "1")]).unwrap();
    db.put_entity("entity to entity", &[("a", "1"), ("z", "2")])
        .unwrap();
    db.put_entity("dropped", &[("drop", "")]).unwrap();
    db.put_entity("kept", &[("a", "1"), ("", "2")]).unwrap();
    let mut malformed = vec![0; 8];
    malformed.extend_from_slice(b"\x01\0\0\0\x16\x09malformed\x02\x07\x00");
    db.write(&WriteBatch::from_data(malformed).unwrap())
        .unwrap();
    db.flush().unwrap();
    let mut how = CompactRangeOptions::new();
    how.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.compact_range_opt(.., &how).unwrap();
    let of = |key: &str| db.get_entity(key).unwrap().map(|columns| columns.to_vec());
    let pairs = |pairs: &[(&str, &str)]| {
        let pair = |&(a, b): &(&str, &str)| (a.as_bytes().to_vec(), b.as_bytes().to_vec());
        Some(pairs.iter().map(pair).collect::<Vec<_>>())
    };
    assert_eq!(of("plain to entity"), pairs(&[("", "d"), ("b", "value")]));
    assert_eq!(of("entity to plain"), pairs(&[("", "1")]));
    assert_eq!(of("entity to entity"), pairs(&[("z", "2")]));
    assert_eq!(of("dropped"), None);
    assert_eq!(of("kept"), pairs(&[("", "2"), ("a", "1")]));
    let error = db.get_entity("malformed").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

#[test]
fn a_write_of_a_key_conflicts_with_its_columns_read_for_update() {
    let db = Db::open(&in_memory(), "/db").unwrap();
    db.put_entity("key", &[("a", "1")]).unwrap();
    let mut transaction = db.transaction();
    let columns = transaction.get_entity_for_update("key").unwrap().unwrap();
    assert_eq!(columns.get("a"), Some(&b"1"[..]));
    transaction.put_entity("other", &[("b", "2")]).unwrap();
    db.put_entity("key", &[("a", "3")]).unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(db.get_entity("other").unwrap(), None);

    // Of two transactions that put entities of one key, one commits.
    let (mut first, mut second) = (db.transaction(), db.transaction());
    first.put_entity("key", &[("a", "4")]).unwrap();
    second.put_entity("key", &[("a", "5")]).unwrap();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Busy);
    let columns = db.get_entity("key").unwrap().unwrap();
    assert_eq!(columns.get("a"), Some(&b"4"[..]));
    let mut transaction = db.transaction();
    let error = transaction
        .put_entity("key", &[("a", ""), ("a", "")])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_prepared_transaction_keeps_its_entities_over_a_reopen() {
    let dir = ScratchDir::new();
    let mut options = appending();
    options.set_transactions(&TransactionDbOptions::new());
    let mut how = TransactionOptions::new();
    how.set_lock_timeout(0);
    {
        let db = Db::open(&options, dir.path()).unwrap();
        let mut transaction = db.transaction();
        transaction
            .put_entity("key", &[("a", "1"), ("", "2")])
            .unwrap();
        transaction.merge("key", "3").unwrap();
        transaction.prepare("name").unwrap();
        let mut other = db
            .transaction_opt(&koeldb::WriteOptions::new(), &how)
            .unwrap();
        let error = other.get_entity_for_update("key").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let error = other.put_entity("key", &[("a", "1")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
    let db = Db::open(&options, dir.path()).unwrap();
    db.prepared_transaction("name").unwrap().commit().unwrap();
    let columns = db.get_entity("key").unwrap().unwrap();
    assert_eq!(columns.default_value(), b"2,3");
    assert_eq!(columns.get("a"), Some(&b"1"[..]));
}
