//! Intrusive doubly linked lists of entries.

use crate::entry::Entries;
use crate::index::{NOWHERE, SlotIndex};

/// A doubly linked list of cache entries, from the newest at its head to the oldest at its tail.
pub(crate) struct List {
    /// The number of the list, stored in its entries.
    id: u8,
    head: SlotIndex,
    tail: SlotIndex,
    len: usize,
    bytes: u64,
}

impl List {
    pub(crate) fn new(id: u8) -> Self {
        List {
            id,
            head: NOWHERE,
            tail: NOWHERE,
            len: 0,
            bytes: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The total charge of the entries of the list.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The slot of the oldest entry; `None` if the list is empty.
    pub(crate) fn tail(&self) -> Option<SlotIndex> {
        (self.tail != NOWHERE).then_some(self.tail)
    }

    /// Inserts an entry that is in no list at the head.
    pub(crate) fn push<T>(&mut self, entries: &mut Entries<T>, slot: SlotIndex) {
        let entry = &mut entries[slot];
        entry.list = self.id;
        entry.newer = NOWHERE;
        entry.older = self.head;
        self.bytes += entry.charge;
        if self.head == NOWHERE {
            self.tail = slot;
        } else {
            entries[self.head].newer = slot;
        }
        self.head = slot;
        self.len += 1;
    }

    /// Removes an entry of this list.
    pub(crate) fn unlink<T>(&mut self, entries: &mut Entries<T>, slot: SlotIndex) {
        let entry = &entries[slot];
        debug_assert_eq!(entry.list, self.id, "the entry is in this list");
        let (newer, older) = (entry.newer, entry.older);
        self.bytes -= entry.charge;
        if newer == NOWHERE {
            self.head = older;
        } else {
            entries[newer].older = older;
        }
        if older == NOWHERE {
            self.tail = newer;
        } else {
            entries[older].newer = newer;
        }
        self.len -= 1;
    }

    /// Moves an entry of this list to the head.
    pub(crate) fn renew<T>(&mut self, entries: &mut Entries<T>, slot: SlotIndex) {
        if self.head != slot {
            self.unlink(entries, slot);
            self.push(entries, slot);
        }
    }
}
