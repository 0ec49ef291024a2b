//! Scans of a cuckoo table, which is unordered: its slots are sorted once, for all cursors of the
//! table.
//!
//! Positioning the first cursor reads every slot and sorts the occupied ones: four bytes per key
//! are kept as long as the table is open. Every step then jumps to another slot; the slots of the
//! next steps are prefetched. Scans are slow compared with any other format, and meant for
//! compactions and tools.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, PoisonError};

use koeldb_base::coding::to_usize;
use koeldb_base::key::footer_of;
use koeldb_base::{Error, PinnedSlice, Result};

use super::rank::Ranker;
use super::reader::CuckooReader;

/// The number of entries whose slots are prefetched ahead of the cursor.
const FETCH_AHEAD: usize = 16;

impl CuckooReader {
    /// Returns the occupied slots in key order, which the first scan sorts.
    ///
    /// # Errors
    /// `Corruption` if their number is not that of the entries, or a key occurs twice;
    /// `MemoryLimit` if there is no memory.
    pub(super) fn sorted(&self) -> Result<&[u32]> {
        if let Some(sorted) = self.sorted.get() {
            return Ok(sorted);
        }
        let _one_at_a_time = self.sorting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sorted) = self.sorted.get() {
            return Ok(sorted);
        }
        let sorted = self
            .sort()
            .map_err(|e| e.in_file(&self.path, None, "scan"))?;
        Ok(self.sorted.get_or_init(|| sorted))
    }

    /// Estimates a file offset for the internal key `target`, as if entries were in key order.
    pub(crate) fn approximate_offset(&self, target: &[u8]) -> Result<u64> {
        let before = self.lower_bound(target)? as u64;
        let of = u128::from(self.layout.entry_count.max(1));
        let bytes = u128::from(before).saturating_mul(u128::from(self.layout.data_bytes()));
        Ok(u64::try_from(bytes.checked_div(of).unwrap_or(0)).unwrap_or(u64::MAX))
    }

    /// Returns the number of keys before the user key of the internal key `target`.
    fn lower_bound(&self, target: &[u8]) -> Result<usize> {
        let (user_key, _) = footer_of(target);
        let sorted = self.sorted()?;
        Ok(sorted.partition_point(|&slot| {
            let key = self.user_key_in(self.slot(slot));
            self.order.compare(key, user_key) == Ordering::Less
        }))
    }

    /// Returns the occupied slots in the order of their keys; checks their number and uniqueness.
    fn sort(&self) -> Result<Box<[u32]>> {
        let expected = self.layout.entry_count;
        let ranker = Ranker::new(&self.order);
        let mut keyed: Vec<(u64, u32)> = Vec::new();
        keyed
            .try_reserve_exact(to_usize(expected))
            .map_err(|_| no_memory(expected))?;
        for slot in 0..self.layout.slot_count {
            let key = self.user_key_in(self.slot(slot));
            if key == self.layout.empty_user_key {
                continue;
            }
            if keyed.len() as u64 == expected {
                return Err(miscounted(expected, "more"));
            }
            keyed.push((ranker.rank(key), slot));
        }
        if (keyed.len() as u64) < expected {
            return Err(miscounted(expected, "fewer"));
        }
        let compare = |a: &(u64, u32), b: &(u64, u32)| {
            a.0.cmp(&b.0).then_with(|| {
                let [a, b] = [a, b].map(|entry| self.user_key_in(self.slot(entry.1)));
                self.order.compare(a, b)
            })
        };
        keyed.sort_unstable_by(compare);
        if keyed
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if compare(a, b) != Ordering::Less))
        {
            return Err(Error::corruption("cuckoo table: a key occupies two slots"));
        }
        let sorted: Vec<u32> = keyed.into_iter().map(|(_, slot)| slot).collect();
        Ok(sorted.into_boxed_slice())
    }
}

/// A cursor over a cuckoo table, by the sorted order of its slots.
pub struct CuckooCursor {
    reader: Arc<CuckooReader>,
    /// The index of the key among the sorted slots; past the end for an invalid cursor.
    at: usize,
    /// The entries of the key, newest first; a single one if the table has no versions.
    entries: Vec<Entry>,
    /// The index of the current entry.
    entry: usize,
    key: Vec<u8>,
}

/// One version of the current key: its packed sequence number and type, and its value's location.
#[derive(Clone, Copy, Debug)]
struct Entry {
    footer: u64,
    /// The file offset of the value.
    value_at: u64,
    value_len: usize,
}

/// Which version of a key the cursor moves to: the newest (forward) or the oldest (backward).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Newest,
    Oldest,
}

impl CuckooCursor {
    /// Creates an unpositioned cursor.
    #[must_use]
    pub fn new(reader: Arc<CuckooReader>) -> Self {
        CuckooCursor {
            reader,
            at: usize::MAX,
            entries: Vec::new(),
            entry: 0,
            key: Vec::new(),
        }
    }

    /// Whether the cursor is positioned on an entry.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.at != usize::MAX
    }

    /// Moves to a version of the key at sorted index `at`; invalidates the cursor if there is none.
    fn go(&mut self, at: Option<usize>, end: End, ahead: Option<usize>) -> Result<()> {
        self.at = usize::MAX;
        let reader = &*self.reader;
        let sorted = reader.sorted()?;
        let Some((at, slot)) = at.and_then(|at| Some((at, *sorted.get(at)?))) else {
            return Ok(());
        };
        let slot_bytes = reader.layout.slot_bytes();
        let start_of = |slot: u32| u64::from(slot).saturating_mul(slot_bytes as u64);
        if let Some(ahead) = ahead.and_then(|ahead| sorted.get(ahead)) {
            reader.slots.prefetch(start_of(*ahead), slot_bytes);
        }
        let bytes = reader.slot(slot);
        self.entries.clear();
        if reader.layout.heap_bytes.is_some() {
            let (offset, mut versions) = reader.versions_in(bytes)?;
            while let Some(version) = versions.next().map_err(|error| reader.in_file(error))? {
                self.entries.push(Entry {
                    footer: version.footer,
                    value_at: offset.saturating_add(version.value_at as u64),
                    value_len: version.value.len(),
                });
            }
        } else {
            self.entries.push(Entry {
                footer: reader.footer_of(bytes)?.0,
                value_at: start_of(slot).saturating_add(u64::from(reader.layout.key_bytes)),
                value_len: reader.layout.value_bytes as usize,
            });
        }
        self.key.clear();
        self.key.extend_from_slice(reader.user_key_in(bytes));
        self.at = at;
        self.stand_on(match end {
            End::Newest => 0,
            End::Oldest => self.entries.len().saturating_sub(1),
        });
        Ok(())
    }

    /// Moves to version number `entry` of the current key.
    fn stand_on(&mut self, entry: usize) {
        self.entry = entry;
        let footer = self.entries.get(entry).map_or(0, |entry| entry.footer);
        self.key
            .truncate(self.reader.layout.user_key_bytes as usize);
        self.key.extend_from_slice(&footer.to_le_bytes());
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    /// `Corruption` if the slots are not as recorded. This applies to all movements.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.go(Some(0), End::Newest, None)
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    /// See [`CuckooCursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        let last = self.reader.sorted()?.len().checked_sub(1);
        self.go(last, End::Oldest, None)
    }

    /// Moves to the first entry at or after the internal key `target`.
    ///
    /// # Errors
    /// See [`CuckooCursor::seek_to_first`].
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        let at = self.reader.lower_bound(target)?;
        self.go(Some(at), End::Newest, None)?;
        let (user_key, footer) = footer_of(target);
        while self.valid() {
            let (own_key, own_footer) = footer_of(&self.key);
            if own_key != user_key || own_footer <= footer {
                break;
            }
            self.next()?;
        }
        Ok(())
    }

    /// Moves to the last entry at or before the internal key `target`.
    ///
    /// # Errors
    /// See [`CuckooCursor::seek_to_first`].
    pub fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.seek(target)?;
        if !self.valid() {
            return self.seek_to_last();
        }
        if self.key == target {
            return Ok(());
        }
        self.prev()
    }

    /// Moves to the next entry. The cursor must be valid.
    ///
    /// # Errors
    /// See [`CuckooCursor::seek_to_first`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor's step, not an iterator's"
    )]
    pub fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        let older = self.entry.saturating_add(1);
        if older < self.entries.len() {
            self.stand_on(older);
            return Ok(());
        }
        let ahead = self.at.checked_add(FETCH_AHEAD);
        self.go(self.at.checked_add(1), End::Newest, ahead)
    }

    /// Moves to the previous entry. The cursor must be valid.
    ///
    /// # Errors
    /// See [`CuckooCursor::seek_to_first`].
    pub fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid());
        if let Some(newer) = self.entry.checked_sub(1) {
            self.stand_on(newer);
            return Ok(());
        }
        let ahead = self.at.checked_sub(FETCH_AHEAD);
        self.go(self.at.checked_sub(1), End::Oldest, ahead)
    }

    /// The internal key of the entry. The cursor must be valid.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.valid());
        &self.key
    }

    /// The value of the entry. The cursor must be valid.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        debug_assert!(self.valid());
        self.entries.get(self.entry).map_or(&[], |entry| {
            self.reader.slots.bytes(entry.value_at, entry.value_len)
        })
    }

    /// The value of the entry, pinned to outlive the cursor. The cursor must be valid.
    #[must_use]
    pub fn pinned_value(&self) -> PinnedSlice {
        let at = self
            .entries
            .get(self.entry)
            .map_or(0, |entry| entry.value_at);
        self.reader.slots.pin(at, self.value())
    }
}

impl fmt::Debug for CuckooCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuckooCursor")
            .field("reader", &self.reader)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// Creates the `Corruption` error of a table with more or fewer entries than its properties record.
#[cold]
fn miscounted(expected: u64, how: &str) -> Error {
    Error::corruption(format!(
        "cuckoo table: found {how} entries, but {expected} are recorded"
    ))
}

/// Creates the `MemoryLimit` error of a failed allocation for sorting the entries.
#[cold]
fn no_memory(entries: u64) -> Error {
    Error::with_kind(
        koeldb_base::ErrorKind::MemoryLimit,
        format!("cannot allocate memory to sort {entries} entries of a cuckoo table"),
    )
}
