//! Range tombstones: sorted, cut into fragments that do not overlap, and asked which of them hides a key.
//!
//! A tombstone `[start, end)` of sequence number `s` hides entries of keys inside with a smaller sequence
//! number. The tombstones of one memtable or table overlap at will; [`FragmentedTombstones`] cuts them at
//! every start and end, so that each fragment has one list of sequence numbers, newest first, and a look-up
//! is one binary search.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::comparator::KeyOrder;
use crate::key::SeqNo;

/// A deleted range of user keys, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first deleted key.
    pub start: Vec<u8>,
    /// The first key behind the range.
    pub end: Vec<u8>,
    /// When it was written.
    pub seqno: SeqNo,
}

/// A range in which the same tombstones apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The first key of the fragment.
    pub start: Vec<u8>,
    /// The first key behind it.
    pub end: Vec<u8>,
    /// The sequence numbers of the tombstones that apply, newest first; never empty.
    pub seqnos: Vec<SeqNo>,
}

/// The tombstones of one memtable or table, in fragments.
#[derive(Clone, Debug)]
pub struct FragmentedTombstones {
    order: KeyOrder,
    fragments: Vec<Fragment>,
    seqno_max: SeqNo,
}

impl FragmentedTombstones {
    /// Cuts `tombstones`, given in any order, into fragments. Empty and inverted ranges are dropped.
    ///
    /// Takes O(n log n) for n tombstones that overlap little.
    #[must_use]
    pub fn new(order: &KeyOrder, mut tombstones: Vec<RangeTombstone>) -> Self {
        tombstones.retain(|t| order.compare(&t.start, &t.end) == Ordering::Less);
        tombstones.sort_by(|a, b| order.compare(&a.start, &b.start));
        let mut edges: Vec<&[u8]> = tombstones
            .iter()
            .flat_map(|t| [t.start.as_slice(), t.end.as_slice()])
            .collect();
        edges.sort_by(|a, b| order.compare(a, b));
        edges.dedup_by(|a, b| order.compare(a, b) == Ordering::Equal);

        let mut fragments: Vec<Fragment> = Vec::new();
        let mut active: Vec<&RangeTombstone> = Vec::new();
        let mut upcoming = tombstones.iter().peekable();
        for pair in edges.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            active.retain(|t| order.compare(&t.end, start) == Ordering::Greater);
            while let Some(next) =
                upcoming.next_if(|t| order.compare(&t.start, start) != Ordering::Greater)
            {
                active.push(next);
            }
            if active.is_empty() {
                continue;
            }
            let seqnos: BTreeSet<SeqNo> = active.iter().map(|t| t.seqno).collect();
            let seqnos: Vec<SeqNo> = seqnos.into_iter().rev().collect();
            fragments.push(Fragment {
                start: start.to_vec(),
                end: end.to_vec(),
                seqnos,
            });
        }
        let seqno_max = tombstones.iter().map(|t| t.seqno).max().unwrap_or(0);
        FragmentedTombstones {
            order: order.clone(),
            fragments,
            seqno_max,
        }
    }

    /// Whether nothing is deleted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments in key order.
    #[must_use]
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The newest sequence number of all tombstones.
    #[must_use]
    pub fn seqno_max(&self) -> SeqNo {
        self.seqno_max
    }

    /// The newest tombstone over `user_key` that `snapshot` sees: its sequence number, or 0 if there is none.
    #[inline]
    #[must_use]
    pub fn covering_seqno(&self, user_key: &[u8], snapshot: SeqNo) -> SeqNo {
        let behind = self
            .fragments
            .partition_point(|f| self.order.compare(&f.start, user_key) != Ordering::Greater);
        let Some(fragment) = behind
            .checked_sub(1)
            .and_then(|index| self.fragments.get(index))
        else {
            return 0;
        };
        if self.order.compare(user_key, &fragment.end) != Ordering::Less {
            return 0;
        }
        fragment
            .seqnos
            .iter()
            .copied()
            .find(|&seqno| seqno <= snapshot)
            .unwrap_or(0)
    }

    /// The fragments cut down to user keys in `[from, to)`; an absent bound does not cut.
    #[must_use]
    pub fn clipped(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Self {
        let first = from.map_or(0, |from| {
            self.fragments
                .partition_point(|f| self.order.compare(&f.end, from) != Ordering::Greater)
        });
        let mut fragments = Vec::new();
        for fragment in &self.fragments[first..] {
            if to.is_some_and(|to| self.order.compare(&fragment.start, to) != Ordering::Less) {
                break;
            }
            let mut fragment = fragment.clone();
            if let Some(from) = from
                && self.order.compare(&fragment.start, from) == Ordering::Less
            {
                fragment.start = from.to_vec();
            }
            if let Some(to) = to
                && self.order.compare(&fragment.end, to) == Ordering::Greater
            {
                fragment.end = to.to_vec();
            }
            fragments.push(fragment);
        }
        FragmentedTombstones {
            order: self.order.clone(),
            fragments,
            seqno_max: self.seqno_max,
        }
    }

    /// The fragments as tombstones, one for each sequence number.
    pub fn tombstones(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments.iter().flat_map(|fragment| {
            fragment.seqnos.iter().map(|&seqno| RangeTombstone {
                start: fragment.start.clone(),
                end: fragment.end.clone(),
                seqno,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tombstone() -> impl Strategy<Value = RangeTombstone> {
        (0..12_u8, 0..12_u8, 1..8_u64).prop_map(|(start, end, seqno)| RangeTombstone {
            start: vec![start],
            end: vec![end],
            seqno,
        })
    }

    proptest! {
        #[test]
        fn fragments_hide_what_the_tombstones_hide(
            tombstones in prop::collection::vec(tombstone(), 0..12),
            snapshot in 0..9_u64,
            reverse: bool,
        ) {
            let order = if reverse { KeyOrder::ReverseBytewise } else { KeyOrder::Bytewise };
            let fragmented = FragmentedTombstones::new(&order, tombstones.clone());
            for key in 0..13_u8 {
                let expected = tombstones
                    .iter()
                    .filter(|t| order.compare(&t.start, &[key]).is_le() && order.compare(&[key], &t.end).is_lt())
                    .map(|t| t.seqno)
                    .filter(|&seqno| seqno <= snapshot)
                    .max()
                    .unwrap_or(0);
                prop_assert_eq!(fragmented.covering_seqno(&[key], snapshot), expected);
            }
            for pair in fragmented.fragments().windows(2) {
                prop_assert!(order.compare(&pair[0].end, &pair[1].start).is_le());
            }
        }
    }
}
