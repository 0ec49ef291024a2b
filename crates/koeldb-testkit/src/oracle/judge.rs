//! The judgement of a content: whether it is legal, and how it differs from the nearest legal one.

use std::collections::BTreeMap;

use super::{
    Bounds, ColumnFamilyModel, FamilyBounds, FamilyId, History, Legality, OracleState, Status,
    UNLOGGED_PREFIX,
};
use crate::model::{Change, Content, Entries, describe_differences, difference_count};

impl History {
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
    pub(super) fn judge_all(
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
pub(super) fn match_families<'c>(
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
pub(super) fn split_unlogged(entries: &Entries) -> (Entries, Entries) {
    let entries = entries
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()));
    entries.partition(|(key, _)| key.first() == Some(&UNLOGGED_PREFIX))
}

/// The number of unlogged changes present.
pub(super) fn judge_unlogged(
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
