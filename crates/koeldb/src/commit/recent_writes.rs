//! The keys of the latest writes, with which a leader checks the optimistic commits of its group.
//!
//! A transaction validates its keys up to the visible sequence number before it is queued. Later
//! writes may still be on their way into the memtables, or be earlier members of its own group. The
//! leader therefore notes the hashes of the keys it writes, with their numbers, and compares: a
//! commit needs no turn of its own, and no search while others wait.
//!
//! The table has one slot for many hashes, and its answer is *clean* or *unsure*. An unsure commit
//! takes an exclusive turn and searches the memtables ([`WriteQueue::write_checked`]). (RocksDB's
//! serial validation calls back in a group of one; its parallel validation excludes only
//! other transactions, and misses a plain write between the validation and the commit:
//! `utilities/transactions/optimistic_transaction.cc`, 11.9.)
//!
//! Only the leader accesses the table. It is on while commits use it: other databases hash no keys.
//!
//! # Invariants
//! - **V1** Every write numbered in `from + 1..=upto` has left its number, or a larger one, in the slot
//!   of each of its keys. Numbers that were taken elsewhere (an ingestion, a write without a leader)
//!   end that range: `upto` is then not the number before the next group.
//! - **V2** A check is clean only if that range reaches from the validated number to the last one of
//!   the database, and the slots of its keys have no number above the validated one.
//! - **V3** `upto` advances only after the log write. Numbers that a failed group left in slots are larger
//!   than those of its keys, so they make checks unsure, and nothing else.
//!
//! [`WriteQueue::write_checked`]: super::queue::WriteQueue::write_checked

use koeldb_base::SeqNo;
use koeldb_base::checksum::xxh3_64;
use koeldb_base::coding::to_usize;

/// The hash of a key and its column family.
pub(crate) type KeyHash = u64;

/// The number of slots; few in tests, so that keys often share one.
const SLOTS: usize = if cfg!(loom) {
    4
} else if cfg!(debug_assertions) {
    64
} else {
    1 << 14
};
/// The number of groups without a check after which the table is off.
const IDLE_MAX: u32 = if cfg!(debug_assertions) { 64 } else { 1 << 12 };
/// The number of operations above which the keys of a batch are not noted one by one: hashing them
/// would hold up the next group.
const NOTED_MAX: u32 = if cfg!(debug_assertions) { 16 } else { 256 };

/// Returns the hash of a key and its column family id for the table of recent writes.
///
/// It is unseeded: keys chosen to collide make commits take turns, which are slower and equally right.
#[inline]
pub(crate) fn key_hash(cf: u32, key: &[u8]) -> KeyHash {
    xxh3_64(key) ^ u64::from(cf).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The keys of an optimistic commit, which its group leader compares with recent writes.
pub(crate) struct GroupCheck {
    /// The sequence number up to which the keys were validated.
    pub(crate) validated: SeqNo,
    pub(crate) keys: Vec<KeyHash>,
    /// The last sequence number of the commit, if the check found no conflict.
    pub(crate) admitted: Option<SeqNo>,
}

/// A hash table of recently written keys with sequence numbers, to check optimistic commits.
#[derive(Debug, Default)]
pub(crate) struct RecentWrites {
    /// The last sequence number of a write of any key of the slot; allocated on first use.
    slots: Box<[SeqNo]>,
    /// The sequence number after which all writes up to `upto` are in the table.
    from: SeqNo,
    upto: SeqNo,
    /// The number of groups without a check until the table is switched off; 0 while it is off.
    groups_left: u32,
}

impl RecentWrites {
    /// Whether the table is in use, so that the keys of writes must be recorded.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.groups_left != 0
    }

    /// Switches the table on, for writes after `last` unless it has those up to `last` already.
    pub(crate) fn cover(&mut self, last: SeqNo) {
        if self.slots.is_empty() {
            self.slots = vec![0; SLOTS].into();
        }
        // A failed group may have left a larger `from`.
        if !self.is_on() || self.upto != last || self.from > last {
            (self.from, self.upto) = (last, last);
        }
        self.groups_left = IDLE_MAX;
    }

    /// Whether it is certain that no key of a check was written after its validation.
    ///
    /// `last` is the last number of the database, without the group at hand.
    pub(super) fn is_clean(&mut self, check: &GroupCheck, last: SeqNo) -> bool {
        if !self.is_on() {
            return false;
        }
        self.groups_left = IDLE_MAX;
        let has_all = self.upto == last && self.from <= check.validated;
        has_all
            && check
                .keys
                .iter()
                .all(|&key| self.slots[slot_of(key)] <= check.validated)
    }

    /// Records the keys of a batch whose last sequence number will be `last`.
    ///
    /// `hash_keys` calls back with the hash of each key; false if it does not know all of them.
    pub(super) fn enter(
        &mut self,
        count: u32,
        last: SeqNo,
        hash_keys: impl FnOnce(&mut dyn FnMut(KeyHash)) -> bool,
    ) {
        let slots = &mut self.slots;
        let is_noted = count <= NOTED_MAX && hash_keys(&mut |key| slots[slot_of(key)] = last);
        if !is_noted {
            // Any key may be among them: no check from before it is clean.
            self.from = last;
        }
    }

    /// Records that the noted batches numbered `first..=last` are in the log.
    pub(super) fn advance(&mut self, first: SeqNo, last: SeqNo) {
        if self.upto + 1 != first {
            self.from = self.from.max(first - 1);
        }
        self.upto = last;
        self.groups_left -= 1;
    }
}

/// Returns the index of the table slot for a key hash.
pub(crate) fn slot_of(key: KeyHash) -> usize {
    to_usize(key) % SLOTS
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use koeldb_testkit::Random;

    use super::*;

    /// A write of one key, or of any key.
    type Write = (SeqNo, Option<KeyHash>);

    /// A table beside the list of all writes that it must know.
    #[derive(Default)]
    struct Model {
        table: RecentWrites,
        writes: Vec<Write>,
        last: SeqNo,
    }

    impl Model {
        fn check(&mut self, key: KeyHash, validated: SeqNo, group: &[Write]) -> bool {
            let check = GroupCheck {
                validated,
                keys: vec![key],
                admitted: None,
            };
            let is_clean = self.table.is_clean(&check, self.last);
            let all = self.writes.iter().chain(group);
            let mut since = all.filter(|(seqno, _)| *seqno > validated);
            let is_written = since.any(|(_, written)| written.is_none_or(|written| written == key));
            assert!(!is_clean || !is_written, "key {key} since {validated}");
            is_clean
        }

        /// Writes a group of batches with checks between them; returns the number of clean ones.
        fn write_group(&mut self, random: &mut Random) -> usize {
            let (first, mut next, mut clean) = (self.last + 1, self.last + 1, 0);
            let mut group = Vec::new();
            for _ in 0..1 + random.below(4) {
                let validated = self.last - random.below(8).min(self.last);
                clean += usize::from(self.check(random.below(100), validated, &group));
                let count = match random.below(40) {
                    0 => NOTED_MAX + 1,
                    _ => 1 + u32::try_from(random.below(3)).unwrap(),
                };
                let is_range = random.chance(1, 40);
                let keys: Vec<KeyHash> = (0..count).map(|_| random.below(100)).collect();
                next += SeqNo::from(count);
                for &key in &keys {
                    group.push((next - 1, (!is_range).then_some(key)));
                }
                if self.table.is_on() {
                    self.table.enter(count, next - 1, |note| {
                        keys.iter().for_each(|&key| note(key));
                        !is_range
                    });
                }
            }
            // The log write may fail.
            if random.chance(9, 10) {
                self.writes.append(&mut group);
                self.last = next - 1;
                if self.table.is_on() {
                    self.table.advance(first, self.last);
                }
            }
            clean
        }
    }

    #[test]
    fn a_clean_key_was_not_written_since_its_validation() {
        let mut clean = 0;
        for seed in 0..200 {
            println!("seed {seed}");
            let mut random = Random::new(seed);
            let mut model = Model::default();
            for _ in 0..200 {
                match random.below(12) {
                    0 => model.table.cover(model.last),
                    1 => {
                        // Numbers that are taken elsewhere, of any keys.
                        model.last += 1 + random.below(3);
                        model.writes.push((model.last, None));
                    }
                    _ => clean += model.write_group(&mut random),
                }
            }
        }
        assert!(clean > 10_000, "{clean} are clean");
    }

    #[test]
    fn a_table_that_no_check_uses_is_off() {
        let mut table = RecentWrites::default();
        assert!(!table.is_on());
        table.cover(7);
        for seqno in 8.. {
            if !table.is_on() {
                assert_eq!(seqno, 8 + SeqNo::from(IDLE_MAX));
                break;
            }
            table.advance(seqno, seqno);
        }
        let check = GroupCheck {
            validated: SeqNo::MAX,
            keys: Vec::new(),
            admitted: None,
        };
        assert!(!table.is_clean(&check, table.upto));
    }
}
