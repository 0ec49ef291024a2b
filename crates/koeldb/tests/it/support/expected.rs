//! The expected contents of a database, and a check of it.

use std::collections::BTreeMap;
use std::path::Path;

use koeldb::{ColumnFamily, Db};

/// The entries of one column family, in bytewise key order.
pub(crate) type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// The contents of all column families by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) families: BTreeMap<String, Entries>,
    /// Column families with reversed key order.
    pub(crate) reversed: Vec<String>,
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes();
    assert!(digits.len().is_multiple_of(2), "{text}");
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .unwrap_or_else(|| panic!("{text}"))
    };
    digits
        .chunks_exact(2)
        .map(|pair| u8::try_from(digit(pair[0]) * 16 + digit(pair[1])).unwrap())
        .collect()
}

impl Expected {
    /// Reads lines of column family, key and value, the last two in hexadecimal.
    pub(crate) fn read(file: &Path) -> Self {
        let text = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut expected = Expected::default();
        for line in text.lines() {
            expected.add_line(line);
        }
        expected
    }

    /// Adds a line `family <tab> key <tab> value`.
    pub(crate) fn add_line(&mut self, line: &str) {
        let mut words = line.split('\t');
        let (Some(family), Some(key), Some(value), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            panic!("a line of three words, not {line:?}");
        };
        self.family(family).insert(unhex(key), unhex(value));
    }

    pub(crate) fn with_reversed(mut self, families: &[&str]) -> Self {
        self.reversed = families.iter().map(|&name| name.to_owned()).collect();
        self
    }

    pub(crate) fn family(&mut self, name: &str) -> &mut Entries {
        self.families.entry(name.to_owned()).or_default()
    }

    /// Returns the entries of a column family in its order.
    pub(crate) fn in_order(&self, family: &str) -> Vec<(&[u8], &[u8])> {
        let entries = self.families.get(family).into_iter().flatten();
        let mut ordered: Vec<_> = entries
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .collect();
        if self.reversed.iter().any(|name| name == family) {
            ordered.reverse();
        }
        ordered
    }

    /// Checks every column family by scans from both ends, single reads and batches of reads.
    pub(crate) fn check(&self, db: &Db, what: &str) {
        let names: Vec<String> = db
            .cf_handles()
            .iter()
            .map(|family| family.name().to_owned())
            .collect();
        for name in self.families.keys() {
            assert!(
                names.contains(name),
                "{what}: no family {name} among {names:?}"
            );
        }
        for family in db.cf_handles() {
            self.check_family(&family, what);
        }
    }

    fn check_family(&self, family: &ColumnFamily, what: &str) {
        let what = format!("{what}, family {}", family.name());
        let wanted = self.in_order(family.name());

        let forward = family.range(..).map(Result::unwrap);
        assert_same(&what, "forward", forward, wanted.iter().copied());
        let backward = family.range(..).rev().map(Result::unwrap);
        assert_same(&what, "backward", backward, wanted.iter().rev().copied());

        let entries = self.families.get(family.name());
        let mut absent = Vec::new();
        for (key, value) in &wanted {
            let found = family.get(key).unwrap();
            assert_eq!(
                found.as_deref(),
                Some(*value),
                "{what}: get {}",
                key.escape_ascii()
            );
            let mut other = key.to_vec();
            other.push(0);
            if entries.is_none_or(|entries| !entries.contains_key(&other)) {
                absent.push(other);
            }
        }
        for key in &absent {
            assert!(
                family.get(key).unwrap().is_none(),
                "{what}: {} nobody wrote",
                key.escape_ascii()
            );
        }

        let keys: Vec<&[u8]> = wanted.iter().map(|(key, _)| *key).collect();
        for (batch, expected) in keys.chunks(64).zip(wanted.chunks(64)) {
            let answers = family.multi_get(batch);
            assert_eq!(answers.len(), batch.len());
            for (answer, (key, value)) in answers.iter().zip(expected) {
                assert_eq!(
                    answer.unwrap(),
                    Some(*value),
                    "{what}: multi_get {}",
                    key.escape_ascii()
                );
            }
        }
        for batch in absent.chunks(64) {
            assert!(
                family
                    .multi_get(batch)
                    .iter()
                    .all(|answer| answer.unwrap().is_none()),
                "{what}"
            );
        }
    }
}

fn assert_same<'a, K: AsRef<[u8]>>(
    what: &str,
    direction: &str,
    found: impl Iterator<Item = (K, K)>,
    wanted: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) {
    let mut wanted = wanted.enumerate();
    for (key, value) in found {
        let (key, value) = (key.as_ref(), value.as_ref());
        let Some((index, (wanted_key, wanted_value))) = wanted.next() else {
            panic!(
                "{what}: the {direction} scan goes on with {}",
                key.escape_ascii()
            );
        };
        assert!(
            key == wanted_key && value == wanted_value,
            "{what}: entry {index} of the {direction} scan is {} = {}, not {} = {}",
            key.escape_ascii(),
            value.escape_ascii(),
            wanted_key.escape_ascii(),
            wanted_value.escape_ascii()
        );
    }
    if let Some((index, (key, _))) = wanted.next() {
        panic!(
            "{what}: the {direction} scan ends after {index} entries, before {}",
            key.escape_ascii()
        );
    }
}
