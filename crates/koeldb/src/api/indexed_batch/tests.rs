use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::merge_operator::StringAppend;
use koeldb_base::prefix::FixedPrefix;
use proptest::prelude::*;

use super::*;
use crate::{
    ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, Env, KeyOrder, Options,
    ReadOptions, ReverseBytewiseComparator,
};

/// A database with a family in reverse order.
fn open() -> (Db, ColumnFamily) {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true)
        .set_merge_operator(StringAppend::default())
        .set_env(&Env::mem_env());
    let mut reversed = ColumnFamilyOptions::new();
    reversed
        .set_merge_operator(StringAppend::default())
        .set_comparator(ReverseBytewiseComparator);
    let family = ColumnFamilyDescriptor::new("reversed", reversed);
    let (db, [family]) = Db::open_cf(&options, "/indexed", [family]).unwrap();
    (db, family)
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    SingleDelete(u8),
    Merge(u8, u8),
    SavePoint,
    Rollback,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..12_u8;
    let step = prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Step::Put(k, v)),
        2 => key.clone().prop_map(Step::Delete),
        1 => key.clone().prop_map(Step::SingleDelete),
        3 => (key, any::<u8>()).prop_map(|(k, v)| Step::Merge(k, v)),
        1 => Just(Step::SavePoint),
        1 => Just(Step::Rollback),
    ];
    proptest::collection::vec(step, 0..60)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u8) -> Vec<u8> {
    format!("k{number:02}").into_bytes()
}

/// Applies the steps to the batch, and to what the database holds.
fn apply(
    steps: &[Step],
    batch: &mut WriteBatchWithIndex,
    family: &ColumnFamily,
    model: &mut Model,
) {
    let mut saved = Vec::new();
    for step in steps {
        match step {
            Step::Put(k, v) => {
                batch.put_cf(family, key(*k), [*v]);
                model.insert(key(*k), vec![*v]);
            }
            Step::Delete(k) => {
                batch.delete_cf(family, key(*k));
                model.remove(&key(*k));
            }
            Step::SingleDelete(k) => {
                batch.single_delete_cf(family, key(*k));
                model.remove(&key(*k));
            }
            Step::Merge(k, v) => {
                batch.merge_cf(family, key(*k), [*v]);
                let value = model.entry(key(*k)).or_default();
                if !value.is_empty() {
                    value.push(b',');
                }
                value.push(*v);
            }
            Step::SavePoint => {
                batch.set_save_point();
                saved.push(model.clone());
            }
            Step::Rollback => match saved.pop() {
                Some(before) => {
                    batch.rollback_to_save_point().unwrap();
                    *model = before;
                }
                None => assert!(batch.rollback_to_save_point().is_err()),
            },
        }
    }
}

fn forward(cursor: &mut BatchCursor) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.entry() {
        found.push((key.to_vec(), value.to_vec()));
        cursor.next().unwrap();
    }
    found
}

/// Compares all reads of the batch with the model, in the order of `family`.
fn check(batch: &WriteBatchWithIndex, family: &ColumnFamily, model: &Model, moves: &[bool]) {
    let keys: Vec<Vec<u8>> = (0..13).map(key).collect();
    let many = batch.multi_get(family, &keys, &ReadOptions::new());
    for (key, found) in keys.iter().zip(many) {
        assert_eq!(found.unwrap().as_deref(), model.get(key).map(Vec::as_slice));
        let found = batch.get(family, key).unwrap();
        assert_eq!(found.as_deref(), model.get(key).map(Vec::as_slice));
    }
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = model.clone().into_iter().collect();
    let order = &family.data().order;
    entries.sort_by(|(a, _), (b, _)| order.compare(a, b));
    let mut cursor = batch.cursor(family);
    cursor.seek_to_first().unwrap();
    assert_eq!(forward(&mut cursor), entries);
    for target in &keys {
        let at = entries.partition_point(|(key, _)| order.compare(key, target).is_lt());
        assert_eq!(cursor.seek(target).unwrap(), at < entries.len());
        let mut position = (at < entries.len()).then_some(at);
        for &is_forward in moves {
            let Some(at) = position else { break };
            assert_eq!(cursor.entry().unwrap(), (&*entries[at].0, &*entries[at].1));
            let moved = if is_forward {
                cursor.next()
            } else {
                cursor.prev()
            };
            position = match is_forward {
                true => Some(at + 1).filter(|&at| at < entries.len()),
                false => at.checked_sub(1),
            };
            assert_eq!(moved.unwrap(), position.is_some());
        }
        let at = entries.partition_point(|(key, _)| order.compare(key, target).is_le());
        assert_eq!(cursor.seek_for_prev(target).unwrap(), at > 0);
        let mut backward = Vec::new();
        while let Some((key, value)) = cursor.entry() {
            backward.push((key.to_vec(), value.to_vec()));
            cursor.prev().unwrap();
        }
        backward.reverse();
        assert_eq!(backward, entries[..at]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reads_of_a_batch_are_those_of_a_database_that_has_it(
        stored in steps(),
        pending in steps(),
        moves in proptest::collection::vec(any::<bool>(), 0..12),
        is_reversed: bool,
        overwrites: bool,
        is_flushed: bool,
    ) {
        let (db, reversed) = open();
        let family = if is_reversed { reversed } else { db.default_cf().clone() };
        let mut model = Model::new();
        let mut first = WriteBatchWithIndex::new(overwrites);
        apply(&stored, &mut first, &family, &mut model);
        check(&first, &family, &model, &moves);
        db.write(first.batch()).unwrap();
        if is_flushed {
            db.flush().unwrap();
        }
        let mut batch = WriteBatchWithIndex::new(overwrites);
        apply(&pending, &mut batch, &family, &mut model);
        check(&batch, &family, &model, &moves);
        db.write(&batch.into_batch()).unwrap();
        check(&WriteBatchWithIndex::new(true), &family, &model, &moves);
    }
}

#[test]
fn the_modes_differ_in_the_entries_they_show() {
    let (db, _) = open();
    let family = db.default_cf();
    for (overwrites, expected) in [(true, "b2 bc am ad"), (false, "b2 b1 bc am ad a1")] {
        let mut batch = WriteBatchWithIndex::new(overwrites);
        batch.put("b", "1").put("b", "2").put("a", "1").delete("a");
        batch.merge("a", "m").put("bc", "");
        let mut shown = Vec::new();
        batch.entries(family, |entry| shown.push(format!("{entry:?}")));
        let all = expected.split(' ').count();
        assert_eq!(shown.len(), all, "{shown:?}");
        assert_eq!(batch.len(), 6);
    }
}

#[test]
fn a_batch_says_what_it_knows_of_a_key() {
    let (db, _) = open();
    let family = db.default_cf();
    let mut batch = WriteBatchWithIndex::new(true);
    batch
        .put("a", "1")
        .merge("a", "2")
        .merge("b", "3")
        .merge("b", "4");
    batch.delete("c").put_log_data("note");
    let say = |key: &str| batch.get_from_batch(family, key).unwrap();
    assert_eq!(say("a"), BatchValue::Value(b"1,2".to_vec()));
    let operands = vec![b"4".to_vec(), b"3".to_vec()];
    assert_eq!(say("b"), BatchValue::Operands(operands));
    assert_eq!(say("c"), BatchValue::Deleted);
    assert_eq!(say("note"), BatchValue::Absent);
}

#[test]
fn bounds_and_prefixes_hold_for_the_batch_too() {
    let (db, _) = open();
    let family = db.default_cf();
    db.put("a1", "db").unwrap();
    db.put("b1", "db").unwrap();
    let mut batch = WriteBatchWithIndex::with_order(true, KeyOrder::Bytewise);
    for key in ["a0", "a2", "b0", "b2", "c"] {
        batch.put(key, "batch");
    }
    let mut options = ReadOptions::new();
    options.set_iterate_lower_bound(b"a1".to_vec());
    options.set_iterate_upper_bound(b"b2".to_vec());
    let mut cursor = batch.cursor_opt(family, &options);
    cursor.seek("").unwrap();
    let keys: Vec<Vec<u8>> = forward(&mut cursor).into_iter().map(|(k, _)| k).collect();
    assert_eq!(keys, [b"a1", b"a2", b"b0", b"b1"]);
    assert!(cursor.seek_for_prev("zz").unwrap());
    assert_eq!(cursor.key(), Some(&b"b1"[..]));
    assert_eq!(options.bounds().upper, Bound::Excluded(b"b2".to_vec()));
}

/// The keys from a seek on.
macro_rules! scanned {
    ($cursor:expr, $seek:ident($($key:expr)?), $step:ident) => {{
        let mut keys = Vec::new();
        let mut is_valid = $cursor.$seek($($key)?).unwrap();
        while is_valid {
            keys.push($cursor.key().unwrap().to_vec());
            is_valid = $cursor.$step().unwrap();
        }
        keys
    }};
}

#[test]
fn the_prefix_of_a_scan_is_that_of_the_combined_entries() {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_prefix_extractor(FixedPrefix::new(1))
        .set_env(&Env::mem_env());
    let db = Db::open(&options, "/prefixes").unwrap();
    for key in ["a1", "b1", "b3", "c1"] {
        db.put(key, "db").unwrap();
    }
    let mut batch = WriteBatchWithIndex::with_order(true, KeyOrder::Bytewise);
    batch.delete("a1").delete("c1").put("b2", "batch");
    let batch = &batch;
    let cursors = |lower: Option<&str>| {
        let mut options = ReadOptions::new();
        options.set_prefix_same_as_start(true);
        if let Some(lower) = lower {
            options.set_iterate_lower_bound(lower.as_bytes().to_vec());
        }
        let family = db.default_cf();
        (
            batch.cursor_opt(family, &options),
            family.cursor_opt(&options),
        )
    };
    let scans = |is_written: bool| {
        let mut scans = Vec::new();
        for lower in [None, Some("a0"), Some("b2")] {
            let (mut before, mut after) = cursors(lower);
            if is_written {
                scans.push(scanned!(after, seek_to_first(), next));
                scans.push(scanned!(after, seek_to_last(), prev));
            } else {
                scans.push(scanned!(before, seek_to_first(), next));
                scans.push(scanned!(before, seek_to_last(), prev));
            }
            for key in ["a1", "a9", "b1", "b2", "c1", "d"] {
                if is_written {
                    scans.push(scanned!(after, seek(key), next));
                    scans.push(scanned!(after, seek_for_prev(key), prev));
                } else {
                    scans.push(scanned!(before, seek(key), next));
                    scans.push(scanned!(before, seek_for_prev(key), prev));
                }
            }
        }
        scans
    };
    let combined = scans(false);
    assert_eq!(combined[0], [b"b1", b"b2", b"b3"]);
    assert_eq!(combined[1], [b"b3", b"b2", b"b1"]);
    db.write(batch.batch()).unwrap();
    assert_eq!(combined, scans(true));
}

#[test]
fn a_cursor_meets_later_operations_ahead_of_it() {
    let (db, _) = open();
    db.put("c", "db").unwrap();
    let mut batch = WriteBatchWithIndex::new(false);
    batch.put("a", "1");
    let mut cursor = batch.cursor(db.default_cf());
    assert!(cursor.seek_to_first().unwrap());
    batch.delete("a").put("b", "2").merge("c", "3");
    assert_eq!(cursor.entry(), Some((&b"a"[..], &b"1"[..])));
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.entry(), Some((&b"b"[..], &b"2"[..])));
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.entry(), Some((&b"c"[..], &b"db,3"[..])));
    batch.put("d", "4");
    db.put("e", "too late").unwrap();
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.entry(), Some((&b"d"[..], &b"4"[..])));
    assert!(!cursor.next().unwrap());
    assert!(cursor.seek("").unwrap());
    assert_eq!(cursor.key(), Some(&b"b"[..]));
    cursor.refresh(&batch).unwrap();
    assert!(cursor.seek_to_last().unwrap());
    assert_eq!(cursor.key(), Some(&b"e"[..]));
}

#[test]
fn a_cursor_goes_on_after_operations_are_taken_back() {
    let (db, _) = open();
    for key in ["b", "d"] {
        db.put(key, "db").unwrap();
    }
    let mut batch = WriteBatchWithIndex::new(true);
    batch.put("a", "1").set_save_point();
    batch.put("c", "2").delete("d").put("e", "3");
    let mut cursor = batch.cursor(db.default_cf());
    for (from, next, before) in [("b", "d", "a"), ("c", "d", "b"), ("e", "", "d")] {
        for is_forward in [true, false] {
            batch.put("c", "2").delete("d").put("e", "3");
            assert!(cursor.seek(from).unwrap());
            batch.rollback_to_save_point().unwrap();
            batch.set_save_point();
            assert_eq!(cursor.key(), Some(from.as_bytes()));
            let (moved, to) = match is_forward {
                true => (cursor.next().unwrap(), next),
                false => (cursor.prev().unwrap(), before),
            };
            assert_eq!(moved, !to.is_empty());
            assert_eq!(cursor.key().unwrap_or_default(), to.as_bytes());
        }
    }
    assert!(cursor.seek("a").unwrap());
    batch.clear();
    batch.put("f", "4");
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(&b"b"[..]));
    assert_eq!(scanned!(cursor, seek_to_first(), next), [b"b", b"d", b"f"]);
}

/// Orders keys without regard to case, and counts its comparisons.
struct Caseless(Arc<AtomicU64>);

impl crate::Comparator for Caseless {
    fn name(&self) -> &str {
        "caseless"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        self.0.fetch_add(1, Ordering::Relaxed);
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

#[test]
fn keys_that_an_order_equates_are_found_in_few_comparisons() {
    let comparisons = Arc::new(AtomicU64::new(0));
    let order = KeyOrder::new(Caseless(Arc::clone(&comparisons)));
    let mut batch = WriteBatchWithIndex::with_order(false, order);
    for number in 0..1000 {
        batch.put(format!("key{number}"), "lower");
    }
    batch.set_save_point();
    for number in 0..500 {
        batch.put(format!("KEY{number}"), "upper");
    }
    let value = |batch: &WriteBatchWithIndex, key: &str| batch.get_from_batch_default(key).unwrap();
    let is = |text: &str| BatchValue::Value(text.as_bytes().to_vec());
    assert_eq!(value(&batch, "Key7"), is("upper"));
    assert_eq!(value(&batch, "Key999"), is("lower"));
    assert_eq!(value(&batch, "Key1000"), BatchValue::Absent);
    batch.rollback_to_save_point().unwrap();
    assert_eq!(value(&batch, "Key7"), is("lower"));
    batch.delete("KEY7").merge("KEY8", "operand");
    assert_eq!(value(&batch, "Key7"), BatchValue::Deleted);
    let operands = BatchValue::Operands(vec![b"operand".to_vec()]);
    assert_eq!(value(&batch, "Key8"), operands);
    batch.clear();
    assert_eq!(value(&batch, "key7"), BatchValue::Absent);
    let count = comparisons.load(Ordering::Relaxed);
    assert!(count < 100_000, "{count} comparisons");
}
