//! Reading the write-ahead log.

use crate::{Error, WriteBatch};

/// An iterator over the WAL's write batches after a sequence number (`TransactionLogIterator`).
///
/// It does not keep the database open: after a close it yields `ShutdownInProgress`.
pub struct DBWALIterator {
    updates: koeldb::UpdateIterator,
    /// The next batch or error, read ahead.
    next: Option<Result<(u64, WriteBatch), Error>>,
    after: u64,
}

impl DBWALIterator {
    /// Creates the iterator at the first batch that begins after the sequence number `after`.
    pub(crate) fn new(updates: koeldb::UpdateIterator, after: u64) -> Self {
        let mut iterator = DBWALIterator {
            updates,
            next: None,
            after,
        };
        iterator.advance();
        iterator
    }

    /// Reads the next batch ahead; skips those that begin at or before the sequence number `after`.
    ///
    /// COMPAT: the original skips the batch that begins at the requested number.
    fn advance(&mut self) {
        let after = self.after;
        self.next = self.updates.by_ref().find_map(|update| match update {
            Ok(update) if update.sequence_number <= after => None,
            Ok(update) => Some(Ok((update.sequence_number, update.batch.into()))),
            Err(error) => Some(Err(error.into())),
        });
    }

    /// Returns whether there is a next batch.
    #[must_use]
    pub fn valid(&self) -> bool {
        matches!(self.next, Some(Ok(_)))
    }

    /// Returns the error at which reading stopped, if any.
    pub fn status(&self) -> Result<(), Error> {
        match &self.next {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl Iterator for DBWALIterator {
    type Item = Result<(u64, WriteBatch), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let update = self.next.take()?;
        self.advance();
        Some(update)
    }
}
