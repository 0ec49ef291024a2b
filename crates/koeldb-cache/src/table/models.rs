//! Loom models of lookups in passing and the writer of one table, and controls without its rules.

use koeldb_base::sync::{explore, explore_large, spawn};

use super::*;

const HASH: u64 = 7;

fn key(offset: u64) -> CacheKey {
    CacheKey { file: 1, offset }
}

fn put(writer: &mut TableWriter<u64>, slot: SlotIndex, offset: u64) {
    let contents = Contents {
        key: key(offset),
        value: Arc::new(offset),
    };
    writer.put(slot, HASH, contents, slot as usize);
}

/// Creates a table with one entry, in slot 0.
fn filled() -> TableWriter<u64> {
    let mut writer = TableWriter::new(Stripes::new());
    put(&mut writer, 0, 1);
    writer
}

/// Starts a thread that looks an entry up, and keeps it.
fn lookup(writer: &TableWriter<u64>, offset: u64) -> loom::thread::JoinHandle<Option<Arc<u64>>> {
    let table = writer.table();
    spawn(move || {
        let found = table.get(&key(offset), HASH);
        assert!(found.as_ref().is_none_or(|found| **found == offset));
        found
    })
}

#[test]
fn a_slot_that_is_reused_gives_no_lookup_the_value_of_another_key() {
    explore_large("cache table, lookups against reuse", || {
        let mut writer = filled();
        let lookups = [lookup(&writer, 1), lookup(&writer, 2)];
        assert_eq!(writer.take(0).map(|value| *value), Some(1));
        put(&mut writer, 0, 2);
        for lookup in lookups {
            lookup.join().unwrap();
        }
        assert!(writer.table.get(&key(1), HASH).is_none());
        assert!(writer.table.get(&key(2), HASH).is_some());
    });
}

/// Explores a lookup against an eviction by `take`: either pins the entry, or evicts it.
fn evict(name: &str, take: fn(&mut TableWriter<u64>) -> Option<Arc<u64>>) {
    explore(name, move || {
        let mut writer = filled();
        let lookup = lookup(&writer, 1);
        let evicted = take(&mut writer).is_some();
        let pinned = lookup.join().unwrap();
        assert!(!(evicted && pinned.is_some()), "evicted and pinned");
        // Entries that were not evicted are found again.
        drop(pinned);
        assert_eq!(writer.table.get(&key(1), HASH).is_none(), evicted);
    });
}

#[test]
fn an_entry_is_pinned_or_evicted() {
    evict("cache table, lookup against eviction", |writer| {
        writer.take_unpinned(0)
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn control_a_writer_that_does_not_search_changes_a_slot_in_use() {
    evict("cache table without search", |writer| {
        let word = writer.hide(0);
        writer.empty(0, word)
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn control_a_writer_that_searches_before_it_hides_changes_a_slot_in_use() {
    evict("cache table, search too early", |writer| {
        writer.table.stripes.wait_for(fingerprint_of(HASH));
        let word = writer.hide(0);
        writer.empty(0, word)
    });
}

#[test]
#[should_panic(expected = "evicted and pinned")]
fn control_a_writer_that_counts_references_before_it_hides_evicts_a_pinned_entry() {
    evict("cache table, count too early", |writer| {
        if writer.is_pinned(0) {
            return None;
        }
        writer.take(0)
    });
}

#[test]
fn growing_and_moving_buckets_give_no_lookup_a_wrong_value() {
    explore("cache table, lookup against growth", || {
        let mut writer = filled();
        for slot in 1..3 {
            put(&mut writer, slot, 1 + u64::from(slot));
        }
        let lookups = [lookup(&writer, 3)];
        // The third bucket moves to the place of the first.
        assert!(writer.take(0).is_some());
        put(&mut writer, 0, 4);
        put(&mut writer, 3, 5);
        assert_eq!(writer.bucket_count(), 2 * BUCKETS_MIN);
        for lookup in lookups {
            lookup.join().unwrap();
        }
        for offset in 2..6 {
            assert!(writer.table.get(&key(offset), HASH).is_some());
        }
    });
}
