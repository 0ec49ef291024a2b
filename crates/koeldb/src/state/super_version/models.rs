//! Loom models of reads and installs of super-versions.

use std::path::Path;
use std::sync::{OnceLock, Weak};

use koeldb_base::KeyOrder;
use koeldb_base::sync::{explore, explore_large, spawn};
use koeldb_fs::{MemoryFileSystem, OpenOptions};
use koeldb_lsm::DataPaths;
use koeldb_memtable::MemtableOptions;
use koeldb_table::reader::TableReadContext;

use super::*;

struct Parts {
    memtable: Arc<Memtable>,
    version: Arc<Version>,
    tables: Arc<TableOpener>,
}

/// Creates a super-version whose options are unique.
fn super_version() -> SuperVersion {
    static PARTS: OnceLock<Parts> = OnceLock::new();
    let parts = PARTS.get_or_init(|| {
        let order = KeyOrder::Bytewise;
        let context = TableReadContext::default();
        let fs = Arc::new(MemoryFileSystem::new());
        Parts {
            memtable: Memtable::new(order.clone(), &MemtableOptions::default()),
            version: Arc::new(Version::empty(order, 7)),
            tables: Arc::new(TableOpener::new(
                fs,
                DataPaths::single(Path::new("/")),
                OpenOptions::default(),
                context,
            )),
        }
    });
    SuperVersion {
        family_name: "default".into(),
        memtable: Arc::clone(&parts.memtable),
        sealed: Vec::new(),
        version: Arc::clone(&parts.version),
        tables: Arc::clone(&parts.tables),
        newest_in_tables: OnceLock::new(),
        deleted_ranges: Arc::default(),
        seqno_max: koeldb_base::SeqNo::MAX,
        options: Arc::new(ColumnFamilyOptions::default()),
    }
}

/// Super-versions to install, the first one in a cell, and weak references to all of them.
struct Family {
    cell: Arc<SuperVersionCell>,
    held: Vec<Weak<ColumnFamilyOptions>>,
    next: Vec<SuperVersion>,
}

impl Family {
    fn new(count: usize) -> Self {
        let mut next: Vec<_> = (0..count).map(|_| super_version()).collect();
        let held = next
            .iter()
            .map(|one| Arc::downgrade(&one.options))
            .collect();
        Family {
            cell: Arc::new(SuperVersionCell::new(next.remove(0))),
            held,
            next,
        }
    }

    /// Returns the index of a super-version.
    fn index(&self, now: &SuperVersion) -> usize {
        let is_now = |one: &Weak<_>| std::ptr::eq(one.as_ptr(), &raw const *now.options);
        let found = self.held.iter().position(is_now);
        found.expect("one of those installed")
    }

    /// Returns the index of the super-version that a read finds.
    fn read(&self) -> usize {
        self.cell.with(|now| self.index(now))
    }

    /// Pins the current super-version, as a new cursor does.
    fn pin(&self) -> Arc<Hand> {
        self.cell.with_hand(Arc::clone)
    }

    fn held(&self) -> Vec<bool> {
        let is_held = |one: &Weak<_>| one.strong_count() > 0;
        self.held.iter().map(is_held).collect()
    }
}

#[test]
fn an_idle_thread_holds_nothing_that_was_replaced() {
    explore("super-version, one after the other", || {
        let mut family = Family::new(3);
        assert_eq!(family.read(), 0);
        let (cell, next) = (Arc::clone(&family.cell), std::mem::take(&mut family.next));
        let installer = spawn(move || {
            for next in next {
                drop(cell.install(next));
            }
        });
        let seen = [family.read(), family.read()];
        assert!(seen.is_sorted(), "{seen:?}");
        installer.join().unwrap();
        assert_eq!(family.held(), [false, false, true]);
        assert_eq!(family.read(), 2);
    });
}

#[test]
fn installs_at_once_leave_nothing_in_the_slot_of_a_reader() {
    explore("super-version, two installs at once", || {
        let mut family = Family::new(3);
        assert_eq!(family.read(), 0);
        let installers = std::mem::take(&mut family.next).into_iter().map(|next| {
            let cell = Arc::clone(&family.cell);
            spawn(move || drop(cell.install(next)))
        });
        let installers: Vec<_> = installers.collect();
        family.read();
        for installer in installers {
            installer.join().unwrap();
        }
        let held = family.held();
        let last = family.read();
        let expected: Vec<bool> = (0..3).map(|one| one == last).collect();
        assert_eq!(held, expected);
    });
}

#[test]
fn a_thread_that_ends_leaves_nothing_behind() {
    explore("super-version, a reader that ends", || {
        let mut family = Family::new(2);
        let next = family.next.remove(0);
        let family = Arc::new(family);
        let reader = {
            let family = Arc::clone(&family);
            spawn(move || family.read())
        };
        drop(family.cell.install(next));
        reader.join().unwrap();
        assert_eq!(family.read(), 1);
        assert_eq!(family.held(), [false, true]);
    });
}

#[test]
fn a_read_inside_a_read_holds_nothing_that_was_replaced() {
    explore("super-version, a read inside a read", || {
        let mut family = Family::new(2);
        // Makes the outer read use the slot.
        assert_eq!(family.read(), 0);
        let (cell, next) = (Arc::clone(&family.cell), family.next.remove(0));
        let installer = spawn(move || drop(cell.install(next)));
        let inner = family.cell.with(|_| family.read());
        installer.join().unwrap();
        assert!(family.read() >= inner);
        assert_eq!(family.held(), [false, true]);
    });
}

#[test]
fn a_cursor_holds_its_super_version_until_it_is_dropped() {
    explore("super-version, a cursor and an install", || {
        let mut family = Family::new(2);
        let (cell, next) = (Arc::clone(&family.cell), family.next.remove(0));
        let installer = spawn(move || drop(cell.install(next)));
        let cursors = [family.pin(), family.pin()];
        let seen = cursors
            .each_ref()
            .map(|hand| family.index(hand.super_version()));
        assert!(seen.is_sorted(), "{seen:?}");
        installer.join().unwrap();
        assert_eq!(family.held(), [seen[0] == 0, true]);
        drop(cursors);
        assert_eq!(family.held(), [false, true]);
    });
}

/// Runs a cursor that another thread drops while an install sweeps; `keeps` keeps a second one.
fn drop_elsewhere(name: &str, keeps: bool) {
    explore(name, move || {
        let mut family = Family::new(3);
        let cursor = family.pin();
        let kept = keeps.then(|| family.pin());
        let (cell, next) = (Arc::clone(&family.cell), std::mem::take(&mut family.next));
        let installer = spawn(move || {
            for next in next {
                drop(cell.install(next));
            }
        });
        let dropper = spawn(move || drop(cursor));
        drop(family.pin());
        installer.join().unwrap();
        dropper.join().unwrap();
        assert_eq!(family.held(), [false, false, true], "held");
        drop(kept);
    });
}

#[test]
fn a_cursor_that_another_thread_drops_leaves_nothing_behind() {
    drop_elsewhere("super-version, a cursor dropped elsewhere", false);
}

#[test]
#[should_panic(expected = "held")]
fn control_a_cursor_that_is_not_dropped_holds_what_was_replaced() {
    drop_elsewhere("super-version, a cursor not dropped", true);
}

/// Runs a pin beside an installer that publishes a number before each super-version.
///
/// A super-version needs the number published before it: it may lack entries that readers at an
/// older one would see.
fn pin_with_number(name: &str, number_first: bool) {
    explore_large(name, move || {
        let mut family = Family::new(3);
        let (cell, next) = (Arc::clone(&family.cell), std::mem::take(&mut family.next));
        let visible = Arc::new(AtomicU64::new(0));
        let published = Arc::clone(&visible);
        let installer = spawn(move || {
            for next in next {
                published.fetch_add(1, Ordering::Release);
                drop(cell.install(next));
            }
        });
        let early = visible.load(Ordering::Acquire);
        let cursor = family.pin();
        let number = match number_first {
            true => early,
            false => visible.load(Ordering::Acquire),
        };
        let needed = family.index(cursor.super_version()) as u64;
        assert!(needed <= number, "number {number} before state {needed}");
        installer.join().unwrap();
    });
}

#[test]
fn a_number_read_after_the_pin_is_not_older_than_the_super_version() {
    pin_with_number("super-version, the number after the pin", false);
}

#[test]
#[should_panic(expected = "before state")]
fn control_a_number_read_before_the_pin_is_older_than_the_super_version() {
    pin_with_number("super-version, the number before the pin", true);
}
