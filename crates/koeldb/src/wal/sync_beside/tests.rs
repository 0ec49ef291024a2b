//! Writes after a sync beside them has failed, and before that failure is reported.

use koeldb_base::ErrorKind;
use koeldb_base::error::WriteOutcome;

use super::*;
use crate::options::{Options, TransactionDbOptions};
use crate::{Db, Env};

/// A write to the database of [`failed`].
type Write = dyn Fn(&Db) -> Result<()>;

/// A database with a prepared transaction, whose log has failed in a sync beside its writer.
fn failed(manual_wal_flush: bool) -> Db {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_manual_wal_flush(manual_wal_flush)
        .set_max_bgerror_resume_count(0)
        .set_transactions(&TransactionDbOptions::new())
        .set_env(&Env::mem_env());
    let db = Db::open(&options, "/beside").unwrap();
    let mut transaction = db.transaction();
    transaction.put("prepared", "1").unwrap();
    transaction.prepare("t").unwrap();
    db.put("before", "1").unwrap();
    let inner = db.inner();
    let pending = {
        let mut leadership = inner.commit.queue.lead();
        let begun = inner.wals.begin_sync(leadership.commit.wal().unwrap());
        begun.unwrap().unwrap()
    };
    let failure = Error::with_kind(ErrorKind::IoError, "a sync failed");
    pending.beside.log.fail(&failure);
    db
}

#[test]
fn a_write_to_a_log_that_failed_beside_it_is_not_applied_and_writes_resume() {
    let put = |db: &Db| db.put("after", "1");
    let commit = |db: &Db| {
        let prepared = db.prepared_transaction("t").unwrap();
        prepared.commit().map(|_| ())
    };
    let prepare = |db: &Db| {
        let mut transaction = db.transaction();
        transaction.put("after", "1")?;
        transaction.prepare("u").map(|_| ())
    };
    let writes: [&Write; 3] = [&put, &commit, &prepare];
    for manual_wal_flush in [false, true] {
        for write in writes {
            let db = failed(manual_wal_flush);
            let error = write(&db).unwrap_err();
            assert_eq!(error.severity(), Severity::Hard, "{error}");
            assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
            db.resume().unwrap();
            assert!(db.get("before").unwrap().is_some());
            assert!(db.get("after").unwrap().is_none());
            assert!(db.get("prepared").unwrap().is_none());
            assert_eq!(db.prepared_transactions().len(), 1);
            commit(&db).unwrap();
            assert!(db.get("prepared").unwrap().is_some());
        }
    }
}
