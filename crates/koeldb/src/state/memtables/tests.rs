use std::path::{Path, PathBuf};
use std::time::Duration;

use koeldb_fs::{Clock, SystemClock};
use koeldb_testkit::Floors;

use super::*;
use crate::options::Options;
use crate::{ColumnFamily, Db, Env};

const LIMIT: Duration = Duration::from_secs(60);

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = SystemClock.now();
    while !condition() {
        assert!(SystemClock.now() - begun < LIMIT, "in vain: {what}");
        SystemClock.sleep(Duration::from_millis(1));
    }
}

fn in_memory(manager: &WriteBufferManager) -> Db {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(256 << 10)
        .set_write_buffer_manager(manager)
        .set_env(&Env::mem_env());
    Db::open(&options, "/standby").unwrap()
}

/// Writes until the active memtable has this size.
fn grow(family: &ColumnFamily, bytes: usize) {
    let active = || {
        family
            .data()
            .read(|state| Arc::clone(&state.active.memtable))
    };
    let begun = active();
    let mut number = 0_u64;
    while Arc::ptr_eq(&begun, &active()) && begun.memory_bytes() < bytes {
        family.put(number.to_le_bytes(), [1; 1000]).unwrap();
        number += 1;
    }
    // The next leader checks the grown memtable.
    family.put("look", "").unwrap();
}

#[test]
fn the_successor_of_a_half_full_memtable_stands_by_charged_and_goes_with_its_family() {
    let manager = WriteBufferManager::new(0, false);
    let db = in_memory(&manager);
    let idle = manager.get_usage();
    let options = db.default_cf().options();
    for name in ["one", "two"] {
        let family = db.create_cf(name, &options).unwrap();
        let data = family.data();
        grow(&family, 64 << 10);
        assert!(!data.has_successor(), "before it is half full");
        grow(&family, 140 << 10);
        wait_until("a successor", || data.has_successor());
        let successor = {
            let ready = lock(&data.standby.ready);
            let (ready, _) = ready.as_ref().unwrap();
            let charge = ready.charge.as_ref().unwrap();
            assert_eq!(charge.bytes(), ready.memtable.memory_bytes() as u64);
            Arc::clone(&ready.memtable)
        };
        let active = data.read(|state| state.active.memtable.memory_bytes());
        assert!(manager.get_usage() >= idle + successor.memory_bytes() as u64 + active as u64 / 2);
        grow(&family, 300 << 10);
        family.put("another", "write").unwrap();
        let now = data.read(|state| Arc::clone(&state.active.memtable));
        assert!(
            Arc::ptr_eq(&now, &successor),
            "the one that stood by takes the writes"
        );
        drop((now, successor));
        grow(&family, 140 << 10);
        wait_until("another successor", || data.has_successor());
        db.drop_cf(&family).unwrap();
        assert!(!data.has_successor());
    }
    let begun = db.default_cf();
    grow(begun, 140 << 10);
    wait_until("a successor", || begun.data().has_successor());
    begun
        .set_options([("write_buffer_size", "131072")])
        .unwrap();
    grow(begun, 200 << 10);
    let limit = begun.data().options().write_buffer_size;
    assert_eq!(
        limit,
        128 << 10,
        "a successor of other options is not taken"
    );
    db.close().unwrap();
    drop(db);
    wait_until("all memory given back", || manager.get_usage() == 0);
}

/// The time that this thread was runnable but not running; zero if the system does not report it.
fn preempted() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().nth(1);
    Duration::from_nanos(nanos.and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// Measures the time to switch memtable and log, in memory and on disk.
///
/// On disk, a log is a file that the system creates in advance or during the switch.
/// `KOELDB_FLOORS=long` in a release build prints the figures and checks the time of the switch,
/// without the time that the thread was preempted.
#[test]
fn switching_takes_microseconds() {
    let is_long = Floors::chosen() == Floors::Long;
    let on_disk: PathBuf =
        std::env::temp_dir().join(format!("koeldb-switch-{}", std::process::id()));
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_write_buffer_size(64 << 20)
        .set_max_write_buffer_number(1 << 20);
    let rounds = if is_long { 4000 } else { 10 };
    println!("on disk, the log made by the switch");
    switch_often(&options, &on_disk, rounds, false);
    println!("on disk");
    let mut longest = vec![switch_often(&options, &on_disk, rounds, true)];
    Db::destroy(&options, &on_disk).unwrap();
    println!("in memory");
    options.set_env(&Env::mem_env());
    longest.push(switch_often(&options, "/switch".as_ref(), rounds, true));
    if is_long && !cfg!(debug_assertions) {
        let bound = Duration::from_micros(100);
        assert!(
            longest.iter().all(|longest| *longest < bound),
            "{longest:?}"
        );
    }
}

/// The time that all but one of a thousand switches take at most, but for preemption.
fn switch_often(options: &Options, path: &Path, rounds: u32, has_log: bool) -> Duration {
    let db = Db::open(options, path).unwrap();
    let inner = db.inner();
    let (mut times, mut own_times) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let family = db.default_cf().data();
        family.request_successor(&inner.context.env.pool, &inner.slots);
        wait_until("a successor", || family.has_successor());
        if has_log {
            let leadership = inner.commit.queue.lead();
            inner.wals.request_standby();
            drop(leadership);
            wait_until("a log", || inner.wals.has_standby());
        }
        for number in 0..20_u32 {
            db.put((round + number).to_le_bytes(), [1; 100]).unwrap();
        }
        let mut leadership = inner.commit.queue.lead();
        let others = preempted();
        let begun = SystemClock.now();
        inner
            .commit
            .switch_memtables(
                &mut leadership.commit,
                vec![0],
                crate::report::listener::FlushReason::ManualFlush,
            )
            .unwrap();
        let taken = SystemClock.now() - begun;
        times.push(taken);
        own_times.push(taken.saturating_sub(preempted() - others));
        drop(leadership);
        assert!(!family.has_successor() && !inner.wals.has_standby());
        if round % 10 == 9 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    let at =
        |times: &[Duration], share: usize| times[(times.len() * share / 1000).min(times.len() - 1)];
    for (name, times) in [
        ("switching", &mut times),
        ("of that its own", &mut own_times),
    ] {
        times.sort_unstable();
        println!(
            "{name}: p50 {:?}, p99 {:?}, p99.9 {:?}, longest {:?}",
            at(times, 500),
            at(times, 990),
            at(times, 999),
            at(times, 1000)
        );
    }
    at(&own_times, 999)
}
