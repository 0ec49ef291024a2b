//! Prints the entries of a table.

use std::cmp::Ordering;
use std::io::Write;

use koeldb_base::key::{self, InternalKey, MAX_SEQNO, ValueType};
use koeldb_base::{Cursor, Error, KeyOrder};

use super::table::OpenTable;
use super::{Args, Trouble};
use crate::entries::EntryFormat;
use crate::json::{Json, JsonValue};
use crate::text::{hex, parse_hex};

/// The range of user keys to read, and the maximum number of entries, from the flags.
#[derive(Debug)]
pub(super) struct Range {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
    most: u64,
}

impl Range {
    pub(super) fn new(args: &Args) -> Result<Self, String> {
        let bytes = |text: &Option<String>| match text {
            Some(text) if args.input_key_hex => parse_hex(text).map(Some),
            Some(text) => Ok(Some(text.clone().into_bytes())),
            None => Ok(None),
        };
        Ok(Range {
            from: bytes(&args.from)?,
            to: bytes(&args.to)?,
            prefix: bytes(&args.prefix)?,
            most: args.read_num.unwrap_or(u64::MAX),
        })
    }

    /// Creates the range from `from` (inclusive) to `to` (exclusive), of at most `most` entries.
    pub(super) fn between(from: Option<Vec<u8>>, to: Option<Vec<u8>>, most: u64) -> Self {
        Range {
            from,
            to,
            prefix: None,
            most,
        }
    }

    /// Returns whether the range is unlimited, so that it includes every entry.
    fn is_whole(&self) -> bool {
        self.start().is_none() && self.to.is_none() && self.most == u64::MAX
    }

    /// Returns the first user key of the range: `--from` or else `--prefix`; `None` without bound.
    fn start(&self) -> Option<&[u8]> {
        self.from.as_deref().or(self.prefix.as_deref())
    }

    /// Returns whether `user_key` is beyond the end of the range.
    fn ends_before(&self, user_key: &[u8], order: &KeyOrder) -> bool {
        let is_behind = |to: &Vec<u8>| order.compare(user_key, to) != Ordering::Less;
        self.to.as_ref().is_some_and(is_behind)
            || self
                .prefix
                .as_ref()
                .is_some_and(|prefix| !user_key.starts_with(prefix))
    }

    /// Passes each entry of the range to `visit`, and returns the number of entries.
    fn visit(
        &self,
        table: &OpenTable,
        mut visit: impl FnMut(&InternalKey<'_>, &[u8]) -> Result<(), Trouble>,
    ) -> Result<u64, Trouble> {
        let mut cursor = table.cursor();
        let mut count = 0;
        match self.start() {
            Some(start) => cursor.seek(&key::encode(start, MAX_SEQNO, ValueType::FOR_SEEK)),
            None => cursor.seek_to_first(),
        }
        .map_err(Error::from)?;
        while count < self.most && cursor.valid() {
            let key = InternalKey::parse(cursor.key())?;
            if self.ends_before(key.user_key, &table.order) {
                break;
            }
            count += 1;
            visit(&key, cursor.value())?;
            cursor.next().map_err(Error::from)?;
        }
        Ok(count)
    }

    /// Writes the bounds of the range in hexadecimal.
    fn write_title(&self, out: &mut impl Write) -> Result<(), Trouble> {
        let from = hex(self.start().unwrap_or_default());
        let to = hex(self.to.as_deref().unwrap_or_default());
        writeln!(out, "from [{from}] to [{to}]")?;
        Ok(())
    }
}

/// Runs `--command=check`: reads the entries; a full read must match the table properties' count.
pub(super) fn check(
    table: &OpenTable,
    range: &Range,
    args: &Args,
    out: &mut impl Write,
) -> Result<(), Trouble> {
    if !args.json {
        range.write_title(out)?;
    }
    let count = range.visit(table, |_, _| Ok(()))?;
    let properties = table.properties();
    let points = properties
        .entry_count
        .saturating_sub(properties.range_deletion_count);
    if range.is_whole() && count != points {
        let message = format!(
            "Table is expected to have {points} entries besides range deletions, but {count} were read"
        );
        return Err(Error::corruption(message).into());
    }
    if args.json {
        let mut json = table.json();
        json.set("ok", true).set("entries", count);
        writeln!(out, "{}", json.finish())?;
    }
    Ok(())
}

/// Runs `--command=scan`: prints the entries.
pub(super) fn scan(
    table: &OpenTable,
    range: &Range,
    args: &Args,
    out: &mut impl Write,
) -> Result<(), Trouble> {
    if !args.json {
        range.write_title(out)?;
    }
    let format = EntryFormat {
        key_hex: args.output_hex,
        value_hex: args.output_hex,
        decode_blob_index: args.decode_blob_index,
    };
    write_entries(table, range, format, args.json, out)
}

/// Prints the entries of a range; in JSON, range deletions follow.
pub(super) fn write_entries(
    table: &OpenTable,
    range: &Range,
    format: EntryFormat,
    json: bool,
    out: &mut impl Write,
) -> Result<(), Trouble> {
    range.visit(table, |key, value| {
        if json {
            writeln!(out, "{}", entry_json(key, value).finish())?;
        } else {
            format.write(out, key, value)?;
        }
        Ok(())
    })?;
    if json && range.is_whole() {
        let tombstones = table.reader.tombstones().into_iter();
        for tombstone in tombstones.flat_map(|tombstones| tombstones.tombstones()) {
            let key = InternalKey {
                user_key: &tombstone.start,
                seqno: tombstone.seqno,
                value_type: ValueType::RangeDeletion,
            };
            writeln!(out, "{}", entry_json(&key, &tombstone.end).finish())?;
        }
    }
    Ok(())
}

/// Returns an entry as JSON: user key, sequence number, type and value.
fn entry_json(key: &InternalKey<'_>, value: &[u8]) -> Json {
    let mut json = Json::object();
    json.set("key", JsonValue::Hex(key.user_key))
        .set("seq", key.seqno)
        .set("type", type_name(key.value_type))
        .set("value", JsonValue::Hex(value));
    json
}

/// Returns the JSON name of an entry type.
pub(super) fn type_name(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Deletion => "deletion",
        ValueType::Value => "value",
        ValueType::Merge => "merge",
        ValueType::SingleDeletion => "single_deletion",
        ValueType::RangeDeletion => "range_deletion",
        ValueType::BlobIndex => "blob_index",
        ValueType::DeletionWithTimestamp => "deletion_with_timestamp",
        ValueType::WideColumnEntity => "wide_column_entity",
        ValueType::ValuePreferredSeqno => "value_preferred_seqno",
    }
}
