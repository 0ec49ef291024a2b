//! The memory limit of memtables over column families and databases.

use std::sync::Arc;
use std::time::Duration;

use crate::gate::without_flushes;
use crate::prelude::{LIMIT, in_memory};
use crate::scratch::ScratchDir;
use crate::wait::until;
use koeldb::fs::{Clock, MemoryFileSystem, SystemClock};
use koeldb::{
    Cache, ColumnFamily, Db, ErrorKind, Options, WriteBufferManager, WriteOptions, WriteOutcome,
};

fn options(manager: &WriteBufferManager) -> Options {
    let mut options = in_memory();
    options.set_write_buffer_manager(manager);
    options
}

fn table_count(db: &Db) -> usize {
    db.live_files().len()
}

#[test]
fn families_share_a_budget_and_writes_wait_for_it() {
    const BUDGET: u64 = 1 << 20;
    let cache = Cache::new_lru_cache(32 << 20);
    let manager = WriteBufferManager::with_cache(BUDGET, &cache, true);
    let mut options = options(&manager);
    // Flushes of two, unless memory is wanted.
    options
        .set_max_write_buffer_number(4)
        .set_min_write_buffer_number_to_merge(2);
    let db = Db::open(&options, "/budget").unwrap();
    let families: Vec<_> = (0..4)
        .map(|number| {
            let options = db.default_cf().options();
            db.create_cf(&format!("family {number}"), &options).unwrap()
        })
        .collect();
    let mut largest = 0;
    for number in 0..6000_usize {
        let family = &families[number % families.len()];
        family.put(number.to_string(), [1; 1000]).unwrap();
        largest = largest.max(manager.get_usage());
    }
    // Arenas grow by blocks of up to a MiB, and a budget is no wall.
    assert!(largest < BUDGET * 5 / 2, "{largest} bytes");
    assert!(cache.get_usage() >= manager.get_usage());
    assert!(table_count(&db) > 2);
    for number in 0..6000_usize {
        let family = &families[number % families.len()];
        assert!(family.contains_key(number.to_string()).unwrap());
    }
    db.close().unwrap();
    drop((db, families));
    until("all given back", || {
        manager.get_usage() == 0 && manager.get_mutable_usage() == 0
    });
}

#[test]
fn db_write_buffer_size_makes_a_budget() {
    let mut options = in_memory();
    options.set_db_write_buffer_size(512 << 10);
    let db = Db::open(&options, "/own").unwrap();
    for number in 0..3000_u32 {
        db.put(number.to_le_bytes(), [1; 1000]).unwrap();
    }
    assert!(
        table_count(&db) > 0,
        "64 MiB were not reached, 512 KiB were"
    );
}

#[test]
fn a_database_that_writes_nothing_gives_way_to_one_that_does() {
    let manager = WriteBufferManager::new(2 << 20, false);
    let idle = Db::open(&options(&manager), "/idle").unwrap();
    let busy = Db::open(&options(&manager), "/busy").unwrap();
    // Less than the half of the budget from which on a database flushes its own memtables.
    for number in 0..900_u32 {
        idle.put(number.to_le_bytes(), [1; 1000]).unwrap();
    }
    assert_eq!(table_count(&idle), 0);
    let mut number = 0_u32;
    let begun = SystemClock.now();
    while table_count(&idle) == 0 {
        busy.put(number.to_le_bytes(), [1; 1000]).unwrap();
        number += 1;
        assert!(SystemClock.now() - begun < LIMIT, "in vain");
    }
    assert!(idle.contains_key(7_u32.to_le_bytes()).unwrap());
}

#[test]
fn writes_that_wait_for_memory_give_up_in_time() {
    let (env, open) = without_flushes(Arc::new(MemoryFileSystem::new()));
    let manager = WriteBufferManager::new(256 << 10, true);
    let mut options = options(&manager);
    options.set_env(&env);
    let db = Db::open(&options, "/waiting").unwrap();
    let mut impatient = WriteOptions::new();
    impatient.set_stall_timeout(Duration::from_millis(20));
    let mut number = 0_u32;
    let error = loop {
        number += 1;
        assert!(number < 10_000, "writes never wait");
        if let Err(error) = db.put_opt(number.to_le_bytes(), [7; 1000], &impatient) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
    let mut hasty = WriteOptions::new();
    hasty.set_no_slowdown(true);
    let error = db.put_opt("hasty", "", &hasty).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
    drop(open);
    // It continues as soon as the flush does.
    db.put("patient", "").unwrap();
    assert!(db.contains_key("patient").unwrap());
}

#[test]
fn a_budget_that_nothing_can_meet_stops_nobody() {
    let manager = WriteBufferManager::new(1, true);
    let db = Db::open(&options(&manager), "/tiny").unwrap();
    for number in 0..20_u32 {
        db.put(number.to_le_bytes(), [7; 100]).unwrap();
    }
    assert!(db.contains_key(7_u32.to_le_bytes()).unwrap());
}

#[test]
fn values_pinned_in_a_memtable_keep_its_charge() {
    let dir = ScratchDir::new();
    let manager = WriteBufferManager::new(0, false);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_manager(&manager);
    let db = Db::open(&options, dir.path()).unwrap();
    for index in 0..2000_u32 {
        db.put(index.to_le_bytes(), [7; 1000]).unwrap();
    }
    let before = manager.get_usage();
    let pinned = db.get(7_u32.to_le_bytes()).unwrap().unwrap();
    let clone = pinned.clone();
    db.flush().unwrap();
    assert!(
        manager.get_usage() >= before,
        "the memtable's memory is held"
    );
    drop(pinned);
    let held = manager.get_usage();
    assert!(held >= before, "by the clone");
    drop(clone);
    until("the memory is freed", || manager.get_usage() < held);
}

#[test]
fn short_values_read_from_a_memtable_keep_nothing_of_it_charged() {
    let dir = ScratchDir::new();
    let manager = WriteBufferManager::new(0, false);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_manager(&manager);
    let db = Db::open(&options, dir.path()).unwrap();
    for index in 0..20_000_u32 {
        db.put(index.to_le_bytes(), [7; 20]).unwrap();
    }
    let before = manager.get_usage();
    let values: Vec<_> = [1_u32, 2, 3, 4]
        .iter()
        .map(|index| db.get(index.to_le_bytes()).unwrap().unwrap())
        .collect();
    db.flush().unwrap();
    until("the memory is freed", || {
        // Reads release what their thread has cached.
        db.get("absent").unwrap();
        manager.get_usage() < before / 2
    });
    assert!(values.iter().all(|value| **value == [7; 20]));
}

/// Memory that cursors hold is not freed by a flush of other memtables.
#[test]
fn memtables_that_cursors_hold_cause_no_flush_of_a_few_entries() {
    const BUDGET: u64 = 4 << 20;
    for allow_stall in [false, true] {
        let manager = WriteBufferManager::new(BUDGET, allow_stall);
        let db = Db::open(&options(&manager), "/held").unwrap();
        let mut cursors = Vec::new();
        let put = |number: u32| db.put(number.to_le_bytes(), [1; 1000]).unwrap();
        let mut number = 0;
        while manager.get_usage() <= BUDGET {
            put(number);
            number += 1;
            if number.is_multiple_of(1000) {
                let mut cursor = db.cursor();
                cursor.seek_to_first().unwrap();
                cursors.push(cursor);
                db.flush().unwrap();
            }
        }
        let tables = table_count(&db);
        (number..number + 4000).for_each(put);
        db.flush().unwrap();
        // A flush frees about half of the budget, and memory grows by whole blocks.
        let more = table_count(&db) - tables;
        assert!(more <= 8, "{allow_stall}: {more} tables");
        drop(cursors);
        db.close().unwrap();
    }
}

/// Writes 2000 entries of 1000 bytes.
fn fill(family: &ColumnFamily) {
    for number in 0..2000_u32 {
        family.put(number.to_le_bytes(), [1; 1000]).unwrap();
    }
}

/// Nor is the memory of column families that were dropped, and of databases that were closed.
#[test]
fn memtables_that_no_flush_can_free_cause_none_of_a_few_entries() {
    const BUDGET: u64 = 4 << 20;
    for (allow_stall, is_closed) in [(false, false), (true, false), (false, true), (true, true)] {
        let manager = WriteBufferManager::new(BUDGET, allow_stall);
        let mut options = options(&manager);
        options.set_disable_auto_compactions(true);
        let db = Db::open(&options, "/live").unwrap();
        let mut held = Vec::new();
        while manager.get_usage() <= BUDGET {
            let name = format!("/number{}", held.len());
            if is_closed {
                let other = Db::open(&options, &name).unwrap();
                fill(other.default_cf());
                other.close().unwrap();
                held.push(other.default_cf().clone());
            } else {
                let family = db.create_cf(&name, &db.default_cf().options()).unwrap();
                fill(&family);
                db.drop_cf(&family).unwrap();
                held.push(family);
            }
        }
        assert_eq!(table_count(&db), 0, "nothing was flushed");
        fill(db.default_cf());
        fill(db.default_cf());
        db.flush().unwrap();
        let tables = table_count(&db);
        assert!(tables <= 8, "{allow_stall} {is_closed}: {tables} tables");
        db.close().unwrap();
        assert_eq!(manager.get_mutable_usage(), 0);
        drop((db, held));
        until("all given back", || manager.get_usage() == 0);
    }
}

#[test]
fn writes_that_must_not_wait_fail_at_once_however_many_a_leader_that_waits_leaves_behind() {
    // More than there are places for waiting writers.
    const ATTEMPTS: usize = 20_000;
    for pipelined in [false, true] {
        let (env, open) = without_flushes(Arc::new(MemoryFileSystem::new()));
        let manager = WriteBufferManager::new(256 << 10, true);
        let mut options = options(&manager);
        options.set_enable_pipelined_write(pipelined);
        options.set_env(&env);
        let db = Db::open(&options, "/waiting").unwrap();
        let mut hasty = WriteOptions::new();
        hasty.set_no_slowdown(true);
        let mut number = 0_u32;
        while db.put_opt(number.to_le_bytes(), [7; 1000], &hasty).is_ok() {
            number += 1;
        }
        let patient = std::thread::spawn({
            let db = db.clone();
            move || db.put("patient", "")
        });
        for _ in 0..ATTEMPTS {
            let error = db.put_opt("hasty", "", &hasty).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
        }
        drop(open);
        patient.join().unwrap().unwrap();
        assert!(!db.contains_key("hasty").unwrap());
    }
}
