//! A block that is being read for one operation is not read again for another.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use koeldb::{
    BlockBasedOptions, Cache, Compression, Db, ErrorKind, Options, PinnedSlice, ReadOptions, Result,
};

use crate::device::{Device, Wrong, key};

/// A table whose blocks are not in the cache, although there is room for them.
fn cold_table() -> (Device, Db) {
    let device = Device::new(1);
    let mut table = BlockBasedOptions::new();
    table
        .set_block_size(512)
        .set_block_cache(&Cache::new_lru_cache(8 << 20));
    let mut options = Options::new();
    options
        .set_compression_type(Compression::None)
        .set_block_based_table_factory(&table);
    let db = device.open_plainly(&options);
    for number in 0..500 {
        db.put(key(number), format!("value {number}")).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let db = device.open_cold(&options, 500);
    (device, db)
}

type Get<'d> = Pin<Box<dyn Future<Output = Result<Option<PinnedSlice>>> + 'd>>;

fn poll(get: &mut Get<'_>) -> Poll<Result<Option<PinnedSlice>>> {
    get.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn done(get: &mut Get<'_>) -> Result<Option<PinnedSlice>> {
    match poll(get) {
        Poll::Ready(found) => found,
        Poll::Pending => panic!("nothing is under way, and the future waits"),
    }
}

#[test]
fn sixty_four_tasks_that_want_one_block_read_it_once() {
    let (device, db) = cold_table();
    let mut gets: Vec<Get<'_>> = (0..64)
        .map(|_| Box::pin(db.get_async(key(250))) as Get<'_>)
        .collect();
    assert!(gets.iter_mut().all(|get| poll(get).is_pending()));
    assert_eq!(device.sim.held(), 1);
    device.sim.run();
    for get in &mut gets {
        assert_eq!(done(get).unwrap().as_deref(), Some(&b"value 250"[..]));
    }
    assert_eq!(device.damage.take_reads().len(), 1);
    // Now it is in the cache.
    let mut get = Box::pin(db.get_async(key(250))) as Get<'_>;
    assert!(done(&mut get).unwrap().is_some());
    assert_eq!(device.damage.take_reads(), []);
}

#[test]
fn tasks_go_on_whatever_becomes_of_the_one_that_began_the_read() {
    for way in 0..3 {
        let (device, db) = cold_table();
        let mut gets: Vec<Get<'_>> = (0..10)
            .map(|_| Box::pin(db.get_async(key(250))) as Get<'_>)
            .collect();
        assert!(gets.iter_mut().all(|get| poll(get).is_pending()));
        let first = gets.remove(0);
        match way {
            0 => drop(first),
            1 => std::mem::forget(first),
            // It stays alive and is not polled.
            _ => gets.push(first),
        }
        device.sim.run();
        for get in &mut gets {
            assert_eq!(done(get).unwrap().as_deref(), Some(&b"value 250"[..]));
        }
        assert_eq!(device.damage.take_reads().len(), 1);
    }
}

#[test]
fn a_read_that_fails_once_fails_the_one_that_made_it() {
    let (device, db) = cold_table();
    // Finds the position of the block.
    let mut read = ReadOptions::new();
    read.fill_cache(false).set_async_io(false);
    db.get_opt(key(250), &read).unwrap();
    let part = device.damage.take_reads().remove(0);
    for (wrong, failures) in [(Wrong::UnreadableOnce, 1), (Wrong::Unreadable, 10)] {
        device.damage.spoil(&part, wrong);
        let mut gets: Vec<Get<'_>> = (0..10)
            .map(|_| {
                let mut read = ReadOptions::new();
                read.fill_cache(false);
                let db = db.clone();
                Box::pin(async move { db.get_async_opt(key(250), &read).await }) as Get<'_>
            })
            .collect();
        assert!(gets.iter_mut().all(|get| poll(get).is_pending()));
        device.sim.run();
        let failed = AtomicUsize::new(0);
        for get in &mut gets {
            match done(get) {
                Ok(found) => assert_eq!(found.as_deref(), Some(&b"value 250"[..])),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::IoError);
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        assert_eq!(failed.into_inner(), failures);
        device.damage.heal();
    }
}

/// Batches, scans and single reads of the same keys, all begun before any continues.
#[test]
fn batches_and_scans_wait_for_reads_of_each_other() {
    let (device, db) = cold_table();
    let db = Arc::new(db);
    let keys: Vec<_> = (100..104).map(key).collect();
    let mut batches: Vec<_> = (0..5)
        .map(|_| {
            let (db, keys) = (Arc::clone(&db), keys.clone());
            Box::pin(async move { db.multi_get_async(&keys).await })
        })
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    for batch in &mut batches {
        assert!(batch.as_mut().poll(&mut context).is_pending());
    }
    let held = device.sim.held();
    // A scan waits in place for the same blocks: it completes reads of the batches.
    let mut read = ReadOptions::new();
    read.set_async_io(true).set_readahead_size(600);
    let mut cursor = db.cursor_opt(&read);
    assert!(cursor.seek(key(100)).unwrap());
    for number in 100..104 {
        assert_eq!(cursor.key(), Some(&key(number)[..]));
        cursor.next().unwrap();
    }
    drop(cursor);
    device.sim.run();
    for batch in &mut batches {
        match batch.as_mut().poll(&mut context) {
            Poll::Ready(values) => assert!(values.iter().all(|value| value.unwrap().is_some())),
            Poll::Pending => panic!("all is there"),
        }
    }
    let reads = device.damage.take_reads();
    assert!(held == 1 && reads.len() <= 4, "{held} held, {reads:?}");
}
