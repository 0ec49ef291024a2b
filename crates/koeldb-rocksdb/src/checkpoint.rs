//! Checkpoints: copies of open databases whose tables are links.

use std::marker::PhantomData;
use std::path::Path;

use koeldb::CheckpointOptions;

use crate::db::DBInner;
use crate::{DBCommon, Error, ThreadMode, TransactionDB};

fn create(db: &koeldb::Db, path: &Path, log_size_for_flush: u64) -> Result<(), Error> {
    let mut options = CheckpointOptions::new();
    options.set_log_size_for_flush(log_size_for_flush);
    db.create_checkpoint_opt(path, &options)?;
    Ok(())
}

macro_rules! methods {
    () => {
        /// Creates a checkpoint in `path`, which must not exist, after a flush.
        pub fn create_checkpoint<P: AsRef<Path>>(&self, path: P) -> Result<(), Error> {
            self.create_checkpoint_with_log_size(path, 0)
        }

        /// Creates a checkpoint, after a flush if the logs have this many bytes.
        pub fn create_checkpoint_with_log_size<P: AsRef<Path>>(
            &self,
            path: P,
            log_size_for_flush: u64,
        ) -> Result<(), Error> {
            create(&self.db, path.as_ref(), log_size_for_flush)
        }
    };
}

/// Creates checkpoints of a database.
pub struct Checkpoint<'db> {
    db: koeldb::Db,
    label: PhantomData<&'db ()>,
}

impl<'db> Checkpoint<'db> {
    /// Creates a value that makes checkpoints of `db`.
    pub fn new<T: ThreadMode, I: DBInner>(db: &'db DBCommon<T, I>) -> Result<Self, Error> {
        Ok(Checkpoint {
            db: db.db().clone(),
            label: PhantomData,
        })
    }

    methods!();
}

/// Creates checkpoints of a database with pessimistic transactions.
pub struct TransactionDBCheckpoint<'db> {
    db: koeldb::Db,
    label: PhantomData<&'db ()>,
}

impl<'db> TransactionDBCheckpoint<'db> {
    /// Creates a value that makes checkpoints of `db`.
    pub fn new<T: ThreadMode>(db: &'db TransactionDB<T>) -> Result<Self, Error> {
        Ok(TransactionDBCheckpoint {
            db: db.db().clone(),
            label: PhantomData,
        })
    }

    methods!();
}
