//! Scripts for the compaction cursor: input entries and tombstones, and the entries that it keeps.
//!
//! ```text
//! compact [snapshots=(3,5)] [conflicts=3] [bottommost] [below=(a,c)] [merge] [merge-fails]
//!         [remove=(x,y)] [change=(x,y)] [nocase]
//! a#5,SET = one
//! a#3,DEL
//! b-d#4,RANGEDEL
//! ----
//! ```
//!
//! `conflicts` is the oldest snapshot of a transaction. `below` names user keys that may exist
//! below the output; `merge` joins operands with commas; `merge-fails` does without their base
//! only, unless one is `apart`; a compaction filter removes the values in `remove` and replaces
//! those in `change`. With `nocase` the comparator ignores the case of letters. Values may have
//! escapes like `\x01`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use datadriven::TestCase;
use koeldb_base::error::BoxError;
use koeldb_base::key::InternalKey;
use koeldb_base::merge_operator::{MergeOperands, MergeOperator, Merger, StringAppend};
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{Comparator, KeyOrder};
use koeldb_lsm::job::{
    CompactionCursor, CompactionFilter, CompactionRules, Decision, LiveSnapshots,
};
use koeldb_lsm::text::KeyText;

use crate::entries::{self, Entries};

#[derive(Default)]
struct Filter {
    remove: Vec<String>,
    change: Vec<String>,
}

impl CompactionFilter for Filter {
    fn filter(&mut self, _level: u32, _key: &[u8], value: &[u8]) -> Decision {
        let is_in = |values: &[String]| values.iter().any(|listed| listed.as_bytes() == value);
        if is_in(&self.remove) {
            Decision::Remove
        } else if is_in(&self.change) {
            Decision::Change(b"changed".to_vec())
        } else {
            Decision::Keep
        }
    }
}

/// Joins operands, and fails to merge them with a base.
struct Fails;

impl MergeOperator for Fails {
    fn name(&self) -> &str {
        "Fails"
    }

    fn full_merge(
        &self,
        _: &[u8],
        _: Option<&[u8]>,
        _: MergeOperands<'_>,
        _: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        Err("deliberate".into())
    }

    fn partial_merge(
        &self,
        key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        if operands.iter().any(|operand| operand == b"apart") {
            return Err("deliberate".into());
        }
        StringAppend::default().partial_merge(key, operands, result)
    }
}

/// Orders keys bytewise, in lower case.
struct IgnoresCase;

impl Comparator for IgnoresCase {
    fn name(&self) -> &str {
        "IgnoresCase"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

fn compact(case: &mut TestCase) -> String {
    let order = match case.take_flag("nocase").unwrap() {
        true => KeyOrder::new(IgnoresCase),
        false => KeyOrder::Bytewise,
    };
    let (entries, tombstones) = entries::entries(&case.input, &order);
    let texts = |case: &mut TestCase, name: &str| -> Vec<String> {
        case.try_take_args(name).unwrap().unwrap_or_default()
    };
    let below: BTreeSet<String> = texts(case, "below").into_iter().collect();
    let filter = Filter {
        remove: texts(case, "remove"),
        change: texts(case, "change"),
    };
    let (append, fails) = (StringAppend::default(), Fails);
    let operator = match (case.take_flag("merge"), case.take_flag("merge-fails")) {
        (Ok(true), _) => Some(&append as &dyn MergeOperator),
        (_, Ok(true)) => Some(&fails as &dyn MergeOperator),
        _ => None,
    };
    let bottommost = case.take_flag("bottommost").unwrap();
    let rules = CompactionRules {
        order: order.clone(),
        snapshots: LiveSnapshots {
            all: case.try_take_args("snapshots").unwrap().unwrap_or_default(),
            oldest_conflict: case.try_take_arg("conflicts").unwrap(),
        },
        tombstones: (!tombstones.is_empty())
            .then(|| FragmentedTombstones::new(&order, &tombstones)),
        bottommost,
        history_low: None,
        start_level: 5,
        merger: Merger::new(operator, "default"),
        filter: Some(Box::new(filter)),
        exists_below: Box::new(|key| {
            let mut keys = below.iter();
            keys.any(|known| order.compare(known.as_bytes(), key).is_eq())
        }),
    };
    case.expect_empty().unwrap();
    let mut cursor = CompactionCursor::new(Entries::new(&order, entries), rules).unwrap();
    let mut text = String::new();
    loop {
        match cursor.advance() {
            Ok(false) => break,
            Err(error) => {
                text += &format!("error: {error}\n");
                return text;
            }
            Ok(true) => {
                let kind = InternalKey::parse(cursor.key()).unwrap().value_type;
                let value = match kind.is_deletion() {
                    true => String::new(),
                    false => format!(" = {}", cursor.value().escape_ascii()),
                };
                text += &format!("{}{value}\n", KeyText(cursor.key()));
            }
        }
    }
    let drops = cursor.drops();
    for (name, count) in [
        ("hidden", drops.hidden),
        ("obsolete", drops.obsolete),
        ("range deleted", drops.range_deleted),
        ("filtered", drops.filtered),
    ] {
        if count > 0 {
            text += &format!("dropped: {count} {name}\n");
        }
    }
    if text.is_empty() {
        text.push_str("nothing\n");
    }
    text
}

#[test]
fn the_compaction_cursor_keeps_what_the_scripts_say() {
    datadriven::walk("tests/data/compact", |file| {
        file.run(|case| match case.directive.as_str() {
            "compact" => compact(case),
            other => panic!("no command {other:?}"),
        });
    });
}
