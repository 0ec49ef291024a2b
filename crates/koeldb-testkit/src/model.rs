//! The content of a database as a plain map, and the effects of operations.

use std::collections::BTreeMap;

/// The entries of a column family.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// The entries of all column families, by name.
pub type Content = BTreeMap<String, Entries>;

/// One operation of a batch. Merging appends with a comma as delimiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Gives a key a value.
    Put(Vec<u8>, Vec<u8>),
    /// Deletes a key.
    Delete(Vec<u8>),
    /// Deletes a key that was put once.
    SingleDelete(Vec<u8>),
    /// Deletes the keys from the first to the second, exclusive.
    DeleteRange(Vec<u8>, Vec<u8>),
    /// Appends to the value of a key.
    Merge(Vec<u8>, Vec<u8>),
}

impl Change {
    /// Applies the change.
    pub fn apply(&self, entries: &mut Entries) {
        match self {
            Change::Put(key, value) => {
                entries.insert(key.clone(), value.clone());
            }
            Change::Delete(key) | Change::SingleDelete(key) => {
                entries.remove(key);
            }
            Change::DeleteRange(from, to) => {
                if from < to {
                    let covered: Vec<Vec<u8>> = entries
                        .range(from.clone()..to.clone())
                        .map(|(key, _)| key.clone())
                        .collect();
                    for key in covered {
                        entries.remove(&key);
                    }
                }
            }
            Change::Merge(key, operand) => match entries.get_mut(key) {
                Some(value) => {
                    value.push(b',');
                    value.extend_from_slice(operand);
                }
                None => {
                    entries.insert(key.clone(), operand.clone());
                }
            },
        }
    }
}

/// The number of entries that differ between two maps.
#[must_use]
pub fn difference_count(found: &Entries, expected: &Entries) -> usize {
    let wrong = found
        .iter()
        .filter(|(key, value)| expected.get(*key) != Some(value))
        .count();
    let missing = expected
        .keys()
        .filter(|key| !found.contains_key(*key))
        .count();
    wrong + missing
}

/// Formats the first differences between two maps.
#[must_use]
pub fn describe_differences(found: &Entries, expected: &Entries) -> String {
    let short = |value: Option<&Vec<u8>>| match value {
        Some(value) => {
            let cut = value.get(..value.len().min(40)).unwrap_or_default();
            format!("{} ({} bytes)", cut.escape_ascii(), value.len())
        }
        None => "nothing".to_owned(),
    };
    let mut keys: Vec<&Vec<u8>> = found.keys().chain(expected.keys()).collect();
    keys.sort();
    keys.dedup();
    let lines: Vec<String> = keys
        .into_iter()
        .filter(|key| found.get(*key) != expected.get(*key))
        .take(4)
        .map(|key| {
            format!(
                "{}: found {}, expected {}",
                key.escape_ascii(),
                short(found.get(key)),
                short(expected.get(key))
            )
        })
        .collect();
    lines.join("; ")
}
