//! Writes, flushes, log syncs and closes as futures do what the blocking calls do.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use koeldb::{Db, Env, ErrorKind, FlushOptions, Options, WriteBatch, WriteOptions};

use crate::async_reads::block_on;
use crate::scratch::ScratchDir;

fn create() -> Options {
    let mut options = Options::new();
    options.create_if_missing(true);
    options
}

fn synced() -> WriteOptions {
    *WriteOptions::new().set_sync(true)
}

fn put(key: &[u8], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value);
    batch
}

#[test]
fn tasks_write_and_survive_a_reopen() {
    let dir = ScratchDir::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let db = Db::open(&create(), dir.path()).unwrap();
        let writes = (0..50_u32).map(|number| {
            let db = db.clone();
            tokio::spawn(async move {
                let key = number.to_le_bytes();
                db.write_async(put(&key, b"v"), &synced()).await.unwrap();
                assert_eq!(&*db.get(key).unwrap().unwrap(), b"v");
            })
        });
        for write in writes.collect::<Vec<_>>() {
            write.await.unwrap();
        }
        db.flush_async(&FlushOptions::new()).await.unwrap();
        let unflushed = put(b"last", b"w");
        db.write_async(unflushed, &WriteOptions::new())
            .await
            .unwrap();
        db.flush_wal_async(true).await.unwrap();
        db.close_async().await.unwrap();
        let refused = db.write_async(put(b"k", b"v"), &synced()).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    });
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert_eq!(db.range(..).count(), 51);
}

#[test]
fn a_future_acts_from_its_first_poll() {
    let dir = ScratchDir::new();
    let db = Db::open(&create(), dir.path()).unwrap();
    drop(db.write_async(put(b"unpolled", b"v"), &synced()));
    {
        let write = pin!(db.write_async(put(b"dropped", b"v"), &synced()));
        let _: Poll<_> = write.poll(&mut Context::from_waker(Waker::noop()));
    }
    // The dropped write may still be waiting for its thread.
    while db.get(b"dropped").unwrap().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(db.get(b"unpolled").unwrap(), None);
    db.close().unwrap();
}

#[test]
fn a_finished_future_of_the_last_handle_has_closed_the_database() {
    let dir = ScratchDir::new();
    for round in 0..20_u32 {
        let db = Db::open(&create(), dir.path()).unwrap();
        let write = db.write_async(put(&round.to_le_bytes(), b"v"), &synced());
        drop(db);
        block_on(write).unwrap();
    }
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert_eq!(db.range(..).count(), 20);
}

/// The calls took all background threads, and waited in a stall for a compaction that had none.
#[test]
fn more_writes_than_threads_leave_threads_to_compactions() {
    let mut options = create();
    options
        .set_env(&Env::mem_env())
        .set_write_buffer_size(64 << 10)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_level_zero_slowdown_writes_trigger(4)
        .set_level_zero_stop_writes_trigger(4);
    let db = Db::open(&options, "/db").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let writes = (0..1500_u32).map(|number| {
            let batch = put(&number.to_le_bytes(), &[1; 4096]);
            tokio::spawn(db.write_async(batch, &WriteOptions::new()))
        });
        for write in writes.collect::<Vec<_>>() {
            write.await.unwrap().unwrap();
        }
    });
    assert_eq!(db.range(..).count(), 1500);
}
