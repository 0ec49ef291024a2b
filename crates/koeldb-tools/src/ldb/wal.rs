//! Prints the batches of a log.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use koeldb::{BatchEntry, WriteBatch};
use koeldb_base::coding;
use koeldb_base::file_name::{self, FileKind};
use koeldb_base::key::{SeqNo, ValueType};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{AccessHint, EntryKind, FileSystem, OpenOptions, Purpose};
use koeldb_log::{RecordReader, RecoveryMode};

use super::args::{DumpWal, Global};
use super::output::Output;
use super::{Failure, Outcome};
use crate::columns;
use crate::json::{Json, JsonValue};
use crate::text::hex;

/// Runs `dump_wal`: prints the batches of one WAL file or of all in a directory.
pub(super) fn dump(_global: &Global, dump: &DumpWal, out: &mut Output) -> Outcome {
    for path in log_files(&dump.walfile)? {
        dump_file(&path, dump.header, dump.print_value, out)?;
    }
    Ok(())
}

/// Returns the WAL file at a path, or all WAL files in a directory, oldest first.
fn log_files(path: &Path) -> Outcome<Vec<PathBuf>> {
    let fs = PosixFileSystem::new();
    if fs.metadata(path)?.kind != EntryKind::Directory {
        return Ok(vec![path.to_path_buf()]);
    }
    let numbers = koeldb_log::wal::list(&fs, path)?;
    let files = numbers
        .into_iter()
        .map(|number| file_name::wal(path, number));
    Ok(files.collect())
}

/// Prints the batches of one WAL file.
///
/// Damage is reported on standard error; the records after it are still printed.
pub(super) fn dump_file(path: &Path, header: bool, values: bool, out: &mut Output) -> Outcome {
    if header && !out.json {
        out.line(if values {
            "Sequence,Count,ByteSize,Physical Offset,Key(s) : value "
        } else {
            "Sequence,Count,ByteSize,Physical Offset,Key(s)"
        })?;
    }
    let mut damaged = false;
    let mut records = open(path)?;
    loop {
        let Some(record) = records.next_record()? else {
            break;
        };
        let record = record.to_vec();
        let offset = records.last_record().start;
        match WriteBatch::from_data(record) {
            Ok(batch) => print_batch(&batch, offset, values, out)?,
            Err(error) => {
                damaged = true;
                eprintln!("{} at offset {offset}: {error}", path.display());
            }
        }
        while let Some(problem) = records.take_problem() {
            damaged = true;
            eprintln!("{}", problem.to_error(&**records.file()));
        }
    }
    while let Some(problem) = records.take_problem() {
        damaged = true;
        eprintln!("{}", problem.to_error(&**records.file()));
    }
    if damaged {
        let message = format!("{} is damaged", path.display());
        return Err(Failure::Message(message));
    }
    Ok(())
}

/// Opens a WAL file for reading; damaged records are skipped.
pub(super) fn open(path: &Path) -> Outcome<RecordReader> {
    let options = OpenOptions {
        purpose: Purpose::Other,
        hint: AccessHint::Sequential,
        ..OpenOptions::default()
    };
    let file = PosixFileSystem::new().open(path, &options)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let number = match name.and_then(file_name::parse) {
        Some(FileKind::Wal(number)) => number,
        _ => 0,
    };
    let mode = RecoveryMode::SkipAnyCorruptedRecords;
    Ok(RecordReader::new(file, number, mode))
}

/// Returns the sequence number of the first operation of a batch.
pub(super) fn sequence(batch: &WriteBatch) -> u64 {
    coding::fixed64_at(batch.data(), 0).unwrap_or(0)
}

/// Passes the batches of all WAL files from number `first` on to `visit`, in write order.
///
/// Returns the numbers of these files. Damaged records are skipped.
pub(super) fn visit_batches(
    directory: &Path,
    first: u64,
    mut visit: impl FnMut(&WriteBatch) -> Outcome,
) -> Outcome<Vec<u64>> {
    let mut numbers = koeldb_log::wal::list(&PosixFileSystem::new(), directory)?;
    numbers.retain(|&number| number >= first);
    for &number in &numbers {
        let mut records = open(&file_name::wal(directory, number))?;
        while let Some(record) = records.next_record()? {
            visit(&WriteBatch::from_data(record)?)?;
        }
    }
    Ok(numbers)
}

/// A point entry of a batch: column family, user key, type, and value (empty for a deletion).
pub(super) type Point<'a> = (u32, &'a [u8], ValueType, &'a [u8]);

/// Passes each entry of a batch with its sequence number, from `first` on, to `visit`.
///
/// Point entries are passed decoded, too. Returns the sequence number after the last entry.
pub(super) fn visit_entries(
    batch: &WriteBatch,
    first: SeqNo,
    mut visit: impl FnMut(SeqNo, &BatchEntry<'_>, Option<Point<'_>>),
) -> Outcome<SeqNo> {
    let mut seqno = first;
    for entry in batch.iter() {
        let entry = entry?;
        let point = match entry {
            BatchEntry::Put { cf, key, value } => Some((cf, key, ValueType::Value, value)),
            BatchEntry::Merge { cf, key, operand } => Some((cf, key, ValueType::Merge, operand)),
            BatchEntry::PutEntity { cf, key, entity } => {
                Some((cf, key, ValueType::WideColumnEntity, entity))
            }
            BatchEntry::Delete { cf, key } => Some((cf, key, ValueType::Deletion, &[][..])),
            BatchEntry::SingleDelete { cf, key } => {
                Some((cf, key, ValueType::SingleDeletion, &[][..]))
            }
            _ => None,
        };
        visit(seqno, &entry, point);
        if !matches!(entry, BatchEntry::LogData(_)) {
            seqno += 1;
        }
    }
    Ok(seqno)
}

/// Prints a batch: sequence number, count, size and offset in the WAL, then its entries.
fn print_batch(batch: &WriteBatch, offset: u64, values: bool, out: &mut Output) -> Outcome {
    let (first, count, bytes) = (sequence(batch), batch.len(), batch.size_in_bytes());
    if out.json {
        let mut entries = Json::array();
        for entry in batch.iter() {
            entries.push(entry_json(&entry?, values));
        }
        let mut json = Json::object();
        json.set("sequence", first)
            .set("count", u64::try_from(count).unwrap_or(u64::MAX))
            .set("bytes", u64::try_from(bytes).unwrap_or(u64::MAX))
            .set("offset", offset)
            .set("entries", entries);
        return out.object(json);
    }
    let mut row = format!("{first},{count},{bytes},{offset},");
    for entry in batch.iter() {
        let entry = entry?;
        // Log data is stored only in logs; RocksDB's tool omits it too.
        if !matches!(entry, BatchEntry::LogData(_)) {
            write_entry(&mut row, &entry, values);
        }
    }
    out.line(&row)
}

/// Returns an entry's operation name, column family id, key, and value or range end.
fn parts<'a>(entry: &BatchEntry<'a>) -> (&'static str, u32, &'a [u8], Option<&'a [u8]>) {
    match *entry {
        BatchEntry::Put { cf, key, value } => ("PUT", cf, key, Some(value)),
        BatchEntry::Merge { cf, key, operand } => ("MERGE", cf, key, Some(operand)),
        BatchEntry::PutEntity { cf, key, entity } => ("PUT_ENTITY", cf, key, Some(entity)),
        BatchEntry::Delete { cf, key } => ("DELETE", cf, key, None),
        BatchEntry::SingleDelete { cf, key } => ("SINGLE_DELETE", cf, key, None),
        BatchEntry::DeleteRange { cf, from, to } => ("DELETE_RANGE", cf, from, Some(to)),
        BatchEntry::LogData(note) => ("LOG_DATA", 0, note, None),
        _ => ("UNKNOWN", 0, &[], None),
    }
}

/// Appends `NAME(CF) : 0xKEY` to `row`, then the range end, or with `values` the value.
fn write_entry(row: &mut String, entry: &BatchEntry<'_>, values: bool) {
    let (name, cf, key, value) = parts(entry);
    // Writing to a string cannot fail.
    let _ = write!(row, "{name}({cf}) : 0x{} ", hex(key));
    let _ = match (value, name) {
        (Some(to), "DELETE_RANGE") => write!(row, "0x{} ", hex(to)),
        (Some(entity), "PUT_ENTITY") if values => match columns::text_of_entity(entity, true) {
            Some(columns) => write!(row, ": {} ", String::from_utf8_lossy(&columns)),
            None => write!(row, ": 0x{} ", hex(entity)),
        },
        (Some(value), _) if values => write!(row, ": 0x{} ", hex(value)),
        _ => Ok(()),
    };
}

/// Returns an entry of a batch as JSON; the value only with `values`.
fn entry_json(entry: &BatchEntry<'_>, values: bool) -> Json {
    let (name, cf, key, value) = parts(entry);
    let mut json = Json::object();
    json.set("op", name)
        .set("cf", cf)
        .set("key", JsonValue::Hex(key));
    match value {
        Some(to) if name == "DELETE_RANGE" => {
            json.set("to", JsonValue::Hex(to));
        }
        Some(value) if values => {
            json.set("value", JsonValue::Hex(value));
        }
        _ => {}
    }
    json
}
