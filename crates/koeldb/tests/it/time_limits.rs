//! Reads with a time limit end in time, whatever the device does, and leave nothing behind.
//!
//! The time is virtual.

use std::time::{Duration, Instant};

use koeldb::{BlockBasedOptions, Cache, Db, DbCursor, ErrorKind, ReadOptions, Result};

use crate::device::{Device, Model, Random, fill, key, options_with};

const HOUR: Duration = Duration::from_secs(3600);
const TIMEOUT: Duration = Duration::from_millis(5);

/// A database with open tables, of which only the blocks in `cache` are cached.
fn database(cache: &Cache) -> (Device, Db, Model) {
    let mut random = Random::new(5);
    let device = Device::new(1);
    let mut table = BlockBasedOptions::new();
    table.set_block_size(256).set_block_cache(cache);
    let options = options_with(&mut random, &table);
    let db = device.open_plainly(&options);
    let model = fill(&db, &mut random, 300, 4);
    db.close().unwrap();
    let db = device.open_cold(&options, model.len());
    (device, db, model)
}

fn in_an_hour() -> Instant {
    Instant::now() + HOUR
}

/// Returns the result of `call`, and its duration in virtual time.
fn timed<T>(device: &Device, call: impl FnOnce() -> T) -> (T, Duration) {
    use koeldb::fs::Clock;
    let clock = device.sim.clock();
    let begun = clock.now();
    let returned = call();
    (returned, clock.now() - begun)
}

fn is_timed_out<T>(found: &Result<T>) -> bool {
    (found.as_ref().err()).is_some_and(|error| error.kind() == ErrorKind::TimedOut)
}

fn value(model: &Model, number: u64) -> Option<&[u8]> {
    model.get(&key(number)).map(Vec::as_slice)
}

#[test]
fn a_get_ends_at_its_deadline_whatever_the_device_does() {
    let (device, db, mut model) = database(&Cache::new_lru_cache(0));
    db.put(key(3), "in memory").unwrap();
    model.insert(key(3), b"in memory".to_vec());
    for on in [false, true] {
        device.sim.set_stopped(true);
        let mut read = ReadOptions::new();
        read.set_async_io(on).set_deadline(in_an_hour());
        assert_eq!(
            db.get_opt(key(3), &read).unwrap().as_deref(),
            value(&model, 3)
        );
        let (found, waited) = timed(&device, || db.get_opt(key(5), &read));
        assert!(is_timed_out(&found), "{found:?}");
        assert!(waited <= HOUR && waited > HOUR / 2, "{waited:?}");
        let mut read = ReadOptions::new();
        read.set_async_io(on).set_io_timeout(TIMEOUT);
        let (found, waited) = timed(&device, || db.get_opt(key(5), &read));
        assert!(is_timed_out(&found), "{found:?}");
        assert!(found.unwrap_err().to_string().contains(".sst"));
        assert_eq!(waited, TIMEOUT);
        // Abandoned reads complete later.
        device.sim.set_stopped(false);
        device.sim.run();
        assert_eq!(device.sim.held(), 0);
        // Several reads in sequence may take longer than the limit of one.
        device.sim.set_latency(TIMEOUT / 2);
        read.set_deadline(in_an_hour());
        let (_, waited) = timed(&device, || {
            for number in 0..300 {
                let found = db.get_opt(key(number), &read).unwrap();
                assert_eq!(found.as_deref(), value(&model, number));
            }
        });
        assert!(waited > TIMEOUT * 100, "{waited:?}");
        // After the deadline no read is begun.
        device.damage.take_reads();
        read.set_deadline(Instant::now());
        assert!(is_timed_out(&db.get_opt(key(5), &read)));
        assert_eq!(device.damage.take_reads(), []);
    }
}

#[test]
fn a_batch_that_was_not_to_overlap_ends_at_its_deadline_too() {
    let (device, db, mut model) = database(&Cache::new_lru_cache(0));
    db.put(key(3), "in memory").unwrap();
    model.insert(key(3), b"in memory".to_vec());
    device.sim.set_stopped(true);
    let mut read = ReadOptions::new();
    read.set_async_io(false).set_deadline(in_an_hour());
    let keys: Vec<_> = (0..8).map(key).collect();
    for (number, found) in (0..).zip(&db.multi_get_opt(&keys, &read)) {
        match number {
            3 => assert_eq!(found.unwrap(), value(&model, 3)),
            _ => assert!(is_timed_out(&found), "{number}: {found:?}"),
        }
    }
    device.sim.set_stopped(false);
    let mut read = ReadOptions::new();
    read.set_async_io(false).set_io_timeout(TIMEOUT);
    for (number, found) in (0..).zip(&db.multi_get_opt(&keys, &read)) {
        assert_eq!(found.unwrap(), value(&model, number));
    }
}

/// Moves forward through all entries, from the first or from the position after `seen`.
///
/// Stops the device after `until`, and returns the number of entries, with the error or none at the
/// end.
fn scan(
    cursor: &mut DbCursor,
    device: &Device,
    model: &Model,
    until: usize,
) -> (usize, Option<koeldb::Error>) {
    let mut entries = model.iter();
    let mut seen = 0;
    loop {
        if seen == until {
            device.sim.set_stopped(true);
        }
        let moved = match seen {
            0 => cursor.seek_to_first(),
            _ => cursor.next(),
        };
        match moved {
            Ok(true) => {
                let (key, value) = entries.next().unwrap();
                assert_eq!(cursor.entry(), Some((&key[..], &value[..])));
                seen += 1;
            }
            Ok(false) => {
                assert!(entries.next().is_none());
                return (seen, None);
            }
            Err(error) => return (seen, Some(error)),
        }
    }
}

#[test]
fn a_scan_fails_where_the_device_hangs_and_can_be_positioned_anew() {
    let (device, db, model) = database(&Cache::new_lru_cache(0));
    let mut failures = 0;
    for (on, readahead) in [(false, 0), (false, 1000), (true, 0), (true, 1000)] {
        for until in [0, 1, 2, 7, 30, 100] {
            let mut read = ReadOptions::new();
            read.set_async_io(on)
                .set_readahead_size(readahead)
                .set_io_timeout(TIMEOUT);
            let mut cursor = db.cursor_opt(&read);
            let (seen, error) = scan(&mut cursor, &device, &model, until);
            let Some(error) = error else {
                // Everything was read ahead.
                device.sim.set_stopped(false);
                continue;
            };
            failures += 1;
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            assert!(seen >= until);
            assert!(!cursor.valid() && cursor.entry().is_none());
            assert!(is_timed_out(&cursor.status()));
            assert!(is_timed_out(&cursor.next()), "the error stays");
            let (found, waited) = timed(&device, || cursor.seek(key(0)));
            assert!(is_timed_out(&found) && is_timed_out(&cursor.status()));
            assert_eq!(waited, TIMEOUT);
            device.sim.set_stopped(false);
            let (rest, error) = scan(&mut cursor, &device, &model, usize::MAX);
            assert!(error.is_none() && cursor.status().is_ok(), "{error:?}");
            assert_eq!(rest, model.len());
            let mut found = cursor.seek_to_last().unwrap();
            let mut backwards = 0;
            while found {
                backwards += 1;
                found = cursor.prev().unwrap();
            }
            assert_eq!(backwards, model.len());
            drop(cursor);
            device.sim.run();
            assert_eq!(device.sim.held(), 0);
        }
    }
    assert!(failures >= 16, "{failures}");
}

#[test]
fn a_scan_past_its_deadline_begins_no_read_and_finds_what_is_cached() {
    for on in [false, true] {
        let (device, db, model) = database(&Cache::new_lru_cache(8 << 20));
        let mut read = ReadOptions::new();
        read.set_async_io(on).set_deadline(in_an_hour());
        let mut cursor = db.cursor_opt(&read);
        device.sim.set_stopped(true);
        let (found, waited) = timed(&device, || cursor.seek_to_first());
        assert!(is_timed_out(&found));
        assert!(waited <= HOUR && waited > HOUR / 2, "{waited:?}");
        device.sim.set_stopped(false);
        device.sim.run();
        device.damage.take_reads();
        for number in (0..300).step_by(50) {
            let (found, waited) = timed(&device, || cursor.seek_for_prev(key(number)));
            assert!(is_timed_out(&found) && waited.is_zero());
        }
        assert_eq!(device.damage.take_reads(), []);
        // Others bring the blocks.
        assert_eq!(db.range(..).count(), model.len());
        device.damage.take_reads();
        let (seen, error) = scan(&mut cursor, &device, &model, usize::MAX);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(seen, model.len());
        assert_eq!(device.damage.take_reads(), []);
    }
}

#[test]
fn an_iterator_past_its_deadline_tells_so_once_and_ends() {
    let (device, db, _) = database(&Cache::new_lru_cache(0));
    device.sim.set_stopped(true);
    let mut read = ReadOptions::new();
    read.set_deadline(in_an_hour());
    for mut entries in [db.range_opt(.., &read), db.range_opt(.., &read)] {
        assert!(is_timed_out(&entries.next().unwrap()));
        assert!(entries.next().is_none());
    }
}
