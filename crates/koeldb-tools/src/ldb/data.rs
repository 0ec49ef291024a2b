//! Commands on keys and values.

use std::io::Write as _;
use std::io::{BufRead, IsTerminal as _};
use std::ops::Bound;

use koeldb::{Columns, CompactRangeOptions, DbCursor, WriteBatch, WriteOptions};
use koeldb_base::file_name::{self, FileKind};

use super::args::{Dump, Global, KeyRange, Load, Scan};
use super::database::{open_to_read, open_to_write};
use super::output::Output;
use super::prefixes::PrefixCounts;
use super::{Failure, Outcome, blobs, files, manifest, wal};
use crate::histogram::Histogram;
use crate::json::{Json, JsonValue};
use crate::progress;
use crate::sst_dump;

pub(super) fn put(global: &Global, key: &str, value: &str, out: &mut Output) -> Outcome {
    let (key, value) = (out.parse_key(key)?, out.parse_value(value)?);
    let database = open_to_write(global)?;
    database.family.put(key, value)?;
    database.close()?;
    out.ok()
}

pub(super) fn batch_put(global: &Global, pairs: &[String], out: &mut Output) -> Outcome {
    let (pairs, rest) = pairs.as_chunks::<2>();
    if !rest.is_empty() {
        let message = "Equal number of <key>s and <value>s must be specified for batchput.";
        return Err(Failure::Message(message.to_owned()));
    }
    let database = open_to_write(global)?;
    let mut batch = WriteBatch::new();
    for [key, value] in pairs {
        let (key, value) = (out.parse_key(key)?, out.parse_value(value)?);
        batch.put_cf(&database.family, key, value);
    }
    database.db.write(&batch)?;
    database.close()?;
    out.ok()
}

pub(super) fn get(global: &Global, key: &str, out: &mut Output) -> Outcome {
    let key = out.parse_key(key)?;
    let database = open_to_read(global)?;
    let value = database.family.get(&key)?;
    if out.json {
        let mut json = Json::object();
        json.set("key", JsonValue::Hex(&key))
            .set("found", value.is_some());
        if let Some(value) = &value {
            json.set("value", JsonValue::Hex(value));
        }
        return out.object(json);
    }
    match value {
        Some(value) => out.value(&value),
        None => out.line("Key not found"),
    }
}

pub(super) fn multi_get(global: &Global, keys: &[String], out: &mut Output) -> Outcome {
    let bytes: Vec<Vec<u8>> = keys
        .iter()
        .map(|key| out.parse_key(key))
        .collect::<Outcome<_>>()?;
    let database = open_to_read(global)?;
    let values = database.family.multi_get(&bytes);
    for ((text, key), value) in keys.iter().zip(&bytes).zip(values.iter()) {
        match value {
            Ok(Some(value)) => out.entry(key, value)?,
            Ok(None) if out.json => {
                let mut json = Json::object();
                json.set("key", JsonValue::Hex(key)).set("found", false);
                out.object(json)?;
            }
            Ok(None) => out.line(&format!("Key not found: {text}"))?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn put_entity(
    global: &Global,
    key: &str,
    columns: &[String],
    out: &mut Output,
) -> Outcome {
    let key = out.parse_key(key)?;
    let mut parsed = Vec::with_capacity(columns.len());
    for column in columns {
        let parts = column.split_once(':');
        let Some((name, value)) = parts.filter(|(_, value)| !value.contains(':')) else {
            return Err(Failure::Message(
                "wide column format needs to be <column_name>:<column_value> (did you mean put \
                 <key> <value>?)"
                    .to_owned(),
            ));
        };
        // RocksDB's tool has no prefix before an empty name or value.
        let parse = |text: &str| match text {
            "" => Ok(Vec::new()),
            text => out.parse_value(text),
        };
        parsed.push((parse(name)?, parse(value)?));
    }
    let database = open_to_write(global)?;
    database.family.put_entity(key, &parsed)?;
    database.close()?;
    out.ok()
}

pub(super) fn get_entity(global: &Global, key: &str, out: &mut Output) -> Outcome {
    let key = out.parse_key(key)?;
    let database = open_to_read(global)?;
    let found = database.family.get_entity(&key)?;
    match found {
        Some(found) => out.columns(&key, found.columns(), false),
        None => Err(Failure::Message("GetEntity failed: NotFound: ".to_owned())),
    }
}

pub(super) fn multi_get_entity(global: &Global, keys: &[String], out: &mut Output) -> Outcome {
    let bytes: Vec<Vec<u8>> = keys
        .iter()
        .map(|key| out.parse_key(key))
        .collect::<Outcome<_>>()?;
    let database = open_to_read(global)?;
    let found = database.family.multi_get_entity(&bytes);
    for ((text, key), found) in keys.iter().zip(&bytes).zip(found) {
        match found? {
            Some(found) => out.columns(key, found.columns(), true)?,
            None if out.json => {
                let mut json = Json::object();
                json.set("key", JsonValue::Hex(key)).set("found", false);
                out.object(json)?;
            }
            None => out.line(&format!("Key not found: {text}"))?,
        }
    }
    Ok(())
}

pub(super) fn delete(global: &Global, key: &str, out: &mut Output) -> Outcome {
    let key = out.parse_key(key)?;
    let database = open_to_write(global)?;
    database.family.delete(key)?;
    database.close()?;
    out.ok()
}

pub(super) fn single_delete(global: &Global, key: &str, out: &mut Output) -> Outcome {
    let key = out.parse_key(key)?;
    let database = open_to_write(global)?;
    database.family.single_delete(key)?;
    database.close()?;
    out.ok()
}

pub(super) fn delete_range(global: &Global, from: &str, to: &str, out: &mut Output) -> Outcome {
    let (from, to) = (out.parse_key(from)?, out.parse_key(to)?);
    let database = open_to_write(global)?;
    database.family.delete_range(from, to)?;
    database.close()?;
    out.ok()
}

/// The bounds of a key range.
pub(super) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Parses `--from` (inclusive) and `--to` (exclusive); a missing flag means no bound.
pub(super) fn bounds(range: &KeyRange, out: &Output) -> Outcome<Bounds> {
    let key = |text: &Option<String>| text.as_ref().map(|text| out.parse_key(text)).transpose();
    Ok((
        key(&range.from)?.map_or(Bound::Unbounded, Bound::Included),
        key(&range.to)?.map_or(Bound::Unbounded, Bound::Excluded),
    ))
}

/// Opens the database for reading and passes at most `most` entries of a range to `visit`.
fn visit(
    global: &Global,
    bounds: Bounds,
    most: Option<u64>,
    mut visit: impl FnMut(&[u8], Columns<'_>) -> Outcome,
) -> Outcome {
    let database = open_to_read(global)?;
    let mut cursor = database.family.cursor();
    cursor.set_range(bounds);
    let mut left = most.unwrap_or(u64::MAX);
    let mut step: fn(&mut DbCursor) -> koeldb::Result<bool> = DbCursor::seek_to_first;
    while left > 0 && step(&mut cursor)? {
        if let (Some(key), Some(columns)) = (cursor.key(), cursor.columns()) {
            visit(key, columns)?;
        }
        left -= 1;
        step = DbCursor::next;
    }
    Ok(())
}

pub(super) fn scan(global: &Global, scan: &Scan, out: &mut Output) -> Outcome {
    let bounds = bounds(&scan.range, out)?;
    visit(global, bounds, scan.max_keys, |key, columns| {
        if scan.no_value {
            out.key(key)
        } else {
            out.entry_of(key, columns)
        }
    })
}

/// Prints the property `rocksdb.stats` of the column family (`--stats`).
pub(super) fn print_stats(global: &Global, out: &mut Output) -> Outcome {
    let database = open_to_read(global)?;
    if let Some(stats) = database.family.property_value("rocksdb.stats")? {
        out.line(&stats)?;
    }
    Ok(())
}

/// Runs `dump`: prints or counts the entries of a range, or dumps a single file.
pub(super) fn dump(global: &Global, dump: &Dump, out: &mut Output) -> Outcome {
    if let Some(path) = &dump.path {
        let name = path.file_name().and_then(|name| name.to_str());
        return match name.and_then(file_name::parse) {
            Some(FileKind::Wal(_)) => wal::dump_file(path, true, true, out),
            Some(FileKind::Manifest(_)) => manifest::dump(global, Some(path), false, out),
            Some(FileKind::Table(_)) => dump_table(path, dump, out),
            Some(FileKind::Blob(_)) => blobs::dump(path, files::blobs_of(dump.contents), out),
            _ => Err(Failure::Message(format!(
                "{}: no table, blob file, log or MANIFEST by its name",
                path.display()
            ))),
        };
    }
    if dump.stats {
        print_stats(global, out)?;
    }
    let bounds = bounds(&dump.range, out)?;
    if let Some(delimiter) = &dump.count_delim {
        let mut counts = PrefixCounts::new(delimiter);
        visit(global, bounds, dump.max_keys, |key, columns| {
            counts.add(key, columns.default_value(), out)
        })?;
        return counts.print(out);
    }
    let mut count = Count::default();
    let spinner = progress::idle_spinner("dump");
    // Entries on a terminal are progress enough.
    let is_shown = dump.count_only || !std::io::stdout().is_terminal();
    visit(global, bounds, dump.max_keys, |key, columns| {
        if is_shown && count.keys == 0 {
            progress::show(&spinner);
        }
        count.add(columns.default_value().len());
        if count.keys.is_multiple_of(1 << 16) {
            spinner.set_message(format!("{} entries", count.keys));
        }
        if dump.count_only {
            Ok(())
        } else {
            out.entry_of(key, columns)
        }
    })?;
    spinner.finish_and_clear();
    count.print(dump.count_only, out)
}

/// Runs `dump` for a table file: prints its entries and properties.
fn dump_table(path: &std::path::Path, dump: &Dump, out: &mut Output) -> Outcome {
    let key = |text: &Option<String>| text.as_ref().map(|text| out.parse_key(text)).transpose();
    let (from, to) = (key(&dump.range.from)?, key(&dump.range.to)?);
    let what = sst_dump::TableDump {
        from,
        to,
        most: dump.max_keys.unwrap_or(u64::MAX),
        format: files::format_of(dump.contents, out),
        json: out.json,
    };
    Ok(sst_dump::print_table(path, what, out.writer())?)
}

/// A count of keys with a histogram of their value sizes in bytes.
#[derive(Default)]
struct Count {
    keys: u64,
    value_bytes: Histogram,
}

impl Count {
    /// Counts a key, and records the size of its value.
    fn add(&mut self, value_bytes: usize) {
        self.keys += 1;
        self.value_bytes
            .record(u64::try_from(value_bytes).unwrap_or(u64::MAX));
    }

    fn print(&self, with_sizes: bool, out: &mut Output) -> Outcome {
        let keys = self.keys;
        if out.json {
            let mut json = Json::object();
            json.set("keys", keys);
            return out.object(json);
        }
        out.line(&format!("Keys in range: {keys}"))?;
        if with_sizes {
            let sizes = &self.value_bytes;
            out.line(&format!("Value size distribution: \n{sizes}"))?;
        }
        Ok(())
    }
}

/// The number of entries in a batch of `load`.
const LOAD_BATCH: usize = 256;

pub(super) fn load(global: &Global, load: &Load, out: &mut Output) -> Outcome {
    let database = open_to_write(global)?;
    let mut options = WriteOptions::new();
    options.disable_wal(load.disable_wal);
    let mut batch = WriteBatch::new();
    let mut bad_lines = 0u64;
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line?;
        match parse_line(&line, out) {
            Some((key, value)) => batch.put_cf(&database.family, key, value),
            None if line.starts_with(b"Keys in range:") => continue,
            None => {
                bad_lines += 1;
                let line = String::from_utf8_lossy(&line);
                eprintln!("bad line: {line}");
                continue;
            }
        };
        if batch.len() >= LOAD_BATCH {
            database.db.write_opt(&batch, &options)?;
            batch.clear();
        }
    }
    database.db.write_opt(&batch, &options)?;
    if load.disable_wal {
        database.family.flush()?;
    }
    if load.compact {
        let options = CompactRangeOptions::new();
        database.family.compact_range_opt(.., &options)?;
    }
    database.close()?;
    if bad_lines > 0 {
        eprintln!("Warning: {bad_lines} bad lines ignored.");
    }
    Ok(())
}

/// Parses a line `key ==> value`; `None` if it has another form.
pub(super) fn parse_line(line: &[u8], out: &Output) -> Option<(Vec<u8>, Vec<u8>)> {
    const ARROW: &[u8] = b" ==> ";
    let at = line.windows(ARROW.len()).position(|part| part == ARROW)?;
    let (key, value) = (&line[..at], &line[at + ARROW.len()..]);
    let bytes = |text: &[u8], in_hex: bool| {
        if in_hex {
            let text = std::str::from_utf8(text).ok()?;
            crate::text::parse_hex(text).ok()
        } else {
            Some(text.to_vec())
        }
    };
    Some((bytes(key, out.key_hex)?, bytes(value, out.value_hex)?))
}

pub(super) fn approximate_size(global: &Global, range: &KeyRange, out: &mut Output) -> Outcome {
    let bounds = bounds(range, out)?;
    let database = open_to_read(global)?;
    let sizes = database.family.approximate_sizes(&[bounds])?;
    let bytes = sizes.first().copied().unwrap_or(0);
    if out.json {
        let mut json = Json::object();
        json.set("bytes", bytes);
        return out.object(json);
    }
    writeln!(out.writer(), "{bytes}")?;
    Ok(())
}
