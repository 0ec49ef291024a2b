//! Scripts for output cutting: entries, tombstones and tables below, and the tables written.
//!
//! ```text
//! cut [target=BYTES] [overlap=BYTES] [snapshots=(3,5)] [bottommost]
//! below 7:[a-c] 10M               a table of the level below the output
//! a#5,SET = 1K                    an entry with a value of 1 KiB
//! b-d#4,RANGEDEL
//! ----
//! ```
//!
//! Each entry is a block of the table, which the next entry finishes; `target` counts finished
//! blocks. The output has a line for each table, its entries, and its tombstones.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datadriven::TestCase;
use koeldb_base::key::user_key;
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{Cursor, KeyOrder, SeqNo};
use koeldb_lsm::job::TableOutputs;
use koeldb_lsm::text::KeyText;
use koeldb_lsm::{FileMeta, TableOpener};
use koeldb_table::reader::TableCursorOptions;
use koeldb_table::source::BlockingSource;

use crate::{entries, parse, tables};

fn cut(case: &mut TestCase) -> String {
    let order = KeyOrder::Bytewise;
    let (below, lines): (Vec<&str>, Vec<&str>) =
        (case.input.lines()).partition(|line| line.starts_with("below "));
    let below: Vec<Arc<FileMeta>> = below
        .iter()
        .filter_map(|line| line.strip_prefix("below "))
        .map(|line| Arc::new(parse::file(line)))
        .collect();
    let (entries, tombstones) = entries::entries(&lines.join("\n"), &order);
    let tombstones =
        (!tombstones.is_empty()).then(|| FragmentedTombstones::new(&order, &tombstones));
    let snapshots: Vec<SeqNo> = case.try_take_args("snapshots").unwrap().unwrap_or_default();
    let mut bytes = |name: &str| -> u64 {
        let text = case.try_take_arg::<String>(name).unwrap();
        text.map_or(u64::MAX, |text| parse::bytes(&text))
    };
    let (target_file_bytes, max_grandparent_bytes) = (bytes("target"), bytes("overlap"));
    let bottommost = case.take_flag("bottommost").unwrap();
    case.expect_empty().unwrap();

    let fs = tables::file_system();
    let numbers = AtomicU64::new(1);
    let next_file_number = || numbers.fetch_add(1, Ordering::Relaxed);
    let mut spec = tables::output_spec(&fs, &next_file_number);
    spec.target_file_bytes = target_file_bytes;
    spec.file_bytes_max = target_file_bytes.saturating_mul(2);
    spec.max_grandparent_bytes = max_grandparent_bytes;
    spec.grandparents = &below;
    spec.snapshots = &snapshots;
    spec.bottommost = bottommost;
    let mut outputs = TableOutputs::new(spec);
    let mut last: Option<&[u8]> = None;
    for (key, value) in &entries {
        let bytes = match std::str::from_utf8(value).unwrap() {
            "" => 0,
            text => usize::try_from(parse::bytes(text)).unwrap(),
        };
        let value = vec![b'v'; bytes];
        let starts_key = last != Some(user_key(key));
        last = Some(user_key(key));
        let added = outputs.add(key, &value, starts_key, tombstones.as_ref());
        added.unwrap();
    }
    let written = outputs.finish(tombstones.as_ref()).unwrap();
    let opener = tables::opener(&fs);
    let lines = written.files.iter().map(|file| described(&opener, file));
    let text: String = lines.collect();
    if text.is_empty() {
        return "nothing\n".to_owned();
    }
    text
}

/// A table's bounds and numbers, its entries, and its tombstones.
fn described(opener: &TableOpener, file: &FileMeta) -> String {
    let mut text = format!(
        "{:06}:[{}-{}] seqs={}-{}\n",
        file.number,
        KeyText(&file.smallest),
        KeyText(&file.largest),
        file.smallest_seqno,
        file.largest_seqno
    );
    let reader = opener.reader(file, 1).unwrap();
    let mut cursor = reader.cursor(BlockingSource::default(), &TableCursorOptions::default());
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        writeln!(text, "  {}", KeyText(cursor.key())).unwrap();
        cursor.next().unwrap();
    }
    if let Some(tombstones) = reader.tombstones() {
        for tombstone in tombstones.tombstones() {
            let (start, end) = (tombstone.start.escape_ascii(), tombstone.end.escape_ascii());
            writeln!(text, "  {start}-{end}#{},RANGEDEL", tombstone.seqno).unwrap();
        }
    }
    text
}

#[test]
fn outputs_are_cut_where_the_scripts_say() {
    datadriven::walk("tests/data/cut", |file| {
        file.run(|case| match case.directive.as_str() {
            "cut" => cut(case),
            other => panic!("no command {other:?}"),
        });
    });
}
