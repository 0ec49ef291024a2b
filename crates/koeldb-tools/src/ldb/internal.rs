//! Internal keys: every version of every key, from tables and logs.

use std::cmp::Ordering;
use std::ops::Bound;
use std::path::Path;

use koeldb_base::key::{self, InternalKey, MAX_SEQNO, ValueType};
use koeldb_base::{Cursor, Error, KeyOrder};
use koeldb_table::reader::{TableCursor, TableCursorOptions};
use koeldb_table::source::BlockingSource;

use super::args::{Global, Idump};
use super::data::{Bounds, bounds, print_stats};
use super::database::{Settings, directory, log_directory};
use super::output::Output;
use super::prefixes::PrefixCounts;
use super::tree::Tree;
use super::{Outcome, wal};
use crate::entries::EntryFormat;
use crate::json::{Json, JsonValue};

/// Prints or counts the internal keys of a range (`idump`), from tables and unflushed logs.
pub(super) fn dump(global: &Global, dump: &Idump, out: &mut Output) -> Outcome {
    if dump.stats {
        print_stats(global, out)?;
    }
    let path = directory(global)?;
    let options = Settings::load(global, &path)?.options;
    let tree = Tree::of(&path, &global.column_family, None)?;
    let mut sources = Sources::open(&tree, log_directory(&options, &path))?;
    let keys_in_hex = std::mem::replace(&mut out.key_hex, dump.input_key_hex);
    let bounds = bounds(&dump.range, out);
    out.key_hex = keys_in_hex;
    let bounds = bounds?;
    sources.seek(&bounds)?;
    let mut counts = dump.count_delim.as_deref().map(PrefixCounts::new);
    let mut count = 0u64;
    while count < dump.max_keys.unwrap_or(u64::MAX) {
        let Some((internal, value)) = sources.take_smallest()? else {
            break;
        };
        let key = InternalKey::parse(&internal)?;
        if is_behind(&sources.order, key.user_key, &bounds.1) {
            break;
        }
        count += 1;
        if let Some(counts) = &mut counts {
            counts.add(key.user_key, &value, out)?;
        } else if !dump.count_only {
            print_entry(&key, &value, dump.decode_blob_index, out)?;
        }
    }
    if let Some(mut counts) = counts {
        return counts.print(out);
    }
    if out.json {
        let mut json = Json::object();
        json.set("internal_keys", count);
        return out.object(json);
    }
    out.line(&format!("Internal keys in range: {count}"))
}

/// Returns whether `user_key` is after the upper bound `end`.
fn is_behind(order: &KeyOrder, user_key: &[u8], end: &Bound<Vec<u8>>) -> bool {
    match end {
        Bound::Unbounded => false,
        Bound::Included(end) => order.compare(user_key, end) == Ordering::Greater,
        Bound::Excluded(end) => order.compare(user_key, end) != Ordering::Less,
    }
}

/// Prints `'KEY' seq:N, type:T => VALUE`, or a JSON object.
fn print_entry(
    key: &InternalKey<'_>,
    value: &[u8],
    decode_blob_index: bool,
    out: &mut Output,
) -> Outcome {
    if out.json {
        let mut json = Json::object();
        json.set("key", JsonValue::Hex(key.user_key))
            .set("seq", key.seqno)
            .set("type", u32::from(key.value_type as u8))
            .set("value", JsonValue::Hex(value));
        return out.object(json);
    }
    let format = EntryFormat {
        key_hex: out.key_hex,
        value_hex: out.value_hex,
        decode_blob_index,
    };
    Ok(format.write(out.writer(), key, value)?)
}

/// An internal key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// A merging iterator over the tables of a column family and its unflushed WAL entries.
struct Sources {
    order: KeyOrder,
    tables: Vec<TableCursor<'static, BlockingSource>>,
    /// The entries of the logs, sorted by internal key.
    logged: Vec<Entry>,
    next_logged: usize,
}

impl Sources {
    /// Opens a cursor on each table, and reads the entries of the directory `logs` that are not yet in tables.
    fn open(tree: &Tree, logs: &Path) -> Outcome<Self> {
        let order = tree.order.clone();
        let mut tables = Vec::new();
        for (level, file) in tree.version.files() {
            let reader = tree.tables.reader(file, level)?;
            tables.push(reader.cursor(BlockingSource::default(), &TableCursorOptions::default()));
        }
        let mut logged = read_logs(logs, tree.id, tree.log_number)?;
        logged.sort_by(|a, b| order.compare_internal(&a.0, &b.0));
        Ok(Sources {
            order,
            tables,
            logged,
            next_logged: 0,
        })
    }

    /// Seeks all tables and the WAL entries to the lower bound, or to their start.
    fn seek(&mut self, bounds: &Bounds) -> Outcome {
        let target = match &bounds.0 {
            Bound::Unbounded => None,
            Bound::Included(from) | Bound::Excluded(from) => {
                Some(key::encode(from, MAX_SEQNO, ValueType::FOR_SEEK))
            }
        };
        for table in &mut self.tables {
            match &target {
                Some(target) => table.seek(target),
                None => table.seek_to_first(),
            }
            .map_err(Error::from)?;
        }
        if let Some(target) = &target {
            let order = &self.order;
            let is_before = |entry: &Entry| order.compare_internal(&entry.0, target).is_lt();
            self.next_logged = self.logged.partition_point(is_before);
        }
        Ok(())
    }

    /// Returns the entry with the smallest internal key and steps past it; `None` at the end.
    fn take_smallest(&mut self) -> Outcome<Option<Entry>> {
        let order = &self.order;
        let smallest = self
            .tables
            .iter_mut()
            .filter(|table| table.valid())
            .min_by(|a, b| order.compare_internal(a.key(), b.key()));
        let logged = self.logged.get(self.next_logged);
        match (smallest, logged) {
            (None, None) => Ok(None),
            (Some(table), logged)
                if logged
                    .is_none_or(|(key, _)| order.compare_internal(table.key(), key).is_le()) =>
            {
                let entry = (table.key().to_vec(), table.value().to_vec());
                table.next().map_err(Error::from)?;
                Ok(Some(entry))
            }
            (_, logged) => {
                self.next_logged += 1;
                Ok(logged.cloned())
            }
        }
    }
}

/// Returns the point entries of column family `id` in the WAL files from number `first`.
fn read_logs(directory: &Path, id: u32, first: u64) -> Outcome<Vec<Entry>> {
    let mut entries = Vec::new();
    wal::visit_batches(directory, first, |batch| {
        wal::visit_entries(batch, wal::sequence(batch), |seqno, _, point| {
            if let Some((cf, key, value_type, value)) = point
                && cf == id
            {
                entries.push((key::encode(key, seqno, value_type), value.to_vec()));
            }
        })?;
        Ok(())
    })?;
    Ok(entries)
}
