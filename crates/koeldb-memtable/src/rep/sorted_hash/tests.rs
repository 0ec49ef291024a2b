//! Regression tests for known defects of sorted hash memtables, numbered by a catalogue of 28.
//!
//! Not here: H7 and H11, which are models (`models`); H18, modes that hide entries, which do not
//! exist here; H24, a failure that cannot happen: a log grows or the process ends.

use std::cmp::Ordering as Order;
use std::sync::Mutex as StdMutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

use koeldb_base::key::{MAX_SEQNO, encode};
use koeldb_base::{Comparator, Lookup, SeqNo, ValueType};

use super::node::Bucket;
use super::*;
use crate::rep::{Learned, MemtableOptions, MemtableRep, RepKind, bucket_count};

fn parts(order: KeyOrder, bucket_count: usize, vector_limit: usize) -> SortedHashParts {
    SortedHashParts {
        order,
        arena: SharedArena::of_blocks(1 << 16),
        bucket_count: few_buckets(bucket_count),
        vector_limit,
        base: Base::EMPTY,
        recycler: None,
        sorter: None,
        hasher: KeyHasher::random(),
    }
}

/// Limits the buckets under Miri, which visits every bucket whenever an array is borrowed.
///
/// Eight buckets still have slots and chains.
fn few_buckets(count: usize) -> usize {
    if cfg!(miri) { count.min(64) } else { count }
}

fn table(bucket_count: usize, vector_limit: usize) -> Arc<SortedHash> {
    let parts = parts(KeyOrder::Bytewise, bucket_count, vector_limit);
    Arc::new(SortedHash::new(parts))
}

fn insert(table: &Arc<SortedHash>, key: &[u8], seqno: SeqNo) {
    let parts = EntryParts::new(seqno, ValueType::Value, key, b"v").unwrap();
    table.insert(&parts).unwrap();
}

fn numbered(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:016x}", mixed ^ (mixed >> 31)).into_bytes()
}

/// The sequence number that a lookup finds.
fn get(table: &SortedHash, key: &[u8], snapshot: SeqNo) -> Option<SeqNo> {
    let target = encode(key, snapshot, ValueType::FOR_SEEK);
    let entry = table.entries_from(&target).next()?;
    let (found, footer) = entry.user_key_and_footer();
    assert_eq!(found, key);
    Some(footer >> 8)
}

/// The keys of a scan, with sequence numbers.
fn scan(table: &Arc<SortedHash>) -> Vec<(Vec<u8>, SeqNo)> {
    entries(&mut SortedHashCursor::new(Arc::clone(table)))
}

fn entries(cursor: &mut SortedHashCursor) -> Vec<(Vec<u8>, SeqNo)> {
    let mut found = Vec::new();
    cursor.seek_to_first();
    while let Some(entry) = cursor.entry() {
        let (key, footer) = entry.user_key_and_footer();
        found.push((key.to_vec(), footer >> 8));
        cursor.next();
    }
    found
}

fn count(number: u64) -> u64 {
    if cfg!(miri) { number / 100 } else { number }
}

/// Creates a table whose tasks run only when the test runs them.
fn with_sorter(mut parts: SortedHashParts) -> (Arc<SortedHash>, Arc<StdMutex<Vec<SortTask>>>) {
    let tasks = Arc::new(StdMutex::new(Vec::new()));
    let offered = Arc::clone(&tasks);
    parts.sorter = Some(Arc::new(move |task| offered.lock().unwrap().push(task)));
    (Arc::new(SortedHash::new(parts)), tasks)
}

#[test]
fn h01_h13_h26_a_seek_waits_for_no_task() {
    let (table, tasks) = with_sorter(parts(KeyOrder::Bytewise, 64, 8));
    for seqno in 0..count(3000) {
        insert(&table, &numbered(seqno), seqno);
        if seqno % 50 == 0 {
            assert_eq!(scan(&table).len() as u64, seqno + 1);
        }
    }
    // One task is pending, and no second is offered.
    assert_eq!(tasks.lock().unwrap().len(), 1);
    // The task need not run at all.
    tasks.lock().unwrap().clear();
    assert_eq!(scan(&table).len() as u64, count(3000));
}

#[test]
fn h02_cursors_without_a_write_between_share_their_runs() {
    let table = table(64, 10_000);
    for seqno in 0..count(3000).max(40) {
        insert(&table, &numbered(seqno), seqno);
    }
    let mut first = SortedHashCursor::new(Arc::clone(&table));
    let set = Arc::clone(first.ready_set());
    let mut second = SortedHashCursor::new(Arc::clone(&table));
    assert!(Arc::ptr_eq(&set, second.ready_set()));
    insert(&table, b"one more", 5000);
    let mut third = SortedHashCursor::new(Arc::clone(&table));
    assert!(
        Arc::ptr_eq(&set, third.ready_set()),
        "a short tail makes no run"
    );
    assert_eq!(entries(&mut third).len(), entries(&mut second).len() + 1);
    second.refresh();
    assert_eq!(entries(&mut second).len(), entries(&mut third).len());
}

#[test]
fn h03_a_table_sealed_at_a_multiple_of_the_limit_or_empty_is_finished() {
    // Under Miri none, and as many as need a second segment of a log.
    let step = if cfg!(miri) { 3 } else { 1 };
    for entries in [0, 1, 32, 33, 63, 64, 65, 128]
        .into_iter()
        .step_by(step)
        .take(8 / step)
    {
        for limit in [1, 2, 32, 10_000]
            .into_iter()
            .step_by(if cfg!(miri) { 2 } else { 1 })
        {
            let table = table(4, limit);
            for seqno in 0..entries {
                insert(&table, &numbered(seqno), seqno);
            }
            table.seal();
            table.finish();
            assert_eq!(scan(&table).len() as u64, entries);
            let set = Arc::clone(SortedHashCursor::new(Arc::clone(&table)).ready_set());
            assert!(set.runs.len() <= 1);
        }
    }
}

#[test]
fn the_limit_of_a_vector_is_where_a_task_is_offered() {
    // More than the first segment holds.
    let limit = if cfg!(miri) { 40 } else { 10_000 };
    let (table, tasks) = with_sorter(parts(KeyOrder::Bytewise, 1 << 14, limit));
    let mut offered_at = Vec::new();
    for seqno in 0..4 * limit as u64 {
        insert(&table, &numbered(seqno), seqno);
        let offered = std::mem::take(&mut *tasks.lock().unwrap());
        if !offered.is_empty() {
            offered_at.push(seqno + 1);
        }
        offered.into_iter().for_each(SortTask::run);
    }
    assert!(offered_at.len() >= 2, "{offered_at:?}");
    let gaps: Vec<u64> = offered_at
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(gaps.iter().all(|&gap| gap == limit as u64), "{gaps:?}");
    let (set, appended) = table.capture();
    assert!(
        set.tail_len(&appended) < limit as u64,
        "tasks sorted the rest"
    );
    assert_eq!(scan(&table).len(), 4 * limit);
}

#[test]
fn h04_keys_that_share_a_bucket_do_not_hide_each_other() {
    let table = table(1, 10_000);
    for seqno in 1..=count(1000) {
        insert(&table, &numbered(seqno % 50), seqno);
    }
    for number in 0..count(1000).min(50) {
        for snapshot in [1, 49, 50, 120, count(1000)] {
            let newest = (1..=snapshot.min(count(1000))).rev();
            let expected = newest.into_iter().find(|seqno| seqno % 50 == number);
            assert_eq!(get(&table, &numbered(number), snapshot), expected);
        }
    }
    assert_eq!(get(&table, b"not there", MAX_SEQNO), None);
}

#[test]
fn h05_h12_cursors_show_an_active_table_from_its_first_entry_on() {
    let table = table(16, 4);
    let mut before = SortedHashCursor::new(Arc::clone(&table));
    assert!(entries(&mut before).is_empty());
    let total = if cfg!(miri) { 30 } else { 100 };
    for seqno in 0..total {
        insert(&table, &numbered(seqno), seqno);
        assert_eq!(scan(&table).len() as u64, seqno + 1);
    }
    assert!(entries(&mut before).is_empty());
    before.refresh();
    assert_eq!(entries(&mut before).len() as u64, total);
}

#[test]
fn h06_all_entries_of_a_user_key_are_in_one_bucket_whatever_stands_behind_the_key() {
    let table = table(1 << 10, 10_000);
    let types = [
        ValueType::Value,
        ValueType::Deletion,
        ValueType::Merge,
        ValueType::SingleDeletion,
        ValueType::WideColumnEntity,
    ];
    for (seqno, value_type) in (1..).zip(types) {
        let parts = EntryParts::new(seqno, value_type, b"key", b"v").unwrap();
        table.insert(&parts).unwrap();
        // A key with a timestamp or a footer appended is a separate key.
        insert(&table, &encode(b"key", seqno, value_type), seqno);
    }
    let buckets =
        (0..few_buckets(1 << 10) as u64 / 8).map(|low| table.buckets.bucket(KeyHash(low)));
    assert_eq!(buckets.map(Bucket::len).sum::<usize>(), 1 + types.len());
    for snapshot in 1..=types.len() as u64 {
        for value_type in types.into_iter().chain([ValueType::FOR_SEEK]) {
            let target = encode(b"key", snapshot, value_type);
            let found = table.entries_from(&target).next();
            let found = found.map(|entry| entry.user_key_and_footer());
            let its_own = types[usize::try_from(snapshot).unwrap() - 1];
            let expected = snapshot - u64::from((value_type as u8) < its_own as u8);
            assert_eq!(found.is_some(), expected > 0);
            if let Some((key, footer)) = found {
                assert_eq!((key, footer >> 8), (&b"key"[..], expected));
            }
        }
        let longer = encode(
            b"key",
            snapshot,
            types[usize::try_from(snapshot).unwrap() - 1],
        );
        assert_eq!(get(&table, &longer, MAX_SEQNO), Some(snapshot));
    }
}

#[test]
fn h08_a_cursor_keeps_the_runs_it_shows() {
    let table = table(256, 16);
    let mut cursors = Vec::new();
    // Several runs, and cursors over different ones.
    let (total, step) = if cfg!(miri) { (70, 17) } else { (4000, 97) };
    for seqno in 0..total {
        insert(&table, &numbered(seqno), seqno);
        if seqno % step == 0 {
            cursors.push((seqno + 1, SortedHashCursor::new(Arc::clone(&table))));
            scan(&table);
        }
    }
    let mut kept = cursors.split_off(cursors.len() / 2);
    let weak = {
        let (_, cursor) = kept.last_mut().unwrap();
        Arc::downgrade(&cursor.ready_set().runs[0])
    };
    table.seal();
    table.finish();
    drop(table);
    for (expected, cursor) in cursors.iter_mut().chain(&mut kept) {
        assert_eq!(entries(cursor).len() as u64, *expected);
    }
    drop(cursors);
    assert!(weak.upgrade().is_some());
    drop(kept);
    assert!(weak.upgrade().is_none(), "the last cursor freed it");
}

#[test]
fn h09_h10_a_write_between_any_two_seeks_keeps_runs_few_and_work_bounded() {
    let entries = if cfg!(miri) { 80 } else { 20_000 };
    let table = table(1 << 14, 10_000);
    let mut moved = 0;
    let mut before: Vec<Arc<runs::Run>> = Vec::new();
    for seqno in 0..entries {
        insert(&table, &numbered(seqno), seqno);
        let mut cursor = SortedHashCursor::new(Arc::clone(&table));
        cursor.seek(&encode(&numbered(seqno), MAX_SEQNO, ValueType::FOR_SEEK));
        assert_eq!(
            cursor.entry().unwrap().user_key_and_footer().0,
            numbered(seqno)
        );
        let runs = &cursor.ready_set().runs;
        assert!(runs.len() <= RUNS_MAX, "{} runs", runs.len());
        let is_old = |run: &Arc<runs::Run>| before.iter().any(|old| Arc::ptr_eq(old, run));
        moved += runs
            .iter()
            .filter(|run| !is_old(run))
            .map(|run| run.items.len() as u64)
            .sum::<u64>();
        before.clone_from(runs);
    }
    assert!(moved < 64 * entries, "{moved} moves of {entries} entries");
    drop(before);
    let bytes = table.order_bytes() as u64;
    assert!(bytes < 48 * entries + (1 << 18), "{bytes} bytes");
}

/// The thread to hold up, its notification that it is held, and the signal it waits for.
type Held = (ThreadId, SyncSender<()>, Receiver<()>);

/// A bytewise order that can hold up one thread in a comparison.
struct Slow {
    held: StdMutex<Option<Held>>,
}

struct SlowOrder(Arc<Slow>);

impl Comparator for SlowOrder {
    fn name(&self) -> &str {
        "test.Slow"
    }

    fn equal_keys_have_equal_bytes(&self) -> bool {
        true
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Order {
        let mine = {
            let mut held = self.0.held.lock().unwrap();
            held.take_if(|(thread, _, _)| *thread == thread::current().id())
        };
        if let Some((_, arrived, go_on)) = mine {
            arrived.send(()).unwrap();
            go_on.recv().unwrap();
        }
        a.cmp(b)
    }
}

#[test]
fn h14_h15_neither_seal_nor_inserts_nor_look_ups_nor_seeks_wait_for_who_sorts() {
    let slow = Arc::new(Slow {
        held: StdMutex::new(None),
    });
    let order = KeyOrder::new(SlowOrder(Arc::clone(&slow)));
    let table = Arc::new(SortedHash::new(parts(order, 64, 8)));
    let half = if cfg!(miri) { 30 } else { 100 };
    for seqno in 0..half {
        insert(&table, &numbered(seqno), seqno);
    }
    let (arrived, is_held) = sync_channel(1);
    let (go_on, wait) = sync_channel(1);
    thread::scope(|scope| {
        let sorting = scope.spawn(|| {
            let held = (thread::current().id(), arrived, wait);
            *slow.held.lock().unwrap() = Some(held);
            scan(&table).len()
        });
        is_held.recv().unwrap();
        // From here on, the other thread is inside its sort.
        for seqno in half..2 * half {
            insert(&table, &numbered(seqno), seqno);
            assert_eq!(get(&table, &numbered(seqno), seqno), Some(seqno));
        }
        assert_eq!(scan(&table).len() as u64, 2 * half);
        table.seal();
        table.finish();
        assert_eq!(scan(&table).len() as u64, 2 * half);
        go_on.send(()).unwrap();
        assert_eq!(sorting.join().unwrap() as u64, half);
    });
}

#[test]
fn h16_a_reader_inside_of_a_bucket_holds_up_no_insert_into_it() {
    assert_eq!(BucketArray::bytes_of(8), 64, "no locks");
    let table = table(1, 10_000);
    // More keys than slots, two versions each.
    for seqno in 1..=20 {
        insert(&table, &numbered(seqno % 10), seqno);
    }
    let readings = [3, 9].map(|number| {
        let target = encode(&numbered(number), MAX_SEQNO, ValueType::FOR_SEEK);
        let mut reading = table.entries_from(&target);
        let newest = reading.next().unwrap().user_key_and_footer().1 >> 8;
        assert_eq!(newest, 10 + number);
        (number, reading)
    });
    let (done, is_done) = sync_channel(1);
    let writer = thread::spawn({
        let table = Arc::clone(&table);
        move || {
            for seqno in 21..=80 {
                insert(&table, &numbered(seqno % 30), seqno);
            }
            done.send(()).unwrap();
        }
    });
    let waited = is_done.recv_timeout(Duration::from_secs(60));
    waited.expect("inserts that wait for no reader");
    writer.join().unwrap();
    for (number, mut reading) in readings {
        let older = reading.next().unwrap().user_key_and_footer().1 >> 8;
        assert_eq!(older, number);
        assert!(reading.next().is_none());
        assert_eq!(get(&table, &numbered(number), MAX_SEQNO), Some(60 + number));
    }
}

#[test]
fn h17_h23_buckets_fit_the_write_buffer() {
    let options = |bucket_count, write_buffer_bytes| MemtableOptions {
        rep: RepKind::SortedHash {
            bucket_count,
            sorted_vector_limit: 10_000,
        },
        write_buffer_bytes,
        ..MemtableOptions::default()
    };
    for write_buffer_bytes in [64 << 10, 1 << 20, 64 << 20] {
        for wanted in [0, 1, 1000, 1_000_000] {
            let options = options(wanted, write_buffer_bytes);
            for entry_bytes in [None, Some(1), Some(30), Some(1000), Some(1 << 30)] {
                let buckets = bucket_count(&options, entry_bytes).unwrap();
                assert!(buckets.is_power_of_two());
                assert!(buckets * size_of::<usize>() <= write_buffer_bytes / 8);
            }
            if !cfg!(miri) {
                let rep = MemtableRep::new(&options, KeyOrder::Bytewise, Learned::NOTHING);
                let bytes = rep.bucket_bytes() + rep.order_bytes();
                assert!(bytes + rep.arena().arena().memory_bytes() < write_buffer_bytes);
            }
        }
    }
    // The published defaults: a million, rounded up, with the published write buffer.
    assert_eq!(
        bucket_count(&options(1_000_000, 64 << 20), None),
        Some(1 << 20)
    );
    // Automatic: five eighths of the places for entries of the preceding memtable's size, at most.
    assert_eq!(
        bucket_count(&options(0, 64 << 20), Some(1024)),
        Some(1 << 17)
    );
    let list = MemtableOptions::default();
    assert_eq!(bucket_count(&list, None), None);
}

#[test]
fn h20_counts_are_those_of_what_was_inserted_at_any_time() {
    let table = table(64, 16);
    let mut deletions = 0;
    let mut data_bytes = 0;
    let check = |entries: u64, deletions: u64, data_bytes: u64| {
        let totals = table.arena().arena().totals();
        assert_eq!(totals.entries, entries);
        assert_eq!(totals.deletions, deletions);
        assert_eq!(totals.data_bytes, data_bytes);
        assert_eq!(totals.largest_seqno, entries);
        assert_eq!(totals.first_seqno, Some(1));
    };
    let total = count(2000);
    for seqno in 1..=total {
        let value_type = match seqno % 7 {
            0 => ValueType::Deletion,
            _ => ValueType::Value,
        };
        let key = numbered(seqno % 300);
        let parts = EntryParts::new(seqno, value_type, &key, b"value").unwrap();
        table.insert(&parts).unwrap();
        deletions += u64::from(seqno % 7 == 0);
        data_bytes += parts.encoded_len() as u64;
        // Neither a refused entry nor a scan changes the counts.
        table.insert(&parts).unwrap_err();
        if seqno % 100 == 1 {
            check(seqno, deletions, data_bytes);
            assert_eq!(scan(&table).len() as u64, seqno);
        }
    }
    table.seal();
    check(total, deletions, data_bytes);
    table.finish();
    check(total, deletions, data_bytes);
    assert_eq!(scan(&table).len() as u64, total);
}

#[test]
fn h21_orders_that_may_equate_different_bytes_get_no_hash_table() {
    struct CaseBlind;
    impl Comparator for CaseBlind {
        fn name(&self) -> &str {
            "test.CaseBlind"
        }

        fn compare(&self, a: &[u8], b: &[u8]) -> Order {
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        }
    }
    let options = MemtableOptions {
        rep: RepKind::SortedHash {
            bucket_count: 0,
            sorted_vector_limit: 10_000,
        },
        write_buffer_bytes: 1 << 16,
        ..MemtableOptions::default()
    };
    let order = KeyOrder::new(CaseBlind);
    assert!(options.rep.check(&order, true).is_err());
    assert!(options.rep.check(&KeyOrder::Bytewise, false).is_ok());
    let lists = RepKind::HashSkipList { bucket_count: 1 };
    assert!(lists.check(&KeyOrder::Bytewise, false).is_err());
    assert!(lists.check(&KeyOrder::Bytewise, true).is_ok());
    let rep = MemtableRep::new(&options, order.clone(), Learned::NOTHING);
    let upper = EntryParts::new(1, ValueType::Value, b"KEY", b"v").unwrap();
    rep.insert(&upper).unwrap();
    let mut lookup = Lookup::new(b"key", 1);
    rep.search(&order, &mut lookup).unwrap();
    assert!(lookup.is_settled());
}

#[test]
fn h22_versions_of_a_hot_key_are_no_burden_to_its_neighbours() {
    let table = table(1, 10_000);
    insert(&table, b"cold", 0);
    let versions = count(5000);
    for seqno in 1..=versions {
        insert(&table, b"hot", seqno);
    }
    let hash = table.hash(b"cold");
    let keys = table.buckets.bucket(hash).len();
    assert_eq!(keys, 2, "a bucket leads to keys, not to versions");
    assert_eq!(get(&table, b"cold", MAX_SEQNO), Some(0));
    // An old version among many is found through the runs, sorted before or by the lookup.
    for snapshot in [1, versions / 2, versions - 1, versions] {
        assert_eq!(get(&table, b"hot", snapshot), Some(snapshot));
    }
    for seqno in versions + 1..=versions + 40 {
        insert(&table, b"hot", seqno);
        assert_eq!(get(&table, b"hot", 1), Some(1));
    }
}

#[test]
fn h25_a_prepared_array_is_used_and_comes_back_empty() {
    let recycler = Recycler::new(8 << 20);
    let options = MemtableOptions {
        rep: RepKind::SortedHash {
            bucket_count: 1 << 10,
            sorted_vector_limit: 10_000,
        },
        write_buffer_bytes: 1 << 20,
        arena_block_bytes: 1 << 14,
        recycler: Some(Arc::clone(&recycler)),
        ..MemtableOptions::default()
    };
    let fill = |rep: &MemtableRep| {
        for seqno in 0..count(2000) {
            let key = numbered(seqno);
            let parts = EntryParts::new(seqno, ValueType::Value, &key, b"v").unwrap();
            rep.insert(&parts).unwrap();
        }
    };
    // A memtable in use.
    let active = MemtableRep::new(&options, KeyOrder::Bytewise, Learned::NOTHING);
    fill(&active);
    recycler.prepare(&options);
    recycler.prepare(&options);
    let array_bytes = recycler.memory_bytes();
    assert_eq!(array_bytes, 8 << 10);
    for round in 0..3 {
        let rep = MemtableRep::new(&options, KeyOrder::Bytewise, Learned::NOTHING);
        assert!(recycler.memory_bytes() + array_bytes <= array_bytes.max(round * (1 << 22)));
        let mut lookup = Lookup::new(b"k", MAX_SEQNO);
        rep.search(&KeyOrder::Bytewise, &mut lookup).unwrap();
        assert!(!lookup.is_settled());
        fill(&rep);
        let parts = EntryParts::new(0, ValueType::Value, b"k", b"v").unwrap();
        rep.insert(&parts).unwrap();
        drop(rep);
        assert!(recycler.memory_bytes() > array_bytes, "blocks came back");
    }
    let small = Recycler::new(100);
    small.prepare(&options);
    assert_eq!(small.memory_bytes(), 0, "not more than it may keep");
}

/// Inserts with the lease of a certain shard.
fn insert_in(table: &SortedHash, shard: usize, parts: &EntryParts<'_>) {
    let hash = table.hash(parts.user_key);
    let place = table
        .buckets
        .bucket(hash)
        .find(hash, parts.user_key, &table.arena);
    let mut lease = table.arena().arena().lease_of(shard);
    table.insert_leased(&mut lease, parts, hash, place).unwrap();
}

#[test]
fn h27_inserts_have_nothing_to_write_in_common_but_a_bucket_until_one_needs_memory() {
    let table = table(1 << 12, 10_000);
    let insert_at = |shard: usize, seqno: SeqNo| {
        let key = numbered(seqno);
        let parts = EntryParts::new(seqno, ValueType::Value, &key, b"v").unwrap();
        insert_in(&table, shard, &parts);
    };
    // Both shards have memory for more entries.
    for seqno in 1..=100 {
        insert_at(0, seqno);
        insert_at(1, 1000 + seqno);
    }
    let shared = || {
        let set = Arc::clone(&table.lock_set());
        (
            Arc::as_ptr(&set),
            Arc::strong_count(&set),
            Arc::strong_count(&table),
            table.gauge.bytes(),
            table.arena().arena().memory_bytes(),
            table.offered.load(Ordering::Relaxed),
        )
    };
    let appended = |shard: usize| table.appended[shard].0.load(Ordering::Relaxed);
    let before = shared();
    for seqno in 101..=110 {
        insert_at(0, seqno);
        assert_eq!((appended(0), appended(1)), (seqno, 100));
    }
    assert!(shared() == before, "an insert wrote what all share");
    let shard_count = table.appended.len();
    assert_eq!((2..shard_count).map(appended).sum::<u64>(), 0);
    // Each thread writes to cache lines of its own.
    let lines = |shard: usize| std::ptr::from_ref(&table.appended[shard]).addr() / 128;
    assert!((1..shard_count).all(|shard| lines(shard) > lines(shard - 1)));
    // A leased shard is skipped.
    let _leased: Vec<Lease<'_>> = (0..shard_count - 1)
        .map(|shard| table.arena().arena().lease_of(shard))
        .collect();
    insert(&table, &numbered(5000), 5000);
    assert_eq!(appended(shard_count - 1), 1);
}

/// Creates a table whose arena has this many shards.
fn of_shards(shard_count: usize) -> Arc<SortedHash> {
    Arc::new(SortedHash::new(SortedHashParts {
        arena: SharedArena::of_shards(1 << 16, shard_count),
        ..parts(KeyOrder::Bytewise, 1 << 10, 64)
    }))
}

#[test]
fn the_log_of_every_shard_is_listed_sorted_and_finished() {
    for shard_count in [1, 2, 8, 16, 32] {
        let table = of_shards(shard_count);
        let shards = shard_count as u64;
        let mut cursor = SortedHashCursor::new(Arc::clone(&table));
        for round in 0..count(500).max(3) {
            for shard in 0..shards {
                let seqno = round * shards + shard;
                let key = numbered(seqno);
                let parts = EntryParts::new(seqno, ValueType::Value, &key, b"v").unwrap();
                insert_in(&table, usize::try_from(shard).unwrap(), &parts);
            }
            if round.is_multiple_of(50) {
                cursor.refresh();
                let listed = (round + 1) * shards;
                assert_eq!(entries(&mut cursor).len() as u64, listed, "{shards} shards");
            }
        }
        let lengths = table.capture().1;
        assert_eq!(lengths.len(), shard_count);
        assert!(lengths.iter().all(|&length| length == lengths[0]));
        let all = scan(&table);
        assert_eq!(all.len() as u64, lengths.iter().sum::<u64>());
        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
        table.seal();
        table.finish();
        assert_eq!(scan(&table), all);
    }
}

#[test]
fn more_threads_than_shards_lose_no_insert() {
    for shard_count in [1, 16, 32] {
        let table = of_shards(shard_count);
        let threads = if cfg!(miri) { 3 } else { 40 };
        let each = count(1000);
        thread::scope(|scope| {
            for thread in 0..threads {
                let table = &table;
                scope.spawn(move || {
                    for number in 0..each {
                        let seqno = number * threads + thread;
                        insert(table, &numbered(seqno), seqno);
                    }
                });
            }
            for _ in 0..3 {
                assert!(scan(&table).is_sorted_by(|a, b| a.0 < b.0));
            }
        });
        let inserted = each * threads;
        assert_eq!(scan(&table).len() as u64, inserted);
        assert_eq!(table.arena().arena().totals().entries, inserted);
        for seqno in 0..inserted {
            assert_eq!(get(&table, &numbered(seqno), MAX_SEQNO), Some(seqno));
        }
    }
}

#[test]
fn h28_a_cursor_outlives_the_table_and_reads_on() {
    let table = table(16, 8);
    for seqno in 0..100 {
        insert(&table, &numbered(seqno), seqno);
    }
    let mut cursor = SortedHashCursor::new(Arc::clone(&table));
    drop(table);
    assert_eq!(entries(&mut cursor).len(), 100);
    cursor.refresh();
    assert_eq!(entries(&mut cursor).len(), 100);
}

#[test]
fn background_merges_keep_runs_few_while_seeks_go_on() {
    // Under Miri, too, there are several tasks with cursors in between.
    let (limit, total) = if cfg!(miri) { (16, 100) } else { (500, 30_000) };
    let (seeks, runs) = if cfg!(miri) { (7, 20) } else { (20, 1000) };
    let (table, tasks) = with_sorter(parts(KeyOrder::Bytewise, 1 << 12, limit));
    for seqno in 0..total {
        insert(&table, &numbered(seqno), seqno);
        if seqno % seeks == 0 {
            let mut cursor = SortedHashCursor::new(Arc::clone(&table));
            cursor.seek_to_first();
            assert!(cursor.ready_set().runs.len() <= RUNS_MAX + 1);
        }
        if seqno % runs == 0 {
            let offered = std::mem::take(&mut *tasks.lock().unwrap());
            offered.into_iter().for_each(SortTask::run);
        }
    }
    assert_eq!(scan(&table).len() as u64, total);
    // Breaks the cycle: a task holds the table, and the table the receiver of tasks.
    tasks.lock().unwrap().clear();
}

/// Internal keys in order, and the position of a cursor over them.
struct Listed {
    keys: Vec<Vec<u8>>,
    at: Option<usize>,
}

impl Listed {
    /// Moves both to the same position, and compares.
    fn step(&mut self, cursor: &mut SortedHashCursor, order: &KeyOrder, kind: u64, target: &[u8]) {
        let before = |key: &Vec<u8>| order.compare_internal(key, target).is_lt();
        let through = |key: &Vec<u8>| order.compare_internal(key, target).is_le();
        self.at = match kind {
            0 => {
                cursor.seek_to_first();
                Some(0)
            }
            1 => {
                cursor.seek_to_last();
                self.keys.len().checked_sub(1)
            }
            2..6 => {
                cursor.seek(target);
                Some(self.keys.partition_point(before))
            }
            6 | 7 => {
                cursor.seek_for_prev(target);
                self.keys.partition_point(through).checked_sub(1)
            }
            8..14 => {
                cursor.prev();
                self.at.and_then(|at| at.checked_sub(1))
            }
            _ => {
                cursor.next();
                self.at.map(|at| at + 1)
            }
        };
        self.at = self.at.filter(|&at| at < self.keys.len());
        let expected = self.at.map(|at| &*self.keys[at]);
        assert_eq!(cursor.entry().map(Entry::key), expected, "{kind}");
    }
}

#[test]
fn cursors_go_through_runs_and_tail_as_through_one_list() {
    let slow = Arc::new(Slow {
        held: StdMutex::new(None),
    });
    let orders = [
        KeyOrder::Bytewise,
        KeyOrder::ReverseBytewise,
        KeyOrder::new(SlowOrder(slow)),
    ];
    for (order, key_count) in orders.into_iter().zip([100_000_u64, 40, 300]) {
        let mut state = key_count;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % below
        };
        let table = Arc::new(SortedHash::new(parts(order.clone(), 256, 10_000)));
        let mut keys = Vec::new();
        let mut kept: Vec<(SortedHashCursor, Listed)> = Vec::new();
        for _ in 0..count(60).max(2) {
            for _ in 0..random(if cfg!(miri) { 40 } else { 150 }) {
                let (key, seqno) = (numbered(random(key_count)), keys.len() as u64 + 1);
                insert(&table, &key, seqno);
                keys.push(encode(&key, seqno, ValueType::Value).to_vec());
            }
            let mut sorted = keys.clone();
            sorted.sort_by(|a, b| order.compare_internal(a, b));
            let listed = Listed {
                keys: sorted,
                at: None,
            };
            kept.push((SortedHashCursor::new(Arc::clone(&table)), listed));
            if kept.len() > 3 {
                kept.remove(0);
            }
            for (cursor, listed) in &mut kept {
                for _ in 0..count(200).max(8) {
                    let key = numbered(random(key_count));
                    let target = encode(&key, random(4000), ValueType::FOR_SEEK);
                    // Occasionally a long way in one direction.
                    let (kind, steps) = match random(40) {
                        0 => (20, random(count(400).max(20))),
                        1 => (10, random(count(400).max(20))),
                        _ => (random(30), 1),
                    };
                    for _ in 0..steps {
                        listed.step(cursor, &order, kind, &target);
                    }
                }
            }
        }
        table.seal();
        table.finish();
        for (cursor, listed) in &mut kept {
            listed.step(cursor, &order, 0, b"");
            while listed.at.is_some() {
                listed.step(cursor, &order, 20, b"");
            }
        }
    }
}

#[test]
fn a_long_log_is_freed_without_recursion() {
    let table = table(1 << 12, 1);
    // Each entry has its own segment.
    for seqno in 0..if cfg!(miri) { 100 } else { 60_000 } {
        insert(&table, &numbered(seqno), seqno);
    }
    drop(table);
}
