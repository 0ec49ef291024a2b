//! Checkpoints: copies of open databases whose tables are links.

use std::marker::PhantomData;
use std::path::Path;

use koeldb::CheckpointOptions;

use crate::db::DBInner;
use crate::{DBCommon, Error, ThreadMode, TransactionDB};

/// Declares a type that makes checkpoints of databases of `$Db`.
macro_rules! checkpoints {
    ($(#[doc = $doc:literal])+ $Type:ident: $Db:ty, $($G:ident: $Bound:path),+) => {
        $(#[doc = $doc])+
        pub struct $Type<'db> {
            db: koeldb::Db,
            label: PhantomData<&'db ()>,
        }

        impl<'db> $Type<'db> {
            /// Creates a `Checkpoint` object, which makes checkpoints of `db`.
            pub fn new<$($G: $Bound),+>(db: &'db $Db) -> Result<Self, Error> {
                Ok($Type {
                    db: db.db().clone(),
                    label: PhantomData,
                })
            }

            /// Creates a checkpoint in `path`, which must not exist, after a flush.
            pub fn create_checkpoint<P: AsRef<Path>>(&self, path: P) -> Result<(), Error> {
                self.create_checkpoint_with_log_size(path, 0)
            }

            /// Creates a checkpoint; flushes first if the WAL has over `log_size_for_flush` bytes.
            ///
            /// 0 always flushes.
            pub fn create_checkpoint_with_log_size<P: AsRef<Path>>(
                &self,
                path: P,
                log_size_for_flush: u64,
            ) -> Result<(), Error> {
                let mut options = CheckpointOptions::new();
                options.set_log_size_for_flush(log_size_for_flush);
                self.db.create_checkpoint_opt(path, &options)?;
                Ok(())
            }
        }
    };
}

checkpoints! {
    /// Creates checkpoints of a database.
    Checkpoint: DBCommon<T, I>, T: ThreadMode, I: DBInner
}

checkpoints! {
    /// Creates checkpoints of a database with pessimistic transactions.
    TransactionDBCheckpoint: TransactionDB<T>, T: ThreadMode
}
