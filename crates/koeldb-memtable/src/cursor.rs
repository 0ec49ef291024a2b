//! The cursor over the point entries of a memtable.

use std::fmt;
use std::sync::Arc;

use koeldb_base::key::user_key;
use koeldb_base::{Blocking, Cursor, Error, Fault, KeyOrder, PinnedSlice, Result};

use crate::memtable::Memtable;
use crate::rep::{Entry, NoEntries, RepCursor, either};

/// A cursor over the point entries of a memtable (RocksDB: `MemTableIterator`).
///
/// It borrows the memtable for `'m` or keeps it alive.
///
/// Over a skip list it is live: it meets entries inserted after its creation. Over the others it
/// shows the entries present when it was created or last refreshed. Either way a reader that
/// filters by its snapshot sees the same entries.
pub struct MemtableCursor<'m> {
    cursor: RepCursor<'m>,
    filter: Option<Box<PrefixFilter<'m>>>,
    /// Whether every move verifies the checksum of the entry it reaches, or the order of keys.
    is_checked: bool,
    order_check: Option<Box<OrderCheck>>,
}

/// The kind of a cursor move, with the key sought, to check the entry that it reaches.
#[derive(Clone, Copy)]
enum Move<'k> {
    ToEnd,
    Seek(&'k [u8]),
    SeekForPrev(&'k [u8]),
    Next,
    Prev,
}

/// A check that the keys a cursor reaches are in order (`paranoid_memory_checks`).
struct OrderCheck {
    order: KeyOrder,
    /// The internal key at the position of the cursor.
    key: Vec<u8>,
}

impl OrderCheck {
    /// Fails with `Corruption` if the key that a move has reached is out of order.
    ///
    /// It is compared with the key sought or the one at the position before.
    fn reach(&mut self, key: &[u8], moved: Move<'_>) -> Result<()> {
        let is_ordered = match moved {
            Move::ToEnd => true,
            Move::Seek(target) => self.order.compare_internal(key, target).is_ge(),
            Move::SeekForPrev(target) => self.order.compare_internal(key, target).is_le(),
            Move::Next => self.order.compare_internal(key, &self.key).is_ge(),
            Move::Prev => self.order.compare_internal(key, &self.key).is_le(),
        };
        if !is_ordered {
            return Err(Error::corruption(
                "the keys of a memtable are out of order: they were changed in memory",
            ));
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        Ok(())
    }
}

/// The Bloom filter check of a prefix cursor, with the real cursor set aside if it fails.
struct PrefixFilter<'m> {
    memtable: Arc<Memtable>,
    /// The actual cursor, set aside while the filter denies the prefix of the key sought.
    parked: Option<RepCursor<'m>>,
}

impl<'m> MemtableCursor<'m> {
    /// Wraps the cursor of a memtable representation; `is_checked` enables checksum verification.
    #[inline]
    pub(crate) fn new(cursor: RepCursor<'m>, is_checked: bool) -> Self {
        MemtableCursor {
            cursor,
            filter: None,
            is_checked,
            order_check: None,
        }
    }
}

impl MemtableCursor<'_> {
    /// Makes seeks find nothing if the Bloom filter of `memtable` excludes the prefix sought.
    ///
    /// The cursor must be over the same memtable.
    pub(crate) fn filtered(self, memtable: &Arc<Memtable>) -> Self {
        let filter = PrefixFilter {
            memtable: Arc::clone(memtable),
            parked: None,
        };
        MemtableCursor {
            filter: Some(Box::new(filter)),
            ..self
        }
    }

    /// Checks the prefix of a seek in the Bloom filter: swaps in an empty cursor if it is excluded.
    ///
    /// Otherwise, or without a target, it restores the real cursor.
    #[inline]
    fn admit(&mut self, target: Option<&[u8]>) {
        if let Some(filter) = &mut self.filter {
            let is_admitted =
                target.is_none_or(|target| filter.memtable.may_contain_prefix(user_key(target)));
            match (is_admitted, filter.parked.take()) {
                (true, Some(cursor)) => self.cursor = cursor,
                (false, None) => {
                    let nothing = RepCursor::Nothing(NoEntries);
                    filter.parked = Some(std::mem::replace(&mut self.cursor, nothing));
                }
                (_, parked) => filter.parked = parked,
            }
        }
    }

    /// Refreshes the cursor to include entries inserted since; it is unpositioned until a seek.
    pub fn refresh(&mut self) {
        self.admit(None);
        either!(&mut self.cursor, cursor => cursor.refresh());
    }

    /// The current entry of a valid cursor.
    #[inline]
    fn entry(&self) -> Entry<'_> {
        either!(&self.cursor, cursor => cursor.entry()).expect("callers read valid cursors only")
    }
}

impl MemtableCursor<'_> {
    /// Makes every move of the cursor verify the order of keys.
    pub(crate) fn checking_order(self, order: &KeyOrder) -> Self {
        MemtableCursor {
            is_checked: true,
            order_check: Some(Box::new(OrderCheck {
                order: order.clone(),
                key: Vec::new(),
            })),
            ..self
        }
    }

    /// Verifies the entry that a move has reached, if checks are enabled for the memtable.
    #[inline]
    fn verify(&mut self, moved: Move<'_>) -> Result<(), Fault<Blocking>> {
        if self.is_checked {
            self.verify_entry(moved)?;
        }
        Ok(())
    }

    /// Verifies the checksum of the entry that a move has reached and, if enabled, the key order.
    #[cold]
    fn verify_entry(&mut self, moved: Move<'_>) -> Result<()> {
        let Some(entry) = either!(&self.cursor, cursor => cursor.entry()) else {
            return Ok(());
        };
        entry.verify()?;
        match &mut self.order_check {
            Some(check) => check.reach(entry.key(), moved),
            None => Ok(()),
        }
    }

    /// Tells a sorted hash cursor that the scan reads values, so that it prefetches them.
    #[inline]
    fn expect_values(&self) {
        if let RepCursor::SortedHash(cursor) = &self.cursor {
            cursor.expect_values();
        }
    }
}

impl Cursor for MemtableCursor<'_> {
    type Suspend = Blocking;

    #[inline]
    fn valid(&self) -> bool {
        either!(&self.cursor, cursor => cursor.entry().is_some())
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        self.admit(None);
        either!(&mut self.cursor, cursor => cursor.seek_to_first());
        self.verify(Move::ToEnd)
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        self.admit(None);
        either!(&mut self.cursor, cursor => cursor.seek_to_last());
        self.verify(Move::ToEnd)
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        self.admit(Some(target));
        either!(&mut self.cursor, cursor => cursor.seek(target));
        self.verify(Move::Seek(target))
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        self.admit(Some(target));
        either!(&mut self.cursor, cursor => cursor.seek_for_prev(target));
        self.verify(Move::SeekForPrev(target))
    }

    #[inline]
    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        either!(&mut self.cursor, cursor => cursor.next());
        self.verify(Move::Next)
    }

    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        either!(&mut self.cursor, cursor => cursor.prev());
        self.verify(Move::Prev)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.expect_values();
        self.entry().value()
    }

    #[inline]
    fn pinned_value(&self) -> PinnedSlice {
        self.expect_values();
        self.entry().pinned_value()
    }
}

impl fmt::Debug for MemtableCursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableCursor")
            .field("valid", &self.valid())
            .finish_non_exhaustive()
    }
}
