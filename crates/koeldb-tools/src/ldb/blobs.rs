//! `blob_dump`: the header, the records and the footer of a blob file, without opening the database.

use std::collections::BTreeSet;
use std::path::Path;

use koeldb_base::entity::{ColumnValue, Entity};
use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Cursor, InternalKey, Limits, ValueType};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, OpenOptions};
use koeldb_table::blob::format::FOOTER_BYTES;
use koeldb_table::blob::{BlobRecords, BlobReference, read_ends};
use koeldb_table::reader::TableCursorOptions;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::manifest::current_state;
use super::output::Output;
use super::tree::Tree;
use super::{Failure, Outcome};
use crate::json::{Json, JsonValue};
use crate::text::hex;

/// The offsets of the values of a blob file to which the tables of a database refer.
type Live = BTreeSet<u64>;

/// Prints a blob file; whether each value is live is told by the MANIFEST beside it.
pub(super) fn dump(path: &Path, shows_values: bool, out: &mut Output) -> Outcome {
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
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let live = match live_values(
        directory.unwrap_or(Path::new(".")),
        header.column_family_id,
        number,
    ) {
        Ok(live) => Some(live),
        Err(Failure::Message(message)) => {
            eprintln!("which values are live is unknown: {message}");
            None
        }
        Err(failure) => return Err(failure),
    };
    let compression = header.compression.name();
    if out.json {
        let mut json = Json::object();
        json.set("file", &*name)
            .set("bytes", bytes)
            .set("column_family_id", u64::from(header.column_family_id))
            .set("compression", compression);
        out.object(json)?;
    } else {
        out.line(&format!(
            "{name}: {bytes} bytes, column family id {}, compression {compression}",
            header.column_family_id
        ))?;
    }
    let values_end = match &footer {
        Ok(_) => bytes.saturating_sub(FOOTER_BYTES),
        Err(_) => bytes,
    };
    let mut records = BlobRecords::new(file, values_end, Limits::default());
    let (mut count, mut damaged) = (0_u64, 0_u64);
    let mut totals = [0_u64; 2];
    while let Some(record) = records.next_record()? {
        count += 1;
        damaged += u64::from(!record.is_intact);
        let is_live = live.as_ref().map(|live| live.contains(&record.offset));
        if let Some(total) = totals.get_mut(usize::from(is_live == Some(true))) {
            *total += 1;
        }
        let state = match is_live {
            Some(true) => "live",
            Some(false) => "dead",
            None => "unknown",
        };
        let stored = record.stored.len() as u64;
        if out.json {
            let mut json = Json::object();
            json.set("offset", record.offset)
                .set("key", JsonValue::Hex(record.key))
                .set("stored_bytes", stored)
                .set("intact", record.is_intact)
                .set("state", state);
            if shows_values {
                json.set("stored", JsonValue::Hex(record.stored));
            }
            out.object(json)?;
            continue;
        }
        let mut line = format!(
            "'{}' at {}: {stored} bytes, {state}",
            hex(record.key),
            record.offset
        );
        if !record.is_intact {
            line.push_str(", damaged");
        }
        if shows_values {
            line.push_str(" => ");
            line.push_str(&hex(record.stored));
        }
        out.line(&line)?;
    }
    let [dead, live_count] = totals;
    let footer_count = footer.as_ref().ok().map(|footer| footer.count);
    if out.json {
        let mut json = Json::object();
        json.set("records", count).set("damaged", damaged);
        if live.is_some() {
            json.set("live", live_count).set("dead", dead);
        }
        if let Some(count) = footer_count {
            json.set("footer_records", count);
        }
        out.object(json)?;
    } else {
        let mut line = format!("records: {count}, damaged: {damaged}");
        if live.is_some() {
            line.push_str(&format!(", live: {live_count}, dead: {dead}"));
        }
        out.line(&line)?;
    }
    match (footer, damaged) {
        (Err(error), _) => Err(Failure::Message(format!("no footer: {error}"))),
        (Ok(footer), _) if footer.count != count => Err(Failure::Message(format!(
            "the footer counts {} records, and there are {count}",
            footer.count
        ))),
        (Ok(_), 0) => Ok(()),
        (Ok(_), damaged) => Err(Failure::Message(format!("{damaged} values are damaged"))),
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
