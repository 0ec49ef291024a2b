//! Decides which contents are legal after a crash.
//!
//! A [`History`] records every batch before it is written and its result afterwards; likewise the
//! creation and drop of families. From that follows at any moment which batches are *owed*: those
//! that must be present. A crash image is judged against the [`Bounds`] of its moment: the content
//! must be that of the batches up to some point in commit order, not before the last owed one and
//! not after the last one begun. Batches whose write failed midway may be present or not, as a
//! whole.
//!
//! Batches written without the log have a separate order in each family. Their keys begin with
//! [`UNLOGGED_PREFIX`], and those of other batches do not.
//!
//! One thread writes; any number may read bounds.

mod judge;

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{Change, Content, Entries};
use judge::{judge_unlogged, match_families, split_unlogged};

/// The first byte of keys written without the log.
pub const UNLOGGED_PREFIX: u8 = b'u';

/// A family, by the order of creation; names may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyId(usize);

/// The default family, which every database has.
pub const DEFAULT_FAMILY: FamilyId = FamilyId(0);

/// The kind of crash that ended the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process died: batches passed to the operating system are owed.
    Process,
    /// The machine stopped: synced batches are owed.
    Power,
}

/// The contents that count as legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Legality {
    /// All batches up to a point in commit order.
    Prefix,
    /// [`Legality::Prefix`] without batches whose write failed: the view of the handle that
    /// reported the failures.
    Visible,
    /// [`Legality::Prefix`] except that the first keys may be missing: for families that drop their
    /// oldest tables.
    ///
    /// Keys must ascend and be written once.
    OldestDropped,
    /// Any batches that include the owed ones, each wholly present or absent. Keys must be written
    /// once.
    WholeBatches,
}

/// The known result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Begun,
    Acknowledged,
    Indeterminate,
    NotApplied,
}

#[derive(Clone, Debug)]
struct Batch {
    changes: Vec<(FamilyId, Change)>,
    status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Life {
    CreateBegun,
    Created,
    DropBegun,
    Dropped,
}

#[derive(Clone, Debug)]
struct ColumnFamilyModel {
    name: String,
    life: Life,
    /// The changes written to it without the log, in order.
    unlogged: Vec<Change>,
    unlogged_begun: usize,
    unlogged_acknowledged: usize,
    unlogged_owed: usize,
}

impl ColumnFamilyModel {
    fn new(name: &str, life: Life) -> Self {
        ColumnFamilyModel {
            name: name.to_owned(),
            life,
            unlogged: Vec::new(),
            unlogged_begun: 0,
            unlogged_acknowledged: 0,
            unlogged_owed: 0,
        }
    }
}

#[derive(Debug)]
struct OracleState {
    batches: Vec<Batch>,
    families: Vec<ColumnFamilyModel>,
    /// Batches below this are acknowledged, except failed ones.
    acknowledged: usize,
    /// Batches below this were passed to the operating system.
    handed: usize,
    /// Batches below this are durable.
    durable: usize,
}

/// The requests to a database and their results.
#[derive(Debug)]
pub struct History {
    state: Mutex<OracleState>,
}

/// The owed and possible changes of a family.
#[derive(Clone, Copy, Debug)]
struct FamilyBounds {
    must_exist: bool,
    may_exist: bool,
    unlogged_owed: usize,
    unlogged_begun: usize,
}

/// The owed and possible changes at a moment.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Batches below this must be present.
    pub owed: usize,
    /// Batches from this on cannot be present.
    pub begun: usize,
    families: Vec<FamilyBounds>,
}

/// The changes acknowledged at a moment: a call that begins then has to make no others durable.
#[derive(Clone, Debug)]
pub struct Mark {
    acknowledged: usize,
    unlogged: Vec<usize>,
}

/// The first half of [`Bounds`]: the owed changes before the image was taken.
#[derive(Clone, Debug)]
pub struct Owed {
    owed: usize,
    lives: Vec<Life>,
    unlogged: Vec<usize>,
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl History {
    /// Creates the history of a new database with its default family.
    #[must_use]
    pub fn new() -> Self {
        History {
            state: Mutex::new(OracleState {
                batches: Vec::new(),
                families: vec![ColumnFamilyModel::new("default", Life::Created)],
                acknowledged: 0,
                handed: 0,
                durable: 0,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, OracleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a family is about to be created.
    pub fn begin_create(&self, name: &str) -> FamilyId {
        let mut state = self.state();
        state
            .families
            .push(ColumnFamilyModel::new(name, Life::CreateBegun));
        FamilyId(state.families.len() - 1)
    }

    /// Records that a family was created.
    pub fn created(&self, family: FamilyId) {
        self.state().families[family.0].life = Life::Created;
    }

    /// Records that a family is about to be dropped.
    pub fn begin_drop(&self, family: FamilyId) {
        self.state().families[family.0].life = Life::DropBegun;
    }

    /// Records that a family was dropped.
    pub fn dropped(&self, family: FamilyId) {
        self.state().families[family.0].life = Life::Dropped;
    }

    /// Records that a batch is about to be written; returns its number.
    pub fn begin(&self, changes: Vec<(FamilyId, Change)>) -> usize {
        let mut state = self.state();
        state.batches.push(Batch {
            changes,
            status: Status::Begun,
        });
        state.batches.len() - 1
    }

    /// Records that a batch was acknowledged.
    ///
    /// `handed` says that the operating system has it, `synced` that it and all before it are
    /// durable.
    pub fn acknowledge(&self, batch: usize, handed: bool, synced: bool) {
        let mut state = self.state();
        state.batches[batch].status = Status::Acknowledged;
        state.acknowledged = state.acknowledged.max(batch + 1);
        if handed || synced {
            state.handed = state.handed.max(batch + 1);
        }
        if synced {
            state.durable = state.durable.max(batch + 1);
        }
    }

    /// Records that the batch was refused: it must never be visible.
    pub fn not_applied(&self, batch: usize) {
        self.state().batches[batch].status = Status::NotApplied;
    }

    /// Records that the batch failed midway: it may be visible after the next open, as a whole.
    pub fn indeterminate(&self, batch: usize) {
        self.state().batches[batch].status = Status::Indeterminate;
    }

    /// The changes acknowledged so far.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let state = self.state();
        let families = state.families.iter();
        Mark {
            acknowledged: state.acknowledged,
            unlogged: families
                .map(|family| family.unlogged_acknowledged)
                .collect(),
        }
    }

    /// Records that all acknowledged batches were passed to the operating system.
    pub fn all_handed(&self) {
        self.handed_at(&self.mark());
    }

    /// Records that all batches acknowledged at `mark` were passed to the operating system.
    pub fn handed_at(&self, mark: &Mark) {
        let mut state = self.state();
        state.handed = state.handed.max(mark.acknowledged);
    }

    /// Records that all batches acknowledged through the log are durable.
    pub fn all_durable(&self) {
        self.durable_at(&self.mark());
    }

    /// Records that all batches acknowledged at `mark` through the log are durable.
    pub fn durable_at(&self, mark: &Mark) {
        self.handed_at(mark);
        let mut state = self.state();
        state.durable = state.durable.max(mark.acknowledged);
    }

    /// Records that changes to one family are about to be written without the log.
    pub fn begin_unlogged(&self, family: FamilyId, changes: Vec<Change>) {
        let mut state = self.state();
        let family = &mut state.families[family.0];
        family.unlogged.extend(changes);
        family.unlogged_begun = family.unlogged.len();
    }

    /// Records that the pending unlogged changes of this family were refused.
    pub fn not_applied_unlogged(&self, family: FamilyId) {
        let mut state = self.state();
        let family = &mut state.families[family.0];
        family.unlogged.truncate(family.unlogged_acknowledged);
        family.unlogged_begun = family.unlogged.len();
    }

    /// Records that the pending unlogged changes of this family were acknowledged.
    pub fn acknowledge_unlogged(&self, family: FamilyId) {
        let mut state = self.state();
        let family = &mut state.families[family.0];
        family.unlogged_acknowledged = family.unlogged_begun;
    }

    /// Records that all acknowledged changes of these families are in tables.
    pub fn flushed(&self, families: &[FamilyId]) {
        self.flushed_at(&self.mark(), families);
    }

    /// Records that all changes of these families acknowledged at `mark` are in tables.
    pub fn flushed_at(&self, mark: &Mark, families: &[FamilyId]) {
        let mut state = self.state();
        for family in families {
            let unlogged = mark.unlogged.get(family.0).copied().unwrap_or(0);
            let family = &mut state.families[family.0];
            family.unlogged_owed = family.unlogged_owed.max(unlogged);
        }
        // If a batch of theirs is owed, everything before it is: there are no holes.
        let last = state.batches[..mark.acknowledged]
            .iter()
            .rposition(|batch| {
                batch.status == Status::Acknowledged
                    && batch
                        .changes
                        .iter()
                        .any(|(family, _)| families.contains(family))
            });
        let end = last.map_or(0, |last| last + 1);
        state.durable = state.durable.max(end);
        state.handed = state.handed.max(end);
    }

    /// The number of batches begun.
    #[must_use]
    pub fn batch_count(&self) -> usize {
        self.state().batches.len()
    }

    /// The number of batches acknowledged.
    #[must_use]
    pub fn acknowledged_count(&self) -> usize {
        let state = self.state();
        state
            .batches
            .iter()
            .filter(|batch| batch.status == Status::Acknowledged)
            .count()
    }

    /// The changes owed now, to be read before an image is taken.
    #[must_use]
    pub fn owed(&self, crash: Crash) -> Owed {
        let state = self.state();
        Owed {
            owed: match crash {
                Crash::Process => state.handed,
                Crash::Power => state.durable,
            },
            lives: state.families.iter().map(|family| family.life).collect(),
            unlogged: state
                .families
                .iter()
                .map(|family| family.unlogged_owed)
                .collect(),
        }
    }

    /// The bounds of an image, to be computed after it was taken, from the changes owed before.
    #[must_use]
    pub fn bounds(&self, owed: &Owed) -> Bounds {
        let state = self.state();
        let families = state.families.iter().enumerate().map(|(index, family)| {
            let life_before = owed.lives.get(index).copied();
            FamilyBounds {
                must_exist: life_before >= Some(Life::Created) && family.life <= Life::Created,
                may_exist: life_before != Some(Life::Dropped),
                unlogged_owed: owed.unlogged.get(index).copied().unwrap_or(0),
                unlogged_begun: family.unlogged_begun,
            }
        });
        Bounds {
            owed: owed.owed,
            begun: state.batches.len(),
            families: families.collect(),
        }
    }

    /// The bounds of a database that was not interrupted: all acknowledged changes are owed.
    #[must_use]
    pub fn bounds_of_all(&self) -> Bounds {
        self.bounds(&self.visible())
    }

    /// The changes that a read beginning now must return.
    #[must_use]
    pub fn visible(&self) -> Owed {
        let mut owed = self.owed(Crash::Process);
        let Mark {
            acknowledged,
            unlogged,
        } = self.mark();
        owed.owed = acknowledged;
        owed.unlogged = unlogged;
        owed
    }

    /// Continues after a crash: forgets changes that were not owed and are absent. An indeterminate
    /// batch is acknowledged if it is present.
    ///
    /// # Errors
    /// See [`History::judge`].
    pub fn settle(&self, content: &Content, crash: Crash) -> Result<(), String> {
        let bounds = self.bounds(&self.owed(crash));
        let (there, absent) = self.judge_all(content, &bounds, Legality::Prefix)?;
        let mut state = self.state();
        for (number, batch) in state.batches.iter_mut().enumerate() {
            if number >= there || absent.contains(&number) {
                batch.status = Status::NotApplied;
            } else if batch.status == Status::Indeterminate {
                batch.status = Status::Acknowledged;
            }
        }
        let found = match_families(&state, content, &bounds)?;
        let found: Vec<(FamilyId, Entries)> = found
            .into_iter()
            .map(|(family, entries)| (family, split_unlogged(entries).0))
            .collect();
        for (id, unlogged) in found {
            let there = judge_unlogged(&state.families[id.0], &unlogged, &bounds.families[id.0])?;
            let family = &mut state.families[id.0];
            family.unlogged.truncate(there);
            family.unlogged_begun = there;
            family.unlogged_acknowledged = there;
            family.unlogged_owed = there;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
