//! What is counted of each primitive.

use std::collections::BTreeSet;
use std::time::Duration;

use koeldb_counts::record::{self, Event};
use koeldb_counts::sync::atomic::{AtomicU32, Ordering, fence};
use koeldb_counts::sync::{Arc, Condvar, Mutex, OnceLock, RwLock};
use koeldb_counts::thread;

use crate::costs::costs;

/// Counts without "shared": RMWs, fences, locks, waits, parks, wakes, yields, allocations.
fn counts(run: impl FnOnce()) -> [usize; 8] {
    let ((), records) = record::during(run);
    let costs = costs(&records, &BTreeSet::new());
    std::array::from_fn(|column| costs[column + usize::from(column > 0)])
}

#[test]
fn an_atomic_counts_its_changes_and_no_load() {
    let number = AtomicU32::new(1);
    let run = || {
        number.load(Ordering::SeqCst);
        number.store(2, Ordering::Release);
        number.store(3, Ordering::SeqCst);
        number.fetch_add(1, Ordering::Relaxed);
        let _ = number.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed);
        fence(Ordering::Acquire);
        fence(Ordering::SeqCst);
    };
    assert_eq!(counts(run), [3, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_change_is_told_by_address_and_line() {
    let number = AtomicU32::new(1);
    let ((), records) = record::during(|| {
        number.swap(2, Ordering::Relaxed);
    });
    let address = (&raw const number).addr();
    assert_eq!(records[0].event, Event::Rmw(address));
    let line = line!() - 4;
    assert!(
        records[0]
            .site
            .to_string()
            .ends_with(&format!("primitives.rs:{line}"))
    );
}

#[test]
fn a_reference_counts_its_clone_and_its_drop_twice_if_it_is_the_last() {
    let text = Arc::new(String::new());
    assert_eq!(counts(|| drop(Arc::clone(&text))), [2, 0, 0, 0, 0, 0, 0, 0]);
    let weak = Arc::downgrade(&text);
    assert_eq!(counts(|| drop(weak.upgrade())), [2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(counts(|| drop(text)), [2, 0, 0, 0, 0, 0, 0, 0]);
    let new = || drop::<Arc<dyn Send>>(Arc::new(1));
    assert_eq!(counts(new), [2, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_lock_is_two_changes_and_a_failed_attempt_one() {
    let mutex = Mutex::new(1);
    assert_eq!(counts(|| drop(mutex.lock())), [2, 0, 1, 0, 0, 0, 0, 0]);
    let held = mutex.lock();
    assert_eq!(counts(|| drop(mutex.try_lock())), [1, 0, 0, 0, 0, 0, 0, 0]);
    drop(held);
    let lock = RwLock::new(1);
    assert_eq!(counts(|| drop(lock.read())), [2, 0, 1, 0, 0, 0, 0, 0]);
    assert_eq!(counts(|| drop(lock.write())), [2, 0, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_lock_that_another_thread_holds_is_waited_for() {
    let mutex = Mutex::new(());
    let held = mutex.lock().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| counts(|| drop(mutex.lock())));
        while record::waiting() == 0 {
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!(waits.join().unwrap(), [2, 0, 1, 1, 0, 0, 0, 0]);
    });
}

#[test]
fn parks_wakes_and_yields_are_counted() {
    let park = || thread::park_timeout(Duration::ZERO);
    assert_eq!(counts(park), [2, 0, 0, 0, 1, 0, 0, 0]);
    // Besides the wake, the handle is cloned and dropped.
    let wake = || thread::current().unpark();
    assert_eq!(counts(wake), [3, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(counts(thread::yield_now), [0, 0, 0, 0, 0, 0, 1, 0]);
    let signal = Condvar::new();
    assert_eq!(counts(|| signal.notify_all()), [1, 0, 0, 0, 0, 1, 0, 0]);
    let mutex = Mutex::new(());
    let wait = || drop(signal.wait_timeout(mutex.lock().unwrap(), Duration::ZERO));
    assert_eq!(counts(wait), [4, 0, 1, 0, 1, 0, 0, 0]);
}

#[test]
fn a_cell_counts_when_it_is_set() {
    let cell = OnceLock::new();
    assert_eq!(
        counts(|| assert_eq!(cell.get_or_init(|| 1), &1)),
        [2, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(counts(|| assert_eq!(cell.get_or_init(|| 1), &1)), [0; 8]);
}

#[test]
fn nothing_is_counted_outside_of_a_recording_or_of_another_thread() {
    let number = AtomicU32::new(1);
    number.swap(2, Ordering::Relaxed);
    let elsewhere = || {
        let swap = || number.swap(3, Ordering::Relaxed);
        std::thread::scope(|scope| scope.spawn(swap).join().unwrap())
    };
    let ((), records) = record::during(|| {
        elsewhere();
    });
    let changes = records
        .iter()
        .filter(|record| matches!(record.event, Event::Rmw(_)));
    assert_eq!(changes.count(), 0);
}
