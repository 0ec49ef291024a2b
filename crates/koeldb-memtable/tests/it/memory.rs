//! Tests that the memory a memtable reports is the memory it allocated.
#![expect(unsafe_code, reason = "an allocator that counts is an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use koeldb_base::coding::to_usize;
use koeldb_base::prefix::FixedPrefix;
use koeldb_base::{Cursor, KeyOrder, ValueType};
use koeldb_memtable::{Memtable, MemtableOptions, Recycler, RepKind};

thread_local! {
    /// The bytes that this thread allocated and has not freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: usize, sign: isize) {
    let bytes = isize::try_from(bytes).unwrap_or(isize::MAX);
    let _ = HELD.try_with(|held| held.set(held.get() + sign * bytes));
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes, 1);
        count(layout.size(), -1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(start, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn held() -> usize {
    usize::try_from(HELD.get()).unwrap_or(0)
}

/// Allows three percent, and the small overhead of an empty memtable.
fn assert_agree(reported: usize, allocated: usize, when: &str) {
    let tolerance = allocated * 3 / 100 + 512;
    assert!(
        reported.abs_diff(allocated) <= tolerance,
        "{when}: {reported} bytes reported, {allocated} allocated"
    );
}

fn reps() -> [RepKind; 6] {
    // Miri visits all buckets whenever they are borrowed.
    let buckets = |count| if cfg!(miri) { 64 } else { count };
    [
        RepKind::default(),
        RepKind::Vector { reserved: 100 },
        RepKind::HashSkipList {
            bucket_count: buckets(1000),
        },
        RepKind::HashLinkList {
            bucket_count: buckets(1000),
            skip_list_threshold: 256,
        },
        RepKind::SortedHash {
            bucket_count: buckets(0),
            sorted_vector_limit: 10_000,
        },
        RepKind::SortedHash {
            bucket_count: buckets(1_000_000),
            sorted_vector_limit: 100,
        },
    ]
}

#[test]
fn h17_memory_reported_and_memory_allocated_agree() {
    let entries = if cfg!(miri) { 60 } else { 20_000_u64 };
    for rep in reps() {
        for value_bytes in [1, 100, 1000] {
            let options = MemtableOptions {
                rep,
                write_buffer_bytes: 4 << 20,
                prefixes: Some(Arc::new(FixedPrefix::new(2))),
                ..MemtableOptions::default()
            };
            let value = vec![1; value_bytes];
            let before = held();
            let memtable = Memtable::new(KeyOrder::Bytewise, &options);
            let agree = |when: &str| {
                let when = format!("{rep:?}, {value_bytes}, {when}");
                assert_agree(memtable.memory_bytes(), held() - before, &when);
            };
            agree("empty");
            for seqno in 0..entries / (1 + value_bytes as u64 / 20) {
                let key = seqno.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
                memtable
                    .insert(seqno, ValueType::Value, &key, &value)
                    .unwrap();
            }
            agree("full");
            let mut cursor = memtable.cursor();
            cursor.seek_to_first().unwrap();
            agree("sorted");
            drop(cursor);
            memtable.seal();
            memtable.finalise();
            let report = memtable.memory();
            assert_eq!(report.total(), memtable.memory_bytes());
            agree("finalised");
            drop(memtable);
            assert_eq!(held(), before, "all of it is given back");
        }
    }
}

#[test]
fn h17_what_is_kept_for_later_is_reported() {
    for rep in reps() {
        let before = held();
        let recycler = Recycler::new(1 << 20);
        let options = MemtableOptions {
            rep,
            arena_block_bytes: 1 << 16,
            write_buffer_bytes: 1 << 20,
            prefixes: Some(Arc::new(FixedPrefix::new(2))),
            recycler: Some(Arc::clone(&recycler)),
            ..MemtableOptions::default()
        };
        let filled = || {
            let memtable = Memtable::new(KeyOrder::Bytewise, &options);
            for seqno in 0..if cfg!(miri) { 12 } else { 2000_u64 } {
                memtable
                    .insert(seqno, ValueType::Value, &seqno.to_le_bytes(), &[0; 100])
                    .unwrap();
            }
            memtable
        };
        let active = filled();
        for _ in 0..3 {
            let memtable = filled();
            let memtables = active.memory_bytes() + memtable.memory_bytes();
            let reported = memtables + recycler.memory_bytes();
            let options_bytes = 2048;
            let allocated = held() - before;
            assert!(reported.abs_diff(allocated) <= allocated * 3 / 100 + options_bytes);
        }
        assert!(recycler.memory_bytes() <= 1 << 20);
        assert!(recycler.memory_bytes() > 0);
        let kept = recycler.memory_bytes();
        drop(active);
        assert!(
            recycler.memory_bytes() <= kept + (128 << 10),
            "{rep:?}: arrays at most, as nobody writes"
        );
    }
}

/// The size of an entry; larger and fewer under Miri.
const ENTRY_KIB: usize = if cfg!(miri) { 16 } else { 1 };

/// The value of an entry of that size.
static VALUE: [u8; ENTRY_KIB * 1024 - 64] = [7; ENTRY_KIB * 1024 - 64];

fn fill(memtable: &Memtable, kib: u64) {
    for seqno in 1..=kib / ENTRY_KIB as u64 {
        let key = seqno.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        memtable
            .insert(seqno, ValueType::Value, &key, &VALUE)
            .unwrap();
    }
}

#[test]
fn a_large_memtable_takes_chunks_and_is_as_full_as_its_entries_are() {
    for rep in reps() {
        let options = MemtableOptions {
            rep,
            write_buffer_bytes: 64 << 20,
            prefixes: Some(Arc::new(FixedPrefix::new(2))),
            ..MemtableOptions::default()
        };
        let memtable = Memtable::new(KeyOrder::Bytewise, &options);
        let buckets = memtable.memory().bucket_bytes;
        // More than fits before the first chunk.
        let kib = if cfg!(miri) { 1600 } else { 5000 };
        fill(&memtable, kib);
        let (filled, taken) = (memtable.filled_bytes(), memtable.memory_bytes());
        let unfilled = taken - filled;
        assert!(
            (buckets..buckets + (2 << 20)).contains(&unfilled),
            "{rep:?}"
        );
        let expected = to_usize(kib << 10);
        let blocks = 512 << 10;
        // A list with an index for each of many prefixes has an overhead of its own.
        let is_lean = !matches!(rep, RepKind::HashSkipList { .. });
        assert!(
            !is_lean || filled.abs_diff(expected) < expected / 10 + blocks,
            "{rep:?}: {filled} of {expected}"
        );
        memtable.seal();
        let mut cursor = memtable.cursor();
        let mut count = 0;
        cursor.seek_to_first().unwrap();
        while cursor.valid() {
            assert_eq!(cursor.value(), VALUE);
            count += 1;
            cursor.next().unwrap();
        }
        assert_eq!(count * ENTRY_KIB as u64, kib);
    }
}

#[test]
fn with_what_is_kept_there_is_never_more_memory_than_memtables_once_took() {
    for rep in reps() {
        let recycler = Recycler::new(16 << 20);
        let options = MemtableOptions {
            rep,
            write_buffer_bytes: 4 << 20,
            prefixes: Some(Arc::new(FixedPrefix::new(2))),
            recycler: Some(Arc::clone(&recycler)),
            ..MemtableOptions::default()
        };
        let kib = if cfg!(miri) { 160 } else { 1000 };
        let filled = || {
            let memtable = Memtable::new(KeyOrder::Bytewise, &options);
            fill(&memtable, kib);
            memtable
        };
        let (one, two) = (filled(), filled());
        let most = one.memory_bytes() + two.memory_bytes();
        drop(one);
        assert!(recycler.memory_bytes() > 0, "{rep:?}");
        let three = filled();
        drop(two);
        let four = filled();
        let all = three.memory_bytes() + four.memory_bytes() + recycler.memory_bytes();
        assert!(all <= most + most / 50, "{rep:?}: {all} of {most}");
    }
}
