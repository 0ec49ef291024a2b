//! Representations of memtables, which order their entries.
//!
//! The set is closed and dispatched by an enum, so that no call per key is dynamic. Each
//! representation stores encoded entries in the arena and satisfies the contract that the memtable
//! relies on:
//!
//! - If an insert returned, every read that begins afterwards finds the entry, for the life of the
//!   memtable.
//! - Entries come in internal-key order, independent of the order of arrival.
//! - An entry with the user key and sequence number of another is refused, except by the vector.
//!
//! Cursors of the skip list are *live*; those of the others show the entries present when they were
//! created or refreshed.

mod cursor;
mod entry;
mod index;
mod kind;
mod options;
mod prefix_hash;
mod skiplist;
mod sorted;
mod sorted_hash;
mod vector;

use std::sync::Arc;

use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{ArcRef, Error, KeyOrder, Lookup, Result, ValueType};

pub(crate) use cursor::{NoEntries, RepCursor, either};
pub(crate) use entry::{Entry, EntryParts};
pub(crate) use index::BATCH;
pub use kind::RepKind;
pub(crate) use kind::bucket_count;
pub use options::MemtableOptions;
use prefix_hash::{PrefixCursor, PrefixHash};
use skiplist::{SkipList, SkipListCursor};
use sorted::{Sortable, SortedCursor};
pub(crate) use sorted_hash::BucketArray;
pub use sorted_hash::{SortTask, Sorter};
use sorted_hash::{SortedHash, SortedHashCursor, SortedHashParts};
use vector::Vector;

use crate::arena::{SharedArena, prefetch};

/// The hasher of keys and prefixes.
pub(crate) use foldhash::quality::SeedableRandomState as KeyHasher;

/// Creates a key hasher with a random seed, or a fixed one if the options request it.
fn key_hasher(options: &MemtableOptions) -> KeyHasher {
    match options.fixed_hash_seed {
        true => KeyHasher::fixed(),
        false => KeyHasher::random(),
    }
}

/// The error for an insert whose user key and sequence number exist already.
#[derive(Debug)]
pub(crate) struct Duplicate;

/// Key and entry statistics of a memtable, by which its successor is sized.
#[derive(Clone, Copy)]
pub(crate) struct Learned {
    /// The common prefix of the memtable's keys.
    base: index::Base,
    /// The mean entry size in bytes, if there were entries.
    pub(crate) entry_bytes: Option<usize>,
}

impl Learned {
    /// Empty statistics.
    pub(crate) const NOTHING: Learned = Learned {
        base: index::Base::EMPTY,
        entry_bytes: None,
    };
}

/// A memtable representation with its entries (RocksDB: `MemTableRep`).
pub(crate) enum MemtableRep {
    SkipList(Arc<SkipList>, usize),
    Vector(Arc<Vector>),
    PrefixHash(Arc<PrefixHash>),
    SortedHash(Arc<SortedHash>),
}

impl MemtableRep {
    /// Creates the configured representation, or a skip list if it does not support the order.
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
                key_hasher(options),
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
                hasher: key_hasher(options),
            }))),
        }
    }

    /// Returns the key statistics for a successor memtable, without the entry size.
    pub(crate) fn learned(&self) -> Learned {
        match self {
            MemtableRep::SortedHash(table) => Learned {
                base: table.learned_base(),
                entry_bytes: None,
            },
            _ => Learned::NOTHING,
        }
    }

    /// Inserts an entry and counts it in the arena.
    #[inline]
    pub(crate) fn insert(&self, parts: &EntryParts<'_>) -> Result<(), Duplicate> {
        match self {
            MemtableRep::SkipList(list, _) => list.insert(parts),
            MemtableRep::Vector(vector) => vector.insert(parts),
            MemtableRep::PrefixHash(table) => table.insert(parts),
            MemtableRep::SortedHash(table) => table.insert(parts),
        }
    }

    /// Inserts entries until one is a duplicate; returns the number inserted.
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

    /// Searches for the key of a point lookup: passes it visible entries until it is settled.
    ///
    /// The newest entry comes first.
    ///
    /// # Errors
    /// The error of the lookup for an entry.
    #[inline]
    pub(crate) fn search(&self, order: &KeyOrder, lookup: &mut Lookup) -> Result<()> {
        match self {
            MemtableRep::SkipList(list, _) => {
                let entries = list.entries_from(lookup.seek_key());
                offer(lookup, entries, Some(order))
            }
            MemtableRep::Vector(vector) => {
                let entries = vector.entries_from(lookup.seek_key());
                offer(lookup, entries, Some(order))
            }
            MemtableRep::PrefixHash(table) => {
                let entries = table.entries_from(lookup.seek_key());
                offer(lookup, entries.into_iter().flatten(), Some(order))
            }
            MemtableRep::SortedHash(table) => {
                let entries = table.entries_from(lookup.seek_key());
                offer(lookup, entries, None)
            }
        }
    }

    /// Searches for the keys of the lookups at the indexes `waiting`, at most [`BATCH`].
    ///
    /// `fail` receives the index and error of each failed lookup.
    pub(crate) fn search_batch(
        &self,
        order: &KeyOrder,
        lookups: &mut [Lookup],
        waiting: &[usize],
        fail: &mut impl FnMut(usize, Error),
    ) {
        let mut keys: [&[u8]; BATCH] = [&[]; BATCH];
        for (key, &at) in keys.iter_mut().zip(waiting) {
            *key = lookups[at].seek_key();
        }
        let keys = &keys[..waiting.len()];
        match self {
            MemtableRep::SkipList(list, _) => {
                let entries = list.entries_from_batch(keys);
                offer_batch(lookups, waiting, entries, Some(order), fail);
            }
            MemtableRep::Vector(_) => {
                for &at in waiting {
                    if let Err(error) = self.search(order, &mut lookups[at]) {
                        fail(at, error);
                    }
                }
            }
            MemtableRep::PrefixHash(table) => {
                let entries = table.entries_from_batch(keys);
                let entries = entries.map(|entries| entries.into_iter().flatten());
                offer_batch(lookups, waiting, entries, Some(order), fail);
            }
            MemtableRep::SortedHash(table) => {
                let entries = table.entries_from_batch(keys);
                offer_batch(lookups, waiting, entries, None, fail);
            }
        }
    }

    /// Creates a cursor over all entries, which keeps them alive.
    pub(crate) fn cursor(&self) -> RepCursor<'static> {
        self.cursor_of(|list| ArcRef::Counted(Arc::clone(list)))
    }

    /// Creates a cursor over all entries, which borrows the representation if it is a skip list.
    pub(crate) fn borrowing_cursor(&self) -> RepCursor<'_> {
        self.cursor_of(ArcRef::Borrowed)
    }

    /// Creates a cursor over all entries; `refer` makes a borrowed or counted skip list reference.
    fn cursor_of<'s, 'm>(
        &'s self,
        refer: impl FnOnce(&'s Arc<SkipList>) -> ArcRef<'m, SkipList>,
    ) -> RepCursor<'m> {
        match self {
            MemtableRep::SkipList(list, lookahead) => {
                RepCursor::SkipList(SkipListCursor::new(refer(list), *lookahead))
            }
            MemtableRep::Vector(vector) => RepCursor::Vector(SortedCursor::new(Arc::clone(vector))),
            MemtableRep::PrefixHash(table) => {
                RepCursor::PrefixHash(SortedCursor::new(Arc::clone(table)))
            }
            MemtableRep::SortedHash(table) => {
                RepCursor::SortedHash(SortedHashCursor::new(Arc::clone(table)))
            }
        }
    }

    /// Creates a cursor for prefix seeks: it may omit keys without the prefix of the key sought.
    pub(crate) fn prefix_cursor(&self, prefixes: &Arc<dyn PrefixExtractor>) -> RepCursor<'static> {
        match self {
            MemtableRep::PrefixHash(table) if table.hashes(prefixes) => {
                RepCursor::Prefix(PrefixCursor::new(Arc::clone(table)))
            }
            _ => self.cursor(),
        }
    }

    /// Marks the representation as immutable: no insert may follow.
    pub(crate) fn seal(&self) {
        match self {
            MemtableRep::SkipList(..) | MemtableRep::PrefixHash(_) => {}
            MemtableRep::Vector(vector) => vector.seal(),
            MemtableRep::SortedHash(table) => table.seal(),
        }
    }

    /// The number of entries in each used bucket of a prefix hash table; `None` for other kinds.
    pub(crate) fn bucket_sizes(&self) -> Option<Vec<usize>> {
        match self {
            MemtableRep::PrefixHash(table) => Some(table.bucket_sizes()),
            _ => None,
        }
    }

    /// Sorts the entries of a sealed memtable, if they are not kept in order.
    pub(crate) fn finalise(&self) {
        match self {
            MemtableRep::SkipList(..) => {}
            MemtableRep::Vector(vector) => drop(vector.sorted()),
            MemtableRep::PrefixHash(table) => drop(table.sorted()),
            MemtableRep::SortedHash(table) => table.finish(),
        }
    }

    /// The bytes of the bucket array of a hash table; 0 without one.
    #[inline]
    pub(crate) fn bucket_bytes(&self) -> usize {
        match self {
            MemtableRep::SkipList(..) | MemtableRep::Vector(_) => 0,
            MemtableRep::PrefixHash(table) => table.bucket_bytes(),
            MemtableRep::SortedHash(table) => table.bucket_bytes(),
        }
    }

    /// The bytes outside of the arena of the structures that order entries, such as sorted copies.
    #[inline]
    pub(crate) fn order_bytes(&self) -> usize {
        match self {
            MemtableRep::SkipList(..) => size_of::<SkipList>(),
            MemtableRep::Vector(vector) => vector.memory_bytes(),
            MemtableRep::PrefixHash(table) => table.order_bytes(),
            MemtableRep::SortedHash(table) => table.order_bytes(),
        }
    }

    /// The arena of the entries.
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

/// Passes entries of a key, newest first, to a point lookup until it is settled.
///
/// The first entry must be the newest visible one of the lookup's key. With an `order`, entries of
/// other keys may follow.
#[inline]
fn offer<'rep>(
    lookup: &mut Lookup,
    entries: impl Iterator<Item = Entry<'rep>>,
    order: Option<&KeyOrder>,
) -> Result<()> {
    for entry in entries {
        entry.verify()?;
        let (user_key, footer) = entry.user_key_and_footer();
        if order.is_some_and(|order| order.compare(user_key, lookup.user_key()).is_ne()) {
            break;
        }
        if lookup.offer(footer >> 8, type_of(footer), || entry.pinned_value())? {
            break;
        }
    }
    Ok(())
}

/// Passes each lookup at the indexes `waiting` its own entries, as [`offer`] does.
fn offer_batch<'rep>(
    lookups: &mut [Lookup],
    waiting: &[usize],
    entries: impl IntoIterator<Item = impl Iterator<Item = Entry<'rep>>>,
    order: Option<&KeyOrder>,
    fail: &mut impl FnMut(usize, Error),
) {
    for (entries, &at) in entries.into_iter().zip(waiting) {
        if let Err(error) = offer(&mut lookups[at], entries, order) {
            fail(at, error);
        }
    }
}

/// Returns the value type in the footer of an inserted entry.
#[inline]
fn type_of(footer: u64) -> ValueType {
    ValueType::from_byte((footer & 0xff) as u8).expect("inserted entries have a known type")
}
