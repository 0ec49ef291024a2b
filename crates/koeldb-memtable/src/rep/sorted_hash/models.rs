//! Loom models: every interleaving of a few threads, in this code and, as controls, in two failed
//! designs.
//!
//! `.ci/models koeldb-memtable`
//!
//! Loom replaces the atomics and locks of the arena, the buckets, the chains, the logs and the run
//! set. Reference counts are the standard library's.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use koeldb_base::key::encode;
use koeldb_base::{SeqNo, ValueType};
use loom::sync::atomic::{AtomicBool as Flag, AtomicUsize};
use loom::thread;

use super::node::Bucket;
use super::*;

fn check(model: impl Fn() + Send + Sync + 'static) {
    koeldb_base::sync::explore("sorted hash memtable", model);
}

fn table(vector_limit: usize) -> Arc<SortedHash> {
    Arc::new(SortedHash::new(SortedHashParts {
        order: KeyOrder::Bytewise,
        arena: SharedArena::of_blocks(1 << 12),
        bucket_count: 1,
        vector_limit,
        base: Base::EMPTY,
        recycler: None,
        sorter: None,
        // A model runs repeatedly and must be deterministic.
        hasher: KeyHasher::fixed(),
    }))
}

fn insert(table: &Arc<SortedHash>, key: &[u8], seqno: SeqNo) -> bool {
    let parts = EntryParts::new(seqno, ValueType::Value, key, b"").unwrap();
    table.insert(&parts).is_ok()
}

/// The versions a lookup finds, newest first.
fn versions(table: &SortedHash, key: &[u8], snapshot: SeqNo) -> Vec<SeqNo> {
    let target = encode(key, snapshot, ValueType::FOR_SEEK);
    let seqno = |entry: Entry<'_>| entry.user_key_and_footer().1 >> 8;
    table.entries_from(&target).map(seqno).collect()
}

/// The sequence numbers in a scan, in key order.
fn scan(table: &Arc<SortedHash>) -> Vec<SeqNo> {
    let mut cursor = SortedHashCursor::new(Arc::clone(table));
    let mut found = Vec::new();
    cursor.seek_to_first();
    while let Some(entry) = cursor.entry() {
        found.push(entry.user_key_and_footer().1 >> 8);
        cursor.next();
    }
    found
}

#[test]
fn m1_h07_an_old_key_is_found_while_others_enter_its_bucket() {
    check(|| {
        let table = table(4);
        insert(&table, b"old", 1);
        let writers = [(b"a", 2), (b"b", 3)].map(|(key, seqno)| {
            let table = Arc::clone(&table);
            thread::spawn(move || assert!(insert(&table, key, seqno)))
        });
        assert_eq!(versions(&table, b"old", 9), [1]);
        for writer in writers {
            writer.join().unwrap();
        }
        for (key, seqno) in [(&b"old"[..], 1), (b"a", 2), (b"b", 3)] {
            assert_eq!(versions(&table, key, 9), [seqno]);
        }
    });
}

#[test]
fn m2_two_versions_of_a_new_key_make_one_head() {
    check(|| {
        let table = table(4);
        let writers = [1, 2].map(|seqno| {
            let table = Arc::clone(&table);
            thread::spawn(move || assert!(insert(&table, b"k", seqno)))
        });
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(versions(&table, b"k", 9), [2, 1]);
        assert_eq!(versions(&table, b"k", 1), [1]);
    });
}

#[test]
fn m3_versions_that_arrive_out_of_order_hide_none() {
    check(|| {
        let table = table(4);
        insert(&table, b"k", 2);
        let writers = [3, 1].map(|seqno| {
            let table = Arc::clone(&table);
            thread::spawn(move || assert!(insert(&table, b"k", seqno)))
        });
        let seen = versions(&table, b"k", 2);
        assert!(seen == [2] || seen == [2, 1], "{seen:?}");
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(versions(&table, b"k", 9), [3, 2, 1]);
    });
}

#[test]
fn m4_one_of_two_equal_entries_is_refused() {
    check(|| {
        let table = table(4);
        let writers = [(); 2].map(|()| {
            let table = Arc::clone(&table);
            thread::spawn(move || insert(&table, b"k", 1))
        });
        let accepted = writers.map(|writer| writer.join().unwrap());
        assert_eq!(accepted.iter().filter(|&&accepted| accepted).count(), 1);
        assert_eq!(scan(&table), [1]);
    });
}

#[test]
fn m5_m7_h11_what_was_acknowledged_is_found_and_listed_once() {
    check(|| {
        let table = table(1);
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let writer = {
            let (table, acknowledged) = (Arc::clone(&table), Arc::clone(&acknowledged));
            thread::spawn(move || {
                for seqno in [1, 2] {
                    insert(&table, &[b'a', b'0' + u8::try_from(seqno).unwrap()], seqno);
                    acknowledged.store(usize::try_from(seqno).unwrap(), Release);
                }
            })
        };
        let count = acknowledged.load(Acquire);
        let listed = scan(&table);
        assert!(listed.len() >= count && listed.is_sorted());
        assert!(listed == [1_u64, 2][..listed.len()], "{listed:?}");
        if count > 0 {
            assert_eq!(versions(&table, b"a1", 9), [1]);
        }
        writer.join().unwrap();
        assert_eq!(scan(&table), [1, 2]);
    });
}

#[test]
fn m6_a_lease_hands_its_shard_over_whole() {
    check(|| {
        let arena = SharedArena::of_blocks(1 << 12);
        let values = Arc::new(PerShard::new(&arena, |_| Vec::new()));
        let writers = [1, 2].map(|number| {
            let (arena, values) = (arena.clone(), Arc::clone(&values));
            thread::spawn(move || {
                let mut lease = arena.arena().lease();
                values.with(&mut lease, |value: &mut Vec<u32>| value.push(number));
            })
        });
        for writer in writers {
            writer.join().unwrap();
        }
        let mut found: Vec<u32> = Vec::new();
        for shard in 0..arena.arena().shard_count() {
            let mut lease = arena.arena().lease_of(shard);
            found.extend(values.with(&mut lease, std::mem::take));
        }
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
    });
}

#[test]
fn m8_m11_run_sets_that_are_replaced_at_once_hold_every_entry_once() {
    check(|| {
        let table = table(2);
        insert(&table, b"a", 1);
        let threads = [0, 1].map(|_| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let seen = scan(&table);
                assert!(seen == [1] || seen == [1, 2], "{seen:?}");
            })
        });
        insert(&table, b"b", 2);
        assert_eq!(scan(&table), [1, 2]);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(scan(&table), [1, 2]);
    });
}

#[test]
fn m9_a_task_beside_a_seek_loses_and_doubles_nothing() {
    check(|| {
        let table = table(2);
        insert(&table, b"a", 1);
        scan(&table);
        insert(&table, b"b", 2);
        let task = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.sort_in_background())
        };
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || assert!(insert(&table, b"c", 3)))
        };
        let seen = scan(&table);
        assert!(seen == [1, 2] || seen == [1, 2, 3], "{seen:?}");
        task.join().unwrap();
        writer.join().unwrap();
        assert_eq!(scan(&table), [1, 2, 3]);
    });
}

#[test]
fn m10_a_sealed_table_is_finished_beside_cursors() {
    check(|| {
        let table = table(2);
        insert(&table, b"a", 1);
        insert(&table, b"b", 2);
        let threads = [true, false].map(|finishes| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                if finishes {
                    table.seal();
                    table.finish();
                } else {
                    assert_eq!(scan(&table), [1, 2]);
                }
            })
        });
        assert_eq!(scan(&table), [1, 2]);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(scan(&table), [1, 2]);
    });
}

#[test]
fn m14_blocks_fetched_at_once_never_overlap() {
    const BYTES: usize = 1_000;
    check(|| {
        let arena = SharedArena::of_blocks(1 << 13);
        let allocate = |count: usize| {
            let arena = arena.clone();
            move || -> Vec<usize> {
                let one = |_| arena.arena().lease().allocate(BYTES).addr().get();
                (0..count).map(one).collect()
            }
        };
        // Enough that each thread may be the one that needs the second block of a shard.
        let threads = [3, 2].map(|count| thread::spawn(allocate(count)));
        let mut starts = allocate(2)();
        for thread in threads {
            starts.extend(thread.join().unwrap());
        }
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= BYTES));
        assert!(arena.arena().memory_bytes() >= starts.len() * BYTES);
    });
}

/// Speedb 2.0: a consumer at the end of the list sleeps until notified, and a producer notifies
/// before it links.
#[test]
#[should_panic(expected = "asleep")]
fn m12_h01_control_a_producer_that_links_after_it_told_leaves_the_consumer_asleep() {
    check(|| {
        let (told, linked) = (Arc::new(Flag::new(false)), Arc::new(Flag::new(false)));
        let producer = {
            let (told, linked) = (Arc::clone(&told), Arc::clone(&linked));
            thread::spawn(move || {
                told.store(true, Release);
                linked.store(true, Release);
            })
        };
        let _ = told.swap(false, Acquire);
        let found = linked.load(Acquire);
        producer.join().unwrap();
        assert!(
            found || told.load(Acquire),
            "the consumer is asleep for ever"
        );
    });
}

/// Speedb 2.3: merging takes a retired vector away from an inserter that still appends to it.
#[test]
#[should_panic(expected = "lost")]
fn m13_h08_control_a_vector_that_is_merged_while_it_is_appended_to_loses_the_entry() {
    check(|| {
        let appended = Arc::new(AtomicUsize::new(0));
        let merged = Arc::new(AtomicUsize::new(0));
        let is_current = Arc::new(Flag::new(true));
        let inserter = {
            let (appended, is_current) = (Arc::clone(&appended), Arc::clone(&is_current));
            thread::spawn(move || {
                let chosen = is_current.load(Acquire);
                if chosen {
                    appended.fetch_add(1, Release);
                }
                chosen
            })
        };
        is_current.store(false, Release);
        merged.store(appended.load(Acquire), Relaxed);
        let was_appended = inserter.join().unwrap();
        assert_eq!(
            merged.load(Relaxed),
            usize::from(was_appended),
            "an entry was lost"
        );
    });
}

/// A bucket with two slots, one of which is filled.
struct TwoSlots {
    arena: SharedArena,
    bucket: Bucket<2>,
}

impl TwoSlots {
    fn with_one_key() -> Arc<Self> {
        let two = Arc::new(TwoSlots {
            arena: SharedArena::of_blocks(1 << 12),
            bucket: Bucket::empty(),
        });
        two.insert(b"old", 1);
        two
    }

    fn insert(&self, key: &[u8], seqno: SeqNo) {
        let parts = EntryParts::new(seqno, ValueType::Value, key, b"").unwrap();
        let place = self.bucket.find(HASH, key, &self.arena);
        let mut lease = self.arena.arena().lease();
        let inserted = self
            .bucket
            .insert(HASH, &parts, place, &mut lease, &self.arena);
        assert!(inserted.is_ok());
    }

    fn versions(&self, key: &[u8]) -> Vec<SeqNo> {
        let head = self.bucket.find(HASH, key, &self.arena).ok();
        let newest = head.map(HeadRef::newest);
        std::iter::successors(newest, |node| node.older())
            .map(|node| node.entry(&self.arena).user_key_and_footer().1 >> 8)
            .collect()
    }
}

/// The hash of all keys.
const HASH: KeyHash = KeyHash(7);

#[test]
fn m15_two_keys_that_race_for_the_last_slot_are_both_found() {
    check(|| {
        let two = TwoSlots::with_one_key();
        let writers = [(b"a", 2), (b"b", 3)].map(|(key, seqno)| {
            let two = Arc::clone(&two);
            thread::spawn(move || two.insert(key, seqno))
        });
        assert_eq!(two.versions(b"old"), [1]);
        for writer in writers {
            writer.join().unwrap();
        }
        for (key, seqno) in [(&b"old"[..], 1), (b"a", 2), (b"b", 3)] {
            assert_eq!(two.versions(key), [seqno]);
        }
    });
}

#[test]
fn m16_versions_of_a_key_that_race_for_the_last_slot_make_one_head() {
    check(|| {
        let two = TwoSlots::with_one_key();
        let writers = [2, 3].map(|seqno| {
            let two = Arc::clone(&two);
            thread::spawn(move || two.insert(b"k", seqno))
        });
        let seen = two.versions(b"k");
        assert!(seen.is_sorted_by(|newer, older| newer > older), "{seen:?}");
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(two.versions(b"k"), [3, 2]);
        assert_eq!(two.versions(b"old"), [1]);
    });
}
