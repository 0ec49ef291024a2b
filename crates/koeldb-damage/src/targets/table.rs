//! Table files: opened, scanned in both directions, searched, verified.

use std::sync::Arc;

use koeldb_base::key::{MAX_SEQNO, user_key};
use koeldb_base::merge_operator::{Merger, StringAppend};
use koeldb_base::{Cursor, KeyOrder, Lookup, PinnedSlice, Result};
use koeldb_fs::RandomAccessFile;
use koeldb_table::TableReader;
use koeldb_table::block_based::index::{IndexDecoding, IndexSearch};
use koeldb_table::plain::reader::PlainReadOptions;
use koeldb_table::reader::{BlockBasedReadOptions, TableCursorOptions, TableReadContext};
use koeldb_table::source::BlockingSource;

use super::{Target, judge};
use crate::bytes_file::BytesFile;
use crate::mutate;
use crate::reseal::SealedTable;
use crate::seeds;
use koeldb_testkit::Random;

/// The limit of entries that are read: hostile tables may have many.
const ENTRIES_MAX: usize = 20_000;

/// The entries of a scan, in order.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns the entries of a forward scan, up to 20,000.
///
/// # Errors
/// If the table is damaged.
pub fn scan(table: &Arc<TableReader>) -> Result<Entries> {
    let mut cursor = table.cursor(BlockingSource::default(), &TableCursorOptions::default());
    let mut entries = Vec::new();
    cursor.seek_to_first()?;
    while cursor.valid() && entries.len() < ENTRIES_MAX {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next()?;
    }
    Ok(entries)
}

/// Returns the entries of a backward scan, up to 20,000, in key order.
///
/// # Errors
/// If the table is damaged.
pub fn scan_backward(table: &Arc<TableReader>) -> Result<Entries> {
    let mut cursor = table.cursor(BlockingSource::default(), &TableCursorOptions::default());
    let mut entries = Vec::new();
    cursor.seek_to_last()?;
    while cursor.valid() && entries.len() < ENTRIES_MAX {
        entries.push((cursor.key().to_vec(), cursor.pinned_value().to_vec()));
        cursor.prev()?;
    }
    entries.reverse();
    Ok(entries)
}

/// Looks a user key up in a table; returns its value.
///
/// # Errors
/// If the table is damaged.
pub fn find(table: &TableReader, key: &[u8]) -> Result<Option<PinnedSlice>> {
    let mut lookup = Lookup::new(key, MAX_SEQNO);
    table.search(&mut lookup, &mut BlockingSource::default())?;
    let operator = StringAppend::default();
    lookup.finish(|| Merger::new(Some(&operator), "default"))
}

/// Opens a table file of these bytes.
///
/// # Errors
/// If the table is damaged.
pub fn open(bytes: &[u8], context: &TableReadContext) -> Result<Arc<TableReader>> {
    let file = BytesFile::new("/000007.sst", bytes);
    TableReader::open(file as Arc<dyn RandomAccessFile>, context)
}

/// Returns the contexts in which a table is read: as written, without extractor, in reverse order.
fn contexts() -> Vec<TableReadContext> {
    let mut reversed = seeds::read_context();
    reversed.order = KeyOrder::ReverseBytewise;
    let mut bare = seeds::read_context();
    bare.prefix_extractor = None;
    bare.plain = PlainReadOptions {
        full_scan: true,
        ..PlainReadOptions::default()
    };
    bare.block_based = BlockBasedReadOptions {
        index_search: IndexSearch::Interpolation,
        index_decoding: IndexDecoding::Never,
        ..BlockBasedReadOptions::default()
    };
    vec![seeds::read_context(), bare, reversed]
}

/// Scans, searches and verifies a table; panics at an error that no damage may cause.
pub fn use_up(table: &Arc<TableReader>) {
    let forward = scan(table);
    let mut keys = vec![b"aak0001".to_vec(), b"zz".to_vec(), Vec::new()];
    match &forward {
        Ok(entries) => {
            let sampled = entries.iter().step_by(entries.len() / 4 + 1);
            keys.extend(sampled.map(|(key, _)| user_key(key).to_vec()));
        }
        Err(error) => judge(error),
    }
    if let Err(error) = scan_backward(table) {
        judge(&error);
    }
    let mut cursor = table.cursor(BlockingSource::default(), &TableCursorOptions::default());
    for key in &keys {
        if let Err(error) = find(table, key) {
            judge(&error);
        }
        if let Err(error) = table.may_contain(key, &mut BlockingSource::default()) {
            judge(&error.into());
        }
        let internal = koeldb_base::key::encode(key, 5, koeldb_base::ValueType::Value);
        for moved in [cursor.seek(&internal), cursor.seek_for_prev(&internal)] {
            if let Err(error) = moved {
                judge(&error.into());
            }
        }
        if let Err(error) = table.approximate_offset(&internal) {
            judge(&error);
        }
    }
    let mut lookups: Vec<Lookup> = keys.iter().map(|key| Lookup::new(key, MAX_SEQNO)).collect();
    lookups.sort_by(|a, b| a.user_key().cmp(b.user_key()));
    let mut borrowed: Vec<&mut Lookup> = lookups.iter_mut().collect();
    table.search_batch(
        &mut borrowed,
        &mut BlockingSource::default(),
        |_, outcome| {
            if let Err(error) = outcome {
                judge(&error.into());
            }
        },
    );
    if let Err(error) = table.verify_checksums(&mut |_| ()) {
        judge(&error);
    }
}

/// Runs the fuzz target `table`: opens, scans, searches and verifies a table file.
fn table_run(data: &[u8]) {
    for context in contexts() {
        match open(data, &context) {
            Ok(table) => use_up(&table),
            Err(error) => judge(&error),
        }
    }
}

pub(super) const TABLE: Target = Target {
    name: "table",
    run: table_run,
    seeds: || {
        let mut seeds: Vec<_> = seeds::tables().into_iter().map(|seed| seed.bytes).collect();
        let golden = seeds::golden_files(40 << 10, |name| name.ends_with(".sst"));
        seeds.extend(golden.into_iter().map(|(_, bytes)| bytes).take(12));
        seeds
    },
};

/// One byte chooses a small table; the rest is XORed with its content and its checksums recomputed.
///
/// The XOR begins at an offset from the input.
pub(super) const SEALED_TABLE: Target = Target {
    name: "sealed_table",
    run: |data| {
        let [choice, low, high, changes @ ..] = data else {
            return;
        };
        let tables = sealed();
        let table = &tables[usize::from(*choice) % tables.len()];
        let mut bytes = table.bytes().to_vec();
        let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
        for (byte, change) in bytes[at..].iter_mut().zip(changes) {
            *byte ^= change;
        }
        table.seal(&mut bytes);
        table_run(&bytes);
    },
    seeds: || {
        let seed = |number: u8| {
            let mut random = Random::new(u64::from(number));
            let mut changes = vec![0; 24];
            mutate::in_place(&mut random, &mut changes);
            let [low, high, ..] = random.draw().to_le_bytes();
            [&[number, low, high], &changes[..]].concat()
        };
        (0..50).map(seed).collect()
    },
};

/// Returns all small tables with the positions of their blocks, made once.
fn sealed() -> &'static [SealedTable] {
    static TABLES: std::sync::OnceLock<Vec<SealedTable>> = std::sync::OnceLock::new();
    TABLES.get_or_init(|| {
        let seeds = seeds::tables().into_iter();
        let sealed = seeds.map(|seed| SealedTable::new(seed.bytes, &seeds::read_context()));
        sealed
            .map(|table| table.expect("a table that was written is valid"))
            .collect()
    })
}
