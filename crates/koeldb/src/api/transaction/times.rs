//! User-defined timestamps of transactions: of reads for update, and of the commit.
//!
//! A transaction writes keys without timestamps. All of them get that of the commit: in the log's
//! section of a prepared transaction they end with zeros, and the mark of the commit has the
//! timestamp. (RocksDB: `WriteCommittedTxn`.)

use std::borrow::Cow;

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Error, Result, Timestamp};

use super::transaction::Transaction;
use crate::api::column_family::ColumnFamily;
use crate::read::ReadOptions;

/// Converts a timestamp to its stored form.
pub(super) fn stored(timestamp: u64) -> Result<Timestamp> {
    match timestamp {
        u64::MAX => Err(refused("the largest timestamp is reserved for reads")),
        _ => Ok(timestamp.to_le_bytes()),
    }
}

/// Creates the error of a commit that lacks its timestamp.
#[cold]
pub(super) fn no_commit_timestamp() -> Error {
    refused(
        "the transaction has keys with user-defined timestamps: call set_commit_timestamp before \
         the commit",
    )
}

/// Creates an `InvalidArgument` error of a transaction that is as before.
fn refused(message: &str) -> Error {
    Error::invalid_argument(message).with_outcome(WriteOutcome::NotApplied)
}

impl Transaction {
    /// Whether the database validates reads for update by their timestamps.
    fn validates_timestamps(&self) -> bool {
        let options = self.inner().key_locks.options.as_ref();
        options.is_some_and(|options| options.enable_udt_validation)
    }

    /// Sets the user-defined timestamp of all keys that the transaction writes.
    ///
    /// Only keys of column families whose comparator has timestamps get it; if there are any, the
    /// commit needs one. The timestamps of a key must not fall. A
    /// [`PreparedTransaction`](crate::PreparedTransaction) keeps it.
    ///
    /// # Errors
    /// `InvalidArgument` for the largest number; with `enable_udt_validation`, also if it is not
    /// above that of [`Transaction::set_read_timestamp_for_validation`].
    pub fn set_commit_timestamp(&mut self, timestamp: u64) -> Result<()> {
        stored(timestamp)?;
        if self.validates_timestamps() && self.read_timestamp.is_some_and(|read| timestamp <= read)
        {
            return Err(refused(
                "the timestamp of the commit must be above the read timestamp of the transaction",
            ));
        }
        self.commit_timestamp = Some(timestamp);
        Ok(())
    }

    /// Returns the timestamp of [`Transaction::set_commit_timestamp`].
    #[must_use]
    pub fn commit_timestamp(&self) -> Option<u64> {
        self.commit_timestamp
    }

    /// Sets the user-defined timestamp at which the transaction reads for update.
    ///
    /// A write or a read for update of a key that has a newer version is then a conflict.
    ///
    /// # Errors
    /// `InvalidArgument` for the largest number, or if the timestamp is older than the current one.
    pub fn set_read_timestamp_for_validation(&mut self, timestamp: u64) -> Result<()> {
        stored(timestamp)?;
        if self.read_timestamp.is_some_and(|read| timestamp < read) {
            return Err(refused("the read timestamp of a transaction cannot fall"));
        }
        self.read_timestamp = Some(timestamp);
        Ok(())
    }

    /// Returns the timestamp of [`Transaction::set_read_timestamp_for_validation`].
    #[must_use]
    pub fn read_timestamp(&self) -> Option<u64> {
        self.read_timestamp
    }

    /// Returns the timestamp above which versions of a key of `family` are conflicts, if any.
    pub(super) fn validated_time(&self, family: &ColumnFamily) -> Option<Timestamp> {
        let applies = family.data().has_timestamps && self.validates_timestamps();
        let time = self.read_timestamp.filter(|_| applies);
        time.map(u64::to_le_bytes)
    }

    /// Returns the options of a read for update, with the read timestamp if keys have timestamps.
    ///
    /// # Errors
    /// `InvalidArgument` if the transaction needs a read timestamp, or must have none, or if the
    /// options name another.
    pub(super) fn options_for_update<'o>(
        &self,
        family: &ColumnFamily,
        options: &'o ReadOptions,
    ) -> Result<Cow<'o, ReadOptions>> {
        if !family.data().has_timestamps {
            return Ok(Cow::Borrowed(options));
        }
        match (self.validates_timestamps(), self.read_timestamp) {
            (true, None) => {
                return Err(refused(
                    "a read for update of a key with user-defined timestamps needs \
                     set_read_timestamp_for_validation",
                ));
            }
            (false, Some(_)) => {
                return Err(refused(
                    "the transaction has a read timestamp, but the database does not validate by it: \
                     enable_udt_validation is off",
                ));
            }
            _ => {}
        }
        let time = self.read_timestamp.unwrap_or(u64::MAX).to_le_bytes();
        if options.get_timestamp().is_some_and(|named| named != time) {
            return Err(refused(
                "a read for update must be at the read timestamp of the transaction",
            ));
        }
        let mut options = options.clone();
        options.set_timestamp(time);
        Ok(Cow::Owned(options))
    }

    /// Gives all keys with user-defined timestamps that of the commit.
    pub(super) fn date_writes(&mut self) -> Result<()> {
        if !self.batch.batch().lacks_timestamps() {
            return Ok(());
        }
        let time = self.commit_timestamp.ok_or_else(no_commit_timestamp)?;
        self.batch.update_timestamps(time.to_le_bytes())
    }
}
