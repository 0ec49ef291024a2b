//! Multi-gets with overlapping reads return the same as those that wait for each read.
//!
//! This holds regardless of the behaviour of the device.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use koeldb::fs::{LatencyFileSystem, SystemClock};
use koeldb::statistics::{HistogramKind, Statistics};
use koeldb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactRangeOptions, CuckooTableOptions,
    Db, Env, ErrorKind, Options, PinnedSlices, ReadOptions, ReadTier, StringAppend,
};
use koeldb_testkit::Floors;

use crate::device::{
    Device, Model, PATH, Random, Wrong, batch, check_damage_and_scans, fill, key, modes,
    options_with, table_of, uncached,
};

fn options_of(random: &mut Random) -> Options {
    let table = table_of(random);
    options_with(random, &table)
}

fn outcomes(answers: &PinnedSlices) -> Vec<Result<Option<Vec<u8>>, ErrorKind>> {
    (answers.iter())
        .map(|answer| match answer {
            Ok(value) => Ok(value.map(<[u8]>::to_vec)),
            Err(error) => Err(error.kind()),
        })
        .collect()
}

#[test]
fn overlapping_reads_answer_as_the_model() {
    let seeds = Floors::chosen().of(14, 40, 400);
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let options = options_of(&mut random);
        let device = Device::new(seed);
        let db = device.open_plainly(&options);
        let runs = 1 + random.below(6);
        let model = fill(&db, &mut random, 300, runs);
        db.close().unwrap();
        let db = device.open(&options);
        for _ in 0..12 {
            let keys = batch(&mut random, 300);
            let mut read = ReadOptions::new();
            read.fill_cache(random.below(2) == 0);
            let mut modes = modes(&read);
            modes.rotate_left(random.index(3));
            for mode in modes {
                let answers = db.multi_get_opt(&keys, &mode);
                for (key, found) in keys.iter().zip(&answers) {
                    let expected = model.get(key).map(Vec::as_slice);
                    assert_eq!(found.unwrap(), expected, "{}", key.escape_ascii());
                }
            }
        }
        assert_eq!(device.sim.held(), 0);
    }
}

/// A database whose every read is cold: opened, its tables open, its cache refused.
fn cold(device: &Device, options: &Options, table: &mut BlockBasedOptions) -> Db {
    let mut options = options.clone();
    table.set_block_cache(&Cache::new_lru_cache(0));
    options
        .set_merge_operator(StringAppend::default())
        .set_block_based_table_factory(table);
    let db = device.open(&options);
    // Opens the tables.
    let keys: Vec<_> = (0..1000).map(key).collect();
    let _ = db.multi_get_opt(&keys, ReadOptions::new().set_async_io(false));
    device.damage.take_reads();
    db
}

fn overlapped() -> ReadOptions {
    let mut read = uncached();
    read.set_async_io(true);
    read
}

fn waiting() -> ReadOptions {
    let mut read = uncached();
    read.set_async_io(false);
    read
}

#[test]
fn damage_fails_the_same_keys_and_shows_no_older_value() {
    let seeds = Floors::chosen().of(10, 30, 300);
    let mut failures = 0;
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut random = Random::new(seed + 1000);
        let options = options_of(&mut random);
        let device = Device::new(seed);
        let db = device.open_plainly(&options);
        let runs = 2 + random.below(4);
        let model = fill(&db, &mut random, 300, runs);
        db.close().unwrap();
        let mut table = BlockBasedOptions::new();
        table.set_cache_index_and_filter_blocks(random.below(2) == 0);
        let db = cold(&device, &options, &mut table);
        let keys: Vec<_> = (0..330).map(key).collect();
        let _ = db.multi_get_opt(&keys, &waiting());
        let parts = device.damage.take_reads();
        for _ in 0..12 {
            let wrongs = [
                Wrong::Unreadable,
                Wrong::Flipped,
                Wrong::UnreadableOnce,
                Wrong::FlippedOnce,
            ];
            let wrong = wrongs[random.index(4)];
            let mut spoilt = Vec::new();
            for _ in 0..=random.below(3) {
                spoilt.push(parts[random.index(parts.len())].clone());
            }
            for part in &spoilt {
                device.damage.spoil(part, wrong);
            }
            let lasts = matches!(wrong, Wrong::Unreadable | Wrong::Flipped);
            let keys = batch(&mut random, 300);
            let [waiting, one_level, all_levels] = modes(&uncached());
            let expected = lasts.then(|| outcomes(&db.multi_get_opt(&keys, &waiting)));
            for mode in [one_level, all_levels] {
                let found = outcomes(&db.multi_get_opt(&keys, &mode));
                for (key, found) in keys.iter().zip(&found) {
                    match found {
                        Ok(value) => assert_eq!(value.as_ref(), model.get(key)),
                        Err(ErrorKind::IoError | ErrorKind::Corruption) => failures += 1,
                        Err(kind) => panic!("{kind:?}"),
                    }
                }
                for (at, expected) in expected.iter().flatten().enumerate() {
                    let key = keys[at].escape_ascii();
                    assert!(
                        found[at] == *expected,
                        "{key}: {:?}, {expected:?} when waiting; {spoilt:?}",
                        found[at]
                    );
                }
            }
            device.damage.heal();
            for (key, found) in keys.iter().zip(&db.multi_get_opt(&keys, &overlapped())) {
                assert_eq!(found.unwrap(), model.get(key).map(Vec::as_slice), "healed");
            }
        }
    }
    assert!(failures > 20, "{failures}");
}

/// Four runs, the newest of one table, and the values that key `n` has: `run.n`.
fn four_runs(device: &Device, table: &BlockBasedOptions, key_count: u64) -> Model {
    let mut options = Options::new();
    options.set_block_based_table_factory(table);
    let db = device.open_plainly(&options);
    let mut model = Model::new();
    let mut random = Random::new(7);
    for run in 0..4 {
        for number in 0..key_count {
            if random.below(1 << run) == 0 {
                let value = format!("{run}.{number}.{}", "v".repeat(60)).into_bytes();
                db.put(key(number), &value).unwrap();
                model.insert(key(number), value);
            }
        }
        db.flush().unwrap();
        if run == 0 {
            let mut whole = CompactRangeOptions::new();
            whole.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
            db.default_cf().compact_range_opt(.., &whole).unwrap();
        }
    }
    db.close().unwrap();
    model
}

/// The bytes of all blocks that a key is looked for in, newest run first.
fn parts_of(device: &Device, db: &Db, key: &[u8]) -> Vec<(PathBuf, Range<u64>)> {
    device.damage.take_reads();
    db.get_opt(key, &uncached()).unwrap();
    device.damage.take_reads()
}

#[test]
fn a_cold_batch_takes_little_more_than_one_round() {
    cold_batches_take_little_more_than_one_round(&Options::new(), &overlapped());
}

#[test]
fn a_cold_batch_of_direct_reads_takes_little_more_than_one_round_unasked() {
    let mut options = Options::new();
    options.set_use_direct_reads(true);
    cold_batches_take_little_more_than_one_round(&options, &waiting());
}

fn cold_batches_take_little_more_than_one_round(options: &Options, read: &ReadOptions) {
    let device = Device::new(1);
    let mut table = BlockBasedOptions::new();
    table.set_bloom_filter(10.0).set_block_size(1024);
    let model = four_runs(&device, &table, 4000);
    let statistics = Statistics::new();
    let mut options = options.clone();
    options.set_statistics(statistics.clone());
    let db = cold(&device, &options, &mut table);
    let mut random = Random::new(3);
    statistics.reset();
    for _ in 0..200 {
        let start = random.below(4000 - 8 * 400);
        let keys: Vec<_> = (0..8).map(|i| key(start + i * 400)).collect();
        let answers = db.multi_get_opt(&keys, read);
        for (key, found) in keys.iter().zip(&answers) {
            assert_eq!(found.unwrap(), model.get(key).map(Vec::as_slice));
        }
    }
    let rounds = statistics.histogram(HistogramKind::MultigetDeviceRounds);
    assert_eq!(rounds.count, 200);
    assert!(rounds.average() <= 1.3, "{rounds:?}");
    let levels = statistics.histogram(HistogramKind::NumLevelReadPerMultiget);
    assert!(levels.average() > 1.2, "{levels:?}");
    assert!(statistics.histogram(HistogramKind::AsyncReadBytes).count > 400);
}

#[test]
fn keys_of_one_block_read_it_once_and_neighbours_are_read_together() {
    let device = Device::new(1);
    let mut table = BlockBasedOptions::new();
    table.set_bloom_filter(10.0).set_block_size(4096);
    four_runs(&device, &table, 1000);
    let db = cold(&device, &Options::new(), &mut table);
    let part = parts_of(&device, &db, &key(500)).pop().unwrap();
    let near: Vec<_> = (495..505).map(key).collect();
    let _ = db.multi_get_opt(&near, &overlapped());
    let bottom: Vec<_> = device.damage.take_reads();
    let reads = bottom.iter().filter(|read| read.0 == part.0).count();
    assert_eq!(reads, 1, "{bottom:?}");
    let all: Vec<_> = (0..1000).map(key).collect();
    let _ = db.multi_get_opt(&all, &overlapped());
    let reads = device.damage.take_reads();
    assert!(
        reads.len() <= 40,
        "{} reads of a small database",
        reads.len()
    );
}

/// A key whose block in a newer run is unreadable fails, without a lookup in older runs.
#[test]
fn m3_one_bad_sector_fails_one_key_and_shows_no_older_value() {
    let device = Device::new(5);
    let mut table = BlockBasedOptions::new();
    table.set_bloom_filter(10.0).set_block_size(256);
    let model = four_runs(&device, &table, 4000);
    let newest = (0..4000)
        .find(|&n| model[&key(n)].starts_with(b"3."))
        .unwrap();
    let db = cold(&device, &Options::new(), &mut table);
    let keys: Vec<_> = (0..8).map(|i| key(newest + i * 100)).collect();
    for wrong in [Wrong::Unreadable, Wrong::Flipped] {
        let part = parts_of(&device, &db, &keys[0]).remove(0);
        device.damage.spoil(&part, wrong);
        for mode in modes(&uncached()) {
            let answers = db.multi_get_opt(&keys, &mode);
            let error = answers.get(0).unwrap_err();
            let kind = if wrong == Wrong::Flipped {
                ErrorKind::Corruption
            } else {
                ErrorKind::IoError
            };
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(".sst"), "{error}");
            for (key, found) in keys.iter().zip(&answers).skip(1) {
                assert_eq!(found.unwrap(), model.get(key).map(Vec::as_slice));
            }
        }
        device.damage.heal();
    }
}

/// A table that cannot be opened fails its keys with the reason, and is opened when it can be.
#[test]
fn m1_m2_a_table_that_cannot_be_opened_fails_its_keys_alone() {
    let device = Device::new(5);
    let mut table = BlockBasedOptions::new();
    let mut model = four_runs(&device, &table, 100);
    let db = cold(&device, &Options::new(), &mut table);
    for number in 0..50 {
        db.put(key(number), "new").unwrap();
        model.insert(key(number), b"new".to_vec());
    }
    db.flush().unwrap();
    device.damage.refuse_opening();
    let keys: Vec<_> = (0..100).map(key).collect();
    for mode in modes(&uncached()) {
        let found = db.multi_get_opt(&keys, &mode);
        for (number, found) in found.iter().enumerate() {
            match number {
                0..50 => assert_eq!(found.unwrap_err().kind(), ErrorKind::IoError),
                _ => assert_eq!(found.unwrap(), model.get(&keys[number]).map(Vec::as_slice)),
            }
        }
    }
    device.damage.heal();
    for (key, found) in keys.iter().zip(&db.multi_get_opt(&keys, &overlapped())) {
        assert_eq!(found.unwrap(), model.get(key).map(Vec::as_slice));
    }
}

/// Duplicates of a key with versions in many blocks, which are merged.
#[test]
fn m4_m5_duplicates_of_a_long_merge_agree() {
    let device = Device::new(9);
    let mut table = BlockBasedOptions::new();
    table.set_block_size(64).set_no_block_cache(true);
    let mut options = Options::new();
    options
        .set_merge_operator(StringAppend::default())
        .set_block_based_table_factory(&table);
    let db = device.open_plainly(&options);
    let mut snapshots = Vec::new();
    let mut expected = Vec::new();
    for run in 0..5 {
        for step in 0..10 {
            let operand = format!("{run}{step}{}", "o".repeat(30));
            db.merge(key(1), &operand).unwrap();
            expected.push(operand);
            // Prevents the operands from being combined.
            snapshots.push(db.snapshot());
        }
        db.put(key(0), "before").unwrap();
        db.put(key(2), "behind").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop(snapshots);
    let db = cold(&device, &options, &mut table);
    let keys = [key(1), key(2), key(1), key(0), key(1)];
    for mode in modes(&uncached()) {
        let answers = db.multi_get_opt(&keys, &mode);
        for index in [0, 2, 4] {
            let found = answers.get(index).unwrap().unwrap();
            assert_eq!(found, expected.join(",").as_bytes());
        }
        assert_eq!(answers.get(1).unwrap().unwrap(), b"behind");
    }
}

/// A run without entries of the key, but with a covering range tombstone or a cached block.
#[test]
fn m6_m9_runs_without_the_key_neither_hide_nor_show_what_is_below() {
    let device = Device::new(11);
    let mut table = BlockBasedOptions::new();
    table.set_block_cache(&Cache::new_lru_cache(1 << 20));
    let mut options = Options::new();
    options.set_block_based_table_factory(&table);
    let db = device.open_plainly(&options);
    for number in 0..100 {
        db.put(key(number), "old").unwrap();
    }
    db.flush().unwrap();
    db.delete_range(key(10), key(20)).unwrap();
    db.put(key(5), "new").unwrap();
    db.put(key(50), "new").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let db = device.open(&options);
    // The only block of the newer run is cached; without a filter every key between is looked up in
    // it.
    db.get(key(50)).unwrap();
    let keys: Vec<_> = (0..60).map(key).collect();
    for mode in modes(&uncached()) {
        for (number, found) in db.multi_get_opt(&keys, &mode).iter().enumerate() {
            let expected = match number {
                5 | 50 => Some(&b"new"[..]),
                10..20 => None,
                _ => Some(&b"old"[..]),
            };
            assert_eq!(found.unwrap(), expected, "{number}");
        }
    }
}

/// A batch with a snapshot also reads concurrently, and sees nothing newer.
#[test]
fn m7_a_batch_of_a_snapshot_reads_together_too() {
    let device = Device::new(11);
    let mut table = BlockBasedOptions::new();
    table.set_bloom_filter(10.0).set_block_size(1024);
    let model = four_runs(&device, &table, 4000);
    let statistics = Statistics::new();
    let mut options = Options::new();
    options.set_statistics(statistics.clone());
    let db = cold(&device, &options, &mut table);
    let snapshot = db.snapshot();
    for number in 0..4000 {
        db.put(key(number), "newer").unwrap();
    }
    db.flush().unwrap();
    statistics.reset();
    let mut read = ReadOptions::at(&snapshot);
    read.fill_cache(false).set_async_io(true);
    for start in 0..50 {
        let keys: Vec<_> = (0..8).map(|i| key(start * 7 + i * 400)).collect();
        for (key, found) in keys.iter().zip(&db.multi_get_opt(&keys, &read)) {
            assert_eq!(found.unwrap(), model.get(key).map(Vec::as_slice));
        }
    }
    let rounds = statistics.histogram(HistogramKind::MultigetDeviceRounds);
    // The newest run has every key, in a version that the snapshot does not see.
    assert_eq!(rounds.count, 50);
    assert!(rounds.average() <= 2.3, "{rounds:?}");
}

/// Operands in every run are applied once, newest to oldest, in any order of arrival.
#[test]
fn m8_runs_are_applied_in_their_order_whatever_arrives_first() {
    for seed in 0..12 {
        let device = Device::new(seed);
        let mut table = BlockBasedOptions::new();
        table.set_block_size(128);
        let mut options = Options::new();
        options
            .set_merge_operator(StringAppend::default())
            .set_block_based_table_factory(&table);
        let db = device.open_plainly(&options);
        let mut model = Model::new();
        for run in 0..6_u64 {
            for number in 0..40 {
                let value = format!("{run}.{number}.{}", "v".repeat(40));
                let (key, number) = (key(number), number + run);
                if number % 5 == 0 {
                    db.put(&key, &value).unwrap();
                    model.insert(key, value.into_bytes());
                } else {
                    db.merge(&key, &value).unwrap();
                    let all = model.entry(key).or_default();
                    if !all.is_empty() {
                        all.push(b',');
                    }
                    all.extend_from_slice(value.as_bytes());
                }
            }
            db.flush().unwrap();
        }
        db.close().unwrap();
        let db = cold(&device, &options, &mut table);
        let keys: Vec<_> = (0..40).map(|at| key(at * 7 % 40)).collect();
        for mode in modes(&uncached()) {
            for (key, found) in keys.iter().zip(&db.multi_get_opt(&keys, &mode)) {
                assert_eq!(found.unwrap(), model.get(key).map(Vec::as_slice));
            }
        }
    }
}

#[test]
fn a_batch_ends_at_its_deadline_whatever_the_device_does() {
    let device = Device::new(13);
    let mut table = BlockBasedOptions::new();
    table.set_block_size(256);
    let model = four_runs(&device, &table, 500);
    let db = cold(&device, &Options::new(), &mut table);
    db.put(key(3), "in memory").unwrap();
    let keys: Vec<_> = (0..20).map(key).collect();
    device.sim.set_stopped(true);
    let mut read = overlapped();
    #[expect(clippy::disallowed_methods, reason = "a deadline is an instant")]
    read.set_deadline(Instant::now() + Duration::from_secs(3600));
    for (number, found) in db.multi_get_opt(&keys, &read).iter().enumerate() {
        match number {
            3 => assert_eq!(found.unwrap().unwrap(), b"in memory"),
            _ => assert_eq!(found.unwrap_err().kind(), ErrorKind::TimedOut),
        }
    }
    let mut read = overlapped();
    read.set_io_timeout(Duration::from_millis(5));
    let found = db.multi_get_opt(&keys, &read);
    assert_eq!(found.get(4).unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(found.get(4).unwrap_err().to_string().contains(".sst"));
    // An abandoned read completes later.
    device.sim.set_stopped(false);
    device.sim.run();
    assert_eq!(device.sim.held(), 0);
    for (key, found) in keys
        .iter()
        .zip(&db.multi_get_opt(&keys, &overlapped()))
        .skip(4)
    {
        assert_eq!(found.unwrap(), model.get(key).map(Vec::as_slice));
    }
    #[expect(clippy::disallowed_methods, reason = "a deadline is an instant")]
    let now = Instant::now();
    for mut mode in modes(&uncached()) {
        mode.set_deadline(now);
        let found = db.multi_get_opt(&keys, &mode);
        assert!(
            found
                .iter()
                .all(|found| found.unwrap_err().kind() == ErrorKind::TimedOut)
        );
    }
}

#[test]
fn limits_of_size_and_tier_hold_in_all_modes() {
    let device = Device::new(17);
    let mut table = BlockBasedOptions::new();
    let model = four_runs(&device, &table, 100);
    let db = cold(&device, &Options::new(), &mut table);
    let keys = [key(9), key(1), key(5), key(3)];
    let length = model[&key(1)].len() as u64;
    for mut mode in modes(&uncached()) {
        // In key order: 1 reaches the limit, 3 exceeds it.
        mode.set_value_size_soft_limit(length);
        let found = outcomes(&db.multi_get_opt(&keys, &mode));
        assert_eq!(found[1], Ok(model.get(&key(1)).cloned()));
        assert_eq!(found[3], Ok(model.get(&key(3)).cloned()));
        assert_eq!(found[2], Err(ErrorKind::Aborted));
        assert_eq!(found[0], Err(ErrorKind::Aborted));
        mode.set_value_size_soft_limit(u64::MAX)
            .set_read_tier(ReadTier::BlockCache);
        device.damage.take_reads();
        let found = outcomes(&db.multi_get_opt(&keys, &mode));
        assert!(
            found
                .iter()
                .all(|found| *found == Err(ErrorKind::Incomplete))
        );
        assert_eq!(device.damage.take_reads(), []);
    }
}

#[test]
fn threads_of_a_pool_answer_as_the_model() {
    let device = Device::new(19);
    let mut table = BlockBasedOptions::new();
    table.set_block_size(256).set_no_block_cache(true);
    let model = four_runs(&device, &table, 2000);
    let clock = Arc::new(SystemClock);
    let delay = Duration::from_micros(200);
    let slow = Arc::new(LatencyFileSystem::new(
        device.memory.clone(),
        delay,
        clock.clone(),
    ));
    let mut options = Options::new();
    options
        .set_block_based_table_factory(&table)
        .set_env(&Env::new(slow, clock));
    let db = Db::open(&options, PATH).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (db, model) = (&db, &model);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..10 {
                    let keys = batch(&mut random, 2000);
                    for (key, found) in keys.iter().zip(&db.multi_get_opt(&keys, &overlapped())) {
                        assert_eq!(found.unwrap(), model.get(key).map(Vec::as_slice));
                    }
                }
            });
        }
    });
}

/// Cuckoo tables with direct reads and without mmap are read in pieces.
///
/// The windows of a key are read together, and those of a batch too.
#[test]
fn cuckoo_tables_are_read_piece_by_piece() {
    let device = Device::new(23);
    let mut options = Options::new();
    options
        .set_use_direct_reads(true)
        .set_cuckoo_table_factory(&CuckooTableOptions::new());
    let db = device.open_plainly(&options);
    let mut model = Model::new();
    for round in 0..2 {
        for number in (0..5000).step_by(1 + round * 2) {
            let value = format!("{round}.{number:05}.{}", "v".repeat(30)).into_bytes();
            db.put(key(number), &value).unwrap();
            model.insert(key(number), value);
        }
        for number in (round as u64..5000).step_by(97) {
            db.delete(key(number)).unwrap();
            model.remove(&key(number));
        }
        db.flush().unwrap();
        if round == 0 {
            db.compact_all(&CompactRangeOptions::new()).unwrap();
        }
    }
    db.close().unwrap();
    let statistics = Statistics::new();
    options.set_statistics(statistics.clone());
    let db = device.open(&options);
    device.damage.take_reads();
    let mut random = Random::new(2);
    let cold = uncached();
    for step in 0..40 {
        let keys = batch(&mut random, 5000);
        for mode in modes(&cold) {
            for (key, found) in keys.iter().zip(&db.multi_get_opt(&keys, &mode)) {
                assert_eq!(
                    found.unwrap(),
                    model.get(key).map(Vec::as_slice),
                    "step {step}"
                );
            }
        }
    }
    let rounds = statistics.histogram(HistogramKind::MultigetDeviceRounds);
    assert!(rounds.count > 30 && rounds.max <= 2, "{rounds:?}");
    check_damage_and_scans(&device, &db, &model, &key(11));
}
