//! The keys that a transaction has locked or must validate.
//!
//! Reads and writes of each key are counted, in all and since each save point: a rollback subtracts
//! the uses since its save point, and a key without uses is released. (RocksDB:
//! `utilities/transactions/lock/point/point_lock_tracker.cc`.)

use std::collections::BTreeMap;

use koeldb_base::SeqNo;

use crate::commit::key_locks::table::{ById, LockId, LockMode};

/// The numbers of reads for update and of writes of a key by a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Uses {
    reads: u32,
    writes: u32,
}

impl Uses {
    /// Counts a read or a write.
    fn count(&mut self, is_write: bool) {
        match is_write {
            true => self.writes += 1,
            false => self.reads += 1,
        }
    }

    fn subtract(&mut self, other: Uses) {
        self.reads -= other.reads;
        self.writes -= other.writes;
    }

    fn is_none(self) -> bool {
        self == Uses::default()
    }
}

/// A key that a transaction has locked or must validate.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) id: LockId,
    pub(super) cf: u32,
    pub(super) key: Box<[u8]>,
    pub(super) mode: LockMode,
    /// The sequence number since which the key is known to be unchanged; `None` if it is not
    /// checked.
    pub(super) since: Option<SeqNo>,
    uses: Uses,
    /// Whether the key was released again.
    is_gone: bool,
}

/// The uses of a key since a save point.
#[derive(Clone, Copy, Debug, Default)]
struct NewUses {
    uses: Uses,
    /// Whether its lock became exclusive.
    is_upgraded: bool,
}

/// The tracked keys of a transaction, in the order of first use (RocksDB: `LockTracker`).
#[derive(Debug, Default)]
pub(super) struct Tracker {
    tracked: Vec<Tracked>,
    /// The position of a live key of each hash.
    by_id: ById<usize>,
    /// Whether two keys had one hash, and with it one lock.
    has_equal_hashes: bool,
    /// The uses between each save point and the next, by position. Keys without uses are removed.
    save_points: Vec<BTreeMap<usize, NewUses>>,
}

/// The lock that a rollback to a save point releases, or downgrades to a shared lock.
pub(super) enum Released {
    Lock(Tracked),
    Upgrade(LockId),
}

impl Tracker {
    /// Returns the index of a tracked key; `None` if the key is not tracked.
    pub(super) fn find(&self, id: LockId, cf: u32, key: &[u8]) -> Option<usize> {
        let is_key = |tracked: &Tracked| tracked.cf == cf && *tracked.key == *key;
        let first = *self.by_id.get(&id)?;
        if is_key(&self.tracked[first]) {
            return Some(first);
        }
        // Two keys with one hash.
        self.tracked
            .iter()
            .position(|tracked| tracked.id == id && is_key(tracked) && !tracked.is_gone)
    }

    /// Returns the tracked key at an index from [`Tracker::find`] or [`Tracker::add`].
    pub(super) fn at(&mut self, at: usize) -> &mut Tracked {
        &mut self.tracked[at]
    }

    /// Adds a tracked key without uses; returns its index.
    pub(super) fn add(&mut self, id: LockId, cf: u32, key: &[u8], mode: LockMode) -> usize {
        let at = self.tracked.len();
        self.has_equal_hashes |= *self.by_id.entry(id).or_insert(at) != at;
        self.tracked.push(Tracked {
            id,
            cf,
            key: key.into(),
            mode,
            since: None,
            uses: Uses::default(),
            is_gone: false,
        });
        at
    }

    /// Removes the tracked key at index `at`, which must be the one added last.
    pub(super) fn forget(&mut self, at: usize) {
        debug_assert_eq!(at + 1, self.tracked.len());
        if let Some(tracked) = self.tracked.pop()
            && self.by_id.get(&tracked.id) == Some(&at)
        {
            self.by_id.remove(&tracked.id);
        }
    }

    /// Records that the lock of the key at index `at` was upgraded to exclusive.
    pub(super) fn upgrade(&mut self, at: usize) {
        self.tracked[at].mode = LockMode::Exclusive;
        if let Some(point) = self.save_points.last_mut() {
            point.entry(at).or_default().is_upgraded = true;
        }
    }

    /// Counts a use of a key, also since the last save point.
    pub(super) fn count_use(&mut self, at: usize, is_write: bool) {
        self.tracked[at].uses.count(is_write);
        if let Some(point) = self.save_points.last_mut() {
            point.entry(at).or_default().uses.count(is_write);
        }
    }

    /// The keys that are locked, or must be validated.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Tracked> {
        self.tracked.iter().filter(|tracked| !tracked.is_gone)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Removes and returns all tracked keys; the caller releases their locks.
    pub(super) fn take(&mut self) -> Vec<Tracked> {
        let taken = std::mem::take(self);
        let mut tracked = taken.tracked;
        tracked.retain(|tracked| !tracked.is_gone);
        tracked
    }

    pub(super) fn set_save_point(&mut self) {
        self.save_points.push(BTreeMap::new());
    }

    /// Removes the last save point; adds the uses since then to the previous save point.
    pub(super) fn pop_save_point(&mut self) {
        let newest = self.save_points.pop().unwrap_or_default();
        if let Some(point) = self.save_points.last_mut() {
            for (at, new) in newest {
                let all = point.entry(at).or_default();
                all.uses.reads += new.uses.reads;
                all.uses.writes += new.uses.writes;
                all.is_upgraded |= new.is_upgraded;
            }
        }
    }

    /// Reverts the uses since the last save point; returns the locks that end with them.
    pub(super) fn rollback_to_save_point(&mut self) -> Vec<Released> {
        let newest = self.save_points.pop().unwrap_or_default();
        let mut released = Vec::new();
        for (at, new) in newest {
            let tracked = &mut self.tracked[at];
            tracked.uses.subtract(new.uses);
            if tracked.uses.is_none() {
                released.extend(self.remove(at).map(Released::Lock));
            } else if new.is_upgraded {
                tracked.mode = LockMode::Shared;
                released.push(Released::Upgrade(tracked.id));
            }
        }
        self.trim();
        released
    }

    /// Reverts one read for update since the last save point; returns the key if its lock ends.
    pub(super) fn undo_read(&mut self, at: usize) -> Option<Tracked> {
        if let Some(point) = self.save_points.last_mut() {
            let new = point.get_mut(&at).filter(|new| new.uses.reads > 0)?;
            new.uses.reads -= 1;
            if new.uses.is_none() {
                point.remove(&at);
            }
        }
        let uses = &mut self.tracked[at].uses;
        uses.reads = uses.reads.saturating_sub(1);
        if !uses.is_none() {
            return None;
        }
        let removed = self.remove(at);
        self.trim();
        removed
    }

    /// Stops tracking a key that has no uses; returns it unless another key shares its lock.
    fn remove(&mut self, at: usize) -> Option<Tracked> {
        let tracked = &mut self.tracked[at];
        tracked.is_gone = true;
        let removed = tracked.clone();
        let other = match self.has_equal_hashes {
            true => self
                .tracked
                .iter()
                .position(|tracked| tracked.id == removed.id && !tracked.is_gone),
            false => None,
        };
        if let Some(other) = other {
            self.by_id.insert(removed.id, other);
            return None;
        }
        self.by_id.remove(&removed.id);
        Some(removed)
    }

    /// Truncates the list of tracked keys while its last one is removed.
    fn trim(&mut self) {
        while self.tracked.last().is_some_and(|last| last.is_gone) {
            self.tracked.pop();
        }
    }
}
