//! The cursors of the representations, dispatched by an enum.

use super::entry::Entry;
use super::prefix_hash::{PrefixCursor, PrefixHash};
use super::skiplist::SkipListCursor;
use super::sorted::SortedCursor;
use super::sorted_hash::SortedHashCursor;
use super::vector::Vector;

/// A cursor over the entries of any memtable representation, or over no entries.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each cursor; most of the size are inline log lengths"
)]
pub(crate) enum RepCursor<'m> {
    SkipList(SkipListCursor<'m>),
    Vector(SortedCursor<Vector>),
    PrefixHash(SortedCursor<PrefixHash>),
    Prefix(PrefixCursor),
    SortedHash(SortedHashCursor),
    /// No entries: the filter denies the prefix of the key sought.
    Nothing(NoEntries),
}

/// A cursor over no entries, for a prefix that the Bloom filter excludes.
pub(crate) struct NoEntries;

impl NoEntries {
    /// Does nothing, as all moves of this cursor do.
    pub(crate) fn refresh(&self) {}

    /// Returns `None`: the cursor is never valid.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        None
    }

    pub(crate) fn seek_to_first(&self) {}

    pub(crate) fn seek_to_last(&self) {}

    pub(crate) fn seek(&self, _: &[u8]) {}

    pub(crate) fn seek_for_prev(&self, _: &[u8]) {}

    pub(crate) fn next(&self) {}

    pub(crate) fn prev(&self) {}
}

/// Calls a method of the wrapped cursor.
macro_rules! either {
    ($cursor:expr, $inner:ident => $call:expr) => {
        match $cursor {
            $crate::rep::RepCursor::SkipList($inner) => $call,
            $crate::rep::RepCursor::Vector($inner) => $call,
            $crate::rep::RepCursor::PrefixHash($inner) => $call,
            $crate::rep::RepCursor::Prefix($inner) => $call,
            $crate::rep::RepCursor::SortedHash($inner) => $call,
            $crate::rep::RepCursor::Nothing($inner) => $call,
        }
    };
}
pub(crate) use either;
