//! Commits of optimistic transactions.

use std::borrow::Cow;
use std::sync::Arc;

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};

use super::errors;
use super::tracker::Tracker;
use super::validation::{Seen, changed_in_memtables, check_unchanged};
use crate::batch::WriteBatch;
use crate::column_family_data::ColumnFamilyData;
use crate::column_family_set::ColumnFamilySet;
use crate::options::{ValidationTier, WriteOptions};
use crate::write::commit::CommitPipeline;

/// The column families of the keys of a commit, each held once.
struct KeyFamilies<'c> {
    live: &'c ColumnFamilySet,
    /// The default family is borrowed: all threads share the count of its holders.
    held: Vec<Cow<'c, Arc<ColumnFamilyData>>>,
}

impl KeyFamilies<'_> {
    /// Returns the index of a family, the first time after a lookup.
    fn index_of(&mut self, cf: u32) -> Result<usize> {
        if let Some(index) = self.held.iter().rposition(|family| family.id == cf) {
            return Ok(index);
        }
        self.held.push(match cf {
            0 => Cow::Borrowed(self.live.default_family()),
            _ => Cow::Owned(live_family(self.live, cf)?),
        });
        Ok(self.held.len() - 1)
    }
}

fn live_family(families: &ColumnFamilySet, cf: u32) -> Result<Arc<ColumnFamilyData>> {
    let families = families.by_id();
    families.get(&cf).cloned().ok_or_else(|| {
        let message = format!("column family {cf} of the transaction was dropped");
        Error::with_kind(ErrorKind::ColumnFamilyDropped, message)
            .with_outcome(WriteOutcome::NotApplied)
    })
}

/// Writes a batch if no tracked key has changed before its place in the order of commits.
///
/// Keys are checked before the queue, against memtables and tables, up to the visible sequence
/// number. The leader then checks only what was written since, in memtables.
pub(super) fn commit_validated(
    commit: &Arc<CommitPipeline>,
    batch: &WriteBatch,
    options: &WriteOptions,
    tracker: &Tracker,
    tier: ValidationTier,
) -> Result<SeqNo> {
    if tracker.is_empty() {
        // Log data are records, too, although they do not count.
        if !batch.records().is_empty() {
            commit.write(batch, options)?;
        }
        return Ok(commit.visibility.seqno());
    }
    let mode = commit.check_write(batch, options)?;
    // Read before the memtables, which then have every entry up to it.
    let checked = commit.visibility.seqno();
    let mut families = KeyFamilies {
        live: &commit.families,
        held: Vec::new(),
    };
    let mut keys = Vec::new();
    for tracked in tracker.iter() {
        let index = families.index_of(tracked.cf)?;
        let since = tracked.since.unwrap_or(checked);
        if since < checked {
            let family = &families.held[index];
            check_unchanged(family, &tracked.key, since, tier, &commit.context)?;
        }
        keys.push((index, tracked));
    }
    let check_rest = |last_seqno: SeqNo| {
        if last_seqno == checked {
            return Ok(());
        }
        for &(index, tracked) in &keys {
            let family = &families.held[index];
            match changed_in_memtables(family, &tracked.key, checked)? {
                Seen::Unchanged => {}
                Seen::Changed => return Err(errors::conflict(&tracked.key, &commit.context)),
                Seen::NeedsTables => {
                    check_unchanged(family, &tracked.key, checked, tier, &commit.context)?;
                }
            }
        }
        Ok(())
    };
    let written =
        commit
            .queue
            .write_checked(commit, batch.records(), batch.count(), mode, check_rest);
    if written.is_err() {
        commit.health.report_failures();
    }
    written
}
