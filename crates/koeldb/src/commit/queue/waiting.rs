//! The list of writers that wait, and the one word that says whether there is a leader.
//!
//! # Invariants
//! - **Q1** There is at most one leader. While there is one, the word `newest` is not [`EMPTY`].
//! - **Q2** Only the leader unlinks writers; it serves them in the order in which they were linked.
//! - **Q3** A leader gives leadership up only by an exchange of `newest` that finds no writer linked.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use koeldb_base::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering, Padded, lock};

use crate::commit::writer::{Writer, WriterId, Writers};

/// The word `newest` without a leader.
const EMPTY: u32 = 0;
/// The word `newest` with a leader and no writer in the list.
const LED: u32 = 1;
/// The number of the first place in the word `newest`.
const FIRST_PLACE: u32 = 2;

/// The waiting writers: a lock-free linked list, and a queue to which the leader moves them.
pub(crate) struct WaitingWriters {
    /// [`EMPTY`], [`LED`], or the writer that was linked last.
    newest: Padded<AtomicU32>,
    /// The writers that the leader has unlinked and not served, oldest first.
    unlinked: Mutex<VecDeque<WriterId>>,
    /// Whether `unlinked` has any; only the leader changes it.
    has_unlinked: AtomicBool,
    pub(super) places: Writers,
}

/// A guard of the locked queue of writers that leaders moved off the linked list.
pub(super) struct Unlinked<'w> {
    has_unlinked: &'w AtomicBool,
    list: MutexGuard<'w, VecDeque<WriterId>>,
}

impl Deref for Unlinked<'_> {
    type Target = VecDeque<WriterId>;

    fn deref(&self) -> &VecDeque<WriterId> {
        &self.list
    }
}

impl DerefMut for Unlinked<'_> {
    fn deref_mut(&mut self) -> &mut VecDeque<WriterId> {
        &mut self.list
    }
}

impl Drop for Unlinked<'_> {
    fn drop(&mut self) {
        let has_any = !self.list.is_empty();
        self.has_unlinked.store(has_any, Ordering::Relaxed);
    }
}

impl WaitingWriters {
    pub(super) fn new() -> Self {
        WaitingWriters {
            newest: Padded(AtomicU32::new(EMPTY)),
            unlinked: Mutex::default(),
            has_unlinked: AtomicBool::new(false),
            places: Writers::new(),
        }
    }

    /// Takes leadership if there is no leader; returns whether it did.
    #[inline]
    pub(super) fn try_lead(&self) -> bool {
        let newest = &self.newest.0;
        newest
            .compare_exchange(EMPTY, LED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Appends a writer to the linked list; `false` if it becomes the leader, as there is none.
    pub(super) fn link(&self, id: WriterId, writer: &Writer) -> bool {
        let newest = &self.newest.0;
        let mut found = newest.load(Ordering::Relaxed);
        loop {
            writer.older.store(found, Ordering::Relaxed);
            let linked = match found {
                EMPTY => LED,
                _ => id + FIRST_PLACE,
            };
            match newest.compare_exchange_weak(found, linked, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return before != EMPTY,
                Err(now) => found = now,
            }
        }
    }

    /// Whether others wait for leadership; called by the leader.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        self.has_unlinked.load(Ordering::Relaxed) || self.newest.0.load(Ordering::Relaxed) != LED
    }

    /// Whether the writer that leads next is awake; called by the leader.
    pub(super) fn is_next_awake(&self) -> bool {
        let mut unlinked = self.unlinked();
        if unlinked.is_empty() {
            self.unlink_all(&mut unlinked);
        }
        let next = unlinked.front();
        next.is_some_and(|&next| !self.places.get(next).is_asleep())
    }

    /// Moves all writers of the linked list to `unlinked`, oldest first; called by the leader.
    fn unlink_all(&self, unlinked: &mut VecDeque<WriterId>) {
        let mut place = self.newest.0.swap(LED, Ordering::AcqRel);
        let served = unlinked.len();
        while place >= FIRST_PLACE {
            unlinked.insert(served, place - FIRST_PLACE);
            let writer = self.places.get(place - FIRST_PLACE);
            place = writer.older.load(Ordering::Relaxed);
        }
    }

    /// Passes leadership to the writer that has waited longest; ends it if no writer waits.
    #[inline]
    pub(super) fn hand_off(&self) {
        if !self.has_unlinked.load(Ordering::Relaxed) {
            let newest = &self.newest.0;
            let given_up = newest.compare_exchange(LED, EMPTY, Ordering::AcqRel, Ordering::Relaxed);
            if given_up.is_ok() {
                return;
            }
        }
        self.hand_off_slow();
    }

    /// Passes leadership to the oldest waiting writer; ends it if no writer waits.
    #[inline(never)]
    fn hand_off_slow(&self) {
        let newest = &self.newest.0;
        loop {
            let next = {
                let mut unlinked = self.unlinked();
                if unlinked.is_empty() {
                    self.unlink_all(&mut unlinked);
                }
                unlinked.pop_front()
            };
            match next.map(|next| self.places.get(next)) {
                Some(writer) if writer.let_lead() => return,
                // It gave up.
                Some(writer) => writer.release(),
                None => {
                    let given_up =
                        newest.compare_exchange(LED, EMPTY, Ordering::AcqRel, Ordering::Relaxed);
                    if given_up.is_ok() {
                        return;
                    }
                }
            }
        }
    }

    /// Locks the queue of writers that leaders moved off the linked list; called by the leader.
    fn unlinked(&self) -> Unlinked<'_> {
        Unlinked {
            has_unlinked: &self.has_unlinked,
            list: lock(&self.unlinked),
        }
    }

    /// Moves all waiting writers off the linked list; returns their locked queue, oldest first.
    pub(super) fn all_unlinked(&self) -> Unlinked<'_> {
        let mut unlinked = self.unlinked();
        self.unlink_all(&mut unlinked);
        unlinked
    }

    /// Moves all waiting writers off the linked list and counts them; called by the leader.
    pub(super) fn unlinked_count(&self) -> usize {
        let mut unlinked = self.unlinked();
        if self.newest.0.load(Ordering::Relaxed) != LED {
            self.unlink_all(&mut unlinked);
        }
        unlinked.len()
    }

    /// The number of waiting writers; called by the leader.
    #[cfg(test)]
    pub(crate) fn queued_count(&self) -> usize {
        let mut count = lock(&self.unlinked).len();
        let mut place = self.newest.0.load(Ordering::Acquire);
        while place >= FIRST_PLACE {
            count += 1;
            let writer = self.places.get(place - FIRST_PLACE);
            place = writer.older.load(Ordering::Relaxed);
        }
        count
    }

    /// Releases the places of writers that gave up waiting; called by a leader that waits.
    pub(crate) fn release_left(&self) {
        let mut unlinked = self.all_unlinked();
        unlinked.retain(|&id| {
            let writer = self.places.get(id);
            let has_left = writer.has_left();
            if has_left {
                writer.release();
            }
            !has_left
        });
    }
}
