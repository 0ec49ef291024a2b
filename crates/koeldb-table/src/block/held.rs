//! A block that a cursor keeps in memory, with copies of the fields that each step needs.
//!
//! A cursor that owned a copy of the block would count references to its bytes and to the structure
//! that speeds up searches, besides the one that keeps the block in the cache. This one counts only
//! the last, or none if the reader of the table keeps the block.
//!
//! Invariants of [`HeldBlock`]: `cached` is a block of entries; `bytes` points to the bytes of that
//! block, which neither move nor change while `cached` lives; `sections` are those of the block.
#![expect(
    unsafe_code,
    reason = "one load less on the way to every entry of a scan"
)]
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::ptr::NonNull;
use std::sync::Arc;

use koeldb_base::{ArcRef, PinnedSlice, Result};

use super::{Block, BlockSlices, CachedBlock, EntryLayout, Sections, ValueRange};

/// A reference, counted or borrowed for `'t`, that keeps a cached block of entries in memory.
#[derive(Clone, Debug)]
pub struct HeldBlock<'t> {
    bytes: NonNull<[u8]>,
    pub(super) sections: Sections,
    cached: ArcRef<'t, CachedBlock>,
}

// SAFETY: `bytes` is a shared view of memory that never changes, kept alive by `cached`, which may
// be sent.
unsafe impl Send for HeldBlock<'_> {}

// SAFETY: as for `Send`; nothing can be written through `bytes`.
unsafe impl Sync for HeldBlock<'_> {}

/// Asserts that the reference that keeps the block in memory is `Send` and `Sync`.
const _: () = {
    /// Fails to compile unless `T` is `Send` and `Sync`.
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<ArcRef<'static, CachedBlock>>();
};

impl<'t> HeldBlock<'t> {
    /// Creates the reference to a cached block, which must be a block of entries.
    ///
    /// # Errors
    /// `Corruption` if it is of another kind: two handles of different kinds refer to one block.
    #[inline]
    pub fn new(cached: impl Into<ArcRef<'t, CachedBlock>>) -> Result<Self> {
        let cached = cached.into();
        let block = cached.entries()?;
        Ok(HeldBlock {
            bytes: NonNull::from(block.bytes.as_slice()),
            sections: block.sections,
            cached,
        })
    }

    /// Clones the reference as a counted one, free of `'t`.
    pub(crate) fn detached<'a>(&self) -> HeldBlock<'a> {
        HeldBlock {
            bytes: self.bytes,
            sections: self.sections,
            cached: self.cached.detached(),
        }
    }

    /// Returns whether values are interleaved or separated; index blocks may instead have handles.
    pub(crate) fn layout(&self) -> EntryLayout {
        self.sections.layout()
    }

    /// The bytes of the block.
    #[inline]
    pub(super) fn contents(&self) -> &[u8] {
        // SAFETY: by the invariants the pointer is to bytes that live and stay the same as long as
        // `self.cached`.
        unsafe { self.bytes.as_ref() }
    }

    /// Returns the sections of the block as slices, for a search with entries in `layout`.
    #[inline]
    pub(super) fn slices(&self, layout: EntryLayout) -> BlockSlices<'_> {
        BlockSlices::of(self.contents(), &self.sections, layout)
    }

    /// Returns a value of the block as a pinned slice, which outlives the block.
    pub(super) fn pin(&self, value: ValueRange) -> PinnedSlice {
        self.cached.bytes().pin(value)
    }

    /// The parsed block.
    #[inline]
    pub(super) fn block(&self) -> &Block {
        match &**self.cached {
            CachedBlock::Entries(block) => block,
            CachedBlock::Filter(_) | CachedBlock::Raw(_) => {
                unreachable!("only blocks of entries are held")
            }
        }
    }
}

impl From<Block> for HeldBlock<'_> {
    fn from(block: Block) -> Self {
        HeldBlock {
            bytes: NonNull::from(block.bytes.as_slice()),
            sections: block.sections,
            cached: Arc::new(CachedBlock::Entries(block)).into(),
        }
    }
}
