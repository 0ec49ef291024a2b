//! Entries that are held until a table is finished, or the block-based table that stands in for it.
//!
//! If an entry has no place in the format, everything held goes to a block-based builder over the same file, and so does what
//! follows: a format never makes a flush or a compaction fail. [`FinishedTable::fallback`] says why.

use std::fmt;

use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{Error, ErrorKind, KeyOrder, Result};
use koeldb_fs::WritableFile;

use crate::block_based::builder::BlockBasedTableBuilder;
use crate::builder::{FinishedTable, TableBuildContext};

/// The entries of one format.
pub(crate) trait Hold: fmt::Debug {
    /// Why entries have no place in the format.
    type Obstacle: fmt::Debug + fmt::Display;

    /// Hands out all entries again, in their order.
    ///
    /// # Errors
    /// Those of `take`.
    fn replay(&self, order: &KeyOrder, take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()>;

    /// How many there are.
    fn entry_count(&self) -> u64;
}

/// How far a table has come.
#[derive(Debug)]
pub(crate) enum State<H: Hold> {
    Collecting {
        file: Box<dyn WritableFile>,
        held: Box<H>,
    },
    Instead {
        builder: Box<BlockBasedTableBuilder>,
        why: H::Obstacle,
    },
    /// A change of state failed.
    Failed,
}

impl<H: Hold> State<H> {
    /// Gives all entries held to a block-based builder.
    ///
    /// # Errors
    /// What that builder fails with.
    pub(crate) fn fall_back(
        &mut self,
        why: H::Obstacle,
        context: &TableBuildContext,
    ) -> Result<()> {
        match std::mem::replace(self, State::Failed) {
            State::Collecting { file, held } => {
                let mut builder = Box::new(BlockBasedTableBuilder::create(file, context)?);
                held.replay(&context.order, |key, value| builder.add(key, value))?;
                *self = State::Instead { builder, why };
                Ok(())
            }
            instead @ State::Instead { .. } => {
                *self = instead;
                Ok(())
            }
            State::Failed => Err(failed()),
        }
    }

    /// The entries added so far.
    pub(crate) fn entry_count(&self) -> u64 {
        match self {
            State::Collecting { held, .. } => held.entry_count(),
            State::Instead { builder, .. } => builder.entry_count(),
            State::Failed => 0,
        }
    }

    /// Finishes the table that stands in for one of `format`.
    ///
    /// # Errors
    /// What the file system fails with; `Aborted` if there is none.
    pub(crate) fn finish_instead(
        self,
        format: &str,
        tombstones: &[RangeTombstone],
    ) -> Result<FinishedTable> {
        let State::Instead { mut builder, why } = self else {
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

#[cold]
pub(crate) fn failed() -> Error {
    Error::with_kind(ErrorKind::Aborted, "the table builder failed before")
}
