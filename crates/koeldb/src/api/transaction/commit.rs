//! Commits of optimistic transactions.

use std::borrow::Cow;
use std::sync::Arc;

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};

use super::errors;
use super::tracker::{Tracked, Tracker};
use super::validation::{Seen, changed_in_memtables, check_unchanged};
use crate::batch::WriteBatch;
use crate::commit::protocol::CommitPipeline;
use crate::commit::queue::CommitCheck;
use crate::commit::recent_writes::{GroupCheck, key_hash};
use crate::options::{ValidationTier, WriteOptions};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::column_family_set::ColumnFamilySet;
use crate::state::context::Context;

/// The live column families of a commit's keys, each looked up once.
struct KeyFamilies<'c> {
    live: &'c ColumnFamilySet,
    /// The default family is borrowed: all threads share the count of its holders.
    held: Vec<Cow<'c, Arc<ColumnFamilyData>>>,
}

impl KeyFamilies<'_> {
    /// Returns the index of column family `cf`, looked up on first use; fails if it was dropped.
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

/// Returns a column family of the transaction; `ColumnFamilyDropped` if it no longer exists.
fn live_family(families: &ColumnFamilySet, cf: u32) -> Result<Arc<ColumnFamilyData>> {
    let families = families.by_id();
    families.get(&cf).cloned().ok_or_else(|| {
        let message = format!("column family {cf} of the transaction was dropped");
        Error::with_kind(ErrorKind::ColumnFamilyDropped, message)
            .with_outcome(WriteOutcome::NotApplied)
    })
}

/// An optimistic commit whose keys are validated up to a sequence number.
struct Validated<'c> {
    context: &'c Context,
    tier: ValidationTier,
    seqno: SeqNo,
    families: Vec<Cow<'c, Arc<ColumnFamilyData>>>,
    /// The keys, each with the index of its column family.
    keys: Vec<(usize, &'c Tracked)>,
}

impl CommitCheck for Validated<'_> {
    fn validated(&self) -> SeqNo {
        self.seqno
    }

    fn in_group(&self) -> Option<GroupCheck> {
        let mut families = self.families.iter();
        let hashes_differ = families.all(|family| family.order.equal_keys_have_equal_bytes());
        let keys = self.keys.iter();
        hashes_differ.then(|| GroupCheck {
            validated: self.seqno,
            keys: keys.map(|(_, key)| key_hash(key.cf, &key.key)).collect(),
            admitted: None,
        })
    }

    fn validate_rest(&self) -> Result<()> {
        for &(index, tracked) in &self.keys {
            let family = &self.families[index];
            match changed_in_memtables(family, &tracked.key, self.seqno)? {
                Seen::Unchanged => {}
                Seen::Changed => return Err(errors::conflict(&tracked.key, self.context)),
                Seen::NeedsTables => {
                    check_unchanged(family, &tracked.key, self.seqno, self.tier, self.context)?;
                }
            }
        }
        Ok(())
    }
}

/// Commits an optimistic transaction; fails with a conflict if a tracked key was written since.
///
/// Keys are checked before the queue, against memtables and tables, up to the visible sequence
/// number. The leader of the commit's group then checks what was written since
/// (`commit::recent_writes`). A transaction that writes nothing takes effect at the visible number.
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
    batch.check_timestamps()?;
    let mode = commit.check_write(batch, options)?;
    // Read before the memtables, which then have every entry up to it.
    let seqno = commit.visibility.seqno();
    let mut families = KeyFamilies {
        live: &commit.families,
        held: Vec::new(),
    };
    let mut keys = Vec::new();
    for tracked in tracker.iter() {
        let index = families.index_of(tracked.cf)?;
        let since = tracked.since.unwrap_or(seqno);
        if since < seqno {
            let family = &families.held[index];
            check_unchanged(family, &tracked.key, since, tier, &commit.context)?;
        }
        keys.push((index, tracked));
    }
    if batch.records().is_empty() {
        return Ok(seqno);
    }
    let check = Validated {
        context: &commit.context,
        tier,
        seqno,
        families: families.held,
        keys,
    };
    let written = commit
        .queue
        .write_checked(commit, batch.records(), batch.count(), mode, &check);
    if written.is_err() {
        commit.health.report_failures();
    }
    written
}
