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

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{Change, Content, Entries, describe_differences, difference_count};

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

    /// Judges a content: returns the number of batches present.
    ///
    /// # Errors
    /// A description of the difference to the nearest legal content.
    pub fn judge(
        &self,
        content: &Content,
        bounds: &Bounds,
        legality: Legality,
    ) -> Result<usize, String> {
        let (there, _) = self.judge_all(content, bounds, legality)?;
        Ok(there)
    }

    /// Returns the number of batches present, and the indeterminate ones among them that are not.
    fn judge_all(
        &self,
        content: &Content,
        bounds: &Bounds,
        legality: Legality,
    ) -> Result<(usize, Vec<usize>), String> {
        let state = self.state();
        let found = match_families(&state, content, bounds)?;
        let mut logged: BTreeMap<FamilyId, Entries> = BTreeMap::new();
        for (&family, &entries) in &found {
            let (unlogged, own) = split_unlogged(entries);
            judge_unlogged(
                &state.families[family.0],
                &unlogged,
                &bounds.families[family.0],
            )?;
            logged.insert(family, own);
        }
        match legality {
            Legality::WholeBatches => {
                judge_whole_batches(&state, &logged, bounds).map(|there| (there, Vec::new()))
            }
            _ => judge_prefix(&state, &logged, bounds, legality),
        }
    }
}

/// The family of each name in the content.
fn match_families<'c>(
    state: &OracleState,
    content: &'c Content,
    bounds: &Bounds,
) -> Result<BTreeMap<FamilyId, &'c Entries>, String> {
    let mut found = BTreeMap::new();
    for (name, entries) in content {
        let known = bounds.families.iter().zip(&state.families);
        let index = known
            .enumerate()
            .filter(|(_, (bounds, family))| bounds.may_exist && family.name == *name)
            .map(|(index, _)| index)
            .next_back();
        let index = index.ok_or_else(|| format!("family {name:?} should not exist"))?;
        found.insert(FamilyId(index), entries);
    }
    for (index, family) in bounds.families.iter().enumerate() {
        if family.must_exist && !found.contains_key(&FamilyId(index)) {
            return Err(format!(
                "family {:?} is missing",
                state.families[index].name
            ));
        }
    }
    Ok(found)
}

/// Splits entries into those written without the log and the others.
fn split_unlogged(entries: &Entries) -> (Entries, Entries) {
    let entries = entries
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()));
    entries.partition(|(key, _)| key.first() == Some(&UNLOGGED_PREFIX))
}

/// The number of unlogged changes present.
fn judge_unlogged(
    family: &ColumnFamilyModel,
    found: &Entries,
    bounds: &FamilyBounds,
) -> Result<usize, String> {
    let mut expected = Entries::new();
    let mut nearest: Option<(usize, String)> = None;
    for (count, change) in (0..).zip(family.unlogged.iter().map(Some).chain([None])) {
        if count >= bounds.unlogged_owed && count <= bounds.unlogged_begun {
            let differences = difference_count(found, &expected);
            if differences == 0 {
                return Ok(count);
            }
            if nearest
                .as_ref()
                .is_none_or(|(least, _)| differences < *least)
            {
                nearest = Some((differences, describe_differences(found, &expected)));
            }
        }
        if let Some(change) = change {
            change.apply(&mut expected);
        }
    }
    Err(format!(
        "family {:?}: what was written without the log is no prefix of {}..={} changes: {}",
        family.name,
        bounds.unlogged_owed,
        bounds.unlogged_begun,
        nearest.map_or_else(String::new, |(_, text)| text)
    ))
}

/// A content that indeterminate batches may have left.
#[derive(Clone)]
struct Alternative {
    entries: BTreeMap<FamilyId, Entries>,
    /// Indeterminate batches that it lacks.
    absent: Vec<usize>,
}

/// The limit of alternative contents that are distinguished when writes failed midway: ten such
/// writes. Beyond it they count as present, which may be a false alarm.
const ALTERNATIVES_MAX: usize = 1024;

fn judge_prefix(
    state: &OracleState,
    found: &BTreeMap<FamilyId, Entries>,
    bounds: &Bounds,
    legality: Legality,
) -> Result<(usize, Vec<usize>), String> {
    let families = found.keys();
    let mut alternatives = vec![Alternative {
        entries: families.map(|&family| (family, Entries::new())).collect(),
        absent: Vec::new(),
    }];
    let mut nearest: Option<(usize, String)> = None;
    for count in 0..=bounds.begun {
        if count >= bounds.owed {
            for Alternative {
                entries: expected,
                absent,
            } in &alternatives
            {
                let differences: usize = found
                    .iter()
                    .map(|(family, entries)| {
                        differences_under(legality, entries, &expected[family])
                    })
                    .sum();
                if differences == 0 {
                    return Ok((count, absent.clone()));
                }
                if nearest
                    .as_ref()
                    .is_none_or(|(least, _)| differences < *least)
                {
                    let text = describe(state, found, expected);
                    nearest = Some((differences, format!("{count} batches: {text}")));
                }
            }
        }
        let Some(batch) = state.batches.get(count) else {
            break;
        };
        let mut without = match batch.status {
            Status::NotApplied => continue,
            Status::Indeterminate if legality == Legality::Visible => continue,
            Status::Indeterminate if alternatives.len() < ALTERNATIVES_MAX => alternatives.clone(),
            _ => Vec::new(),
        };
        for alternative in &mut without {
            alternative.absent.push(count);
        }
        for expected in &mut alternatives {
            for (family, change) in &batch.changes {
                if let Some(entries) = expected.entries.get_mut(family) {
                    change.apply(entries);
                }
            }
        }
        alternatives.extend(without);
    }
    let (differences, text) = nearest.unwrap_or_default();
    Err(format!(
        "no prefix of {}..={} batches; nearest, with {differences} differences, {text}",
        bounds.owed, bounds.begun
    ))
}

fn differences_under(legality: Legality, found: &Entries, expected: &Entries) -> usize {
    if legality != Legality::OldestDropped {
        return difference_count(found, expected);
    }
    match found.first_key_value() {
        // All entries may be too old.
        None => 0,
        Some((first, _)) => {
            let kept: Entries = expected
                .range(first.clone()..)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            difference_count(found, &kept)
        }
    }
}

fn describe(
    state: &OracleState,
    found: &BTreeMap<FamilyId, Entries>,
    expected: &BTreeMap<FamilyId, Entries>,
) -> String {
    let different = found
        .iter()
        .filter(|(family, entries)| **entries != expected[family]);
    let families: Vec<String> = different
        .map(|(family, entries)| {
            let text = describe_differences(entries, &expected[family]);
            format!("family {:?}: {text}", state.families[family.0].name)
        })
        .collect();
    families.join("; ")
}

fn judge_whole_batches(
    state: &OracleState,
    found: &BTreeMap<FamilyId, Entries>,
    bounds: &Bounds,
) -> Result<usize, String> {
    let mut unexplained: BTreeMap<FamilyId, Entries> = found.clone();
    let mut present = 0;
    for (index, batch) in state.batches.iter().take(bounds.begun).enumerate() {
        let (mut there, mut absent) = (0, 0);
        for (family, change) in &batch.changes {
            let (Change::Put(key, value), Some(entries)) = (change, unexplained.get_mut(family))
            else {
                continue;
            };
            match entries.remove(key) {
                Some(found) if found == *value => there += 1,
                Some(_) => return Err(format!("batch {index}: a value nobody wrote")),
                None => absent += 1,
            }
        }
        if there > 0 && absent > 0 {
            return Err(format!(
                "batch {index}: {there} entries there and {absent} not"
            ));
        }
        if there > 0 && batch.status == Status::NotApplied {
            return Err(format!("batch {index} was refused and is there"));
        }
        if absent > 0 && index < bounds.owed && batch.status == Status::Acknowledged {
            return Err(format!(
                "batch {index} is owed (up to {}) and missing",
                bounds.owed
            ));
        }
        present += usize::from(there > 0);
    }
    match unexplained
        .values()
        .find_map(|entries| entries.keys().next())
    {
        Some(key) => Err(format!("key {} was never written", key.escape_ascii())),
        None => Ok(present),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Change {
        Change::Put(key.into(), value.into())
    }

    fn content(pairs: &[(&str, &[(&str, &str)])]) -> Content {
        pairs
            .iter()
            .map(|(name, entries)| {
                let entries = entries
                    .iter()
                    .map(|(key, value)| ((*key).into(), (*value).into()));
                ((*name).to_owned(), entries.collect())
            })
            .collect()
    }

    /// Three batches, the first durable and the second acknowledged.
    fn three_batches() -> History {
        let history = History::new();
        for number in 0..3 {
            let batch = history.begin(vec![(DEFAULT_FAMILY, put(&format!("k{number}"), "v"))]);
            if number < 2 {
                history.acknowledge(batch, true, number == 0);
            }
        }
        history
    }

    #[test]
    fn a_prefix_between_what_is_owed_and_what_was_begun_is_legal() {
        let history = three_batches();
        let power = history.bounds(&history.owed(Crash::Power));
        let process = history.bounds(&history.owed(Crash::Process));
        let judge = |pairs: &[(&str, &str)], bounds: &Bounds| {
            history.judge(&content(&[("default", pairs)]), bounds, Legality::Prefix)
        };
        assert_eq!(judge(&[("k0", "v")], &power), Ok(1));
        assert!(judge(&[("k0", "v")], &process).is_err());
        assert_eq!(
            judge(&[("k0", "v"), ("k1", "v"), ("k2", "v")], &process),
            Ok(3)
        );
        assert!(judge(&[], &power).is_err());
        assert!(
            judge(&[("k0", "v"), ("k2", "v")], &power).is_err(),
            "a hole"
        );
        assert!(
            judge(&[("k0", "w")], &power).is_err(),
            "a value nobody wrote"
        );
    }

    #[test]
    fn a_failed_batch_is_there_wholly_or_not() {
        let history = History::new();
        let other = history.begin_create("other");
        history.created(other);
        let failed = history.begin(vec![
            (DEFAULT_FAMILY, put("a", "1")),
            (other, put("a", "1")),
        ]);
        history.indeterminate(failed);
        let next = history.begin(vec![(other, put("b", "2"))]);
        history.acknowledge(next, true, true);
        let bounds = history.bounds(&history.owed(Crash::Power));
        let judge = |found: Content| history.judge(&found, &bounds, Legality::Prefix).map(|_| ());
        assert_eq!(
            judge(content(&[("default", &[]), ("other", &[("b", "2")])])),
            Ok(())
        );
        let whole = content(&[
            ("default", &[("a", "1")]),
            ("other", &[("a", "1"), ("b", "2")]),
        ]);
        assert_eq!(judge(whole), Ok(()));
        assert!(
            judge(content(&[
                ("default", &[("a", "1")]),
                ("other", &[("b", "2")])
            ]))
            .is_err()
        );
    }

    #[test]
    fn families_exist_as_long_as_they_must() {
        let history = History::new();
        let family = history.begin_create("other");
        let without = content(&[("default", &[])]);
        let with = content(&[("default", &[]), ("other", &[])]);
        let judge = |found: &Content| {
            let bounds = history.bounds(&history.owed(Crash::Power));
            history.judge(found, &bounds, Legality::Prefix).is_ok()
        };
        assert!(judge(&without) && judge(&with));
        history.created(family);
        assert!(!judge(&without) && judge(&with));
        history.begin_drop(family);
        assert!(judge(&without) && judge(&with));
        history.dropped(family);
        assert!(judge(&without) && !judge(&with));
    }

    #[test]
    fn batches_may_be_missing_only_whole() {
        let history = three_batches();
        let bounds = history.bounds(&history.owed(Crash::Power));
        let judge = |pairs: &[(&str, &str)]| {
            history.judge(
                &content(&[("default", pairs)]),
                &bounds,
                Legality::WholeBatches,
            )
        };
        assert_eq!(judge(&[("k0", "v"), ("k2", "v")]), Ok(2));
        assert!(judge(&[("k1", "v")]).is_err(), "the first is owed");
        assert!(
            judge(&[("k0", "v"), ("k9", "v")]).is_err(),
            "nobody wrote this"
        );
    }

    #[test]
    fn writes_without_log_are_a_prefix_of_their_own() {
        let history = History::new();
        history.begin_unlogged(DEFAULT_FAMILY, vec![put("u1", "v"), put("u2", "v")]);
        history.acknowledge_unlogged(DEFAULT_FAMILY);
        let judge = |pairs: &[(&str, &str)]| {
            let bounds = history.bounds(&history.owed(Crash::Power));
            let found = content(&[("default", pairs)]);
            history.judge(&found, &bounds, Legality::Prefix).is_ok()
        };
        assert!(judge(&[]) && judge(&[("u1", "v")]) && !judge(&[("u2", "v")]));
        history.flushed(&[DEFAULT_FAMILY]);
        assert!(!judge(&[]) && judge(&[("u1", "v"), ("u2", "v")]));
    }
}
