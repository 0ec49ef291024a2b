//! Representations: how the entries of a memtable are ordered.
//!
//! The set is closed and dispatched by an enum, so that no call per key is dynamic. Each representation stores
//! encoded entries in the arena and keeps the contract that the memtable relies on:
//!
//! - an entry whose insert returned is found by every read that begins afterwards, for as long as the memtable
//!   lives;
//! - entries come in internal-key order, whatever the order in which they arrived;
//! - an entry with the user key and sequence number of another is refused, by the skip list.
//!
//! Cursors of the skip list are *live*; those of the vector show what was there when they were made, or
//! refreshed.

mod entry;
mod index;
mod skiplist;
mod vector;

use std::array;
use std::fmt;
use std::sync::Arc;

use koeldb_base::{Blocking, Cursor, Fault, KeyOrder, PinnedSlice};

pub(crate) use entry::{Entry, EntryParts};
pub(crate) use index::BATCH;
use skiplist::{SkipList, SkipListCursor, SkipListEntries};
use vector::{Vector, VectorCursor, VectorEntries};

use crate::arena::SharedArena;

/// Which representation a memtable has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepKind {
    /// A concurrent sorted list with an index, good at everything: what `SkipListFactory` means here.
    #[default]
    SkipList,
    /// An append-only vector, sorted when it is read (`VectorRepFactory`): for bulk loads.
    Vector {
        /// The entries to make room for.
        reserved: usize,
    },
}

/// There is an entry of this user key and sequence number already.
#[derive(Debug)]
pub(crate) struct Duplicate;

/// A representation and its entries.
pub(crate) enum MemtableRep {
    SkipList(Arc<SkipList>),
    Vector(Arc<Vector>),
}

impl MemtableRep {
    pub(crate) fn new(kind: RepKind, order: KeyOrder, arena: SharedArena) -> Self {
        match kind {
            RepKind::SkipList => MemtableRep::SkipList(Arc::new(SkipList::new(order, arena))),
            RepKind::Vector { reserved } => {
                MemtableRep::Vector(Arc::new(Vector::new(order, arena, reserved)))
            }
        }
    }

    /// Stores an entry and counts it.
    #[inline]
    pub(crate) fn insert(&self, parts: &EntryParts<'_>) -> Result<(), Duplicate> {
        match self {
            MemtableRep::SkipList(list) => list.insert(parts),
            MemtableRep::Vector(vector) => vector.insert(parts),
        }
    }

    /// The entries at or after an internal key, in order.
    #[inline]
    pub(crate) fn entries_from(&self, internal_key: &[u8]) -> RepEntries<'_> {
        match self {
            MemtableRep::SkipList(list) => RepEntries::SkipList(list.entries_from(internal_key)),
            MemtableRep::Vector(vector) => RepEntries::Vector(vector.entries_from(internal_key)),
        }
    }

    /// The entries at or after each of up to [`BATCH`] internal keys.
    pub(crate) fn entries_from_batch(&self, internal_keys: &[&[u8]]) -> [RepEntries<'_>; BATCH] {
        match self {
            MemtableRep::SkipList(list) => list
                .entries_from_batch(internal_keys)
                .map(RepEntries::SkipList),
            MemtableRep::Vector(vector) => array::from_fn(|at| {
                let internal_key = internal_keys.get(at).copied().unwrap_or_default();
                RepEntries::Vector(vector.entries_from(internal_key))
            }),
        }
    }

    pub(crate) fn cursor(&self) -> MemtableCursor {
        let cursor = match self {
            MemtableRep::SkipList(list) => {
                RepCursor::SkipList(SkipListCursor::new(Arc::clone(list)))
            }
            MemtableRep::Vector(vector) => RepCursor::Vector(VectorCursor::new(Arc::clone(vector))),
        };
        MemtableCursor { cursor }
    }

    /// Nothing will be inserted any more.
    pub(crate) fn seal(&self) {
        match self {
            MemtableRep::SkipList(_) => {}
            MemtableRep::Vector(vector) => vector.seal(),
        }
    }

    /// Memory the representation holds beside the arena.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            MemtableRep::SkipList(_) => 0,
            MemtableRep::Vector(vector) => vector.memory_bytes(),
        }
    }

    /// The memory the entries lie in.
    #[inline]
    pub(crate) fn arena(&self) -> &SharedArena {
        match self {
            MemtableRep::SkipList(list) => list.arena(),
            MemtableRep::Vector(vector) => vector.arena(),
        }
    }
}

/// Entries in order.
pub(crate) enum RepEntries<'rep> {
    SkipList(SkipListEntries<'rep>),
    Vector(VectorEntries<'rep>),
}

impl<'rep> Iterator for RepEntries<'rep> {
    type Item = Entry<'rep>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'rep>> {
        match self {
            RepEntries::SkipList(entries) => entries.next(),
            RepEntries::Vector(entries) => entries.next(),
        }
    }
}

enum RepCursor {
    SkipList(SkipListCursor),
    Vector(VectorCursor),
}

/// Calls a method of whichever cursor it is.
macro_rules! either {
    ($cursor:expr, $inner:ident => $call:expr) => {
        match $cursor {
            RepCursor::SkipList($inner) => $call,
            RepCursor::Vector($inner) => $call,
        }
    };
}

/// A position in the point entries of a memtable, which it keeps alive.
///
/// Over a skip list it is live: it meets entries inserted after it was made. Over a vector it shows the entries
/// that were there when it was made or last refreshed. Either way a reader that filters by its snapshot sees the
/// same.
pub struct MemtableCursor {
    cursor: RepCursor,
}

impl MemtableCursor {
    /// Takes up entries inserted since the cursor was made; it has no position until it is sought anew.
    pub fn refresh(&mut self) {
        either!(&mut self.cursor, cursor => cursor.refresh());
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        either!(&self.cursor, cursor => cursor.entry()).expect("callers read valid cursors only")
    }
}

impl Cursor for MemtableCursor {
    type Suspend = Blocking;

    #[inline]
    fn valid(&self) -> bool {
        either!(&self.cursor, cursor => cursor.entry().is_some())
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        either!(&mut self.cursor, cursor => cursor.seek_to_first());
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        either!(&mut self.cursor, cursor => cursor.seek_to_last());
        Ok(())
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        either!(&mut self.cursor, cursor => cursor.seek(target));
        Ok(())
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        either!(&mut self.cursor, cursor => cursor.seek_for_prev(target));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        either!(&mut self.cursor, cursor => cursor.next());
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        either!(&mut self.cursor, cursor => cursor.prev());
        Ok(())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entry().value()
    }

    #[inline]
    fn pinned_value(&self) -> PinnedSlice {
        self.entry().pinned_value()
    }
}

impl fmt::Debug for MemtableCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableCursor")
            .field("valid", &self.valid())
            .finish_non_exhaustive()
    }
}
