//! Values read from memtables, and the memory that they hold.

use koeldb::{Db, Options, PinnedSlice, StringAppend};

use crate::scratch::ScratchDir;
use crate::wait::until;

const VALUES: u32 = 2000;

fn options() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_merge_operator(StringAppend::default());
    options
}

/// Reads the same key in every way that returns a value of its own.
fn read(db: &Db, key: &str) -> Vec<PinnedSlice> {
    let mut cursor = db.cursor();
    assert!(cursor.seek(key).unwrap());
    let mut values = vec![
        db.get(key).unwrap().unwrap(),
        db.multi_get(&[key]).get_pinned(0).unwrap().unwrap(),
        cursor.pinned_entry().unwrap().1,
    ];
    values.extend(db.get_merge_operands(key).unwrap());
    values
}

fn property(db: &Db, name: &str) -> u64 {
    db.property_int_value(name).unwrap().unwrap()
}

#[test]
fn short_values_hold_no_memtable_and_long_ones_are_reported() {
    for (bytes, is_held) in [(20, false), (256, false), (257, true), (5000, true)] {
        let dir = ScratchDir::new();
        let db = Db::open(&options(), dir.path()).unwrap();
        for number in 0..VALUES {
            db.put(format!("{number:06}"), vec![7; bytes]).unwrap();
        }
        let filled = db.memory_report().memtables;
        let ways = read(&db, "000007").len();
        for way in 0..ways {
            let held = read(&db, "000007").swap_remove(way);
            db.flush().unwrap();
            // Reads release what their threads have cached.
            let report = || {
                db.get("absent").unwrap();
                db.memory_report()
            };
            if is_held {
                let report = report();
                assert!(report.held_memtables >= filled, "{bytes} bytes, {report:?}");
                assert!(report.total() >= filled);
            } else {
                until("nothing is held", || report().held_memtables == 0);
            }
            let all = property(&db, "rocksdb.size-all-mem-tables");
            let unflushed = property(&db, "rocksdb.cur-size-all-mem-tables");
            assert_eq!(all - unflushed, report().held_memtables);
            assert_eq!(held, vec![7; bytes]);
            drop(held);
            until("all is released", || report().held_memtables == 0);
            for number in 0..VALUES {
                db.put(format!("{number:06}"), vec![7; bytes]).unwrap();
            }
        }
    }
}

#[test]
fn a_cursor_holds_the_memtables_that_it_reads() {
    let dir = ScratchDir::new();
    let db = Db::open(&options(), dir.path()).unwrap();
    for number in 0..VALUES {
        db.put(format!("{number:06}"), "value").unwrap();
    }
    let mut cursor = db.cursor();
    cursor.seek_to_first().unwrap();
    db.flush().unwrap();
    assert!(db.memory_report().held_memtables > 0);
    drop(cursor);
    until("all is released", || {
        db.get("absent").unwrap();
        db.memory_report().held_memtables == 0
    });
}
