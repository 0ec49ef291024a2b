//! Writes fold the merge operands of a key with many of them (`max_successive_merges`).

use koeldb::{ConfigOptions, Db, Options, StringAppend, WriteBatch};

use crate::scratch::ScratchDir;

fn options(text: &str) -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_merge_operator(StringAppend::new(","));
    options.apply_str(text, &ConfigOptions::new()).unwrap();
    options
}

fn operands(db: &Db, key: &str) -> usize {
    db.get_merge_operands(key).unwrap().len()
}

#[test]
fn a_write_folds_the_operands_of_a_key_with_as_many_as_the_limit() {
    let directory = ScratchDir::new();
    let db = Db::open(&options("max_successive_merges=3"), directory.path()).unwrap();

    let counts: Vec<usize> = (0..9)
        .map(|at| {
            db.merge("list", format!("{at}")).unwrap();
            operands(&db, "list")
        })
        .collect();
    assert_eq!(counts, [1, 2, 3, 1, 2, 3, 4, 1, 2]);
    assert_eq!(db.get("list").unwrap().unwrap(), b"0,1,2,3,4,5,6,7,8"[..]);

    db.delete("list").unwrap();
    assert_eq!(db.get("list").unwrap(), None);
    let mut batch = WriteBatch::new();
    for at in 0..4 {
        batch.merge("list", format!("{at}"));
        batch.put(format!("other {at}"), "value");
    }
    db.write(&batch).unwrap();
    assert_eq!(operands(&db, "list"), 1);
    assert_eq!(db.get("list").unwrap().unwrap(), b"0,1,2,3"[..]);

    // The log has the operands.
    drop(db);
    let db = Db::open(&options("max_successive_merges=0"), directory.path()).unwrap();
    assert_eq!(db.get("list").unwrap().unwrap(), b"0,1,2,3"[..]);
    assert_eq!(db.get("other 3").unwrap().unwrap(), b"value"[..]);
}

#[test]
fn snapshots_see_the_operands_before_the_fold() {
    let directory = ScratchDir::new();
    let db = Db::open(&options("max_successive_merges=1"), directory.path()).unwrap();
    let mut snapshots = Vec::new();
    for at in 0..5 {
        db.merge("list", format!("{at}")).unwrap();
        snapshots.push(db.snapshot());
    }
    let expected = ["0", "0,1", "0,1,2", "0,1,2,3", "0,1,2,3,4"];
    for (snapshot, expected) in snapshots.iter().zip(expected) {
        assert_eq!(snapshot.get("list").unwrap().unwrap(), expected.as_bytes());
    }
}

/// The operands of a key whose value is in a table outside the cache, after two more merges.
fn operands_above_a_table(text: &str) -> usize {
    let directory = ScratchDir::new();
    let db = Db::open(&options(text), directory.path()).unwrap();
    db.put("list", "base").unwrap();
    db.flush().unwrap();
    db.merge("list", "0").unwrap();
    db.merge("list", "1").unwrap();
    assert_eq!(db.get("list").unwrap().unwrap(), b"base,0,1"[..]);
    operands(&db, "list")
}

#[test]
fn only_a_strict_limit_reads_tables() {
    let text = "max_successive_merges=1;table_factory={id=BlockBasedTable;no_block_cache=true}";
    assert_eq!(operands_above_a_table(text), 3);
    let strict = format!("strict_max_successive_merges=true;{text}");
    assert_eq!(operands_above_a_table(&strict), 1);
}

#[test]
fn concurrent_merges_lose_nothing() {
    for mode in ["", "enable_pipelined_write=true;"] {
        let directory = ScratchDir::new();
        let text = format!("{mode}max_successive_merges=2");
        let db = Db::open(&options(&text), directory.path()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let db = &db;
                scope.spawn(move || {
                    for at in 0..200 {
                        db.merge("list", format!("{thread}.{at}")).unwrap();
                    }
                });
            }
        });
        let list = db.get("list").unwrap().unwrap();
        let list = std::str::from_utf8(&list).unwrap();
        assert_eq!(list.split(',').count(), 800, "{mode}");
        for thread in 0..4 {
            let prefix = format!("{thread}.");
            let own: Vec<usize> = list
                .split(',')
                .filter_map(|entry| entry.strip_prefix(&prefix)?.parse().ok())
                .collect();
            assert!(own.into_iter().eq(0..200), "{mode} {thread}");
        }
    }
}

#[test]
fn a_changed_limit_applies_to_the_next_memtable() {
    let directory = ScratchDir::new();
    let db = Db::open(&options("max_successive_merges=0"), directory.path()).unwrap();

    db.set_options([("max_successive_merges", "1")]).unwrap();
    db.put("other", "value").unwrap();
    db.flush().unwrap();
    db.merge("list", "0").unwrap();
    db.merge("list", "1").unwrap();
    assert_eq!(operands(&db, "list"), 1);
}

#[test]
fn all_members_of_a_group_fold_their_operands() {
    use crate::gate::gate;
    use crate::storage::{HERE, Storage};
    use koeldb::fs::{FaultAction, FaultRule, Operation, Purpose};
    use std::sync::Arc;
    let storage = Storage::new();
    let (at_sync, is_logged, log) = gate();
    let mut options = storage.options();
    options
        .set_merge_operator(StringAppend::new(","))
        .apply_str("max_successive_merges=1", &ConfigOptions::new())
        .unwrap();
    let db = Db::open(&options, HERE).unwrap();
    db.merge("list", "0").unwrap();
    let hold = FaultRule::new(FaultAction::Call(Arc::new(move |_| at_sync.pass())));
    let hold = hold.on(&[Operation::SyncData]).purpose(Purpose::Wal);
    storage.faults.add_rule(hold.limit(1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sync = koeldb::WriteOptions::new();
            sync.set_sync(true);
            db.put_opt("other", "", &sync).unwrap();
        });
        is_logged.recv().unwrap();
        for at in 1..=6 {
            let db = &db;
            scope.spawn(move || db.merge("list", format!("{at}")).unwrap());
        }
        // Mostly they are one group then; the outcome is the same otherwise.
        std::thread::sleep(std::time::Duration::from_millis(100));
        log.send(()).unwrap();
    });
    // Every second operand is folded with the ones before.
    assert_eq!(operands(&db, "list"), 2);
}
