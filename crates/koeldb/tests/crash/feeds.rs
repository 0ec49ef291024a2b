//! The power is cut at every operation of a database and of a replica that follows its change feed.
//!
//! After a cut the replica goes on from its last sequence number, also in the archive of logs, and
//! must then equal the database. It may start over if the recovery replayed nothing or met damage.

use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::fs::MemoryFileSystem;
use koeldb::{Db, ErrorKind, Options, UpdateIterator, WriteBatch, WriteOptions};

use crate::pairs::{PairImage, SOURCE, Steps, contents, options, sweep};

const REPLICA: &str = "/replica";

fn open_source(fs: &MemoryFileSystem) -> koeldb::Result<Db> {
    let mut options: Options = options(fs);
    options.set_wal_ttl_seconds(std::time::Duration::from_secs(3600));
    Db::open(&options, SOURCE)
}

fn synced() -> WriteOptions {
    let mut how = WriteOptions::new();
    how.set_sync(true);
    how
}

/// Applies what the feed has; every batch continues the replica exactly.
fn follow(replica: &Db, updates: &mut UpdateIterator) -> Result<(), String> {
    for update in updates {
        let update = update.map_err(|error| format!("the feed: {error}"))?;
        let next = replica.latest_sequence_number() + 1;
        if update.sequence_number != next {
            return Err(format!(
                "batch {} instead of {next}",
                update.sequence_number
            ));
        }
        let written = replica.write_opt(&update.batch, &synced());
        written.map_err(|error| format!("the replica: {error}"))?;
    }
    Ok(())
}

#[test]
fn a_replica_goes_on_after_a_crash_where_it_was() {
    let run = |fs: &MemoryFileSystem, steps: &Steps| {
        let db = open_source(fs).unwrap();
        let replica = Db::open(&options(fs), REPLICA).unwrap();
        steps.done();
        let mut updates = db.get_updates_since(1).unwrap();
        for round in 0..9 {
            for index in 0..3 {
                let mut batch = WriteBatch::new();
                batch.put(
                    format!("key{:02}", (round * 5 + index) % 20),
                    format!("{round}"),
                );
                batch.delete(format!("key{:02}", (round + index) % 20));
                db.write_opt(&batch, &synced()).unwrap();
            }
            if round % 3 != 0 {
                db.flush().unwrap();
            }
            if round % 4 == 3 {
                follow(&replica, &mut updates).unwrap();
            }
            if round % 5 == 4 {
                // The logs that the feed has not read yet move into the archive.
                drop(updates);
                db.flush().unwrap();
                let next = replica.latest_sequence_number() + 1;
                updates = db.get_updates_since(next).unwrap();
            }
        }
        drop(updates);
        db.close().unwrap();
    };
    let went_on = AtomicU64::new(0);
    let check = |image: &PairImage, (): &()| {
        if image.done == 0 {
            return Ok(());
        }
        let text = |error: koeldb::Error| error.to_string();
        let db = open_source(&image.fs).map_err(text)?;
        let replica = Db::open(&options(&image.fs), REPLICA).map_err(text)?;
        let next = replica.latest_sequence_number() + 1;
        let mut updates = match db.get_updates_since(next) {
            Ok(updates) => updates,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Nothing was replayed, or not all of it: nothing tells where the last log ended.
                let logs = &db.recovery_report().logs;
                let is_torn = logs.iter().any(|log| log.problem.is_some());
                return match is_torn || logs.iter().all(|log| log.last_seqno == 0) {
                    true => Ok(()),
                    false => Err(format!("from {next} on: {error}")),
                };
            }
            Err(error) => return Err(error.to_string()),
        };
        follow(&replica, &mut updates)?;
        match contents(&db).map_err(text)? == contents(&replica).map_err(text)? {
            true => {
                went_on.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            false => Err(format!("the replica differs, which went on from {next}")),
        }
    };
    sweep("feed", run, check);
    let went_on = went_on.into_inner();
    eprintln!("feed: {went_on} replicas went on");
    assert!(went_on > 30, "{went_on} replicas went on");
}
