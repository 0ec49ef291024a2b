//! Concurrent writers in each write mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use koeldb::fs::{
    FaultAction, FaultFileSystem, FaultRule, MemoryFileSystem, Operation, Purpose, SystemClock,
};
use koeldb::{ColumnFamily, Db, Env, Options, WriteBatch, WriteOptions};

const WRITERS: u64 = 4;

type Mode = (&'static str, fn(&mut Options));

const MODES: [Mode; 4] = [
    ("by the leader", |_| ()),
    ("by the leader alone", |options| {
        options.set_allow_concurrent_memtable_write(false);
    }),
    ("pipelined", |options| {
        options.set_enable_pipelined_write(true);
    }),
    ("unordered", |options| {
        options.set_unordered_write(true);
    }),
];

/// A database in memory with small memtables, and slow log writes that make groups form.
fn open(mode: Mode) -> (Db, ColumnFamily) {
    let faults = FaultFileSystem::new(Arc::new(MemoryFileSystem::new()), 1);
    let hesitate = FaultAction::Call(Arc::new(|_| std::thread::yield_now()));
    faults.add_rule(
        FaultRule::new(hesitate)
            .on(&[Operation::Append])
            .purpose(Purpose::Wal),
    );
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_max_write_buffer_number(4)
        .set_env(&Env::new(Arc::new(faults), Arc::new(SystemClock)));
    (mode.1)(&mut options);
    let db = Db::open(&options, "/writes").unwrap();
    let family = db.create_cf("other", &db.default_cf().options()).unwrap();
    (db, family)
}

fn number(found: Option<koeldb::PinnedSlice>) -> u64 {
    found.map_or(0, |bytes| {
        u64::from_le_bytes(bytes[..8].try_into().unwrap())
    })
}

/// Increments one counter in both column families by each batch.
fn count_up(db: &Db, family: &ColumnFamily, writer: u64, to: u64, acknowledged: &AtomicU64) {
    let key = format!("counter {writer}");
    let mut options = WriteOptions::new();
    for count in 1..=to {
        let mut value = count.to_le_bytes().to_vec();
        value.resize(200 + usize::try_from(count % 7).unwrap() * 100, 0);
        let mut batch = WriteBatch::new();
        batch
            .put(&key, &value)
            .put(format!("{key} {count}"), [])
            .put_cf(family, &key, &value);
        options
            .disable_wal(count.is_multiple_of(5))
            .set_sync(count.is_multiple_of(16) && !count.is_multiple_of(5));
        db.write_opt(&batch, &options).unwrap();
        acknowledged.store(count, Ordering::SeqCst);
        assert_eq!(number(db.get(&key).unwrap()), count, "one's own write");
    }
}

fn run(mode: Mode, batches: u64) {
    let (db, family) = open(mode);
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let is_unordered = mode.0 == "unordered";
    let read = |writer: u64| {
        let key = format!("counter {writer}");
        let owed = acknowledged[usize::try_from(writer).unwrap()].load(Ordering::SeqCst);
        let snapshot = db.snapshot();
        let count = number(snapshot.get(&key).unwrap());
        let other = number(snapshot.get_cf(&family, &key).unwrap());
        let what = format!("writes {}, writer {writer}", mode.0);
        assert!(count >= owed, "{what}: {count}, and {owed} are owed");
        if is_unordered {
            assert!(other >= owed, "{what}: {other}, and {owed} are owed");
        } else {
            assert_eq!(count, other, "{what}: half a batch");
            let again = number(snapshot.get(&key).unwrap());
            assert_eq!(count, again, "{what}: a snapshot that changes");
            let listed = snapshot.prefix(format!("{key} ")).count();
            assert_eq!(listed as u64, count, "{what}: not a prefix of its batches");
        }
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                (0..WRITERS).for_each(read);
            }
        });
        let administrator = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                family.flush().unwrap();
                db.flush_wal(true).unwrap();
                let short = db.create_cf("short", &db.default_cf().options()).unwrap();
                short.put("key", "value").unwrap();
                db.drop_cf(&short).unwrap();
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (db, family) = (&db, &family);
                let acknowledged = &acknowledged[usize::try_from(writer).unwrap()];
                scope.spawn(move || count_up(db, family, writer, batches, acknowledged))
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        administrator.join().unwrap();
    });
    (0..WRITERS).for_each(read);
    let options = db.options();
    db.close().unwrap();
    let mut again = Options::clone(&options);
    again.set_enable_pipelined_write(false);
    let db = Db::builder(&again)
        .column_families(["other"])
        .open("/writes")
        .unwrap();
    let family = db.cf_handle("other").unwrap();
    for writer in 0..WRITERS {
        let key = format!("counter {writer}");
        assert_eq!(number(db.get(&key).unwrap()), batches, "{}", mode.0);
        assert_eq!(number(family.get(&key).unwrap()), batches, "{}", mode.0);
    }
}

#[test]
fn readers_see_whole_batches_in_order_in_every_mode() {
    for mode in MODES {
        run(mode, 100);
    }
}
