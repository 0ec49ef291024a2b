//! Loom models of threads that pin, insert and remove entries, including reference counts.

use koeldb_base::sync::{explore, explore_large, spawn};

use super::*;
use crate::options::CachePolicy;

/// The charge of an entry.
const CHARGE: u64 = 20;

fn cache(entries: u64, policy: CachePolicy, strict_capacity: bool) -> Cache<u64> {
    Cache::new(&CacheOptions {
        capacity_bytes: entries * (CHARGE + Cache::<u64>::ENTRY_OVERHEAD),
        shard_bits: Some(0),
        strict_capacity,
        policy,
        ..CacheOptions::default()
    })
}

fn key(offset: u64) -> CacheKey {
    CacheKey { file: 1, offset }
}

fn put(cache: &Cache<u64>, offset: u64) -> Result<()> {
    cache.insert(key(offset), Arc::new(offset), CHARGE, Priority::Low)
}

const POLICIES: [CachePolicy; 2] = [CachePolicy::Lru, CachePolicy::S3Fifo];

#[test]
fn what_is_pinned_stays_and_what_is_not_makes_room() {
    for policy in POLICIES {
        explore("cache, pin against evict", move || {
            let cache = cache(1, policy, true);
            put(&cache, 1).unwrap();
            let reader = {
                let cache = cache.clone();
                spawn(move || {
                    let pinned = cache.get(&key(1));
                    if let Some(value) = &pinned {
                        assert_eq!(**value, 1);
                        // A pinned entry is not evicted.
                        assert!(cache.get(&key(1)).is_some());
                    }
                })
            };
            let inserted = put(&cache, 2).is_ok();
            assert!(cache.usage() <= cache.capacity());
            reader.join().unwrap();
            assert_eq!(cache.get(&key(2)).is_some(), inserted);
            assert_eq!(cache.get(&key(1)).is_none(), inserted);
            assert_eq!(cache.len(), 1);
            assert_eq!(cache.pinned_usage(), 0);
            put(&cache, 3).unwrap();
        });
    }
}

#[test]
fn entries_under_one_key_replace_each_other_whole() {
    for policy in POLICIES {
        explore("cache, insert against insert", move || {
            let cache = cache(2, policy, false);
            let writers = [10, 20].map(|value| {
                let cache = cache.clone();
                spawn(move || {
                    let inserted = cache.insert(key(1), Arc::new(value), CHARGE, Priority::Low);
                    inserted.unwrap();
                })
            });
            let seen = cache.get(&key(1)).map(|value| *value);
            assert!(matches!(seen, None | Some(10 | 20)));
            for writer in writers {
                writer.join().unwrap();
            }
            assert_eq!(cache.len(), 1);
            assert_eq!(cache.usage(), cache.capacity() / 2);
            assert!(cache.get(&key(1)).is_some());
        });
    }
}

#[test]
fn a_removed_entry_lives_as_long_as_it_is_held() {
    explore("cache, remove against pin", || {
        let cache = cache(2, CachePolicy::S3Fifo, false);
        put(&cache, 1).unwrap();
        let threads = [true, false].map(|removes| {
            let cache = cache.clone();
            spawn(move || match removes {
                true => cache.remove(&key(1)).map(|value| *value),
                false => cache.get(&key(1)).map(|value| *value),
            })
        });
        let removed = cache.remove(&key(1)).is_some();
        let [other, seen] = threads.map(|thread| thread.join().unwrap());
        // Exactly one of the removing threads gets it.
        assert_ne!(removed, other.is_some());
        assert!(seen.is_none_or(|value| value == 1));
        assert!(cache.is_empty() && cache.usage() == 0);
    });
}

#[test]
fn an_entry_is_evicted_once() {
    for policy in POLICIES {
        explore_large("cache, evict against evict", move || {
            let cache = cache(1, policy, false);
            put(&cache, 1).unwrap();
            let threads = [2, 3].map(|offset| {
                let cache = cache.clone();
                spawn(move || {
                    put(&cache, offset).unwrap();
                    cache.get(&key(1)).is_some()
                })
            });
            for thread in threads {
                assert!(!thread.join().unwrap(), "its place was needed");
            }
            assert_eq!((cache.len(), cache.counts().evictions), (1, 2));
            assert_eq!(cache.usage(), cache.capacity());
        });
    }
}

#[test]
fn all_shards_have_shares_of_one_capacity() {
    explore_large("cache, capacity against capacity", || {
        let entry = CHARGE + Cache::<u64>::ENTRY_OVERHEAD;
        let cache: Cache<u64> = Cache::new(&CacheOptions {
            capacity_bytes: 4 * entry,
            shard_bits: Some(1),
            ..CacheOptions::default()
        });
        let other = {
            let cache = cache.clone();
            spawn(move || cache.set_capacity(0))
        };
        cache.set_capacity(8 * entry);
        other.join().unwrap();
        // There is room for each entry, or for none.
        (0..4).for_each(|offset| put(&cache, offset).unwrap());
        let expected = if cache.capacity() == 0 { 0 } else { 4 };
        assert_eq!(cache.len(), expected);
    });
}
