//! Options of scans: limits of skipped entries, seeks in place of steps, filters of prefixes.

use std::cmp::Ordering;

use koeldb::statistics::{Statistics, Ticker};
use koeldb::{
    BlockBasedOptions, BytewiseComparator, CompactRangeOptions, Comparator, ConfigOptions, Db,
    ErrorKind, FixedPrefix, IteratorMode, Options, PrefixExtractor, PrefixRange, ReadOptions,
    ReverseBytewiseComparator, StringAppend, TransactionDbOptions, Uint64Comparator,
};
use koeldb_testkit::Random;
use koeldb_testkit::random::mix;

use crate::model::base_options;

fn open(options: &Options) -> Db {
    Db::open(options, "/scans").unwrap()
}

/// A database with keys around one that was overwritten `times`, and the same key deleted above.
fn with_counter(skips: u64, times: u32) -> Db {
    let mut options = base_options();
    options
        .set_write_buffer_size(64 << 20)
        .set_max_sequential_skip_in_iterations(skips)
        .set_statistics(Statistics::new());
    let db = open(&options);
    db.put("a", "first").unwrap();
    db.put("c", "last").unwrap();
    for time in 0..times {
        db.put("b", time.to_string()).unwrap();
    }
    db
}

#[test]
fn seeks_replace_steps_over_versions_in_both_directions() {
    for (skips, reseeks) in [(8, 3), (u64::MAX, 0)] {
        let db = with_counter(skips, 1000);
        let mut cursor = db.cursor();
        assert!(cursor.seek_to_last().unwrap());
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.entry(), Some((&b"b"[..], &b"999"[..])));
        assert!(cursor.prev().unwrap());
        assert_eq!(cursor.key(), Some(&b"a"[..]));
        assert!(cursor.seek("b").unwrap());
        assert!(cursor.next().unwrap());
        assert_eq!(cursor.key(), Some(&b"c"[..]));
        let counted = db
            .statistics()
            .unwrap()
            .ticker(Ticker::NumberOfReseeksInIteration);
        assert_eq!(counted, reseeks, "{skips}");
    }
}

#[test]
fn the_number_of_steps_before_a_seek_changes_while_the_database_is_open() {
    let db = with_counter(u64::MAX, 100);
    let walk = || {
        let mut cursor = db.cursor();
        cursor.seek_to_last().unwrap();
        while cursor.prev().unwrap() {}
        db.statistics()
            .unwrap()
            .ticker(Ticker::NumberOfReseeksInIteration)
    };
    assert_eq!(walk(), 0);
    db.default_cf()
        .set_options([("max_sequential_skip_in_iterations", "10")])
        .unwrap();
    assert_eq!(walk(), 2);
}

#[test]
fn a_movement_that_skips_too_many_entries_is_incomplete() {
    let db = open(&base_options());
    for key in ["a", "b1", "b2", "b3", "c"] {
        db.put(key, "value").unwrap();
    }
    for key in ["b1", "b2", "b3"] {
        db.delete(key).unwrap();
    }
    let mut read = ReadOptions::new();
    read.set_max_skippable_internal_keys(6);
    let keys = |read: &ReadOptions| -> Vec<_> {
        let entries = db.default_cf().iterator_opt(IteratorMode::Start, read);
        entries
            .map(|entry| entry.map(|(key, _)| key.to_vec()))
            .collect()
    };
    assert_eq!(keys(&read).len(), 2);
    read.set_max_skippable_internal_keys(5);
    let mut cursor = db.cursor_opt(&read);
    assert!(cursor.seek("a").unwrap());
    let error = cursor.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
    assert!(!cursor.valid());
    assert_eq!(cursor.status().unwrap_err().kind(), ErrorKind::Incomplete);
    // As with another failure, a seek begins anew.
    assert!(cursor.seek("c").unwrap());
    let error = cursor.prev().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
}

/// The prefix is in the middle of the key: filters of scans cannot use it.
struct InnerPrefix;

impl PrefixExtractor for InnerPrefix {
    fn name(&self) -> &str {
        "InnerPrefix"
    }

    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(1..2)
    }
}

/// Bytewise, as an order of its own.
struct OwnOrder {
    keeps_prefixes: bool,
}

impl Comparator for OwnOrder {
    fn name(&self) -> &str {
        "OwnOrder"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.keeps_prefixes {
            true => a.cmp(b),
            // Keys of one prefix are apart.
            false => (a.last(), a).cmp(&(b.last(), b)),
        }
    }

    fn prefix_bounds(&self, prefix: &[u8]) -> Option<koeldb::PrefixBounds> {
        let bounds = || BytewiseComparator.prefix_bounds(prefix);
        self.keeps_prefixes.then(bounds).flatten()
    }

    fn equal_keys_have_equal_bytes(&self) -> bool {
        true
    }
}

fn set_order(options: &mut Options, choice: u64) {
    match choice {
        0 => options.set_comparator(BytewiseComparator),
        1 => options.set_comparator(ReverseBytewiseComparator),
        2 => options.set_comparator(OwnOrder {
            keeps_prefixes: true,
        }),
        _ => options.set_comparator(OwnOrder {
            keeps_prefixes: false,
        }),
    };
}

fn set_extractor(options: &mut Options, choice: u64) {
    let id = match choice {
        0 => "fixed:2",
        1 => "capped:2",
        2 => "rocksdb.Noop",
        _ => {
            options.set_prefix_extractor(InnerPrefix);
            return;
        }
    };
    let text = format!("prefix_extractor={id}");
    options.apply_str(&text, &ConfigOptions::new()).unwrap();
}

fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[usize::try_from(random.below(choices.len() as u64)).unwrap()]
}

/// Few prefixes, of which each run has some; with keys shorter than a prefix.
fn short_key(random: &mut Random) -> Vec<u8> {
    let len = 1 + random.below(4);
    (0..len).map(|_| pick(random, b"abcde")).collect()
}

/// Filters in one database and none in the other, the same entries in both.
fn filtered_and_not(random: &mut Random, table: &str) -> [Db; 2] {
    let (order, extractor) = (random.below(4), random.below(4));
    let memtable = pick(
        random,
        &["skip_list", "vector", "prefix_hash:10", "hash_spdb"],
    );
    let seed = random.draw();
    let filters = format!(
        "memtable_prefix_bloom_size_ratio=0.1;table_factory={table};memtable_factory={memtable}"
    );
    [filters, "table_factory=BlockBasedTable".to_owned()].map(|text| {
        let random = &mut Random::new(seed);
        let mut options = base_options();
        set_order(&mut options, order);
        set_extractor(&mut options, extractor);
        options
            .set_disable_auto_compactions(true)
            .set_target_file_size_base(1);
        options.apply_str(&text, &ConfigOptions::new()).unwrap();
        let db = open(&options);
        for run in 0..6 {
            for _ in 0..8 {
                let key = short_key(random);
                match random.below(8) {
                    0 => db.delete(&key).unwrap(),
                    1 if order == 0 && !table.contains("PlainTable") => {
                        let mut end = key.clone();
                        end.push(b'c');
                        db.delete_range(&key, &end).unwrap();
                    }
                    _ => db.put(&key, run.to_string()).unwrap(),
                }
            }
            match random.below(3) {
                0 => db.flush().unwrap(),
                1 => db.compact_all(&CompactRangeOptions::new()).unwrap(),
                _ => {}
            }
            // Tables of other extractors stay, and their filters are of no use.
            if random.below(4) == 0 && !table.contains("PlainTable") {
                let mut names = vec!["fixed:1", "fixed:2", "capped:3"];
                // Memtables that hash prefixes need an extractor.
                names.extend((!memtable.starts_with("prefix_hash")).then_some("nullptr"));
                let name = pick(random, &names);
                let family = db.default_cf();
                family.set_options([("prefix_extractor", name)]).unwrap();
            }
        }
        db
    })
}

#[test]
fn filters_of_prefixes_change_no_scan() {
    for case in 0..120 {
        let seed = mix(case);
        let random = &mut Random::new(seed);
        let tables = [
            "{id=BlockBasedTable;filter_policy=bloomfilter:20;whole_key_filtering=false}",
            "{id=BlockBasedTable;filter_policy=ribbonfilter:20}",
            "{id=BlockBasedTable;filter_policy=bloomfilter:20;partition_filters=true;\
             index_type=kTwoLevelIndexSearch;metadata_block_size=1;block_size=64}",
            "{id=PlainTable;}",
        ];
        let table = pick(random, &tables);
        let dbs = filtered_and_not(random, table);
        for _ in 0..10 {
            let mut read = ReadOptions::new();
            let bound = |random: &mut Random| (random.below(3) > 0).then(|| short_key(random));
            read.set_prefix_same_as_start(random.below(3) == 0)
                .set_auto_prefix_mode(random.below(2) == 0)
                .set_total_order_seek(random.below(4) == 0)
                .set_iterate_lower_bound(bound(random))
                .set_iterate_upper_bound(bound(random));
            let mut cursors = dbs.each_ref().map(|db| db.cursor_opt(&read));
            for step in 0..12 {
                let (movement, key) = (random.below(8), short_key(random));
                let found = cursors.each_mut().map(|cursor| {
                    let there = match movement {
                        0 | 1 => cursor.seek(&key),
                        2 => cursor.seek_for_prev(&key),
                        3 if step % 3 == 0 => cursor.seek_to_first(),
                        4 if step % 3 == 0 => cursor.seek_to_last(),
                        3 | 5 | 6 => cursor.next(),
                        _ => cursor.prev(),
                    };
                    there.unwrap();
                    let entry = cursor.entry();
                    entry.map(|(key, value)| (key.to_vec(), value.to_vec()))
                });
                let [filtered, plain] = &found;
                assert_eq!(
                    filtered, plain,
                    "case {case}, movement {movement} {key:?}, {table}, {read:?}"
                );
            }
        }
    }
}

type Entry = koeldb::Result<(koeldb::PinnedSlice, koeldb::PinnedSlice)>;

/// Keys and prefixes with bytes at both ends of the order.
fn edge_key(random: &mut Random) -> Vec<u8> {
    let len = random.below(4);
    (0..len)
        .map(|_| pick(random, &[0, 1, b'a', 0xfe, 0xff]))
        .collect()
}

#[test]
fn a_scan_of_a_prefix_has_exactly_its_keys_in_the_order_of_the_comparator() {
    for case in 0..60 {
        let random = &mut Random::new(mix(case));
        let order = case % 4;
        let mut options = base_options();
        set_order(&mut options, order);
        set_extractor(&mut options, random.below(4));
        options.set_disable_auto_compactions(true);
        let db = open(&options);
        let mut all = Vec::new();
        for number in 0..60 {
            let key = edge_key(random);
            db.put(&key, "value").unwrap();
            if number % 20 == 0 {
                db.flush().unwrap();
            }
            all.push(key);
        }
        all.sort();
        all.dedup();
        if order == 1 {
            all.reverse();
        }
        for _ in 0..20 {
            let prefix = edge_key(random);
            let mut range = db.prefix(&prefix);
            if order == 3 && !prefix.is_empty() {
                let error = range.next().unwrap().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotSupported);
                continue;
            }
            let keys = |scan: &mut dyn Iterator<Item = Entry>| -> Vec<Vec<u8>> {
                scan.map(|entry| entry.unwrap().0.to_vec()).collect()
            };
            let mut forward = keys(&mut range);
            let mut backward = keys(&mut db.prefix(&prefix).rev());
            backward.reverse();
            assert_eq!(forward, backward, "case {case}, prefix {prefix:?}");
            if order == 3 {
                forward.sort();
            }
            let mut expected = all.clone();
            expected.retain(|key| key.starts_with(&prefix));
            assert_eq!(forward, expected, "case {case}, prefix {prefix:?}");
        }
    }
}

#[test]
fn a_scan_that_stays_in_its_prefix_finds_it_in_every_order() {
    for order in 0..3 {
        let mut options = base_options();
        set_order(&mut options, order);
        options.set_prefix_extractor(FixedPrefix::new(2));
        let db = open(&options);
        for key in ["aa1", "ab1", "ab2", "ac1"] {
            db.put(key, "value").unwrap();
        }
        let mut read = ReadOptions::new();
        read.set_prefix_same_as_start(true);
        let keys = |prefix: &str| {
            let keys = db.prefix_opt(prefix, &read).map(Result::unwrap);
            let mut keys: Vec<_> = keys.map(|(key, _)| key.to_vec()).collect();
            keys.sort();
            keys
        };
        assert_eq!(keys("ab"), [b"ab1", b"ab2"], "order {order}");
        assert_eq!(keys("ab2"), [b"ab2"], "order {order}");
        assert!(keys("ad").is_empty(), "order {order}");
    }
}

#[test]
fn the_empty_prefix_is_every_key_of_integers_and_other_prefixes_of_them_are_refused() {
    let mut options = base_options();
    options.set_comparator(Uint64Comparator);
    let db = open(&options);
    for number in [1_u64, 256, 3] {
        db.put(number.to_le_bytes(), "value").unwrap();
    }
    let keys: Vec<_> = db
        .prefix("")
        .map(|entry| entry.unwrap().0.to_vec())
        .collect();
    assert_eq!(
        keys,
        [1_u64, 3, 256].map(|number| number.to_le_bytes().to_vec())
    );
    let error = db.prefix([1]).next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    db.compact_range(PrefixRange("")).unwrap();
}

#[test]
fn tables_of_a_prefix_are_dropped_under_the_reverse_order() {
    let mut options = base_options();
    options
        .set_comparator(ReverseBytewiseComparator)
        .set_disable_auto_compactions(true);
    let db = open(&options);
    for keys in [["aa", "ab"], ["b", "bz"], ["c", "ca"]] {
        for key in keys {
            db.put(key, "value").unwrap();
        }
        db.flush().unwrap();
        db.compact_range(PrefixRange(&keys[0][..1])).unwrap();
    }
    db.default_cf()
        .delete_files_in_range(PrefixRange("b"))
        .unwrap();
    let keys: Vec<_> = db
        .range(..)
        .map(|entry| entry.unwrap().0.to_vec())
        .collect();
    assert_eq!(keys, [&b"ca"[..], b"c", b"ab", b"aa"]);
}

/// Scans of 100 absent prefixes within the range of every table: data blocks read, filters asked.
fn reads_of_absent_prefixes(opt_in_only: bool, read: &ReadOptions, bounded: bool) -> (u64, u64) {
    let mut options = base_options();
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(20.0);
    options
        .set_disable_auto_compactions(true)
        .set_prefix_seek_opt_in_only(opt_in_only)
        .set_prefix_extractor(FixedPrefix::new(4))
        .set_block_based_table_factory(&table)
        .set_statistics(Statistics::new());
    let db = open(&options);
    for run in 0..4 {
        for key in 0..200 {
            db.put(format!("{:04}{run}", 2 * key), "value").unwrap();
        }
        db.flush().unwrap();
        if run == 1 {
            db.compact_all(&CompactRangeOptions::new()).unwrap();
        }
    }
    let before = db.statistics().unwrap();
    for key in 0..100 {
        let prefix = format!("{:04}", 2 * key + 1);
        let mut read = read.clone();
        if bounded {
            read.set_iterate_upper_bound(format!("{prefix}9").into_bytes());
        }
        let mut cursor = db.cursor_opt(&read);
        cursor.seek(&prefix).unwrap();
        assert!(
            cursor
                .key()
                .is_none_or(|key| !bounded && key > prefix.as_bytes())
        );
    }
    let since = db.statistics().unwrap().since(&before);
    let blocks = since.ticker(Ticker::BlockCacheDataHit) + since.ticker(Ticker::BlockCacheDataMiss);
    (blocks, since.ticker(Ticker::BloomFilterPrefixChecked))
}

#[test]
fn prefix_filters_are_used_as_the_options_say() {
    let with = |set: &dyn Fn(&mut ReadOptions)| {
        let mut read = ReadOptions::new();
        set(&mut read);
        read
    };
    let default = with(&|_| {});
    let total = with(&|read| _ = read.set_total_order_seek(true));
    let auto = with(&|read| _ = read.set_total_order_seek(true).set_auto_prefix_mode(true));
    let same = with(&|read| _ = read.set_prefix_same_as_start(true));
    for (opt_in_only, read, bounded, filters) in [
        (false, &default, true, true),
        (false, &default, false, false),
        (true, &default, true, false),
        (false, &total, true, false),
        (false, &auto, true, true),
        (true, &auto, true, true),
        (true, &auto, false, false),
        (true, &same, true, true),
        (false, &same, true, true),
    ] {
        let (blocks, asked) = reads_of_absent_prefixes(opt_in_only, read, bounded);
        let case = format!("{opt_in_only} {bounded} {read:?}: {blocks} blocks, {asked} asked");
        match filters {
            true => assert!(blocks < 5 && asked == 300, "{case}"),
            false => assert!(blocks >= 300 && asked == 0, "{case}"),
        }
    }
}

#[test]
fn a_scan_of_keys_only_returns_every_key_and_empty_values() {
    let db = open(&base_options());
    let long = "x".repeat(10_000);
    for key in ["a", "b", "c"] {
        db.put(key, &long).unwrap();
    }
    db.flush().unwrap();
    db.put("b", "newer").unwrap();
    db.delete("c").unwrap();
    db.put("d", &long).unwrap();
    let mut options = ReadOptions::new();
    options.set_keys_only(true);
    let mut cursor = db.cursor_opt(&options);
    let mut keys = Vec::new();
    let mut is_valid = cursor.seek_to_first().unwrap();
    while is_valid {
        keys.push(cursor.key().unwrap().to_vec());
        assert_eq!(cursor.value(), Some(&[][..]));
        is_valid = cursor.next().unwrap();
    }
    assert_eq!(keys, [b"a", b"b", b"d"]);
    for mode in [IteratorMode::Start, IteratorMode::End] {
        let found: Vec<_> = db
            .iterator_opt(mode, &options)
            .map(|entry| entry.unwrap())
            .collect();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|(_, value)| value.is_empty()));
    }
    assert_eq!(
        db.get_opt("a", &options).unwrap().as_deref(),
        Some(long.as_bytes())
    );
}

#[test]
fn a_transaction_merges_with_the_values_that_a_scan_of_keys_only_leaves_out() {
    let mut options = base_options();
    options
        .set_merge_operator(StringAppend::new(","))
        .set_transactions(&TransactionDbOptions::new());
    let db = open(&options);
    for key in ["a", "b"] {
        db.put(key, "old").unwrap();
    }
    let mut transaction = db.transaction();
    transaction.merge("a", "new").unwrap();
    let mut read = ReadOptions::new();
    read.set_keys_only(true);
    let mut cursor = transaction.cursor_opt(db.default_cf(), &read);
    assert!(cursor.seek_to_first().unwrap());
    assert_eq!(cursor.value(), Some(&b"old,new"[..]));
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.value(), Some(&b"old"[..]));
    drop(cursor);
    transaction.commit().unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"old,new"[..]));
}
