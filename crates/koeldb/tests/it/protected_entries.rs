//! Checksums of entries in memtables detect changes in memory before a reader or a table gets them.

use koeldb::{Db, ErrorKind, IteratorMode};

use crate::prelude::in_memory;

const REPRESENTATIONS: [&str; 5] = [
    "skip_list",
    "vector",
    "prefix_hash",
    "hash_linkedlist",
    "hash_spdb",
];

fn open(representation: &str, protection: &str) -> Db {
    let mut options = in_memory();
    let text = format!(
        "prefix_extractor=rocksdb.FixedPrefix.1;memtable_factory={representation};\
         memtable_protection_bytes_per_key={protection};max_bgerror_resume_count=0"
    );
    options
        .apply_str(&text, &koeldb::ConfigOptions::new())
        .unwrap();
    Db::open(&options, "/db").unwrap()
}

fn fill(db: &Db) {
    for key in ["a", "b", "c"] {
        db.put(key, key.repeat(300)).unwrap();
    }
    db.delete("d").unwrap();
}

/// Changes a byte of a value in the memtable.
fn damage(db: &Db, key: &str) {
    change(db, key, 7, |byte| byte ^ 4);
}

/// Changes the byte at this distance from the start of a value in the memtable.
#[expect(
    unsafe_code,
    reason = "no safe code can damage the memory of a memtable"
)]
fn change(db: &Db, key: &str, distance: isize, to: impl Fn(u8) -> u8) {
    let address = db.get(key).unwrap().unwrap().as_ptr().addr();
    let address = address.wrapping_add_signed(distance);
    let byte: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the arena exposes its blocks, the memtable keeps them, and no reference to the value
    // is left.
    let value = unsafe { byte.read() };
    // SAFETY: as above; no other thread reads it.
    unsafe { byte.write(to(value)) };
}

#[test]
fn a_changed_entry_of_a_memtable_is_corruption_for_reads_and_flushes() {
    for representation in REPRESENTATIONS {
        for protection in ["1", "2", "4", "8"] {
            let db = open(representation, protection);
            fill(&db);
            assert_eq!(db.iterator(IteratorMode::Start).count(), 3);
            damage(&db, "b");
            let error = db.get("b").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{representation}");
            let of_many = db.multi_get(&["a", "b"]);
            let failed: Vec<bool> = of_many.into_iter().map(|one| one.is_err()).collect();
            assert_eq!(failed, [false, true]);
            assert_eq!(db.get("a").unwrap().unwrap().len(), 300);
            let scanned: Result<Vec<_>, _> = db.iterator(IteratorMode::Start).collect();
            assert_eq!(scanned.unwrap_err().kind(), ErrorKind::Corruption);
            let flushed = db.flush().unwrap_err();
            assert_eq!(flushed.kind(), ErrorKind::Corruption, "{representation}");
        }
    }
}

#[test]
fn without_checksums_a_changed_entry_is_read_and_flushed() {
    let db = open("skip_list", "0");
    fill(&db);
    damage(&db, "b");
    assert_ne!(db.get("b").unwrap().unwrap(), "b".repeat(300).as_bytes());
    db.flush().unwrap();
    assert_ne!(db.get("b").unwrap().unwrap(), "b".repeat(300).as_bytes());
}

#[test]
fn checksums_of_memtables_can_be_turned_on_for_the_next_memtable() {
    let db = open("skip_list", "0");
    db.set_options([("memtable_protection_bytes_per_key", "8")])
        .unwrap();
    fill(&db);
    db.flush().unwrap();
    fill(&db);
    assert_eq!(db.get("c").unwrap().unwrap(), "c".repeat(300).as_bytes());
    damage(&db, "c");
    assert_eq!(db.get("c").unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_key_out_of_order_in_a_skip_list_is_corruption_for_scans_that_check_it() {
    for checks in [true, false] {
        let mut options = in_memory();
        let text = format!("paranoid_memory_checks={checks}");
        options
            .apply_str(&text, &koeldb::ConfigOptions::new())
            .unwrap();
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        assert_eq!(db.iterator(IteratorMode::Start).count(), 3);
        assert_eq!(db.iterator(IteratorMode::End).count(), 3);
        // The key "b" lies before its footer and the two bytes of the length of its value.
        change(&db, "b", -11, |_| b'z');
        let outcome: Result<Vec<_>, _> = db.iterator(IteratorMode::Start).collect();
        match checks {
            true => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Corruption),
            false => assert_eq!(outcome.unwrap().len(), 3),
        }
    }
}
