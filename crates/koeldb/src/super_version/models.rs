//! Loom models of reads and installs of super-versions.

use std::path::Path;
use std::sync::{OnceLock, Weak};

use koeldb_base::KeyOrder;
use koeldb_base::sync::{explore, spawn};
use koeldb_fs::{MemoryFileSystem, OpenOptions};
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
                Path::new("/"),
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

    /// Returns the index of the super-version that a read finds.
    fn read(&self) -> usize {
        let find = |now: &Arc<SuperVersion>| {
            let is_now = |one: &Weak<_>| std::ptr::eq(one.as_ptr(), &raw const *now.options);
            self.held.iter().position(is_now)
        };
        self.cell.with(find).expect("one of those installed")
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
