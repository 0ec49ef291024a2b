//! The keys that a transaction has locked or must validate.

use koeldb_base::SeqNo;

use crate::key_locks::table::{ById, LockId, LockMode};

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
    is_written: bool,
    read_count: u32,
    /// Whether the key was released again.
    is_gone: bool,
}

/// An upgrade of a lock from shared to exclusive, to be reverted by a rollback.
#[derive(Clone, Copy, Debug)]
struct Upgrade {
    at: usize,
}

#[derive(Clone, Copy, Debug)]
struct SavePoint {
    tracked: usize,
    upgrades: usize,
}

/// The keys of a transaction in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    tracked: Vec<Tracked>,
    by_id: ById<usize>,
    upgrades: Vec<Upgrade>,
    save_points: Vec<SavePoint>,
}

/// A key that was released, or a lock that must become shared again.
pub(super) enum Released {
    Lock(Tracked),
    Upgrade(LockId),
}

impl Tracker {
    /// Returns the position of a key.
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

    pub(super) fn at(&mut self, at: usize) -> &mut Tracked {
        &mut self.tracked[at]
    }

    pub(super) fn add(&mut self, id: LockId, cf: u32, key: &[u8], mode: LockMode) -> usize {
        let at = self.tracked.len();
        self.by_id.entry(id).or_insert(at);
        self.tracked.push(Tracked {
            id,
            cf,
            key: key.into(),
            mode,
            since: None,
            is_written: false,
            read_count: 0,
            is_gone: false,
        });
        at
    }

    /// Removes the key that was added last.
    pub(super) fn forget(&mut self, at: usize) {
        debug_assert_eq!(at + 1, self.tracked.len());
        if let Some(tracked) = self.tracked.pop()
            && self.by_id.get(&tracked.id) == Some(&at)
        {
            self.by_id.remove(&tracked.id);
        }
    }

    /// Records that a lock became exclusive.
    pub(super) fn upgrade(&mut self, at: usize) {
        self.tracked[at].mode = LockMode::Exclusive;
        self.upgrades.push(Upgrade { at });
    }

    pub(super) fn note_use(&mut self, at: usize, is_write: bool) {
        let tracked = &mut self.tracked[at];
        tracked.is_written |= is_write;
        tracked.read_count += u32::from(!is_write);
    }

    /// The keys that are locked, or must be validated.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Tracked> {
        self.tracked.iter().filter(|tracked| !tracked.is_gone)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Takes all keys, for their release.
    pub(super) fn take(&mut self) -> Vec<Tracked> {
        self.by_id.clear();
        self.upgrades.clear();
        self.save_points.clear();
        let mut tracked = std::mem::take(&mut self.tracked);
        tracked.retain(|tracked| !tracked.is_gone);
        tracked
    }

    pub(super) fn set_save_point(&mut self) {
        self.save_points.push(SavePoint {
            tracked: self.tracked.len(),
            upgrades: self.upgrades.len(),
        });
    }

    pub(super) fn pop_save_point(&mut self) {
        self.save_points.pop();
    }

    /// Forgets the keys and upgrades since the last save point, and returns them.
    pub(super) fn rollback_to_save_point(&mut self) -> Vec<Released> {
        let Some(point) = self.save_points.pop() else {
            return Vec::new();
        };
        let mut released = Vec::new();
        for upgrade in self.upgrades.drain(point.upgrades..) {
            if upgrade.at < point.tracked {
                let tracked = &mut self.tracked[upgrade.at];
                tracked.mode = LockMode::Shared;
                released.push(Released::Upgrade(tracked.id));
            }
        }
        for tracked in self.tracked.split_off(point.tracked) {
            // A key that was released has left `by_id`, which may name a later use of it.
            if tracked.is_gone {
                continue;
            }
            let is_first = self.by_id.get(&tracked.id) >= Some(&point.tracked);
            if is_first {
                self.by_id.remove(&tracked.id);
                released.push(Released::Lock(tracked));
            }
        }
        released
    }

    /// Reverts one read for update; returns the key if the transaction no longer needs it.
    pub(super) fn undo_read(&mut self, at: usize) -> Option<Tracked> {
        let is_new = (self.save_points.last()).is_none_or(|point| at >= point.tracked);
        let tracked = &mut self.tracked[at];
        tracked.read_count = tracked.read_count.saturating_sub(1);
        if tracked.is_written || tracked.read_count > 0 || !is_new || tracked.is_gone {
            return None;
        }
        let is_shared_hash = self
            .tracked
            .iter()
            .filter(|t| t.id == self.tracked[at].id && !t.is_gone)
            .count()
            > 1;
        if is_shared_hash {
            return None;
        }
        let tracked = &mut self.tracked[at];
        tracked.is_gone = true;
        let released = tracked.clone();
        self.by_id.remove(&released.id);
        Some(released)
    }
}
