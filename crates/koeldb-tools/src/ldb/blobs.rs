//! `blob_dump`: the header, the records and the footer of a blob file, without opening the database.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use koeldb_base::codec::{Compression, Decompressor};
use koeldb_base::entity::{ColumnValue, Entity};
use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Cursor, InternalKey, Limits, ValueType};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, OpenOptions};
use koeldb_table::blob::format::{BlobFooter, BlobHeader, FOOTER_BYTES, RECORD_HEADER_BYTES};
use koeldb_table::blob::{BlobRecord, BlobRecords, BlobReference, read_ends};
use koeldb_table::reader::TableCursorOptions;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::manifest::current_state;
use super::output::Output;
use super::tree::Tree;
use super::{Failure, Outcome};
use crate::entries;
use crate::json::{Json, JsonValue};

/// The offsets of the values of a blob file to which the tables of a database refer.
type Live = BTreeSet<u64>;

/// The parts of a blob file that [`dump`] prints besides header, keys and footer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlobDump {
    pub(super) values: Values,
    /// Prints whether each value is live according to the MANIFEST beside the file.
    pub(super) states: bool,
}

/// The form in which [`dump`] prints values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    Hidden,
    /// As they are stored, compressed or not.
    Stored,
    Uncompressed,
}

/// The counts of records, for the summary.
#[derive(Default)]
struct Totals {
    records: u64,
    key_bytes: u64,
    stored_bytes: u64,
    raw_bytes: u64,
    damaged: u64,
    live: u64,
    dead: u64,
}

/// Prints a blob file in the format of RocksDB's `blob_dump`; fails if it is damaged.
pub(super) fn dump(path: &Path, what: BlobDump, out: &mut Output) -> Outcome {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(FileKind::Blob(number)) = file_name::parse(&name) else {
        return Err(Failure::Message(format!(
            "{} is not named like a blob file, NNNNNN.blob",
            path.display()
        )));
    };
    let file = PosixFileSystem::new().open(path, &OpenOptions::default())?;
    let bytes = file.len();
    let (header, footer) = read_ends(&*file)?;
    let live = match what.states {
        true => live_values_beside(path, header.column_family_id, number)?,
        false => None,
    };
    write_ends(&name, bytes, &header, footer.as_ref().ok(), out)?;
    let values_end = match &footer {
        Ok(_) => bytes.saturating_sub(FOOTER_BYTES),
        Err(_) => bytes,
    };
    let mut records = BlobRecords::new(file, values_end, Limits::default());
    let mut totals = Totals::default();
    while let Some(record) = records.next_record()? {
        let raw = match header.compression {
            Compression::None => Cow::Borrowed(record.stored),
            // Damage is counted below.
            compression => Decompressor::new(None)
                .decompress(compression, record.stored, Limits::default().block_bytes)
                .map_or(Cow::Borrowed(&[][..]), Cow::Owned),
        };
        totals.records += 1;
        totals.key_bytes += record.key.len() as u64;
        totals.stored_bytes += record.stored.len() as u64;
        totals.raw_bytes += raw.len() as u64;
        totals.damaged += u64::from(!record.is_intact);
        let is_live = live.as_ref().map(|live| live.contains(&record.offset));
        totals.live += u64::from(is_live == Some(true));
        totals.dead += u64::from(is_live == Some(false));
        let state = what.states.then_some(match is_live {
            Some(true) => "live",
            Some(false) => "dead",
            None => "unknown",
        });
        write_record(&record, &raw, what.values, state, out)?;
    }
    let is_compressed = header.compression != Compression::None;
    write_summary(&totals, is_compressed, live.is_some(), out)?;
    match (footer, totals.damaged) {
        (Err(error), _) => Err(Failure::Message(format!("no footer: {error}"))),
        (Ok(footer), _) if footer.count != totals.records => Err(Failure::Message(format!(
            "the footer counts {} records, and there are {}",
            footer.count, totals.records
        ))),
        (Ok(_), 0) => Ok(()),
        (Ok(_), damaged) => Err(Failure::Message(format!("{damaged} values are damaged"))),
    }
}

/// Prints the header and the footer of a blob file.
fn write_ends(
    name: &str,
    bytes: u64,
    header: &BlobHeader,
    footer: Option<&BlobFooter>,
    out: &mut Output,
) -> Outcome {
    let family = header.column_family_id;
    if out.json {
        let mut json = Json::object();
        json.set("file", name)
            .set("bytes", bytes)
            .set("column_family_id", u64::from(family))
            .set("compression", header.compression.name());
        if let Some(footer) = footer {
            json.set("footer_records", footer.count);
        }
        return out.object(json);
    }
    let codec = header.compression.option_name();
    let version = koeldb_table::blob::format::VERSION;
    out.line(&format!(
        "Blob log header:\n  Version          : {version}\n  Column Family ID : {family}\n  \
         Compression      : {codec}\n  Expiration range : nil"
    ))?;
    match footer {
        Some(footer) => out.line(&format!(
            "Blob log footer:\n  Blob count       : {}\n  Expiration Range : nil",
            footer.count
        )),
        None => out.line("No blob log footer."),
    }
}

/// Prints a record, with its value uncompressed in `raw`.
fn write_record(
    record: &BlobRecord<'_>,
    raw: &[u8],
    values: Values,
    state: Option<&str>,
    out: &mut Output,
) -> Outcome {
    let (key, stored) = (record.key, record.stored);
    let shown = match values {
        Values::Hidden => None,
        Values::Stored => Some(("stored", "blob      ", stored)),
        Values::Uncompressed => Some(("value", "raw blob  ", raw)),
    };
    if out.json {
        let mut json = Json::object();
        json.set("offset", record.offset)
            .set("key", JsonValue::Hex(key))
            .set("stored_bytes", stored.len() as u64)
            .set("intact", record.is_intact);
        if let Some(state) = state {
            json.set("state", state);
        }
        if let Some((name, _, value)) = shown {
            json.set(name, JsonValue::Hex(value));
        }
        return out.object(json);
    }
    let at = record
        .offset
        .saturating_sub(RECORD_HEADER_BYTES + key.len() as u64);
    out.line(&format!(
        "Read record with offset 0x{at:x} ({at}):\n  key size   : {}\n  value size : {}\n  \
         expiration : 0",
        key.len(),
        stored.len()
    ))?;
    let (key_hex, value_hex) = (out.key_hex, out.value_hex);
    let mut field = |name: &str, value: &[u8], in_hex| -> Outcome {
        let out = out.writer();
        write!(out, "  {name} : ")?;
        out.write_all(&entries::bytes(value, in_hex))?;
        writeln!(out)?;
        Ok(())
    };
    field("key       ", key, key_hex)?;
    if let Some((_, name, value)) = shown {
        field(name, value, value_hex)?;
    }
    if let Some(state) = state {
        field("state     ", state.as_bytes(), false)?;
    }
    if !record.is_intact {
        field("damaged   ", b"yes", false)?;
    }
    Ok(())
}

/// Prints the totals of all records.
fn write_summary(
    totals: &Totals,
    is_compressed: bool,
    knows_live: bool,
    out: &mut Output,
) -> Outcome {
    if out.json {
        let mut json = Json::object();
        json.set("records", totals.records)
            .set("damaged", totals.damaged);
        if knows_live {
            json.set("live", totals.live).set("dead", totals.dead);
        }
        return out.object(json);
    }
    out.line(&format!(
        "Summary:\n  total records: {}\n  total key size: {}\n  total blob size: {}",
        totals.records, totals.key_bytes, totals.stored_bytes
    ))?;
    if is_compressed {
        out.line(&format!("  total raw blob size: {}", totals.raw_bytes))?;
    }
    if totals.damaged > 0 {
        out.line(&format!("  damaged: {}", totals.damaged))?;
    }
    if knows_live {
        let Totals { live, dead, .. } = totals;
        out.line(&format!("  live: {live}\n  dead: {dead}"))?;
    }
    Ok(())
}

/// Returns the live values of a blob file in the directory of its database.
///
/// `None`, with a message on standard error, if the MANIFEST or a table cannot be read.
fn live_values_beside(path: &Path, family: u32, number: FileNumber) -> Outcome<Option<Live>> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    match live_values(directory.unwrap_or(Path::new(".")), family, number) {
        Ok(live) => Ok(Some(live)),
        Err(Failure::Message(message)) => {
            eprintln!("which values are live is unknown: {message}");
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// Returns the offsets of the values of a blob file to which tables of its column family refer.
fn live_values(directory: &Path, family: u32, number: FileNumber) -> Outcome<Live> {
    let state = current_state(directory)?;
    let Some(family_state) = state.families.get(&family) else {
        return Err(Failure::Message(format!(
            "the MANIFEST has no column family {family}"
        )));
    };
    let tree = Tree::open(directory, family, family_state, None)?;
    let mut live = Live::new();
    let mut take = |reference: &[u8]| -> Outcome {
        let reference = BlobReference::decode(reference)?;
        if reference.file == number {
            live.insert(reference.offset);
        }
        Ok(())
    };
    for (level, file) in tree.version.files() {
        // A table refers to no file that is older than the one it names.
        if file.oldest_blob_file == 0 || file.oldest_blob_file > number {
            continue;
        }
        let reader = tree.tables.reader(file, level)?;
        let mut cursor = reader.cursor(
            BlockingSource::new(BlockReadOptions::default()),
            &TableCursorOptions::default(),
        );
        cursor.seek_to_first().map_err(koeldb::Error::from)?;
        while cursor.valid() {
            match InternalKey::parse(cursor.key())?.value_type {
                ValueType::BlobIndex => take(cursor.value())?,
                ValueType::WideColumnEntity => {
                    for (_, column) in Entity::decode(cursor.value())?.stored_columns() {
                        if let ColumnValue::BlobIndex(reference) = column {
                            take(reference)?;
                        }
                    }
                }
                _ => {}
            }
            cursor.next().map_err(koeldb::Error::from)?;
        }
    }
    Ok(live)
}
