//! Compares every representation with a plain model, with tiny alphabets to reach every branch.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use koeldb_base::key::{self, InternalKey, MAX_SEQNO, pack};
use koeldb_base::merge_operator::{MergeOperator, Merger, StringAppend};
use koeldb_base::prefix::{FixedPrefix, PrefixExtractor};
use koeldb_base::{Comparator, Cursor, ErrorKind, KeyOrder, Lookup, PinnedSlice, SeqNo, ValueType};
use koeldb_memtable::{
    BatchEntry, BloomOptions, Memtable, MemtableCursor, MemtableOptions, RepKind, SortTask, Sorter,
};
use proptest::prelude::*;

/// Options for every representation, with small sizes so that little input reaches every branch.
fn every_rep() -> Vec<MemtableOptions> {
    let hash = |bucket_count, sorted_vector_limit| RepKind::SortedHash {
        bucket_count,
        sorted_vector_limit,
    };
    let reps = [
        RepKind::default(),
        RepKind::SkipList { lookahead: 3 },
        RepKind::Vector { reserved: 3 },
        RepKind::HashSkipList { bucket_count: 4 },
        RepKind::HashLinkList {
            bucket_count: 2,
            skip_list_threshold: 12,
        },
        hash(1, 1),
        hash(4, 7),
        hash(0, 10_000),
    ];
    reps.map(|rep| MemtableOptions {
        rep,
        arena_block_bytes: 1 << 12,
        // Few buckets under Miri, which visits all of them whenever they are borrowed.
        write_buffer_bytes: if cfg!(miri) { 1 << 14 } else { 1 << 20 },
        prefixes: Some(Arc::new(FixedPrefix::new(2))),
        ..MemtableOptions::default()
    })
    .into()
}

/// Background tasks that tests run explicitly.
#[derive(Clone, Default)]
struct Background(Arc<Mutex<Vec<SortTask>>>);

impl Background {
    fn sorter(&self) -> Sorter {
        let tasks = Arc::clone(&self.0);
        Arc::new(move |task| tasks.lock().unwrap().push(task))
    }

    fn run_all(&self) {
        let tasks = std::mem::take(&mut *self.0.lock().unwrap());
        for task in tasks {
            task.run();
        }
    }
}

/// Orders short keys first, so that the first bytes determine nothing.
struct ShortFirst;

impl Comparator for ShortFirst {
    fn name(&self) -> &str {
        "test.ShortFirst"
    }

    fn equal_keys_have_equal_bytes(&self) -> bool {
        true
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| b.cmp(a))
    }
}

fn orders() -> impl Strategy<Value = KeyOrder> {
    prop_oneof![
        Just(KeyOrder::Bytewise),
        Just(KeyOrder::ReverseBytewise),
        Just(KeyOrder::Uint64),
        Just(KeyOrder::new(ShortFirst)),
    ]
}

/// Keys that differ in the first eight bytes, after them, or in length alone.
const KEYS: [&[u8]; 14] = [
    b"",
    b"\0",
    b"\0\0",
    b"a",
    b"a\0\0\0\0\0\0\0",
    b"a\0\0\0\0\0\0\0\0",
    b"abcdefg",
    b"abcdefgh",
    b"abcdefgh\0",
    b"abcdefghi",
    b"abcdefgi",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    b"b",
];

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(&KEYS[..]).prop_map(<[u8]>::to_vec)
}

fn value_types() -> impl Strategy<Value = ValueType> {
    prop_oneof![
        4 => Just(ValueType::Value),
        2 => Just(ValueType::Merge),
        2 => Just(ValueType::Deletion),
        1 => Just(ValueType::SingleDeletion),
    ]
}

fn seqnos() -> impl Strategy<Value = SeqNo> {
    prop_oneof![8 => 0..24_u64, 1 => Just(MAX_SEQNO)]
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Vec<u8>, SeqNo, ValueType, usize),
    DeleteRange(Vec<u8>, Vec<u8>, SeqNo),
    Get(Vec<u8>, SeqNo),
    First,
    Last,
    Seek(Vec<u8>, SeqNo),
    SeekForPrev(Vec<u8>, SeqNo),
    Next,
    Prev,
    Refresh,
    Background,
}

fn ops() -> impl Strategy<Value = Op> {
    let value_lens = prop_oneof![
        0..40_usize,
        Just(127),
        Just(128),
        255..258_usize,
        Just(5000)
    ];
    prop_oneof![
        12 => (keys(), seqnos(), value_types(), value_lens)
            .prop_map(|(key, seqno, value_type, len)| Op::Insert(key, seqno, value_type, len)),
        1 => (keys(), keys(), seqnos()).prop_map(|(a, b, seqno)| Op::DeleteRange(a, b, seqno)),
        6 => (keys(), seqnos()).prop_map(|(key, seqno)| Op::Get(key, seqno)),
        1 => Just(Op::First),
        1 => Just(Op::Last),
        2 => (keys(), seqnos()).prop_map(|(key, seqno)| Op::Seek(key, seqno)),
        2 => (keys(), seqnos()).prop_map(|(key, seqno)| Op::SeekForPrev(key, seqno)),
        4 => Just(Op::Next),
        4 => Just(Op::Prev),
        1 => Just(Op::Refresh),
        1 => Just(Op::Background),
    ]
}

/// The expected content of a memtable.
struct Model {
    order: KeyOrder,
    /// (internal key, value), unordered.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    tombstones: Vec<(Vec<u8>, Vec<u8>, SeqNo)>,
}

impl Model {
    fn has(&self, user_key: &[u8], seqno: SeqNo) -> bool {
        self.entries
            .iter()
            .any(|(key, _)| key::user_key(key) == user_key && key::seqno(key) == seqno)
    }

    fn sorted(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut sorted = self.entries.clone();
        sorted.sort_by(|a, b| self.order.compare_internal(&a.0, &b.0));
        sorted
    }

    fn covering(&self, user_key: &[u8], snapshot: SeqNo) -> SeqNo {
        let covers = |start: &[u8], end: &[u8]| {
            self.order.compare(start, user_key).is_le() && self.order.compare(user_key, end).is_lt()
        };
        self.tombstones
            .iter()
            .filter(|(start, end, seqno)| *seqno <= snapshot && covers(start, end))
            .map(|&(_, _, seqno)| seqno)
            .max()
            .unwrap_or(0)
    }

    fn get(&self, user_key: &[u8], snapshot: SeqNo) -> Option<Vec<u8>> {
        let covering = self.covering(user_key, snapshot);
        let mut operands: Vec<Vec<u8>> = Vec::new();
        let mut base = None;
        for (key, value) in self.sorted() {
            let key = InternalKey::parse(&key).unwrap();
            if key.user_key != user_key || key.seqno > snapshot {
                continue;
            }
            if key.seqno < covering {
                break;
            }
            match key.value_type {
                ValueType::Merge => operands.push(value),
                ValueType::Value => {
                    base = Some(value);
                    break;
                }
                _ => break,
            }
        }
        if operands.is_empty() {
            return base;
        }
        let newest_first: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        let operator = StringAppend::default();
        let operator: &dyn MergeOperator = &operator;
        Some(
            koeldb_base::merge_operator::merge_values(
                koeldb_base::merge_operator::Merger::new(Some(operator), "default"),
                user_key,
                base.as_deref(),
                &newest_first,
            )
            .unwrap(),
        )
    }
}

fn get(memtable: &Memtable, user_key: &[u8], snapshot: SeqNo) -> Option<PinnedSlice> {
    let mut lookup = Lookup::new(user_key, snapshot);
    memtable.search(&mut lookup).unwrap();
    lookup.checkpoint();
    let operator = StringAppend::default();
    lookup
        .finish(|| Merger::new(Some(&operator), "default"))
        .unwrap()
}

fn at(cursor: &MemtableCursor) -> Option<(Vec<u8>, Vec<u8>)> {
    cursor
        .valid()
        .then(|| (cursor.key().to_vec(), cursor.value().to_vec()))
}

/// Runs the operations on a memtable and on the model, and compares the results.
fn run(order: &KeyOrder, options: &MemtableOptions, ops: &[Op]) {
    let refuses_duplicates = !matches!(options.rep, RepKind::Vector { .. });
    let live = matches!(options.rep, RepKind::SkipList { .. });
    let background = Background::default();
    let mut options = options.clone();
    // Every other run has no background.
    options.sorter = ops.len().is_multiple_of(2).then(|| background.sorter());
    let memtable = Memtable::new(order.clone(), &options);
    let mut model = Model {
        order: order.clone(),
        entries: Vec::new(),
        tombstones: Vec::new(),
    };
    let mut cursor = memtable.cursor();
    let mut captured = model.sorted();
    let mut data_bytes_before = 0;
    for op in ops {
        if live {
            captured = model.sorted();
        }
        let position = at(&cursor).map(|(key, _)| key);
        let before = |target: &[u8]| {
            captured.partition_point(|(key, _)| order.compare_internal(key, target).is_lt())
        };
        let through = |target: &[u8]| {
            captured.partition_point(|(key, _)| order.compare_internal(key, target).is_le())
        };
        let expected = match op {
            Op::Insert(key, seqno, value_type, len) => {
                let value = vec![u8::try_from(seqno & 0x7f).unwrap(); *len];
                if model.has(key, *seqno) {
                    if refuses_duplicates {
                        let error = memtable
                            .insert(*seqno, *value_type, key, &value)
                            .unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::TryAgain);
                    }
                } else {
                    memtable.insert(*seqno, *value_type, key, &value).unwrap();
                    model
                        .entries
                        .push((key::encode(key, *seqno, *value_type), value));
                    assert!(memtable.data_bytes() > data_bytes_before);
                    data_bytes_before = memtable.data_bytes();
                }
                continue;
            }
            Op::DeleteRange(start, end, seqno) => {
                memtable
                    .insert(*seqno, ValueType::RangeDeletion, start, end)
                    .unwrap();
                model.tombstones.push((start.clone(), end.clone(), *seqno));
                data_bytes_before = memtable.data_bytes();
                continue;
            }
            Op::Background => {
                background.run_all();
                continue;
            }
            Op::Get(key, snapshot) => {
                let found = get(&memtable, key, *snapshot);
                assert_eq!(found.as_deref(), model.get(key, *snapshot).as_deref());
                continue;
            }
            Op::Refresh => {
                cursor.refresh();
                captured = model.sorted();
                assert!(!cursor.valid());
                continue;
            }
            Op::First => {
                cursor.seek_to_first().unwrap();
                captured.first()
            }
            Op::Last => {
                cursor.seek_to_last().unwrap();
                captured.last()
            }
            Op::Seek(key, seqno) => {
                let target = key::encode(key, *seqno, ValueType::FOR_SEEK);
                cursor.seek(&target).unwrap();
                captured.get(before(&target))
            }
            Op::SeekForPrev(key, seqno) => {
                let target = key::encode(key, *seqno, ValueType::Value);
                cursor.seek_for_prev(&target).unwrap();
                through(&target)
                    .checked_sub(1)
                    .and_then(|index| captured.get(index))
            }
            Op::Next => {
                let Some(position) = position else { continue };
                cursor.next().unwrap();
                captured.get(through(&position))
            }
            Op::Prev => {
                let Some(position) = position else { continue };
                cursor.prev().unwrap();
                before(&position)
                    .checked_sub(1)
                    .and_then(|index| captured.get(index))
            }
        };
        assert_eq!(at(&cursor).as_ref(), expected, "after {op:?}");
        if cursor.valid() {
            assert_eq!(&cursor.pinned_value()[..], cursor.value());
        }
    }
    check_whole(&memtable, &model);
    background.run_all();
    check_scans(&memtable, &model.sorted());
}

/// Checks counters, tombstones and scans in both directions, before and after sealing.
fn check_whole(memtable: &Arc<Memtable>, model: &Model) {
    let sorted = model.sorted();
    let seqnos = || {
        let points = model.entries.iter().map(|(key, _)| key::seqno(key));
        points.chain(model.tombstones.iter().map(|&(_, _, seqno)| seqno))
    };
    let count = (model.entries.len() + model.tombstones.len()) as u64;
    assert_eq!(memtable.entry_count(), count);
    assert_eq!(memtable.is_empty(), count == 0);
    assert_eq!(memtable.first_seqno(), seqnos().min());
    assert_eq!(memtable.largest_seqno(), seqnos().max().unwrap_or(0));
    let deletions = model
        .entries
        .iter()
        .filter(|(key, _)| InternalKey::parse(key).unwrap().value_type.is_deletion());
    assert_eq!(memtable.deletion_count(), deletions.count() as u64);
    assert_eq!(
        memtable.range_deletion_count(),
        model.tombstones.len() as u64
    );
    match memtable.tombstones() {
        None => assert!(model.tombstones.is_empty()),
        Some(fragments) => {
            for key in KEYS {
                for snapshot in [3, 9, MAX_SEQNO] {
                    assert_eq!(
                        fragments.covering_seqno(key, snapshot),
                        model.covering(key, snapshot)
                    );
                }
            }
        }
    }
    check_batches(memtable, model);
    check_scans(memtable, &sorted);
    memtable.seal();
    check_scans(memtable, &sorted);
    memtable.finalise();
    memtable.finalise();
    check_scans(memtable, &sorted);
    check_batches(memtable, model);
}

/// Checks scans in both directions.
fn check_scans(memtable: &Arc<Memtable>, sorted: &[(Vec<u8>, Vec<u8>)]) {
    let mut cursor = memtable.cursor();
    assert!(!cursor.valid());
    cursor.seek_to_first().unwrap();
    let mut forward = Vec::new();
    while let Some(entry) = at(&cursor) {
        forward.push(entry);
        cursor.next().unwrap();
    }
    assert_eq!(forward, sorted);
    cursor.seek_to_last().unwrap();
    let mut backward = Vec::new();
    while let Some(entry) = at(&cursor) {
        backward.push(entry);
        cursor.prev().unwrap();
    }
    backward.reverse();
    assert_eq!(backward, sorted);
}

/// Checks batched lookups of all keys at some snapshots, one of them settled before.
fn check_batches(memtable: &Memtable, model: &Model) {
    let wanted: Vec<(&[u8], SeqNo)> = [2, 11, MAX_SEQNO]
        .into_iter()
        .flat_map(|snapshot| KEYS.map(|key| (key, snapshot)))
        .collect();
    let mut lookups: Vec<Lookup> = wanted
        .iter()
        .map(|&(key, snapshot)| Lookup::new(key, snapshot))
        .collect();
    let settled = 5;
    let own = || PinnedSlice::copy_of(b"settled");
    lookups[settled].offer(1, ValueType::Value, own).unwrap();
    memtable.search_batch(&mut lookups, |at, error| panic!("{at}: {error}"));
    for (at, (lookup, (key, snapshot))) in lookups.into_iter().zip(wanted).enumerate() {
        let operator = StringAppend::default();
        let found = lookup
            .finish(|| Merger::new(Some(&operator), "default"))
            .unwrap();
        if at == settled {
            assert_eq!(found.as_deref(), Some(&b"settled"[..]));
        } else {
            assert_eq!(found.as_deref(), model.get(key, snapshot).as_deref());
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 128 },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn op_count() -> std::ops::Range<usize> {
    0..if cfg!(miri) { 20 } else { 150 }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_memtable_answers_as_its_model(
        order in orders(),
        ops in prop::collection::vec(ops(), op_count()),
    ) {
        for options in every_rep() {
            run(&order, &options, &ops);
        }
    }

    #[test]
    fn a_filter_changes_no_answer(
        whole_keys: bool,
        prefix_len in 0..4_usize,
        bytes in 1..100_usize,
        ops in prop::collection::vec(ops(), op_count()),
    ) {
        let prefixes = FixedPrefix::new(prefix_len);
        let bloom = BloomOptions { bytes, whole_keys, prefixes: Some(Arc::new(prefixes)) };
        let options = MemtableOptions { bloom: Some(bloom), ..MemtableOptions::default() };
        run(&KeyOrder::Bytewise, &options, &ops);
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 12 }, ..config() })]

    #[test]
    fn many_keys_in_any_order_come_out_sorted(
        seed: u64,
        shift in prop::sample::select(&[0_u32, 32, 52, 58][..]),
        ascending: bool,
    ) {
        // Enough for two leaves of an index.
        let count = if cfg!(miri) { 32 } else { 3000 };
        for options in every_rep() {
            let memtable = Memtable::new(KeyOrder::Bytewise, &options);
            let mut model = BTreeMap::new();
            let mut state = seed;
            for seqno in 0..count {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let number = if ascending { seqno } else { state >> shift };
                let key = format!("{number:020}");
                let internal = key::encode(key.as_bytes(), seqno, ValueType::Value);
                memtable.insert(seqno, ValueType::Value, key.as_bytes(), &internal).unwrap();
                model.insert((key, std::cmp::Reverse(seqno)), internal);
            }
            let mut cursor = memtable.cursor();
            cursor.seek_to_first().unwrap();
            for internal in model.values() {
                prop_assert_eq!(cursor.key(), internal.as_slice());
                prop_assert_eq!(cursor.value(), internal.as_slice());
                cursor.next().unwrap();
            }
            prop_assert!(!cursor.valid());
            for ((key, seqno), internal) in model.iter().step_by(7) {
                let found = get(&memtable, key.as_bytes(), seqno.0);
                prop_assert_eq!(found.as_deref(), Some(internal.as_slice()));
            }
        }
    }
}

#[test]
fn the_type_does_not_tell_duplicates_apart() {
    let memtable = Memtable::new(KeyOrder::Bytewise, &MemtableOptions::default());
    memtable.insert(5, ValueType::Merge, b"k", b"").unwrap();
    for value_type in [
        ValueType::Deletion,
        ValueType::Merge,
        ValueType::WideColumnEntity,
    ] {
        let error = memtable.insert(5, value_type, b"k", b"").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TryAgain);
    }
    memtable.insert(4, ValueType::Deletion, b"k", b"").unwrap();
    memtable.insert(6, ValueType::Deletion, b"k", b"").unwrap();
    assert_eq!((memtable.entry_count(), memtable.deletion_count()), (3, 2));
    assert!(pack(5, ValueType::Merge) > pack(5, ValueType::Deletion));
}

#[test]
fn a_value_outlives_its_memtable() {
    for options in every_rep() {
        let memtable = Memtable::new(KeyOrder::Bytewise, &options);
        let long = vec![7; 100_000];
        memtable.insert(1, ValueType::Value, b"k", &long).unwrap();
        let value = get(&memtable, b"k", 1).unwrap();
        let mut cursor = memtable.cursor();
        cursor.seek_to_last().unwrap();
        drop(memtable);
        assert_eq!(cursor.value(), &value[..]);
        drop(cursor);
        assert_eq!(&value[..], &long[..]);
        assert_eq!(&value.subslice(99_000..100_000)[..], &long[99_000..]);
    }
}

#[test]
fn an_idle_memtable_is_small_and_a_full_one_wastes_little() {
    let memtable = Memtable::new(KeyOrder::Bytewise, &MemtableOptions::default());
    assert!(memtable.memory_bytes() < 2 << 10);
    memtable.insert(1, ValueType::Value, b"k", b"v").unwrap();
    assert!(memtable.memory_bytes() < 9 << 10);
    let count = if cfg!(miri) { 20 } else { 5000 };
    for seqno in 2..count {
        memtable
            .insert(seqno, ValueType::Value, &seqno.to_le_bytes(), &[0; 1000])
            .unwrap();
    }
    let bytes = memtable.memory_bytes() as u64;
    assert!(bytes > count * 1000);
    if !cfg!(miri) {
        assert!(bytes < count * 1000 * 5 / 4 + (1 << 20), "{bytes}");
    }
}

#[test]
fn a_batch_is_what_its_entries_are_one_by_one() {
    let count = if cfg!(miri) { 12 } else { 500 };
    let keys: Vec<Vec<u8>> = (0..count)
        .map(|n| format!("{:03}", n * 7 % 100).into())
        .collect();
    let entries: Vec<BatchEntry<'_>> = (1..)
        .zip(&keys)
        .map(|(seqno, key)| BatchEntry {
            seqno,
            value_type: if seqno % 50 == 0 {
                ValueType::RangeDeletion
            } else {
                ValueType::Value
            },
            key,
            value: b"999",
        })
        .collect();
    for options in every_rep() {
        let together = Memtable::new(KeyOrder::Bytewise, &options);
        together.insert_batch(&entries).unwrap();
        let alone = Memtable::new(KeyOrder::Bytewise, &options);
        for entry in &entries {
            alone
                .insert(entry.seqno, entry.value_type, entry.key, entry.value)
                .unwrap();
        }
        let listed = |memtable: &Arc<Memtable>| {
            let mut cursor = memtable.cursor();
            cursor.seek_to_first().unwrap();
            let mut listed = Vec::new();
            while let Some(entry) = at(&cursor) {
                listed.push(entry);
                cursor.next().unwrap();
            }
            listed
        };
        assert_eq!(listed(&together), listed(&alone));
        assert_eq!(together.entry_count(), count);
        assert_eq!(
            together.range_deletion_count(),
            alone.range_deletion_count()
        );
        let again = together.insert_batch(&entries[3..4]);
        let takes_duplicates = matches!(options.rep, RepKind::Vector { .. });
        assert_eq!(again.is_ok(), takes_duplicates);
    }
}

#[test]
fn a_prefix_cursor_shows_all_keys_of_the_sought_prefix() {
    for options in every_rep() {
        let memtable = Memtable::new(KeyOrder::Bytewise, &options);
        for (seqno, key) in (1..).zip(["aa1", "ab1", "aa3", "b", "aa2", "ab0", "aa"]) {
            memtable
                .insert(seqno, ValueType::Value, key.as_bytes(), b"")
                .unwrap();
        }
        let mut cursor = memtable.prefix_cursor(options.prefixes.as_ref().unwrap());
        assert!(!cursor.valid());
        let target = |key: &str| key::encode(key.as_bytes(), MAX_SEQNO, ValueType::FOR_SEEK);
        let mut found = Vec::new();
        cursor.seek(&target("aa1")).unwrap();
        while cursor.valid() && cursor.key().starts_with(b"aa") {
            found.push(key::user_key(cursor.key()).to_vec());
            cursor.next().unwrap();
        }
        assert_eq!(found, [b"aa1", b"aa2", b"aa3"]);
        cursor.seek_for_prev(&target("ab1")).unwrap();
        assert_eq!(key::user_key(cursor.key()), b"ab0");
        cursor.seek(&target("b")).unwrap();
        assert_eq!(key::user_key(cursor.key()), b"b");
        cursor.refresh();
        assert!(!cursor.valid());
        // Keys that share a shorter prefix are in many lists: the cursor then covers everything.
        let shorter: Arc<dyn PrefixExtractor> = Arc::new(FixedPrefix::new(1));
        let mut cursor = memtable.prefix_cursor(&shorter);
        cursor.seek(&target("aa1")).unwrap();
        let mut found = 0;
        while cursor.valid() {
            found += 1;
            cursor.next().unwrap();
        }
        assert_eq!(found, 6);
    }
}

#[test]
fn a_successor_answers_as_any_other() {
    for options in every_rep() {
        let first = Memtable::new(KeyOrder::Bytewise, &options);
        for number in 0..if cfg!(miri) { 12 } else { 50_u64 } {
            let key = format!("user{:012}", number * 37 % 50);
            first
                .insert(number, ValueType::Value, key.as_bytes(), b"v")
                .unwrap();
        }
        let next = first.successor(&options);
        assert!(next.is_empty());
        let keys = [
            "user000000000007",
            "user",
            "zebra",
            "a",
            "",
            "user000000000006",
        ];
        for (seqno, key) in (1..).zip(keys) {
            next.insert(seqno, ValueType::Value, key.as_bytes(), b"v")
                .unwrap();
        }
        let mut cursor = next.cursor();
        let mut sorted = keys;
        sorted.sort_unstable();
        cursor.seek_to_first().unwrap();
        for key in sorted {
            assert_eq!(key::user_key(cursor.key()), key.as_bytes());
            assert!(get(&next, key.as_bytes(), 99).is_some());
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
    }
}
