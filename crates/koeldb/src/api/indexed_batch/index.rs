//! The index of a batch: a hash table from key to newest operation, with links to older ones.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The operation index that stands for no operation.
pub(super) const NONE: u32 = u32::MAX;

/// An indexed operation of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// The offset of the operation's record in the batch.
    pub(super) offset: usize,
    /// The index of the previous operation on the same key, or [`NONE`].
    pub(super) previous: u32,
    hash: u64,
}

/// The index of a batch: a hash table of each key's newest operation, linked to the older ones.
///
/// The table uses linear probing; a slot holds an index into the operations, or [`NONE`].
#[derive(Clone, Debug)]
pub(super) struct Index {
    operations: Vec<Operation>,
    slots: Vec<u32>,
    key_count: usize,
    seed: RandomState,
}

impl Default for Index {
    fn default() -> Self {
        Index {
            operations: Vec::new(),
            slots: Vec::new(),
            key_count: 0,
            seed: RandomState::new(),
        }
    }
}

impl Index {
    /// Hashes a column family id with a key, or with what stands for it; `None` for unknown keys.
    pub(super) fn hash(&self, cf: u32, key: Option<&[u8]>) -> u64 {
        let mut hasher = self.seed.build_hasher();
        hasher.write_u32(cf);
        if let Some(key) = key {
            hasher.write(key);
        }
        hasher.finish()
    }

    pub(super) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Returns the slot of the hash table at which the probe sequence of a hash starts.
    fn start(&self, hash: u64) -> usize {
        // The table has at most 2^32 slots, so that the low half of a hash suffices.
        koeldb_base::coding::to_usize(hash & 0xffff_ffff) & (self.slots.len() - 1)
    }

    /// Returns the slot of the key, or the free slot where it would be inserted.
    fn slot(&self, hash: u64, is_key: impl Fn(&Operation) -> bool) -> usize {
        let mut slot = self.start(hash);
        loop {
            let newest = self.slots[slot];
            if newest == NONE {
                return slot;
            }
            let operation = &self.operations[newest as usize];
            if operation.hash == hash && is_key(operation) {
                return slot;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Returns the number of the newest operation on a key, or [`NONE`].
    pub(super) fn newest(&self, hash: u64, is_key: impl Fn(&Operation) -> bool) -> u32 {
        match self.slots.is_empty() {
            true => NONE,
            false => self.slots[self.slot(hash, is_key)],
        }
    }

    /// Adds an operation to the index; `false` if there are too many for their numbers.
    pub(super) fn push(
        &mut self,
        offset: usize,
        hash: u64,
        is_key: impl Fn(&Operation) -> bool,
    ) -> bool {
        let Some(number) = u32::try_from(self.operations.len())
            .ok()
            .filter(|&n| n != NONE)
        else {
            return false;
        };
        if self.slots.len() < (self.key_count + 1) * 2 {
            self.grow();
        }
        let slot = self.slot(hash, is_key);
        let previous = std::mem::replace(&mut self.slots[slot], number);
        self.key_count += usize::from(previous == NONE);
        self.operations.push(Operation {
            offset,
            previous,
            hash,
        });
        true
    }

    /// Doubles the slots of the hash table and inserts its entries again.
    fn grow(&mut self) {
        let count = (self.slots.len() * 2).max(16);
        let old = std::mem::replace(&mut self.slots, vec![NONE; count]);
        for newest in old.into_iter().filter(|&newest| newest != NONE) {
            let mut slot = self.start(self.operations[newest as usize].hash);
            while self.slots[slot] != NONE {
                slot = (slot + 1) & (count - 1);
            }
            self.slots[slot] = newest;
        }
    }

    /// Removes the operations whose records are at or after `offset` in the batch, newest first.
    pub(super) fn truncate(&mut self, offset: usize) {
        while let Some(last) = self.operations.last().copied() {
            if last.offset < offset {
                break;
            }
            let number = self.operations.len() - 1;
            let mut slot = self.start(last.hash);
            while self.slots[slot] as usize != number {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            match last.previous {
                NONE => self.remove(slot),
                previous => self.slots[slot] = previous,
            }
            self.operations.pop();
        }
    }

    /// Frees a slot of the hash table and moves later keys of its probe sequence forward.
    fn remove(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        self.key_count -= 1;
        let mut slot = hole;
        loop {
            slot = (slot + 1) & mask;
            let newest = self.slots[slot];
            if newest == NONE {
                break;
            }
            let home = self.start(self.operations[newest as usize].hash);
            // The key may move if its home is not between the hole and its slot.
            if (slot.wrapping_sub(home) & mask) >= (slot.wrapping_sub(hole) & mask) {
                self.slots[hole] = newest;
                hole = slot;
            }
        }
        self.slots[hole] = NONE;
    }

    pub(super) fn clear(&mut self) {
        self.operations.clear();
        self.slots.fill(NONE);
        self.key_count = 0;
    }
}
