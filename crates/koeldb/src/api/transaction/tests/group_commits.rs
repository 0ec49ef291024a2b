//! Optimistic commits as members of write groups.

use std::collections::BTreeSet;
use std::thread::{JoinHandle, spawn};

use koeldb_base::stats::Ticker;

use super::*;
use crate::commit::queue::Leadership;
use crate::commit::recent_writes::{key_hash, slot_of};
use crate::statistics::Statistics;
use crate::{SstFileWriter, SstFileWriterOptions};

/// Returns keys of which no two share a slot of the table of recent writes.
fn keys(count: usize) -> Vec<String> {
    let mut slots = BTreeSet::new();
    let all = (0..).map(|number| format!("key{number}"));
    let apart = all.filter(|key| slots.insert(slot_of(key_hash(0, key.as_bytes()))));
    apart.take(count).collect()
}

/// A database whose leader is the test, so that writers queue up.
struct Held<'d> {
    db: &'d Db,
    leadership: Leadership<'d>,
    queued: usize,
}

impl<'d> Held<'d> {
    /// Takes leadership; with the writes from here on known to the checks of commits if `covers`.
    fn new(db: &'d Db, covers: bool) -> Self {
        let mut leadership = db.inner().commit.queue.lead();
        if covers {
            let last = leadership.commit.last_seqno;
            leadership.commit.recent.cover(last);
        }
        Held {
            db,
            leadership,
            queued: 0,
        }
    }

    /// Starts a write, and waits until it is queued.
    fn queue<R: Send + 'static>(
        &mut self,
        write: impl FnOnce(Db) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let db = self.db.clone();
        let writer = spawn(move || write(db));
        self.queued += 1;
        while self.db.inner().commit.queue.waiting.queued_count() < self.queued {
            std::thread::yield_now();
        }
        writer
    }

    fn commit(&mut self, key: &str) -> JoinHandle<Result<u64>> {
        let mut transaction = self.db.transaction();
        transaction.put(key, "transaction").unwrap();
        self.queue(move |_| transaction.commit())
    }

    fn put(&mut self, key: &str) -> JoinHandle<Result<()>> {
        let key = key.to_owned();
        self.queue(move |db| db.put(key, "put"))
    }

    fn release(self) {
        drop(self.leadership);
    }
}

fn value(db: &Db, key: &str) -> String {
    let value = db.get(key).unwrap().unwrap_or_default();
    String::from_utf8(value.to_vec()).unwrap()
}

#[test]
fn commits_of_different_keys_are_members_of_one_group() {
    let statistics = Statistics::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_statistics(statistics.clone())
        .set_env(&Env::mem_env());
    let db = Db::open(&options, "/groups").unwrap();
    let keys = keys(7);
    let mut held = Held::new(&db, true);
    let puts = [held.put(&keys[0]), held.put(&keys[1])];
    let commits: Vec<_> = keys[2..].iter().map(|key| held.commit(key)).collect();
    held.release();
    for put in puts {
        put.join().unwrap().unwrap();
    }
    let seqnos = commits
        .into_iter()
        .map(|commit| commit.join().unwrap().unwrap());
    // Each returns its own number.
    assert_eq!(seqnos.collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
    assert_eq!(statistics.ticker(Ticker::WriteDoneByOther), 6);
    for key in &keys[2..] {
        assert_eq!(value(&db, key), "transaction");
    }
}

#[test]
fn of_two_commits_of_one_key_in_a_group_the_second_conflicts() {
    for covers in [true, false] {
        let db = open(false);
        let keys = keys(2);
        let mut held = Held::new(&db, covers);
        let other = held.put(&keys[0]);
        let [first, second] = [held.commit(&keys[1]), held.commit(&keys[1])];
        held.release();
        other.join().unwrap().unwrap();
        let outcomes = [first, second].map(|commit| commit.join().unwrap());
        let conflicts = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        let kinds: Vec<_> = conflicts.map(koeldb_base::Error::kind).collect();
        assert_eq!(kinds, [ErrorKind::Busy]);
        assert!(!covers || outcomes[0].is_ok());
    }
}

#[test]
fn a_commit_conflicts_with_a_put_before_it_in_its_group_and_not_with_one_behind_it() {
    let db = open(false);
    let keys = keys(3);
    let mut held = Held::new(&db, true);
    let before = held.put(&keys[0]);
    let conflicting = held.commit(&keys[0]);
    let unconcerned = held.commit(&keys[1]);
    let behind = held.put(&keys[1]);
    held.release();
    before.join().unwrap().unwrap();
    behind.join().unwrap().unwrap();
    let error = conflicting.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(error.detail(), Some(ErrorDetail::WriteConflict));
    unconcerned.join().unwrap().unwrap();
    assert_eq!(value(&db, &keys[0]), "put");
    assert_eq!(value(&db, &keys[1]), "put");
}

#[test]
fn a_commit_conflicts_with_a_range_deletion_of_its_key_in_its_group() {
    let db = open(false);
    let mut held = Held::new(&db, true);
    let deletion = held.queue(|db| db.delete_range("b", "d"));
    let inside = held.commit("c");
    let outside = held.commit("e");
    held.release();
    deletion.join().unwrap().unwrap();
    assert_eq!(inside.join().unwrap().unwrap_err().kind(), ErrorKind::Busy);
    outside.join().unwrap().unwrap();
    assert_eq!(
        (value(&db, "c"), value(&db, "e")),
        (String::new(), "transaction".into())
    );
}

#[test]
fn a_commit_conflicts_with_one_key_of_a_large_batch_in_its_group() {
    let db = open(false);
    let mut held = Held::new(&db, true);
    let batch = held.queue(|db| {
        let mut batch = WriteBatch::new();
        for number in 0..1000 {
            batch.put(format!("{number:04}"), "batch");
        }
        db.write(&batch)
    });
    let inside = held.commit("0777");
    let outside = held.commit("1000");
    held.release();
    batch.join().unwrap().unwrap();
    assert_eq!(inside.join().unwrap().unwrap_err().kind(), ErrorKind::Busy);
    outside.join().unwrap().unwrap();
}

/// The number of the ingestion is not that of a group, and its keys are in no memtable.
#[test]
fn a_commit_conflicts_with_an_ingestion_before_its_group() {
    let env = Env::mem_env();
    let mut options = Options::new();
    options.create_if_missing(true).set_env(&env);
    let db = Db::open(&options, "/ingestion").unwrap();
    let keys = keys(3);
    let mut how = SstFileWriterOptions::new();
    how.set_env(&env);
    let family = db.default_cf().options();
    let mut table = SstFileWriter::create_opt(&family, "/ingestion/table", &how).unwrap();
    table.put(&keys[0], "table").unwrap();
    let path = table.finish().unwrap().path;
    let mut held = Held::new(&db, true);
    let ingestion = held.queue(move |db| db.ingest_external_file(&[path]));
    let put = held.put(&keys[1]);
    let commits = [held.commit(&keys[0]), held.commit(&keys[2])];
    held.release();
    ingestion.join().unwrap().unwrap();
    put.join().unwrap().unwrap();
    let [conflicting, unconcerned] = commits.map(|commit| commit.join().unwrap());
    assert_eq!(conflicting.unwrap_err().kind(), ErrorKind::Busy);
    unconcerned.unwrap();
    assert_eq!(value(&db, &keys[0]), "table");
}

/// A database in which equal keys of different bytes have different hashes.
fn open_case_insensitive() -> Db {
    #[derive(Debug)]
    struct CaseInsensitive;
    impl crate::Comparator for CaseInsensitive {
        fn name(&self) -> &str {
            "case-insensitive"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        }
    }
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_comparator(CaseInsensitive)
        .set_env(&Env::mem_env());
    Db::open(&options, "/equal").unwrap()
}

#[test]
fn a_commit_conflicts_with_a_write_of_an_equal_key_with_other_bytes() {
    let db = open_case_insensitive();
    let mut held = Held::new(&db, true);
    let put = held.put("KEY");
    let commit = held.commit("key");
    held.release();
    put.join().unwrap().unwrap();
    assert_eq!(commit.join().unwrap().unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn keys_are_hashed_only_if_checks_can_use_the_hashes() {
    for (db, hashes) in [(open(false), true), (open_case_insensitive(), false)] {
        let mut held = Held::new(&db, false);
        let put = held.put("other");
        let commit = held.commit("key");
        held.release();
        put.join().unwrap().unwrap();
        commit.join().unwrap().unwrap();
        let leadership = db.inner().commit.queue.lead();
        assert_eq!(leadership.commit.recent.is_on(), hashes);
    }
}

#[test]
fn a_transaction_that_only_reads_needs_no_turn() {
    let db = open(false);
    db.put("key", "0").unwrap();
    let mut transaction = db.transaction();
    assert!(transaction.get_for_update("key").unwrap().is_some());
    let leadership = db.inner().commit.queue.lead();
    assert_eq!(transaction.commit().unwrap(), 1);
    drop(leadership);
    let mut transaction = db.transaction();
    assert!(transaction.get_for_update("key").unwrap().is_some());
    db.put("key", "1").unwrap();
    assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Busy);
}
