//! Entries buffered until a table is finished, with a block-based table as fallback.
//!
//! If an entry does not fit the format, everything buffered goes to a block-based builder over the
//! same file, and so do later entries: a format never makes a flush or a compaction fail.
//! [`FinishedTable::fallback`] has the reason.

use std::fmt;

use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{Error, ErrorKind, KeyOrder, Result};
use koeldb_fs::WritableFile;

use crate::block_based::builder::BlockBasedTableBuilder;
use crate::build_context::{FinishedTable, TableBuildContext};

/// The buffered entries of a table that may fall back to the block-based format.
pub(crate) trait BufferedEntries: fmt::Debug {
    /// The reason that entries do not fit the format.
    type FallbackReason: fmt::Debug + fmt::Display;

    /// Passes all entries to `take` in key order, as internal keys and values.
    ///
    /// # Errors
    /// Those of `take`.
    fn replay(&self, order: &KeyOrder, take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()>;

    /// The number of entries.
    fn entry_count(&self) -> u64;
}

/// The state of a cuckoo or plain table builder: buffering, fallen back to block-based, or failed.
#[derive(Debug)]
pub(crate) enum BuildState<H: BufferedEntries> {
    Collecting {
        file: Box<dyn WritableFile>,
        buffered: Box<H>,
    },
    FellBack {
        builder: Box<BlockBasedTableBuilder>,
        why: H::FallbackReason,
    },
    /// A change of state has failed.
    Failed,
}

impl<H: BufferedEntries> BuildState<H> {
    /// Falls back to the block-based format: passes all buffered entries to a block-based builder.
    ///
    /// # Errors
    /// Those of that builder.
    pub(crate) fn fall_back(
        &mut self,
        why: H::FallbackReason,
        context: &TableBuildContext,
    ) -> Result<()> {
        match std::mem::replace(self, BuildState::Failed) {
            BuildState::Collecting { file, buffered } => {
                let mut builder = Box::new(BlockBasedTableBuilder::create(file, context)?);
                buffered.replay(&context.order, |key, value| builder.add(key, value))?;
                *self = BuildState::FellBack { builder, why };
                Ok(())
            }
            fell_back @ BuildState::FellBack { .. } => {
                *self = fell_back;
                Ok(())
            }
            BuildState::Failed => Err(failed()),
        }
    }

    /// The number of entries so far.
    pub(crate) fn entry_count(&self) -> u64 {
        match self {
            BuildState::Collecting { buffered, .. } => buffered.entry_count(),
            BuildState::FellBack { builder, .. } => builder.entry_count(),
            BuildState::Failed => 0,
        }
    }

    /// Finishes the block-based table written in place of one of `format`.
    ///
    /// # Errors
    /// The errors of the file system; `Aborted` if there is no fallback.
    pub(crate) fn finish_instead(
        self,
        format: &str,
        tombstones: &[RangeTombstone],
    ) -> Result<FinishedTable> {
        let BuildState::FellBack { mut builder, why } = self else {
            return Err(failed());
        };
        for tombstone in tombstones {
            builder.add_tombstone(tombstone);
        }
        Ok(FinishedTable {
            fallback: Some(format!("no {format} table: {why}")),
            ..builder.finish()?
        })
    }
}

/// Creates the `Aborted` error of a call after the table builder has failed.
#[cold]
pub(crate) fn failed() -> Error {
    Error::with_kind(ErrorKind::Aborted, "the table builder has failed before")
}
