//! Scripts for scans: entries of a column family, movements, and the positions reached.
//!
//! ```text
//! entries                         the entries of the following scans: `a#5,SET = one`
//!
//! scan [at=100] [lower=a] [after=a] [upper=c] [until=c] [prefix=1] [merge] [nocase] [skips=8] [skippable=3]
//!      [work]
//! first, last, next, prev, seek KEY, seek_for_prev KEY, all, back
//! ```
//!
//! `lower` and `until` are inclusive bounds, `after` and `upper` exclusive ones. With `prefix` the
//! scan stays in the prefix of that length. `skips` versions of a key are stepped over before a seek,
//! and a movement may skip `skippable` entries. With `work` each line has the steps and seeks of the
//! cursor below. `all` and `back` list all positions. `REWRITE=1` writes the actual output.

use std::cmp::Ordering;
use std::sync::LazyLock;

use datadriven::TestCase;
use koeldb_base::Comparator;
use koeldb_base::merge_operator::{MergeOperator, StringAppend};
use koeldb_base::prefix::FixedPrefix;
use koeldb_base::range_del::{FragmentedTombstones, RunTombstones};

use super::*;

#[path = "../../../../koeldb-lsm/tests/it/entries.rs"]
mod entries;

use entries::Entries;

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

impl RunsCursor for Entries {
    fn run(&self) -> usize {
        0
    }

    fn skip_in_run(&mut self, target: &[u8]) -> Result<(), Fault<Self::Suspend>> {
        self.seek(target)
    }
}

fn bound(case: &mut TestCase, included: &str, excluded: &str) -> Bound<Vec<u8>> {
    let mut key = |name| case.try_take_arg::<String>(name).unwrap();
    match (key(included), key(excluded)) {
        (Some(key), _) => Bound::Included(key.into_bytes()),
        (None, Some(key)) => Bound::Excluded(key.into_bytes()),
        (None, None) => Bound::Unbounded,
    }
}

fn begin(case: &mut TestCase, text: &str) -> Scan<'static, Entries> {
    let order = match case.take_flag("nocase").unwrap() {
        true => KeyOrder::new(IgnoresCase),
        false => KeyOrder::Bytewise,
    };
    let (entries, tombstones) = entries::entries(text, &order);
    let list = Arc::new(FragmentedTombstones::new(&order, &tombstones));
    let seqno = case.try_take_arg("at").unwrap().unwrap_or(100);
    let mut tombstones = ScanTombstones::new(&order, seqno);
    tombstones.extend(RunTombstones::new([list]).map(|own| (own, 1)));
    let is_merging = case.take_flag("merge").unwrap();
    let prefix_bytes: Option<usize> = case.try_take_arg("prefix").unwrap();
    static APPEND: LazyLock<StringAppend> = LazyLock::new(StringAppend::default);
    let operator = is_merging.then(|| &*APPEND as &dyn MergeOperator);
    let extractor =
        |bytes| -> &'static dyn PrefixExtractor { Box::leak(Box::new(FixedPrefix::new(bytes))) };
    let view = ScanContext {
        has_versions: false,
        seqno,
        merger: Merger::new(operator, "default"),
        blobs: None,
        leaves_values: false,
        tombstones,
        prefix_extractor: prefix_bytes.map(extractor),
        skips_before_seek: case.try_take_arg("skips").unwrap().unwrap_or(8),
        skippable_max: case.try_take_arg("skippable").unwrap().unwrap_or(u64::MAX),
        statistics: None,
        deleted_ranges: None,
        order,
    };
    let bounds = KeyBounds {
        lower: bound(case, "lower", "after"),
        upper: bound(case, "until", "upper"),
    };
    let inner = Entries::new(&view.order, entries);
    Scan::new(inner, view, bounds, Arc::default())
}

/// The position of a scan after a movement.
fn position(scan: &Scan<'_, Entries>, moved: Step<Entries>) -> String {
    match moved {
        Err(Fault::Error(error)) => format!("error: {error}"),
        Err(Fault::Suspend(never)) => match never {},
        Ok(()) if scan.valid() => {
            let (key, value) = (scan.key().escape_ascii(), scan.value().escape_ascii());
            assert_eq!(scan.pinned_value().as_slice(), scan.value());
            format!("{key} = {value}")
        }
        Ok(()) => "end".to_owned(),
    }
}

fn move_by(scan: &mut Scan<'_, Entries>, movement: &str) -> Step<Entries> {
    match movement.split_once(' ').unwrap_or((movement, "")) {
        ("first", "") => scan.seek_to_first(),
        ("last", "") => scan.seek_to_last(),
        ("next", "") => scan.next(),
        ("prev", "") => scan.prev(),
        ("seek", key) => scan.seek(key.as_bytes()),
        ("seek_for_prev", key) => scan.seek_for_prev(key.as_bytes()),
        _ => panic!("no movement {movement:?}"),
    }
}

fn scan(case: &mut TestCase, text: &str) -> String {
    let mut scan = begin(case, text);
    let shows_work = case.take_flag("work").unwrap();
    case.expect_empty().unwrap();
    let mut lines = String::new();
    let mut step = |movement: &str| {
        (scan.inner.steps, scan.inner.seeks) = (0, 0);
        let moved = move_by(&mut scan, movement);
        lines += &position(&scan, moved);
        if shows_work {
            let Entries { steps, seeks, .. } = &scan.inner;
            lines += &format!(" ({steps} steps, {seeks} seeks)");
        }
        lines.push('\n');
        scan.valid()
    };
    for line in case.input.lines() {
        let (begin, further) = match line {
            "all" => ("first", "next"),
            "back" => ("last", "prev"),
            _ => {
                step(line);
                continue;
            }
        };
        let mut is_valid = step(begin);
        while is_valid {
            is_valid = step(further);
        }
    }
    lines
}

#[test]
fn scans_reach_the_positions_of_the_scripts() {
    datadriven::walk("tests/data/scan", |file| {
        let mut text = String::new();
        file.run(|case| match case.directive.as_str() {
            "entries" => {
                case.expect_empty().unwrap();
                text.clone_from(&case.input);
                String::new()
            }
            "scan" => scan(case, &text),
            other => panic!("no command {other:?}"),
        });
    });
}
