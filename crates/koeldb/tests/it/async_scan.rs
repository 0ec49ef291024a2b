//! Scans that read ahead while they go on see what those see that wait for each read in turn, whatever the device does.

use std::ops::Bound;

use koeldb::{DbCursor, FixedPrefix, KeyBounds, Options, ReadOptions, Result};

use crate::async_multi_get::{Device, Model, Random, fill, key, options_with, table_of};

fn seeds(count: u64) -> u64 {
    let long = std::env::var_os("KOELDB_LONG").is_some();
    if long { 40 * count } else { count }
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

/// Options under which tables decide about reading ahead.
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
