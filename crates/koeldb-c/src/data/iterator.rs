//! Iterators over column families, also with the changes of a batch or a transaction.
//!
//! Moves, keys and values are those of the engine's cursors. The errors of moves stay in the cursor
//! until [`Cursor::status`].

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::cell::OnceCell;

use koeldb::{BatchCursor, ColumnFamily, Db, DbCursor, Timestamp};

use crate::boundary::Failure;
use crate::data::lists;
use crate::handle::{self, Handle};
use crate::memory::Slice;
use crate::settings::read::ReadOptions;

/// The cursor of the engine.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives in the box of its handle"
)]
enum Scan {
    /// Over a column family.
    Family(DbCursor, ColumnFamily),
    /// Over a column family and the changes of a batch or a transaction.
    Batch(BatchCursor),
}

/// An iterator (`rocksdb_iterator_t`).
pub(crate) struct Cursor {
    scan: Scan,
    /// Whether entries may have timestamps, which the cursor then lends.
    has_times: bool,
    /// Whether every version of a key is an entry, and keys are internal ones.
    shows_versions: bool,
    internal_key: OnceCell<Vec<u8>>,
    timestamp: OnceCell<Timestamp>,
}

/// Evaluates an expression with either cursor.
macro_rules! on {
    ($scan:expr, $cursor:ident => $does:expr) => {
        match $scan {
            Scan::Family($cursor, _) => $does,
            Scan::Batch($cursor) => $does,
        }
    };
}

impl From<BatchCursor> for Cursor {
    fn from(cursor: BatchCursor) -> Self {
        Cursor {
            scan: Scan::Batch(cursor),
            has_times: false,
            shows_versions: false,
            internal_key: OnceCell::new(),
            timestamp: OnceCell::new(),
        }
    }
}

impl Cursor {
    /// Adds the changes of a batch to an iterator, within the bounds of `options`.
    ///
    /// An iterator that has changes of a batch already stays as it is: RocksDB has none such.
    pub(crate) fn with_batch(
        self,
        batch: &koeldb::WriteBatchWithIndex,
        options: &koeldb::ReadOptions,
    ) -> Self {
        match self.scan {
            Scan::Family(cursor, family) => {
                Cursor::from(batch.cursor_over(&family, cursor, options))
            }
            Scan::Batch(_) => self,
        }
    }

    /// Creates an iterator without a position.
    pub(crate) fn new(family: &ColumnFamily, options: &koeldb::ReadOptions) -> Self {
        let shows_versions = options.get_iter_start_ts().is_some();
        Cursor {
            scan: Scan::Family(family.cursor_opt(options), family.clone()),
            has_times: shows_versions || options.get_timestamp().is_some(),
            shows_versions,
            internal_key: OnceCell::new(),
            timestamp: OnceCell::new(),
        }
    }

    /// Forgets what was lent of the entry before a move.
    #[inline]
    fn leave(&mut self) {
        if self.has_times {
            self.internal_key.take();
            self.timestamp.take();
        }
    }

    /// Whether there is an entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        on!(&self.scan, cursor => cursor.valid())
    }

    /// Moves to the first entry.
    pub(crate) fn seek_to_first(&mut self) {
        self.leave();
        // The cursor keeps the error.
        let _ = on!(&mut self.scan, cursor => cursor.seek_to_first());
    }

    /// Moves to the last entry.
    pub(crate) fn seek_to_last(&mut self) {
        self.leave();
        let _ = on!(&mut self.scan, cursor => cursor.seek_to_last());
    }

    /// Moves to the first entry at or after a key.
    #[inline]
    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.leave();
        let _ = on!(&mut self.scan, cursor => cursor.seek(key));
    }

    /// Moves to the last entry at or before a key.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) {
        self.leave();
        let _ = on!(&mut self.scan, cursor => cursor.seek_for_prev(key));
    }

    /// Moves to the next entry.
    #[inline]
    pub(crate) fn next(&mut self) {
        self.leave();
        let _ = on!(&mut self.scan, cursor => cursor.next());
    }

    /// Moves to the entry before.
    #[inline]
    pub(crate) fn prev(&mut self) {
        self.leave();
        let _ = on!(&mut self.scan, cursor => cursor.prev());
    }

    /// Returns the key; the internal key if all versions are entries.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match &self.scan {
            Scan::Family(cursor, _) if self.shows_versions => {
                let copy = || cursor.internal_key().unwrap_or_default();
                cursor
                    .valid()
                    .then(|| self.internal_key.get_or_init(copy).as_slice())
            }
            scan => on!(scan, cursor => cursor.key()),
        }
    }

    /// Returns the value.
    #[inline]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        on!(&self.scan, cursor => cursor.value())
    }

    /// Returns the timestamp; empty, not null, if keys have none, as bindings make slices of it.
    pub(crate) fn timestamp(&self) -> Option<&[u8]> {
        let timestamp = match &self.scan {
            Scan::Family(cursor, _) => cursor.timestamp(),
            Scan::Batch(_) => None,
        };
        Some(match timestamp {
            Some(timestamp) => self.timestamp.get_or_init(|| timestamp),
            None => &[],
        })
    }

    /// Returns the key as a slice of C.
    #[inline]
    pub(crate) fn key_slice(&self) -> Slice {
        Slice::from(self.key().unwrap_or_default())
    }

    /// Returns the value as a slice of C.
    #[inline]
    pub(crate) fn value_slice(&self) -> Slice {
        Slice::from(self.value().unwrap_or_default())
    }

    /// Returns the timestamp as a slice of C.
    pub(crate) fn timestamp_slice(&self) -> Slice {
        Slice::from(self.timestamp().unwrap_or_default())
    }

    /// Returns the error of the last move.
    pub(crate) fn status(&self) -> koeldb::Result<()> {
        on!(&self.scan, cursor => cursor.status())
    }

    /// Reads the newest state from now on, without a position; drops the snapshot of the options.
    fn refresh(&mut self) -> Result<(), Failure> {
        self.leave();
        match &mut self.scan {
            Scan::Family(cursor, _) => Ok(cursor.refresh_to_latest()?),
            Scan::Batch(_) => Err(Failure::unserved("Refresh() of an iterator over a batch")),
        }
    }
}

/// Creates an iterator over the default column family.
pub(crate) fn create(db: &Db, options: &ReadOptions) -> Cursor {
    Cursor::new(db.default_cf(), &options.inner)
}

/// Creates an iterator over a column family.
pub(crate) fn create_cf(_: &Db, options: &ReadOptions, family: &ColumnFamily) -> Cursor {
    Cursor::new(family, &options.inner)
}

/// Creates iterators over column families, all of one state of the database.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn create_several(
    db: *mut Handle<Db>,
    options: *mut Handle<ReadOptions>,
    families: *mut *mut Handle<ColumnFamily>,
    iterators: *mut *mut Handle<Cursor>,
    count: usize,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "opts")? };
    // SAFETY: promised by the caller.
    let families = unsafe { lists::objects(families.cast(), count, "column_families")? };
    if count > 0 && iterators.is_null() {
        return Err(Failure::null("iterators"));
    }
    let mut options = options.inner.clone();
    if options.get_snapshot().is_none() && !options.get_tailing() {
        options.set_snapshot(&db.snapshot());
    }
    for (index, family) in families.into_iter().enumerate() {
        let cursor = handle::give(Cursor::new(family, &options));
        // SAFETY: promised by the caller.
        unsafe { lists::put(iterators, index, cursor) };
    }
    Ok(())
}

/// Makes an iterator read the newest state, without a position.
///
/// # Safety
/// The rules of C; the object is not constant, although its pointer is.
pub(crate) unsafe fn refresh(iterator: *const Handle<Cursor>) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let cursor = unsafe { handle::exclusive(iterator.cast_mut(), "iter")? };
    cursor.refresh()
}
