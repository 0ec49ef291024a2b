//! Edge cases of reads: both ends of an iterator, prefixes, tiers, and lookups that wait for
//! blocks.

use std::cmp::Ordering;

use koeldb::{
    BlockBasedOptions, Cache, Comparator, Db, Direction, ErrorKind, FixedPrefix, IteratorMode,
    Options, ReadOptions, ReadTier, ReverseBytewiseComparator, StringAppend, WriteOptions,
};
use koeldb_testkit::Random;
use koeldb_testkit::random::mix;

use crate::async_reads::block_on;
use crate::model::base_options;

fn open(options: &Options) -> Db {
    Db::open(options, "/reads").unwrap()
}

/// The keys of an iteration, taken from either end as `from_back` says.
fn taken(
    mut entries: impl DoubleEndedIterator<
        Item = koeldb::Result<(koeldb::PinnedSlice, koeldb::PinnedSlice)>,
    >,
    mut from_back: impl FnMut() -> bool,
) -> (Vec<String>, Vec<String>) {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    loop {
        let is_back = from_back();
        let entry = if is_back {
            entries.next_back()
        } else {
            entries.next()
        };
        let Some(entry) = entry else {
            return (front, back);
        };
        let key = String::from_utf8(entry.unwrap().0.to_vec()).unwrap();
        if is_back {
            back.push(key)
        } else {
            front.push(key)
        }
    }
}

#[test]
fn an_iterator_keeps_to_its_range_from_both_ends() {
    let mut random = Random::new(mix(6));
    for reverse in [false, true] {
        let mut options = base_options();
        if reverse {
            options.set_comparator(ReverseBytewiseComparator);
        }
        let db = open(&options);
        let mut keys: Vec<String> = ('a'..='h').map(String::from).collect();
        for key in &keys {
            db.put(key, "value").unwrap();
        }
        if reverse {
            keys.reverse();
        }
        let is_le = |a: &str, b: &str| if reverse { a >= b } else { a <= b };
        for from in ["", "a", "c", "cc", "h", "i"] {
            for mode in [
                IteratorMode::Start,
                IteratorMode::End,
                IteratorMode::From(from.as_bytes(), Direction::Forward),
                IteratorMode::From(from.as_bytes(), Direction::Reverse),
            ] {
                let mut wanted = keys.clone();
                match mode {
                    IteratorMode::Start => {}
                    IteratorMode::End => wanted.reverse(),
                    IteratorMode::From(_, Direction::Forward) => {
                        wanted.retain(|key| is_le(from, key));
                    }
                    IteratorMode::From(_, Direction::Reverse) => {
                        wanted.retain(|key| is_le(key, from));
                        wanted.reverse();
                    }
                }
                let mut ends: Vec<Box<dyn FnMut() -> bool>> =
                    vec![Box::new(|| false), Box::new(|| true)];
                for _ in 0..6 {
                    let mut coins = Random::new(random.below(u64::MAX));
                    ends.push(Box::new(move || coins.chance(1, 2)));
                }
                for end in ends {
                    let (front, back) = taken(db.iterator(mode), end);
                    let all: Vec<String> =
                        front.into_iter().chain(back.into_iter().rev()).collect();
                    assert_eq!(all, wanted, "{mode:?}, reverse order {reverse}");
                }
            }
        }
    }
}

/// Bytewise, without saying where keys of a prefix lie.
struct Unspoken;

impl Comparator for Unspoken {
    fn name(&self) -> &str {
        "Unspoken"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

#[test]
fn a_prefix_that_the_comparator_cannot_bound_is_an_error_from_both_ends() {
    let mut options = base_options();
    options.set_comparator(Unspoken);
    let db = open(&options);
    for key in ["a1", "a2", "b1"] {
        db.put(key, "value").unwrap();
    }
    let forward = db.prefix("a").next().unwrap().unwrap_err();
    let backward = db.prefix("a").next_back().unwrap().unwrap_err();
    assert_eq!(forward.kind(), ErrorKind::NotSupported);
    assert_eq!(backward.kind(), ErrorKind::NotSupported);
    assert_eq!(db.prefix("a").rev().count(), 1, "the error, then the end");
}

#[test]
fn every_seek_of_a_prefix_scan_stays_in_one_prefix() {
    let mut options = base_options();
    options.set_prefix_extractor(FixedPrefix::new(1));
    let db = open(&options);
    for key in ["a1", "a2", "b1", "b2", "c1"] {
        db.put(key, "value").unwrap();
    }
    let mut read = ReadOptions::new();
    read.set_prefix_same_as_start(true);
    let scan = |read: &ReadOptions,
                seek: &dyn Fn(&mut koeldb::DbCursor) -> koeldb::Result<bool>,
                backward: bool| {
        let mut cursor = db.cursor_opt(read);
        let mut keys = Vec::new();
        let mut there = seek(&mut cursor).unwrap();
        while there {
            keys.push(String::from_utf8(cursor.key().unwrap().to_vec()).unwrap());
            there = if backward {
                cursor.prev()
            } else {
                cursor.next()
            }
            .unwrap();
        }
        keys
    };
    assert_eq!(
        scan(&read, &|cursor| cursor.seek_to_first(), false),
        ["a1", "a2"]
    );
    assert_eq!(scan(&read, &|cursor| cursor.seek_to_last(), true), ["c1"]);
    assert_eq!(scan(&read, &|cursor| cursor.seek("b"), false), ["b1", "b2"]);
    // Out of the bounds the prefix is still that of the key sought, as in RocksDB.
    let mut bounded = read.clone();
    bounded
        .set_iterate_lower_bound(b"b1".to_vec())
        .set_iterate_upper_bound(b"b9".to_vec());
    assert_eq!(scan(&bounded, &|cursor| cursor.seek("a"), false), [""; 0]);
    assert_eq!(
        scan(&bounded, &|cursor| cursor.seek_for_prev("c"), true),
        [""; 0]
    );
    assert_eq!(
        scan(&bounded, &|cursor| cursor.seek_to_first(), false),
        ["b1", "b2"]
    );
    assert_eq!(
        scan(&bounded, &|cursor| cursor.seek_to_last(), true),
        ["b2", "b1"]
    );
    // An iterator stays in the prefix of its start from both ends.
    let family = db.default_cf();
    let keys = |mode, back: bool| taken(family.iterator_opt(mode, &read), || back);
    assert_eq!(keys(IteratorMode::Start, true).1, ["a2", "a1"]);
    assert_eq!(keys(IteratorMode::End, true).1, ["c1"]);
    let from = IteratorMode::From(b"b", Direction::Forward);
    assert_eq!(keys(from, true).1, ["b2", "b1"]);
    let from = IteratorMode::From(b"b2", Direction::Reverse);
    assert_eq!(keys(from, true).1, ["b1", "b2"]);
}

#[test]
fn persisted_reads_see_what_the_log_has_and_nothing_else() {
    let db = open(&base_options());
    let mut read = ReadOptions::new();
    read.set_read_tier(ReadTier::Persisted);
    db.put("a", "flushed").unwrap();
    db.flush().unwrap();
    db.put("a", "logged").unwrap();
    assert_eq!(
        db.get_opt("a", &read).unwrap().as_deref(),
        Some(&b"logged"[..])
    );
    let many = db.multi_get_opt(&["a", "b"], &read);
    assert_eq!(many.iter().next().unwrap().unwrap(), Some(&b"logged"[..]));
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    db.put_opt("b", "unlogged", &unlogged).unwrap();
    assert_eq!(db.get_opt("b", &read).unwrap().as_deref(), None);
    db.flush().unwrap();
    assert_eq!(
        db.get_opt("b", &read).unwrap().as_deref(),
        Some(&b"unlogged"[..])
    );
    let error = db.range_opt(.., &read).next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}

#[test]
fn a_lookup_that_waits_takes_each_operand_once() {
    let mut options = base_options();
    let mut table = BlockBasedOptions::new();
    table
        .set_block_cache(&Cache::new_lru_cache(1 << 20))
        .set_cache_index_and_filter_blocks(true);
    options
        .set_disable_auto_compactions(true)
        .set_block_based_table_factory(&table);
    let db = open(&options);
    let mut unlogged = WriteOptions::new();
    unlogged.disable_wal(true);
    for operand in ["a", "b", "c", "d"] {
        db.merge_opt("key", operand, &unlogged).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    for tier in [ReadTier::All, ReadTier::Persisted] {
        let db = open(&options);
        db.put_opt("other", "unlogged", &unlogged).unwrap();
        let mut read = ReadOptions::new();
        read.set_read_tier(tier);
        let found = block_on(db.default_cf().get_async_opt("key", &read));
        assert_eq!(found.unwrap().as_deref(), Some(&b"a,b,c,d"[..]), "{tier:?}");
        db.close().unwrap();
    }
}

#[test]
fn merge_operands_come_oldest_first_and_unmerged() {
    let mut options = base_options();
    options.set_merge_operator(StringAppend::default());
    let db = open(&options);
    let operands = |read: &ReadOptions| -> Vec<String> {
        let operands = db.get_merge_operands_opt("key", read).unwrap();
        let texts = operands
            .iter()
            .map(|operand| String::from_utf8(operand.to_vec()));
        texts.collect::<Result<_, _>>().unwrap()
    };
    let mut earlier = ReadOptions::new();
    assert!(operands(&earlier).is_empty());
    db.merge("key", "lost").unwrap();
    db.put("key", "a").unwrap();
    db.merge("key", "b").unwrap();
    db.flush().unwrap();
    earlier.set_snapshot(&db.snapshot());
    db.merge("key", "c").unwrap();
    let mut bounded = ReadOptions::new();
    bounded.set_io_timeout(std::time::Duration::from_secs(60));
    assert_eq!(operands(&bounded).last().map(String::as_str), Some("c"));
    // The flush merged what no snapshot told apart.
    assert_eq!(operands(&earlier).concat().replace(',', ""), "ab");
    assert_eq!(
        operands(&ReadOptions::new()).len(),
        operands(&earlier).len() + 1
    );
    db.delete("key").unwrap();
    assert!(operands(&ReadOptions::new()).is_empty());
    db.merge("key", "d").unwrap();
    db.merge("key", "e").unwrap();
    assert_eq!(operands(&ReadOptions::new()), ["d", "e"]);
}
