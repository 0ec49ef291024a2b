//! The write list: entries in order of arrival.
//!
//! Each shard of the arena has its own log, so that no two threads append to one concurrently. A
//! log is a chain of *segments*. A full segment is closed: it is sorted, and a new one follows it.
//!
//! # Invariants
//! - **L1** The holder of the shard's lease appends. It fills a slot, links a new segment if the
//!   last was full, and then publishes the number of slots with release; a reader that loads the
//!   number with acquire finds the slots below it filled.
//! - **L2** Slots do not move and are filled once. A segment lives as long as something holds it or
//!   one before it.

use std::ops::{Deref, RangeInclusive};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use koeldb_base::sync::STRIPES_MAX;

use super::memory::Gauge;
use super::node::{Node, NodePtr};
use crate::arena::{LINE_BYTES, prefetch};
use crate::sync::{AtomicPtr, AtomicU64};

/// The slots of the first segment of a log: few, to keep an idle memtable small.
const FIRST_SLOTS: usize = 32;
/// The number of slots in a cache line.
const LINE_SLOTS: usize = LINE_BYTES / size_of::<Slot>();
/// The number of last slots that are prefetched.
const PREFETCHED: u64 = 16;

/// A log item: a pointer to an entry's node, and the key prefix as a number for comparisons.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) prefix: u64,
    pub(super) node: NodePtr,
}

/// The lengths of all logs of a memtable, in slots, stored inline without allocation.
#[derive(Clone, Copy)]
pub(super) struct LogLengths {
    lengths: [u64; STRIPES_MAX],
    log_count: usize,
}

impl LogLengths {
    /// Creates the lengths of `log_count` logs by calling `length` with the index of each.
    #[inline]
    pub(super) fn new(log_count: usize, mut length: impl FnMut(usize) -> u64) -> Self {
        let mut lengths = [0; STRIPES_MAX];
        for (log, place) in lengths[..log_count].iter_mut().enumerate() {
            *place = length(log);
        }
        LogLengths { lengths, log_count }
    }
}

impl Deref for LogLengths {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        &self.lengths[..self.log_count]
    }
}

/// A slot of a log segment: an item as two atomics; a null node marks an empty slot.
struct Slot {
    prefix: AtomicU64,
    node: AtomicPtr<Node>,
}

/// A log segment: a fixed array of slots, linked to the next segment.
pub(super) struct Segment {
    /// The number of slots in all preceding segments.
    first: u64,
    slots: Box<[Slot]>,
    next: OnceLock<Arc<Segment>>,
    gauge: Gauge,
}

impl Segment {
    /// Creates an empty segment of `slots` slots, after `first` slots in earlier segments.
    pub(super) fn new(first: u64, slots: usize, gauge: &Gauge) -> Arc<Self> {
        let empty = |_| Slot {
            prefix: AtomicU64::new(0),
            node: AtomicPtr::new(std::ptr::null_mut()),
        };
        let segment = Segment {
            first,
            slots: (0..slots).map(empty).collect(),
            next: OnceLock::new(),
            gauge: gauge.clone(),
        };
        gauge.add(segment.memory_bytes());
        Arc::new(segment)
    }

    fn memory_bytes(&self) -> usize {
        // Includes the counters of the `Arc`.
        size_of_val(&*self.slots) + size_of::<Self>() + 16
    }

    /// The log position after the last slot of the segment.
    fn end(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// Prefetches the last slots of this segment between the log positions `start` and `end`.
    ///
    /// Another core may have appended them.
    #[inline]
    pub(super) fn prefetch(&self, start: u64, end: u64) {
        let end = end.min(self.end());
        let start = start.max(self.first).max(end.saturating_sub(PREFETCHED));
        for at in (start..end).step_by(LINE_SLOTS) {
            let slot = &self.slots[koeldb_base::coding::to_usize(at - self.first)];
            prefetch(std::ptr::from_ref(slot).cast());
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.gauge.sub(self.memory_bytes());
        // Iterative, because a chain may be longer than the stack allows.
        let mut next = self.next.take();
        while let Some(segment) = next {
            next = Arc::into_inner(segment).and_then(|mut segment| segment.next.take());
        }
    }
}

/// The writer of one log, which appends to its last segment; used by the shard's borrower.
pub(super) struct LogWriter {
    segment: Arc<Segment>,
    used: usize,
}

impl LogWriter {
    /// Creates a writer for a log that begins with `segment`.
    pub(super) fn new(segment: Arc<Segment>) -> Self {
        LogWriter { segment, used: 0 }
    }

    /// Appends an item and publishes the new log length in `appended`.
    ///
    /// Returns whether a segment of `limit` slots became full.
    #[inline]
    pub(super) fn append(
        &mut self,
        item: Item,
        appended: &AtomicU64,
        limit: usize,
        gauge: &Gauge,
    ) -> bool {
        if self.used == self.segment.slots.len() {
            self.add_segment(limit, gauge);
        }
        let slot = &self.segment.slots[self.used];
        slot.prefix.store(item.prefix, Ordering::Relaxed);
        slot.node.store(item.node.as_ptr(), Ordering::Relaxed);
        self.used += 1;
        appended.store(self.segment.first + self.used as u64, Ordering::Release);
        self.used == limit && self.segment.slots.len() == limit
    }

    /// Links a new segment, twice as long as the last one, up to `limit` slots.
    #[cold]
    fn add_segment(&mut self, limit: usize, gauge: &Gauge) {
        let slots = (2 * self.used).clamp(FIRST_SLOTS.min(limit), limit);
        let next = Segment::new(self.segment.end(), slots, gauge);
        let linked = self.segment.next.set(Arc::clone(&next));
        debug_assert!(linked.is_ok(), "only the holder of the lease links");
        self.segment = next;
        self.used = 0;
    }

    /// Ends the log: replaces its last segment by the empty one `last`, to release memory.
    pub(super) fn close(&mut self, last: &Arc<Segment>) {
        self.segment = Arc::clone(last);
        self.used = 0;
    }
}

/// The range of all key prefixes.
pub(super) const ALL: RangeInclusive<u64> = 0..=u64::MAX;

/// Passes the items of a log from `start` to `end` with key prefixes in `window` to `take`.
///
/// The log begins with `segment`, which has the slot `start` or an earlier one. Returns the segment
/// of the slot `end`, as far as there is one.
#[inline]
pub(super) fn read(
    mut segment: &Arc<Segment>,
    mut start: u64,
    end: u64,
    window: RangeInclusive<u64>,
    mut take: impl FnMut(Item),
) -> &Arc<Segment> {
    let (low, width) = (*window.start(), window.end() - window.start());
    while start < end {
        while start >= segment.end() {
            segment = segment
                .next
                .get()
                .expect("segments are linked before their slots are published");
        }
        let stop = end.min(segment.end());
        let first = koeldb_base::coding::to_usize(start - segment.first);
        let last = koeldb_base::coding::to_usize(stop - segment.first);
        for slot in &segment.slots[first..last] {
            let prefix = slot.prefix.load(Ordering::Relaxed);
            if prefix.wrapping_sub(low) <= width {
                let node = NodePtr::from_slot(slot.node.load(Ordering::Relaxed));
                let node = node.expect("published slots are filled");
                take(Item { prefix, node });
            }
        }
        start = stop;
    }
    segment
}
