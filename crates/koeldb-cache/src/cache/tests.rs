use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::options::CachePolicy;

mod measure;

const OVERHEAD: u64 = Cache::<u64>::ENTRY_OVERHEAD;

fn key(offset: u64) -> CacheKey {
    CacheKey { file: 7, offset }
}

/// A cache of one shard with room for `count` entries of charge 20.
fn small(policy: CachePolicy, count: u64, strict: bool, high_priority_ratio: f64) -> Cache<u64> {
    Cache::new(&CacheOptions {
        capacity_bytes: count * (20 + OVERHEAD),
        shard_bits: Some(0),
        strict_capacity: strict,
        high_priority_ratio,
        policy,
    })
}

fn put(cache: &Cache<u64>, offset: u64, priority: Priority) {
    cache
        .insert(key(offset), Arc::new(offset), 20, priority)
        .unwrap();
}

/// Returns keys that have one hash.
fn key_of_one_hash(file: u64) -> CacheKey {
    /// The offset whose factor in the product of the hash is 0.
    const OFFSET: u64 = 0xa076_1d64_78bd_642f_u64.wrapping_mul(inverse(0xd6e8_feb8_6659_fd93));
    CacheKey {
        file,
        offset: OFFSET,
    }
}

/// Returns the inverse of an odd number modulo 2^64. Each step of Newton's method doubles the number
/// of right bits, of which there are three at first.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut right_bits = 3;
    while right_bits < u64::BITS {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        right_bits *= 2;
    }
    inverse
}

fn has(cache: &Cache<u64>, offset: u64) -> bool {
    cache.get(&key(offset)).is_some()
}

#[test]
fn of_what_passes_by_a_full_cache_takes_one_in_sixty_four() {
    let cache = small(CachePolicy::S3Fifo, 128, false, 0.0);
    for offset in 0..120 {
        assert!(cache.admits_passing(&key(offset)), "there is room");
        put(&cache, offset, Priority::Low);
    }
    let admitted = |from| (from..from + 64).filter(|&offset| cache.admits_passing(&key(offset)));
    for round in 0..10 {
        assert_eq!(admitted(1000 * round).count(), 1);
    }
    cache.remove(&key(3));
    assert!(cache.admits_passing(&key(3)), "there is room again");
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u64, Priority),
    Get(u64),
    /// Gets an entry and keeps the value in one of a few slots.
    Hold(u64, usize),
    Release(usize),
    Remove(u64),
    SetCapacity(u64),
}

/// The number of keys of the property test.
const KEYS: u64 = 24;

/// The number of entries that the property test may hold.
const HANDS: usize = 12;

fn step() -> impl Strategy<Value = Step> {
    let priority = prop_oneof![
        Just(Priority::High),
        Just(Priority::Low),
        Just(Priority::Bottom)
    ];
    prop_oneof![
        6 => (0..KEYS, 0..200_u64, priority).prop_map(|(k, charge, p)| Step::Insert(k, charge, p)),
        6 => (0..KEYS).prop_map(Step::Get),
        9 => (0..KEYS, 0..HANDS).prop_map(|(k, hand)| Step::Hold(k, hand)),
        1 => (0..HANDS).prop_map(Step::Release),
        1 => (0..KEYS).prop_map(Step::Remove),
        1 => (0..3000_u64).prop_map(Step::SetCapacity),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 400 }))]

    #[test]
    fn what_is_found_was_put_last_and_the_capacity_holds(
        lru: bool,
        strict: bool,
        ratio in prop_oneof![Just(0.0), Just(0.5), Just(1.0)],
        steps in prop::collection::vec(step(), 0..if cfg!(miri) { 40 } else { 160 }),
    ) {
        let policy = if lru { CachePolicy::Lru } else { CachePolicy::S3Fifo };
        let cache = Cache::new(&CacheOptions {
            capacity_bytes: 1000,
            shard_bits: Some(0),
            strict_capacity: strict,
            high_priority_ratio: ratio,
            policy,
        });
        let mut last: HashMap<u64, (u64, u64)> = HashMap::new();
        let mut hands = [const { None::<Arc<u64>> }; HANDS];
        for (version, step) in steps.into_iter().enumerate() {
            let version = version as u64;
            let mut inserted = true;
            let makes_room = match step {
                Step::Insert(_, charge, _) => charge + OVERHEAD <= cache.capacity(),
                Step::SetCapacity(_) => true,
                _ => false,
            };
            match step {
                Step::Insert(k, charge, priority) => {
                    inserted = cache.insert(key(k), Arc::new(version), charge, priority).is_ok();
                    prop_assert!(inserted || strict);
                    last.insert(k, (version, charge + OVERHEAD));
                    if !inserted {
                        prop_assert!(!has(&cache, k));
                    } else if charge + OVERHEAD <= cache.capacity() {
                        prop_assert!(has(&cache, k), "an entry that fits is there at first");
                    }
                }
                Step::Get(k) => {
                    if let Some(found) = cache.get(&key(k)) {
                        prop_assert_eq!(Some(*found), last.get(&k).map(|(version, _)| *version));
                    }
                }
                Step::Hold(k, hand) => hands[hand] = cache.get(&key(k)),
                Step::Release(hand) => hands[hand] = None,
                Step::Remove(k) => {
                    cache.remove(&key(k));
                    prop_assert!(!has(&cache, k));
                    last.remove(&k);
                }
                Step::SetCapacity(bytes) => cache.set_capacity(bytes),
            }
            let present: u64 = (0..KEYS).filter(|&k| has(&cache, k)).map(|k| last[&k].1).sum();
            prop_assert_eq!(cache.usage(), present);
            prop_assert_eq!(cache.len(), (0..KEYS).filter(|&k| has(&cache, k)).count() as u64);
            if strict && inserted && makes_room && matches!(step, Step::Insert(..)) {
                prop_assert!(cache.usage() <= cache.capacity());
            }
            if makes_room && (!inserted || cache.usage() > cache.capacity()) {
                let held = |k: &u64| cache.get(&key(*k)).is_some_and(|v| Arc::strong_count(&v) > 2);
                let pinned: u64 = (0..KEYS).filter(held).map(|k| last[&k].1).sum();
                prop_assert_eq!(cache.pinned_usage(), pinned);
                let is_new = |k: &u64| matches!(step, Step::Insert(new, ..) if new == *k);
                let evictable = |k: &u64| has(&cache, *k) && !held(k) && !is_new(k);
                prop_assert_eq!((0..KEYS).find(evictable), None, "it could be evicted");
            }
        }
        drop(hands);
        cache.set_capacity(0);
        prop_assert_eq!((cache.len(), cache.usage()), (0, 0));
    }
}

#[test]
fn lru_evicts_the_one_used_longest_ago() {
    let cache = small(CachePolicy::Lru, 3, false, 0.0);
    for offset in 1..=3 {
        put(&cache, offset, Priority::Low);
    }
    assert!(has(&cache, 1));
    put(&cache, 4, Priority::High);
    assert!(!has(&cache, 2) && has(&cache, 1) && has(&cache, 3) && has(&cache, 4));
}

#[test]
fn lru_keeps_high_priorities_within_their_share() {
    let cache = small(CachePolicy::Lru, 4, false, 0.5);
    put(&cache, 1, Priority::High);
    put(&cache, 2, Priority::High);
    put(&cache, 3, Priority::Low);
    put(&cache, 4, Priority::Bottom);
    put(&cache, 5, Priority::Low);
    assert!(!has(&cache, 4), "the bottom goes first");
    put(&cache, 6, Priority::Low);
    assert!(!has(&cache, 3), "then low priorities");
    put(&cache, 7, Priority::High);
    assert!(!has(&cache, 5));
    put(&cache, 8, Priority::High);
    assert!(!has(&cache, 6));
    // The pool of two now holds 7 and 8; 1 and 2 left it one after the other.
    put(&cache, 9, Priority::Low);
    assert!(!has(&cache, 1));
}

#[test]
fn lru_evicts_an_entry_without_a_hit_before_any_with_one() {
    let cache = small(CachePolicy::Lru, 4, false, 0.5);
    put(&cache, 1, Priority::High);
    put(&cache, 2, Priority::High);
    put(&cache, 3, Priority::Low);
    put(&cache, 4, Priority::Low);
    assert!(has(&cache, 3) && has(&cache, 4));
    // Both move to the pool of high priorities, which 1 and 2 leave for the low one.
    put(&cache, 5, Priority::Low);
    assert!(!has(&cache, 1));
    assert!([2, 3, 4, 5].iter().all(|&offset| has(&cache, offset)));
}

#[test]
fn a_scan_leaves_what_is_asked_for_again() {
    let cache = small(CachePolicy::S3Fifo, 100, false, 0.0);
    for round in 0..if cfg!(miri) { 1 } else { 4 } {
        for offset in (0..50).chain(0..50) {
            if !has(&cache, offset) {
                put(&cache, offset, Priority::Low);
            }
        }
        for offset in 0..300 {
            put(&cache, 1000 * (round + 1) + offset, Priority::Low);
        }
    }
    let kept = (0..50).filter(|&offset| has(&cache, offset)).count();
    assert!(kept >= 45, "{kept} of 50");
}

#[test]
fn the_clock_keeps_high_priorities_through_a_scan() {
    let cache = small(CachePolicy::S3Fifo, 100, false, 0.0);
    for offset in 0..20 {
        put(&cache, offset, Priority::High);
    }
    for offset in 1000..if cfg!(miri) { 1200 } else { 2000 } {
        put(&cache, offset, Priority::Low);
    }
    assert_eq!((0..20).filter(|&offset| has(&cache, offset)).count(), 20);
}

#[test]
fn pinned_entries_stay_and_may_exceed_the_capacity() {
    for policy in [CachePolicy::Lru, CachePolicy::S3Fifo] {
        let cache = small(policy, 2, false, 0.5);
        put(&cache, 1, Priority::Low);
        put(&cache, 2, Priority::Low);
        let held: Vec<_> = [1, 2].map(|offset| cache.get(&key(offset)).unwrap()).into();
        assert_eq!(cache.pinned_usage(), cache.usage());
        put(&cache, 3, Priority::Low);
        assert_eq!(cache.len(), 3, "{policy:?}");
        assert!(cache.usage() > cache.capacity());
        drop(held);
        put(&cache, 4, Priority::Low);
        assert_eq!(cache.len(), 2);
        assert_eq!(cache.pinned_usage(), 0);
    }
}

#[test]
fn entries_in_repeated_use_make_room_if_all_others_are_pinned() {
    for policy in [CachePolicy::Lru, CachePolicy::S3Fifo] {
        let cache = small(policy, 20, true, 0.5);
        for offset in 0..18 {
            put(&cache, offset, Priority::High);
        }
        let held: Vec<_> = (0..18)
            .map(|offset| cache.get(&key(offset)).unwrap())
            .collect();
        for offset in [18, 19] {
            put(&cache, offset, Priority::Low);
            assert!(has(&cache, offset));
        }
        put(&cache, 20, Priority::Low);
        assert!(has(&cache, 20), "{policy:?}");
        assert_eq!((cache.len(), held.len()), (20, 18));
    }
}

#[test]
#[cfg_attr(miri, ignore = "many entries, and no unsafe code of its own")]
fn a_smaller_capacity_leaves_pinned_entries_alone_however_many_they_are() {
    for policy in [CachePolicy::Lru, CachePolicy::S3Fifo] {
        let cache = small(policy, 3000, false, 0.5);
        (0..3000).for_each(|offset| put(&cache, offset, Priority::Low));
        let held: Vec<_> = (0..2000)
            .map(|offset| cache.get(&key(offset)).unwrap())
            .collect();
        cache.set_capacity(1000);
        assert_eq!(cache.len(), 2000, "{policy:?}");
        assert_eq!(cache.pinned_usage(), cache.usage());
        drop(held);
        cache.set_capacity(0);
        assert!(cache.is_empty() && cache.usage() == 0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "many entries, and no unsafe code of its own")]
fn a_strict_capacity_refuses_only_if_all_entries_are_pinned() {
    for policy in [CachePolicy::Lru, CachePolicy::S3Fifo] {
        let cache = small(policy, 2001, true, 0.5);
        (0..2001).for_each(|offset| put(&cache, offset, Priority::Low));
        let held: Vec<_> = (0..2000)
            .map(|offset| cache.get(&key(offset)).unwrap())
            .collect();
        put(&cache, 2001, Priority::Low);
        assert!(has(&cache, 2001) && !has(&cache, 2000), "{policy:?}");
        let last = cache.get(&key(2001));
        let refused = cache.insert(key(2002), Arc::new(0), 20, Priority::Low);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::MemoryLimit);
        drop((held, last));
    }
}

#[test]
fn a_strict_capacity_refuses() {
    for policy in [CachePolicy::Lru, CachePolicy::S3Fifo] {
        let cache = small(policy, 2, true, 0.5);
        put(&cache, 1, Priority::Low);
        put(&cache, 2, Priority::Low);
        let held: Vec<_> = [1, 2].map(|offset| cache.get(&key(offset)).unwrap()).into();
        let error = cache
            .insert(key(3), Arc::new(3), 20, Priority::High)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        let error = cache
            .insert(key(4), Arc::new(4), 1 << 20, Priority::Low)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit);
        assert_eq!(cache.len(), 2);
        drop(held);
        put(&cache, 3, Priority::Low);
        assert!(has(&cache, 3));
    }
}

#[test]
fn an_entry_larger_than_a_shard_replaces_the_older_and_is_not_kept() {
    let cache = small(CachePolicy::S3Fifo, 2, false, 0.5);
    put(&cache, 1, Priority::Low);
    cache
        .insert(key(1), Arc::new(9), u64::MAX, Priority::Low)
        .unwrap();
    assert!(!has(&cache, 1) && cache.is_empty());
}

#[test]
fn counts_and_ids() {
    let cache = small(CachePolicy::S3Fifo, 2, false, 0.5);
    for offset in 1..=3 {
        put(&cache, offset, Priority::Low);
    }
    assert!(has(&cache, 3) && !has(&cache, 9));
    let expected = CacheCounts {
        hits: 1,
        misses: 1,
        inserts: 3,
        evictions: 1,
    };
    assert_eq!(cache.counts(), expected);
    assert_ne!(cache.new_id(), cache.clone().new_id());
    assert_eq!(cache.remove(&key(3)).as_deref(), Some(&3));
    assert!(cache.remove(&key(3)).is_none());
}

#[test]
fn shards_are_of_half_a_megabyte_and_at_most_64() {
    let bits = |capacity_bytes| {
        CacheOptions {
            capacity_bytes,
            ..CacheOptions::default()
        }
        .shard_bits()
    };
    assert_eq!([0, 100 << 10, 512 << 10].map(bits), [0, 0, 0]);
    assert_eq!(
        [1 << 20, 3 << 20, 32 << 20, 1 << 40].map(bits),
        [1, 2, 6, 6]
    );
}

#[test]
#[cfg_attr(miri, ignore = "many insertions, which only check the hash")]
fn sequential_keys_spread_over_shards() {
    let cache: Cache<u64> = Cache::new(&CacheOptions {
        capacity_bytes: 1 << 30,
        shard_bits: Some(6),
        ..CacheOptions::default()
    });
    for file in 0..64 {
        for block in 0..64 {
            let key = CacheKey {
                file,
                offset: block * 4101,
            };
            cache.insert(key, Arc::new(0), 1, Priority::Low).unwrap();
        }
    }
    for shard in &cache.inner.shards {
        let len = shard.lock().len();
        assert!(
            (24..=112).contains(&len),
            "{len} of 4096 in one of 64 shards"
        );
    }
}

/// Counts its live instances, and calls back into its cache when dropped.
struct Probe {
    offset: u64,
    alive: Arc<AtomicUsize>,
    cache: Cache<Probe>,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        assert!(self.cache.get(&key(u64::MAX)).is_none());
    }
}

#[test]
fn threads_at_once_find_what_they_put_and_lose_nothing() {
    for policy in [CachePolicy::Lru, CachePolicy::S3Fifo] {
        let alive = Arc::new(AtomicUsize::new(0));
        let cache: Cache<Probe> = Cache::new(&CacheOptions {
            capacity_bytes: 64 * (20 + OVERHEAD),
            shard_bits: Some(1),
            policy,
            ..CacheOptions::default()
        });
        thread::scope(|scope| {
            for thread in 1..=4_u64 {
                let (cache, alive) = (cache.clone(), Arc::clone(&alive));
                scope.spawn(move || {
                    let mut random = thread;
                    let mut held = Vec::new();
                    for round in 0..if cfg!(miri) { 100 } else { 20_000_u32 } {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(thread);
                        let offset = (random >> 40) % 100;
                        match cache.get(&key(offset)) {
                            Some(found) => {
                                assert_eq!(found.offset, offset);
                                if round % 7 == 0 {
                                    held.push(found);
                                }
                            }
                            None => {
                                alive.fetch_add(1, Ordering::Relaxed);
                                let probe = Probe {
                                    offset,
                                    alive: Arc::clone(&alive),
                                    cache: cache.clone(),
                                };
                                cache
                                    .insert(key(offset), Arc::new(probe), 20, Priority::Low)
                                    .unwrap();
                            }
                        }
                        if held.len() > 8 {
                            held.clear();
                        }
                        if round % 64 == 0 {
                            cache.remove(&key(offset));
                        }
                    }
                });
            }
        });
        assert_eq!(alive.load(Ordering::Relaxed) as u64, cache.len());
        put_one_more(&cache, &alive);
        assert!(cache.usage() <= cache.capacity());
        cache.set_capacity(0);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }
}

/// Evicts earlier entries now that none is pinned.
fn put_one_more(cache: &Cache<Probe>, alive: &Arc<AtomicUsize>) {
    for offset in 1000..1040 {
        alive.fetch_add(1, Ordering::Relaxed);
        let probe = Probe {
            offset,
            alive: Arc::clone(alive),
            cache: cache.clone(),
        };
        cache
            .insert(key(offset), Arc::new(probe), 20, Priority::Low)
            .unwrap();
    }
}

#[test]
fn a_lookup_whose_stripe_is_taken_finds_what_is_there() {
    let cache = small(CachePolicy::S3Fifo, 2, false, 0.5);
    put(&cache, 1, Priority::Low);
    let passage = cache.inner.stripes.enter(u64::MAX).unwrap();
    assert!(has(&cache, 1) && !has(&cache, 2));
    drop(passage);
    assert!(has(&cache, 1));
    assert_eq!((cache.counts().hits, cache.counts().misses), (2, 1));
}

/// An entry that its owner replaces and removes, and that says so.
struct Versioned {
    key: u64,
    version: u64,
    alive: Arc<AtomicUsize>,
}

impl Drop for Versioned {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Each thread replaces and removes the entries of its own keys, and looks up those of all, in a
/// cache that has room for half of them and changes its capacity.
///
/// No lookup finds an entry of another key, or one that was replaced or removed before the lookup
/// began; an entry that a thread holds is not evicted; each entry is dropped once.
fn lookups_find_the_last_version(threads: u64, rounds: u64, key: fn(u64) -> CacheKey) {
    const KEYS_EACH: u64 = 3;
    let rounds = if cfg!(miri) { 60 } else { rounds };
    let half = threads * KEYS_EACH / 2;
    for policy in [CachePolicy::Lru, CachePolicy::S3Fifo] {
        let cache: Cache<Versioned> = Cache::new(&CacheOptions {
            capacity_bytes: half * (20 + OVERHEAD),
            shard_bits: Some(0),
            policy,
            ..CacheOptions::default()
        });
        let alive = Arc::new(AtomicUsize::new(0));
        // The least version of each key that a lookup may find.
        let least: Vec<_> = (0..threads * KEYS_EACH)
            .map(|_| AtomicU64::new(0))
            .collect();
        thread::scope(|scope| {
            for owner in 0..threads {
                let (cache, alive, least) = (&cache, &alive, &least);
                scope.spawn(move || {
                    let mut state = owner + 1;
                    let mut held: Option<Arc<Versioned>> = None;
                    let find = |wanted: u64| {
                        let least = least[usize::try_from(wanted).unwrap()].load(Ordering::SeqCst);
                        let found = cache.get(&key(wanted));
                        if let Some(found) = &found {
                            assert_eq!(found.key, wanted);
                            assert!(found.version >= least, "{} < {least}", found.version);
                        }
                        found
                    };
                    for version in 1..=rounds {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let random = state >> 33;
                        let own = owner * KEYS_EACH + random % KEYS_EACH;
                        let floor = &least[usize::try_from(own).unwrap()];
                        if let Some(value) = &held {
                            let again = find(value.key);
                            let is_same = again.is_some_and(|again| Arc::ptr_eq(&again, value));
                            assert!(is_same, "a pinned entry is not evicted");
                        }
                        match random / KEYS_EACH % 16 {
                            0..4 => {
                                // The values that this thread holds are replaced or released.
                                held.take_if(|value| value.key == own);
                                alive.fetch_add(1, Ordering::Relaxed);
                                let value = Versioned {
                                    key: own,
                                    version,
                                    alive: Arc::clone(alive),
                                };
                                cache
                                    .insert(key(own), Arc::new(value), 20, Priority::Low)
                                    .unwrap();
                                floor.store(version, Ordering::SeqCst);
                            }
                            4 => {
                                held.take_if(|value| value.key == own);
                                if let Some(removed) = cache.remove(&key(own)) {
                                    assert_eq!(removed.key, own);
                                }
                                floor.store(version + 1, Ordering::SeqCst);
                            }
                            5 => held = find(own),
                            6 => held = None,
                            7 if owner == 0 => {
                                cache.set_capacity((half - 2 + random % 4) * (20 + OVERHEAD));
                            }
                            _ => drop(find(random % (threads * KEYS_EACH))),
                        }
                    }
                });
            }
        });
        assert_eq!(alive.load(Ordering::Relaxed) as u64, cache.len());
        cache.set_capacity(0);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        assert_eq!((cache.len(), cache.usage()), (0, 0));
    }
}

#[test]
fn lookups_beside_replacement_removal_and_eviction_find_the_last_version() {
    lookups_find_the_last_version(4, 30_000, key);
}

#[test]
fn lookups_of_keys_with_one_hash_find_the_last_version_of_their_own() {
    assert_eq!(key_of_one_hash(1).hash(), key_of_one_hash(2).hash());
    lookups_find_the_last_version(4, 10_000, key_of_one_hash);
}

#[test]
#[cfg_attr(miri, ignore = "many threads")]
fn lookups_of_threads_that_share_stripes_find_the_last_version() {
    let threads = 2 * koeldb_base::sync::STRIPES_MAX as u64;
    lookups_find_the_last_version(threads, 1_000, key);
}
