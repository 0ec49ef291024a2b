//! Representations: how the entries of a memtable are ordered.
//!
//! The set is closed and dispatched by an enum, so that no call per key is dynamic. Each representation stores
//! encoded entries in the arena and keeps the contract that the memtable relies on:
//!
//! - an entry whose insert returned is found by every read that begins afterwards, for as long as the memtable
//!   lives;
//! - entries come in internal-key order, whatever the order in which they arrived;
//! - an entry with the user key and sequence number of another is refused, but by the vector.
//!
//! Cursors of the skip list are *live*; those of the others show what was there when they were made, or refreshed.

mod entry;
mod index;
mod kind;
mod prefix_hash;
mod skiplist;
mod sorted;
mod sorted_hash;
mod vector;

use std::array;
use std::fmt;
use std::sync::Arc;

use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{Blocking, Cursor, Fault, KeyOrder, PinnedSlice};

pub(crate) use entry::{Entry, EntryParts};
pub(crate) use index::BATCH;
pub use kind::RepKind;
pub(crate) use kind::bucket_count;
use prefix_hash::{PrefixCursor, PrefixHash};
use skiplist::{SkipList, SkipListCursor, SkipListEntries};
use sorted::{Sortable, SortedCursor};
pub(crate) use sorted_hash::BucketArray;
pub use sorted_hash::{SortTask, Sorter};
use sorted_hash::{SortedHash, SortedHashCursor, SortedHashEntries, SortedHashParts};
use vector::{Vector, VectorEntries};

use crate::arena::{SharedArena, prefetch};
use crate::memtable::MemtableOptions;

/// There is an entry of this user key and sequence number already.
#[derive(Debug)]
pub(crate) struct Duplicate;

/// What a memtable knows of those to come after it.
#[derive(Clone, Copy)]
pub(crate) struct Learned {
    /// What keys begin with.
    base: index::Base,
    /// The mean bytes of an entry, if there were some.
    pub(crate) entry_bytes: Option<usize>,
}

impl Learned {
    /// Nothing.
    pub(crate) const NOTHING: Learned = Learned {
        base: index::Base::EMPTY,
        entry_bytes: None,
    };
}

/// A representation and its entries.
pub(crate) enum MemtableRep {
    SkipList(Arc<SkipList>, usize),
    Vector(Arc<Vector>),
    PrefixHash(Arc<PrefixHash>),
    SortedHash(Arc<SortedHash>),
}

impl MemtableRep {
    /// The representation the options ask for; the skip list where that does not work.
    pub(crate) fn new(options: &MemtableOptions, order: KeyOrder, learned: Learned) -> Self {
        let arena = SharedArena::new(options);
        let prefixes = options.prefixes.as_ref();
        let kind = match options.rep.check(&order, prefixes.is_some()) {
            Ok(()) => options.rep,
            Err(_) => RepKind::default(),
        };
        let prefix_hash = |index_after| {
            let prefixes = prefixes.expect("`check` saw it");
            PrefixHash::new(
                order.clone(),
                arena.clone(),
                Arc::clone(prefixes),
                kind::prefix_bucket_count(options),
                index_after,
            )
        };
        match kind {
            RepKind::SkipList { lookahead } => {
                MemtableRep::SkipList(Arc::new(SkipList::new(order, arena, 0)), lookahead)
            }
            RepKind::Vector { reserved } => {
                MemtableRep::Vector(Arc::new(Vector::new(order, arena, reserved)))
            }
            RepKind::HashSkipList { .. } => MemtableRep::PrefixHash(Arc::new(prefix_hash(0))),
            RepKind::HashLinkList {
                skip_list_threshold,
                ..
            } => MemtableRep::PrefixHash(Arc::new(prefix_hash(skip_list_threshold.max(1)))),
            RepKind::SortedHash {
                sorted_vector_limit,
                ..
            } => MemtableRep::SortedHash(Arc::new(SortedHash::new(SortedHashParts {
                order,
                arena,
                bucket_count: kind::sorted_hash_bucket_count(options, learned.entry_bytes),
                vector_limit: sorted_vector_limit,
                base: learned.base,
                recycler: options.recycler.clone(),
                sorter: options.sorter.clone(),
            }))),
        }
    }

    /// What is to be known of the keys; `entry_bytes` is left out.
    pub(crate) fn learned(&self) -> Learned {
        match self {
            MemtableRep::SortedHash(table) => Learned {
                base: table.learned_base(),
                entry_bytes: None,
            },
            _ => Learned::NOTHING,
        }
    }

    /// Stores an entry and counts it.
    #[inline]
    pub(crate) fn insert(&self, parts: &EntryParts<'_>) -> Result<(), Duplicate> {
        match self {
            MemtableRep::SkipList(list, _) => list.insert(parts),
            MemtableRep::Vector(vector) => vector.insert(parts),
            MemtableRep::PrefixHash(table) => table.insert(parts),
            MemtableRep::SortedHash(table) => table.insert(parts),
        }
    }

    /// Stores entries and counts them, until one is refused; says how many were stored.
    pub(crate) fn insert_batch(&self, batch: &[EntryParts<'_>]) -> (usize, Result<(), Duplicate>) {
        if let MemtableRep::SortedHash(table) = self {
            return table.insert_batch(batch);
        }
        for (inserted, parts) in batch.iter().enumerate() {
            if let Err(duplicate) = self.insert(parts) {
                return (inserted, Err(duplicate));
            }
        }
        (batch.len(), Ok(()))
    }

    /// The entries of the user key of an internal key from that one on, in order; others may follow.
    #[inline]
    pub(crate) fn entries_from(&self, internal_key: &[u8]) -> RepEntries<'_> {
        match self {
            MemtableRep::SkipList(list, _) => RepEntries::SkipList(list.entries_from(internal_key)),
            MemtableRep::Vector(vector) => RepEntries::Vector(vector.entries_from(internal_key)),
            MemtableRep::PrefixHash(table) => RepEntries::of_list(table.entries_from(internal_key)),
            MemtableRep::SortedHash(table) => {
                RepEntries::SortedHash(table.entries_from(internal_key))
            }
        }
    }

    /// The same for each of up to [`BATCH`] internal keys.
    pub(crate) fn entries_from_batch(&self, internal_keys: &[&[u8]]) -> [RepEntries<'_>; BATCH] {
        match self {
            MemtableRep::SkipList(list, _) => list
                .entries_from_batch(internal_keys)
                .map(RepEntries::SkipList),
            MemtableRep::Vector(vector) => array::from_fn(|at| {
                let internal_key = internal_keys.get(at).copied().unwrap_or_default();
                RepEntries::Vector(vector.entries_from(internal_key))
            }),
            MemtableRep::PrefixHash(table) => table
                .entries_from_batch(internal_keys)
                .map(RepEntries::of_list),
            MemtableRep::SortedHash(table) => table
                .entries_from_batch(internal_keys)
                .map(RepEntries::SortedHash),
        }
    }

    /// A cursor over everything.
    pub(crate) fn cursor(&self) -> MemtableCursor {
        let cursor = match self {
            MemtableRep::SkipList(list, lookahead) => {
                RepCursor::SkipList(SkipListCursor::new(Arc::clone(list), *lookahead))
            }
            MemtableRep::Vector(vector) => RepCursor::Vector(SortedCursor::new(Arc::clone(vector))),
            MemtableRep::PrefixHash(table) => {
                RepCursor::PrefixHash(SortedCursor::new(Arc::clone(table)))
            }
            MemtableRep::SortedHash(table) => {
                RepCursor::SortedHash(SortedHashCursor::new(Arc::clone(table)))
            }
        };
        MemtableCursor { cursor }
    }

    /// A cursor that may show the entries of the sought key's prefix alone.
    pub(crate) fn prefix_cursor(&self, prefixes: &Arc<dyn PrefixExtractor>) -> MemtableCursor {
        match self {
            MemtableRep::PrefixHash(table) if table.hashes(prefixes) => MemtableCursor {
                cursor: RepCursor::Prefix(PrefixCursor::new(Arc::clone(table))),
            },
            _ => self.cursor(),
        }
    }

    /// Nothing will be inserted any more.
    pub(crate) fn seal(&self) {
        match self {
            MemtableRep::SkipList(..) | MemtableRep::PrefixHash(_) => {}
            MemtableRep::Vector(vector) => vector.seal(),
            MemtableRep::SortedHash(table) => table.seal(),
        }
    }

    /// Puts the entries of a sealed memtable in their final order.
    pub(crate) fn finalise(&self) {
        match self {
            MemtableRep::SkipList(..) => {}
            MemtableRep::Vector(vector) => drop(vector.sorted()),
            MemtableRep::PrefixHash(table) => drop(table.sorted()),
            MemtableRep::SortedHash(table) => table.finish(),
        }
    }

    /// Memory of hash tables.
    #[inline]
    pub(crate) fn bucket_bytes(&self) -> usize {
        match self {
            MemtableRep::SkipList(..) | MemtableRep::Vector(_) => 0,
            MemtableRep::PrefixHash(table) => table.bucket_bytes(),
            MemtableRep::SortedHash(table) => table.bucket_bytes(),
        }
    }

    /// Memory that the order of the entries takes beside the arena.
    #[inline]
    pub(crate) fn order_bytes(&self) -> usize {
        match self {
            MemtableRep::SkipList(..) => size_of::<SkipList>(),
            MemtableRep::Vector(vector) => vector.memory_bytes(),
            MemtableRep::PrefixHash(table) => table.order_bytes(),
            MemtableRep::SortedHash(table) => table.order_bytes(),
        }
    }

    /// The memory the entries lie in.
    #[inline]
    pub(crate) fn arena(&self) -> &SharedArena {
        match self {
            MemtableRep::SkipList(list, _) => list.arena(),
            MemtableRep::Vector(vector) => vector.arena(),
            MemtableRep::PrefixHash(table) => table.arena(),
            MemtableRep::SortedHash(table) => table.arena(),
        }
    }
}

/// Entries in order.
pub(crate) enum RepEntries<'rep> {
    None,
    SkipList(SkipListEntries<'rep>),
    Vector(VectorEntries<'rep>),
    SortedHash(SortedHashEntries<'rep>),
}

impl<'rep> RepEntries<'rep> {
    #[inline]
    fn of_list(entries: Option<SkipListEntries<'rep>>) -> Self {
        entries.map_or(RepEntries::None, RepEntries::SkipList)
    }

    /// Whether all of them are of the user key that was asked for.
    #[inline]
    pub(crate) fn are_of_one_key(&self) -> bool {
        matches!(self, RepEntries::None | RepEntries::SortedHash(_))
    }
}

impl<'rep> Iterator for RepEntries<'rep> {
    type Item = Entry<'rep>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'rep>> {
        match self {
            RepEntries::None => None,
            RepEntries::SkipList(entries) => entries.next(),
            RepEntries::Vector(entries) => entries.next(),
            RepEntries::SortedHash(entries) => entries.next(),
        }
    }
}

enum RepCursor {
    SkipList(SkipListCursor),
    Vector(SortedCursor<Vector>),
    PrefixHash(SortedCursor<PrefixHash>),
    Prefix(PrefixCursor),
    SortedHash(SortedHashCursor),
}

/// Calls a method of whichever cursor it is.
macro_rules! either {
    ($cursor:expr, $inner:ident => $call:expr) => {
        match $cursor {
            RepCursor::SkipList($inner) => $call,
            RepCursor::Vector($inner) => $call,
            RepCursor::PrefixHash($inner) => $call,
            RepCursor::Prefix($inner) => $call,
            RepCursor::SortedHash($inner) => $call,
        }
    };
}

/// A position in the point entries of a memtable, which it keeps alive.
///
/// Over a skip list it is live: it meets entries inserted after it was made. Over the others it shows the entries
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
