//! Scans with asynchronous readahead return the same as those that wait for each read.
//!
//! This holds regardless of the behaviour of the device.

use std::ops::Bound;

use koeldb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactRangeOptions, Compression,
    CompressionOptions, Db, DbCursor, FixedPrefix, KeyBounds, Options, ReadEngine, ReadOptions,
    Result,
};
use koeldb_testkit::Floors;

use crate::device::{Device, Model, Random, Wrong, fill, key, options_with, table_of};
use crate::scratch::ScratchDir;

fn seeds(count: u64) -> u64 {
    count * Floors::chosen().of(1, 4, 40)
}

/// A call that moves a cursor.
#[derive(Clone, Debug)]
enum Move {
    First,
    Last,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    Next(usize),
    Prev(usize),
}

impl Move {
    fn any(random: &mut Random, key_count: u64) -> Self {
        let target = key(random.below(key_count + key_count / 10));
        let steps = [1, 3, 40, 400][random.index(4)];
        match random.below(12) {
            0 => Move::First,
            1 => Move::Last,
            2..5 => Move::Seek(target),
            5..7 => Move::SeekForPrev(target),
            7..10 => Move::Next(steps),
            _ => Move::Prev(steps),
        }
    }

    /// Moves the cursor; the entries it comes to.
    fn apply(&self, cursor: &mut DbCursor) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut seen = Vec::new();
        let (steps, forward) = match self {
            Move::Next(steps) => (*steps, true),
            Move::Prev(steps) => (*steps, false),
            _ => (1, true),
        };
        for _ in 0..steps {
            let found = match self {
                Move::First => cursor.seek_to_first()?,
                Move::Last => cursor.seek_to_last()?,
                Move::Seek(target) => cursor.seek(target)?,
                Move::SeekForPrev(target) => cursor.seek_for_prev(target)?,
                _ if forward => cursor.next()?,
                _ => cursor.prev()?,
            };
            if !found {
                break;
            }
            let (key, value) = cursor.entry().expect("there is one");
            seen.push((key.to_vec(), value.to_vec()));
        }
        Ok(seen)
    }
}

/// Read options for scans, with bounds or without.
fn scan_options(random: &mut Random, key_count: u64) -> ReadOptions {
    let mut read = ReadOptions::new();
    read.fill_cache(random.below(2) == 0)
        .set_readahead_size([0, 0, 0, 700, 40 << 10][random.index(5)])
        .set_adaptive_readahead(random.below(2) == 0)
        .set_auto_readahead_size(random.below(3) > 0)
        .set_prefix_same_as_start(random.below(3) == 0);
    if random.below(3) == 0 {
        read.set_iterate_lower_bound(key(random.below(key_count)));
    }
    if random.below(3) == 0 {
        read.set_iterate_upper_bound(key(random.below(key_count)));
    }
    read
}

/// Draws options that affect the readahead of tables.
fn any_options(random: &mut Random) -> Options {
    let mut table = table_of(random);
    table
        .set_initial_auto_readahead_size([0, 300, 8192][random.index(3)])
        .set_max_auto_readahead_size([0, 2000, 256 << 10][random.index(3)])
        .set_num_file_reads_for_auto_readahead([0, 1, 2][random.index(3)]);
    let mut options = options_with(random, &table);
    options.set_prefix_extractor(FixedPrefix::new(6));
    options
}

#[test]
fn overlapping_scans_see_what_others_see() {
    for seed in 0..seeds(16) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let options = any_options(&mut random);
        let device = Device::new(seed);
        let db = device.open_plainly(&options);
        let runs = 1 + random.below(6);
        let model = fill(&db, &mut random, 300, runs);
        db.close().unwrap();
        let db = device.open(&options);
        for _ in 0..6 {
            let mut read = scan_options(&mut random, 300);
            let mut waiting = db.cursor_opt(read.set_async_io(false));
            let mut overlapping = db.cursor_opt(read.set_async_io(true));
            for _ in 0..12 {
                let step = Move::any(&mut random, 300);
                if random.below(12) == 0 {
                    let bounds = KeyBounds {
                        lower: Bound::Included(key(random.below(150))),
                        upper: Bound::Included(key(150 + random.below(150))),
                    };
                    waiting.set_range(bounds.clone());
                    overlapping.set_range(bounds);
                }
                let expected = step.apply(&mut waiting).unwrap();
                assert_eq!(step.apply(&mut overlapping).unwrap(), expected, "{step:?}");
            }
        }
        let all: Model = db
            .range_opt(.., ReadOptions::new().set_async_io(true))
            .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect::<Result<_>>()
            .unwrap();
        assert_eq!(all, model);
    }
}

#[test]
fn a_fault_is_reported_or_hidden_and_never_changes_an_answer() {
    for seed in 0..seeds(10) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let options = any_options(&mut random);
        let device = Device::new(seed);
        let db = device.open_plainly(&options);
        let runs = 1 + random.below(5);
        let model = fill(&db, &mut random, 300, runs);
        db.close().unwrap();
        let db = device.open(&options);
        let read = ReadOptions::new()
            .set_async_io(true)
            .fill_cache(false)
            .clone();
        device.damage.take_reads();
        // Opens the tables, and shows which reads there are.
        assert_eq!(db.range_opt(.., &read).count(), model.len());
        let reads = device.damage.take_reads();
        for _ in 0..8 {
            let kinds = [
                Wrong::Unreadable,
                Wrong::UnreadableOnce,
                Wrong::Flipped,
                Wrong::FlippedOnce,
            ];
            for _ in 0..1 + random.below(3) {
                if let Some((path, part)) = reads.get(random.index(reads.len().max(1))) {
                    let at = part.start + random.below(part.end - part.start);
                    let part = (path.clone(), at..at + 1);
                    device.damage.spoil(&part, kinds[random.index(4)]);
                }
            }
            let mut cursor = db.cursor_opt(&read);
            let mut expected = model.iter();
            let mut moved = cursor.seek_to_first();
            let failed = loop {
                match moved {
                    Ok(true) => {
                        let entry = cursor.entry().expect("there is one");
                        let (key, value) = expected.next().expect("no entry too many");
                        assert_eq!(entry, (&key[..], &value[..]));
                    }
                    Ok(false) => break false,
                    Err(_) => break true,
                }
                moved = cursor.next();
            };
            assert!(failed || expected.next().is_none(), "no entry too few");
            device.damage.heal();
            // The cursor works again.
            let mut entries = 0;
            let mut found = cursor.seek_to_last().unwrap();
            while found {
                entries += 1;
                found = cursor.prev().unwrap();
            }
            assert_eq!(entries, model.len());
        }
    }
}

/// A database of `count` uncached keys in one level of many small tables, and its device.
fn level_of_small_tables(count: u64) -> (Device, Db) {
    let mut table = BlockBasedOptions::new();
    table
        .set_block_size(512)
        .set_block_cache(&Cache::new_lru_cache(0));
    let mut options = Options::new();
    options
        .set_compression_type(Compression::None)
        .set_target_file_size_base(8 << 10)
        .set_prefix_extractor(FixedPrefix::new(6))
        .set_block_based_table_factory(&table);
    let device = Device::new(1);
    let db = device.open_plainly(&options);
    for number in 0..count {
        db.put(key(number), [b'v'; 40]).unwrap();
    }
    db.flush().unwrap();
    let mut whole = CompactRangeOptions::new();
    whole.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.default_cf().compact_range_opt(.., &whole).unwrap();
    db.close().unwrap();
    let db = device.open_cold(&options, usize::try_from(count).unwrap());
    (device, db)
}

/// Blocks of a table are read ahead while the next table and its dictionary are opened.
#[test]
fn p4_a_dictionary_is_read_while_pieces_are_under_way() {
    if !Compression::Zstd.is_available() {
        println!("not tested: no ZSTD in this build");
        return;
    }
    for seed in 0..3 {
        let mut table = BlockBasedOptions::new();
        table
            .set_block_size(256)
            .set_block_cache(&Cache::new_lru_cache(0))
            .set_cache_index_and_filter_blocks(true);
        let mut dictionary = CompressionOptions::default();
        dictionary.set_max_dict_bytes(2 << 10);
        let mut options = Options::new();
        options
            .set_compression_type(Compression::Zstd)
            .set_compression_options(&dictionary)
            .set_target_file_size_base(8 << 10)
            .set_block_based_table_factory(&table);
        let device = Device::new(seed);
        let db = device.open_plainly(&options);
        let mut model = Model::new();
        for number in 0..3000 {
            let value = format!("a value that is much like the others, {number}").into_bytes();
            db.put(key(number), &value).unwrap();
            model.insert(key(number), value);
        }
        db.flush().unwrap();
        db.default_cf()
            .compact_range_opt(.., &CompactRangeOptions::new())
            .unwrap();
        db.close().unwrap();
        for forward in [true, false] {
            // Its tables are opened by the scan.
            let db = device.open(&options);
            let mut read = ReadOptions::new();
            read.set_async_io(true).set_readahead_size(2 << 10);
            let entries = db.range_opt(.., &read).map(|entry| {
                let (key, value) = entry.unwrap();
                (key.to_vec(), value.to_vec())
            });
            let found: Model = if forward {
                entries.collect()
            } else {
                let mut cursor = db.cursor_opt(&read);
                let mut found = Model::new();
                let mut moved = cursor.seek_to_last().unwrap();
                while moved {
                    let (key, value) = cursor.entry().unwrap();
                    found.insert(key.to_vec(), value.to_vec());
                    moved = cursor.prev().unwrap();
                }
                found
            };
            assert!(found == model);
        }
    }
}

/// A scan that one thread begins and another continues, with every engine, on files.
#[test]
fn f10_f14_a_cursor_outlives_the_thread_that_began_its_reads() {
    for engine in [ReadEngine::Auto, ReadEngine::Pool, ReadEngine::Off] {
        for direct in [false, true] {
            let dir = ScratchDir::new();
            let mut table = BlockBasedOptions::new();
            table.set_block_cache(&Cache::new_lru_cache(0));
            let mut options = Options::new();
            options
                .create_if_missing(true)
                .set_use_direct_reads(direct)
                .set_async_io_engine(engine)
                .set_compression_type(Compression::None)
                .set_block_based_table_factory(&table);
            let db = Db::open(&options, dir.path()).unwrap();
            for number in 0..2500 {
                db.put(key(number), [b'v'; 100]).unwrap();
            }
            db.flush().unwrap();
            let mut read = ReadOptions::new();
            read.set_async_io(true).set_readahead_size(64 << 10);
            let mut cursor = db.cursor_opt(&read);
            let mut seen = 0;
            let mut found = true;
            while found {
                let step = std::thread::spawn(move || {
                    for _ in 0..400 {
                        found = match seen {
                            0 => cursor.seek_to_first().unwrap(),
                            _ => cursor.next().unwrap(),
                        };
                        if !found {
                            break;
                        }
                        assert_eq!(cursor.key(), Some(&key(seen)[..]));
                        seen += 1;
                    }
                    (cursor, seen, found)
                });
                (cursor, seen, found) = step.join().unwrap();
            }
            assert_eq!(seen, 2500);
            drop(cursor);
            db.close().unwrap();
        }
    }
}

#[test]
fn p6_a_scan_keeps_the_size_of_its_pieces_from_table_to_table_if_told_to() {
    let (device, db) = level_of_small_tables(2000);
    let mut reads = [false, true].map(|adaptive| {
        let mut read = ReadOptions::new();
        read.set_async_io(false).set_adaptive_readahead(adaptive);
        assert_eq!(db.range_opt(.., &read).count(), 2000);
        device.damage.take_reads().len()
    });
    let [reset, kept] = reads;
    assert!(
        kept * 2 < reset,
        "{kept} reads, and {reset} when starting over"
    );
    let mut read = ReadOptions::new();
    read.set_async_io(true);
    assert_eq!(db.range_opt(.., &read).count(), 2000);
    reads[0] = device.damage.take_reads().len();
    assert!(
        reads[0] * 2 < reset,
        "{} reads when planning ahead",
        reads[0]
    );
}

#[test]
fn p10_the_prefix_of_an_earlier_seek_cuts_nothing_off() {
    let (_device, db) = level_of_small_tables(2000);
    for on in [false, true] {
        let mut read = ReadOptions::new();
        read.set_async_io(on)
            .set_prefix_same_as_start(true)
            .set_readahead_size(100 << 10);
        let mut cursor = db.cursor_opt(&read);
        assert!(!cursor.seek("key0070").unwrap() || cursor.key() == Some(b"key00700"));
        assert!(!cursor.seek("kex000").unwrap(), "no key has the prefix");
        let mut entries = 0;
        let mut found = cursor.seek_to_first().unwrap();
        while found {
            entries += 1;
            found = cursor.next().unwrap();
        }
        // A prefix of six letters has a hundred keys.
        assert_eq!(entries, 100, "async_io = {on}");
        let mut found = cursor.seek("key00500").unwrap();
        let mut within = 0;
        while found {
            within += 1;
            found = cursor.next().unwrap();
        }
        assert_eq!(within, 100);
    }
}

#[test]
fn a_bounded_scan_reads_little_beyond_its_bounds() {
    let (device, db) = level_of_small_tables(4000);
    let read_by = |read: &ReadOptions| {
        device.damage.take_reads();
        let entries = db.range_opt(.., read).count();
        // Planned reads that were not awaited.
        device.sim.run();
        let reads = device.damage.take_reads();
        let bytes: u64 = reads.iter().map(|(_, part)| part.end - part.start).sum();
        (entries, bytes)
    };
    let mut read = ReadOptions::new();
    read.set_async_io(true)
        .set_readahead_size(200 << 10)
        .set_iterate_lower_bound(key(1000))
        .set_iterate_upper_bound(key(1200));
    let (entries, bytes) = read_by(&read);
    assert_eq!(entries, 200);
    assert!(bytes < 24 << 10, "{bytes} bytes");
    let (entries, untrimmed) = read_by(read.set_auto_readahead_size(false));
    assert_eq!(entries, 200);
    assert!(untrimmed > 2 * bytes, "{untrimmed} and {bytes} bytes");
}

#[test]
fn a_cursor_dropped_on_another_thread_while_reads_are_under_way_lets_the_database_close() {
    let (device, db) = level_of_small_tables(2000);
    let mut read = ReadOptions::new();
    read.set_async_io(true).set_readahead_size(4 << 10);
    let mut cursor = db.cursor_opt(&read);
    assert!(cursor.seek(key(500)).unwrap());
    while device.sim.held() == 0 {
        assert!(
            cursor.next().unwrap(),
            "something is under way before the end"
        );
    }
    std::thread::spawn(move || drop(cursor)).join().unwrap();
    db.close().unwrap();
    drop(db);
    device.sim.run();
    assert_eq!(device.sim.held(), 0);
}
