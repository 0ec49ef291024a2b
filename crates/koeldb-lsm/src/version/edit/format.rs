//! The bytes of version edits.
//!
//! ```text
//! edit  = (varint32 tag, payload)…     until the record ends; without fields, nothing changes
//! file  = level number bytes smallest largest smallest_seqno largest_seqno
//!         (varint32 tag, lp value)… 1
//! ```
//!
//! Tags, payloads and the order of fields are RocksDB's (`db/version_edit.cc`;
//! `docs/formats/manifest.md`). Unknown tags with bit 13 set may be skipped, except four old ones
//! that lack a length.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use koeldb_base::coding::{
    put_fixed64, put_length_prefixed, put_varint32, put_varint64, take_fixed64,
    take_length_prefixed, take_varint32, take_varint64,
};
use koeldb_base::file_name::FileNumber;
use koeldb_base::key::{InternalKey, MAX_SEQNO, footer_of};
use koeldb_base::timestamp::strip_internal_into;
use koeldb_base::{Error, Result, SeqNo};

use super::{
    BlobGarbage, ColumnFamilyChange, FAMILY_NAME_BYTES_MAX, FILE_NUMBER_MAX, LEVEL_MAX,
    VersionEdit, WalAddition,
};
use crate::blob_file_meta::BlobFileMeta;
use crate::data_paths::DATA_PATHS_MAX;
use crate::file_meta::FileMeta;

mod tag {
    pub(super) const COMPARATOR: u32 = 1;
    pub(super) const LOG_NUMBER: u32 = 2;
    pub(super) const NEXT_FILE_NUMBER: u32 = 3;
    pub(super) const LAST_SEQNO: u32 = 4;
    pub(super) const COMPACT_CURSOR: u32 = 5;
    pub(super) const DELETED_FILE: u32 = 6;
    pub(super) const NEW_FILE: u32 = 7;
    pub(super) const PREV_LOG_NUMBER: u32 = 9;
    pub(super) const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
    pub(super) const NEW_FILE_2: u32 = 100;
    pub(super) const NEW_FILE_3: u32 = 102;
    pub(super) const NEW_FILE_4: u32 = 103;
    pub(super) const FAMILY: u32 = 200;
    pub(super) const FAMILY_ADD: u32 = 201;
    pub(super) const FAMILY_DROP: u32 = 202;
    pub(super) const MAX_FAMILY: u32 = 203;
    pub(super) const IN_ATOMIC_GROUP: u32 = 300;
    pub(super) const BLOB_ADDITION: u32 = 400;
    pub(super) const BLOB_GARBAGE: u32 = 401;
    /// The flag of tags that may be skipped; their payload has a length prefix.
    pub(super) const IGNORABLE: u32 = 1 << 13;
    pub(super) const DB_ID: u32 = 8193;
    pub(super) const OLD_BLOB_ADDITION: u32 = 8194;
    pub(super) const OLD_BLOB_GARBAGE: u32 = 8195;
    pub(super) const OLD_WAL_ADDITION: u32 = 8196;
    pub(super) const OLD_WAL_DELETION: u32 = 8197;
    pub(super) const FULL_HISTORY_TS_LOW: u32 = 8198;
    pub(super) const WAL_ADDITION: u32 = 8199;
    pub(super) const WAL_DELETION: u32 = 8200;
    pub(super) const PERSIST_TIMESTAMPS: u32 = 8201;
    pub(super) const COMPACTED_MANIFEST_BYTES: u32 = 8203;
}

mod file_tag {
    pub(super) const TERMINATE: u32 = 1;
    pub(super) const NEED_COMPACTION: u32 = 2;
    pub(super) const MIN_LOG_NUMBER_TO_KEEP: u32 = 3;
    pub(super) const OLDEST_BLOB_FILE: u32 = 4;
    pub(super) const OLDEST_ANCESTOR_TIME: u32 = 5;
    pub(super) const CREATION_TIME: u32 = 6;
    pub(super) const CHECKSUM: u32 = 7;
    pub(super) const CHECKSUM_NAME: u32 = 8;
    pub(super) const TEMPERATURE: u32 = 9;
    pub(super) use crate::file_meta::{
        MAX_TIMESTAMP_TAG as MAX_TIMESTAMP, MIN_TIMESTAMP_TAG as MIN_TIMESTAMP,
        UNDATED_TAG as UNDATED,
    };
    pub(super) const UNIQUE_ID: u32 = 12;
    pub(super) const EPOCH: u32 = 13;
    pub(super) const COMPENSATED_RANGE_DELETION_BYTES: u32 = 14;
    pub(super) const TAIL_BYTES: u32 = 15;
    pub(super) const OPEN_METADATA: u32 = 17;
    pub(super) const PATH_ID: u32 = 65;
    /// The flag of custom file field tags that must not be skipped.
    pub(super) const INCOMPATIBLE: u32 = 1 << 6;
    /// The tags of file fields that are kept undecoded, in the order in which they are written.
    pub(super) const KEPT: [u32; 4] = [UNDATED, MIN_TIMESTAMP, MAX_TIMESTAMP, OPEN_METADATA];
}

/// The tag of the synced size in a log addition (RocksDB: `WalAdditionTag::kSyncedSize`).
const WAL_SYNCED_BYTES: u32 = 2;
/// The tag that ends a log addition (RocksDB: `WalAdditionTag::kTerminate`).
const WAL_TERMINATE: u32 = 1;
/// The tag that ends the custom fields of a blob file record (RocksDB: `kEndMarker`).
const BLOB_TERMINATE: u32 = 0;

impl VersionEdit {
    /// Appends the encoded edit to `out`, with fields in the order of RocksDB 11.9.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_lp(out, tag::DB_ID, self.db_id.as_deref());
        put_lp(
            out,
            tag::COMPARATOR,
            self.comparator.as_deref().map(str::as_bytes),
        );
        put_number(out, tag::LOG_NUMBER, self.log_number);
        put_number(out, tag::PREV_LOG_NUMBER, self.prev_log_number);
        put_number(out, tag::NEXT_FILE_NUMBER, self.next_file_number);
        put_number(out, tag::MAX_FAMILY, self.max_column_family.map(u64::from));
        put_number(
            out,
            tag::MIN_LOG_NUMBER_TO_KEEP,
            self.min_log_number_to_keep,
        );
        put_number(out, tag::LAST_SEQNO, self.last_seqno);
        self.encode_changes(out);
        put_lp_number(out, tag::WAL_DELETION, self.wal_deletion);
        let family = (self.family != 0).then_some(u64::from(self.family));
        put_number(out, tag::FAMILY, family);
        match &self.family_change {
            Some(ColumnFamilyChange::Add(name)) => {
                put_lp(out, tag::FAMILY_ADD, Some(name.as_bytes()))
            }
            Some(ColumnFamilyChange::Drop) => put_varint32(out, tag::FAMILY_DROP),
            None => {}
        }
        put_number(
            out,
            tag::IN_ATOMIC_GROUP,
            self.remaining_in_group.map(u64::from),
        );
        put_lp(
            out,
            tag::FULL_HISTORY_TS_LOW,
            self.full_history_ts_low.as_deref(),
        );
        let persist = self.persist_timestamps.map(|persist| [u8::from(persist)]);
        put_lp(
            out,
            tag::PERSIST_TIMESTAMPS,
            persist.as_ref().map(<[u8; 1]>::as_slice),
        );
        put_lp_number(
            out,
            tag::COMPACTED_MANIFEST_BYTES,
            self.compacted_manifest_bytes,
        );
    }

    /// Appends the encoded changes of compact cursors, tables, blob files and WALs to `out`.
    fn encode_changes(&self, out: &mut Vec<u8>) {
        for (level, key) in &self.compact_cursors {
            put_varint32(out, tag::COMPACT_CURSOR);
            put_varint64(out, *level as u64);
            put_length_prefixed(out, key);
        }
        for (level, number) in &self.deleted_files {
            put_varint32(out, tag::DELETED_FILE);
            put_varint64(out, *level as u64);
            put_varint64(out, *number);
        }
        let mut min_log_number = self.min_log_number_to_keep;
        for (level, file) in &self.added_files {
            put_varint32(out, tag::NEW_FILE_4);
            encode_file(*level, file, min_log_number.take(), out);
        }
        for blob_file in &self.added_blob_files {
            put_varint32(out, tag::BLOB_ADDITION);
            encode_blob_addition(blob_file, out);
        }
        for garbage in &self.blob_garbage {
            put_varint32(out, tag::BLOB_GARBAGE);
            encode_blob_garbage(garbage, out);
        }
        for wal in &self.wal_additions {
            let mut payload = Vec::new();
            encode_wal_addition(wal, &mut payload);
            put_lp(out, tag::WAL_ADDITION, Some(&payload));
        }
    }

    /// Returns the encoded edit, as one MANIFEST record.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Decodes a version edit from one record of a MANIFEST.
    ///
    /// # Errors
    /// `Corruption` for bytes that are no edit, or numbers out of their range.
    pub fn decode(record: &[u8]) -> Result<Self> {
        let mut edit = VersionEdit::default();
        let mut input = record;
        while !input.is_empty() {
            let offset = record.len().saturating_sub(input.len());
            edit.decode_field(&mut input)
                .map_err(|error| error.context(format!("VersionEdit at byte {offset}")))?;
        }
        Ok(edit)
    }

    /// Decodes the field at the front of `input`: a tag and its payload.
    fn decode_field(&mut self, input: &mut &[u8]) -> Result<()> {
        let tag = take_varint32(input)?;
        match tag {
            tag::DB_ID => self.db_id = Some(take_length_prefixed(input)?.to_vec()),
            tag::COMPARATOR => self.comparator = Some(take_text(input, "comparator name")?),
            tag::LOG_NUMBER => self.log_number = Some(take_log_number(input)?),
            tag::PREV_LOG_NUMBER => self.prev_log_number = Some(take_log_number(input)?),
            tag::NEXT_FILE_NUMBER => self.next_file_number = Some(take_log_number(input)?),
            tag::MAX_FAMILY => self.max_column_family = Some(take_varint32(input)?),
            tag::MIN_LOG_NUMBER_TO_KEEP => {
                self.min_log_number_to_keep = Some(take_log_number(input)?);
            }
            tag::LAST_SEQNO => self.last_seqno = Some(take_seqno(input)?),
            tag::COMPACT_CURSOR => {
                let level = take_level(input)?;
                self.compact_cursors.push((level, take_bound(input)?));
            }
            tag::DELETED_FILE => {
                let level = take_level(input)?;
                self.deleted_files.push((level, take_file_number(input)?));
            }
            tag::NEW_FILE | tag::NEW_FILE_2 | tag::NEW_FILE_3 => self.take_old_file(tag, input)?,
            tag::NEW_FILE_4 => self.take_file(input)?,
            tag::FAMILY => self.family = take_varint32(input)?,
            tag::FAMILY_ADD => {
                let name = take_text(input, "column family name")?;
                if name.is_empty() || name.len() > FAMILY_NAME_BYTES_MAX {
                    return Err(Error::corruption(format!(
                        "column family name of {} bytes",
                        name.len()
                    )));
                }
                self.family_change = Some(ColumnFamilyChange::Add(name));
            }
            tag::FAMILY_DROP => self.family_change = Some(ColumnFamilyChange::Drop),
            tag::IN_ATOMIC_GROUP => self.remaining_in_group = Some(take_varint32(input)?),
            tag::BLOB_ADDITION | tag::OLD_BLOB_ADDITION => {
                self.added_blob_files.push(take_blob_addition(input)?);
            }
            tag::BLOB_GARBAGE | tag::OLD_BLOB_GARBAGE => {
                self.blob_garbage.push(take_blob_garbage(input)?);
            }
            tag::OLD_WAL_ADDITION => self.wal_additions.push(take_wal_addition(input)?),
            tag::OLD_WAL_DELETION => self.wal_deletion = Some(take_log_number(input)?),
            _ if tag & tag::IGNORABLE != 0 => {
                let mut payload = take_length_prefixed(input)?;
                self.decode_prefixed(tag, &mut payload)?;
            }
            _ => return Err(Error::corruption(format!("unknown tag {tag}"))),
        }
        Ok(())
    }

    /// Decodes the payload of an ignorable field with `tag`, whose length prefix was consumed.
    ///
    /// Later releases may append bytes to known payloads.
    fn decode_prefixed(&mut self, tag: u32, payload: &mut &[u8]) -> Result<()> {
        match tag {
            tag::FULL_HISTORY_TS_LOW if payload.is_empty() => {
                return Err(Error::corruption("full_history_ts_low is empty"));
            }
            tag::FULL_HISTORY_TS_LOW => self.full_history_ts_low = Some(payload.to_vec()),
            tag::WAL_ADDITION => self.wal_additions.push(take_wal_addition(payload)?),
            tag::WAL_DELETION => self.wal_deletion = Some(take_log_number(payload)?),
            tag::PERSIST_TIMESTAMPS => match payload {
                [byte @ (0 | 1)] => self.persist_timestamps = Some(*byte == 1),
                _ => return Err(Error::corruption("malformed flag for timestamps")),
            },
            tag::COMPACTED_MANIFEST_BYTES => {
                self.compacted_manifest_bytes = Some(take_varint64(payload)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Decodes a legacy added-file entry (`kNewFile`, `kNewFile2` or `kNewFile3`).
    fn take_old_file(&mut self, tag: u32, input: &mut &[u8]) -> Result<()> {
        let level = take_level(input)?;
        let number = take_file_number(input)?;
        let path_id = match tag {
            tag::NEW_FILE_3 => checked_path_id(take_varint32(input)?)?,
            _ => 0,
        };
        let mut file = take_file_body(number, input)?;
        file.path_id = path_id;
        if tag == tag::NEW_FILE {
            file.largest_seqno = seqno_of(&file.smallest).max(seqno_of(&file.largest));
        } else {
            take_seqno_bounds(&mut file, input)?;
        }
        self.added_files.push((level, Arc::new(file)));
        Ok(())
    }

    /// Decodes an added-file entry (`kNewFile4`) with its custom fields.
    fn take_file(&mut self, input: &mut &[u8]) -> Result<()> {
        let level = take_level(input)?;
        let number = take_file_number(input)?;
        let mut file = take_file_body(number, input)?;
        take_seqno_bounds(&mut file, input)?;
        loop {
            let tag = take_varint32(input)?;
            if tag == file_tag::TERMINATE {
                break;
            }
            let value = take_length_prefixed(input)?;
            if tag == file_tag::MIN_LOG_NUMBER_TO_KEEP {
                let number = checked_log_number(take_fixed64(&mut &*value)?)?;
                self.min_log_number_to_keep = Some(number);
            } else {
                decode_file_field(&mut file, tag, value)
                    .map_err(|error| error.context(format!("file {number}, field {tag}")))?;
            }
        }
        self.added_files.push((level, Arc::new(file)));
        Ok(())
    }
}

/// Appends a field: its tag and a varint payload; `None` appends nothing.
fn put_number(out: &mut Vec<u8>, tag: u32, value: Option<u64>) {
    if let Some(value) = value {
        put_varint32(out, tag);
        put_varint64(out, value);
    }
}

/// Appends a field: its tag and a length-prefixed payload; `None` appends nothing.
fn put_lp(out: &mut Vec<u8>, tag: u32, value: Option<&[u8]>) {
    if let Some(value) = value {
        put_varint32(out, tag);
        put_length_prefixed(out, value);
    }
}

/// Appends a field: its tag and a varint with length prefix; `None` appends nothing.
fn put_lp_number(out: &mut Vec<u8>, tag: u32, value: Option<u64>) {
    if let Some(value) = value {
        let mut payload = Vec::new();
        put_varint64(&mut payload, value);
        put_lp(out, tag, Some(&payload));
    }
}

/// Decodes a length-prefixed UTF-8 text; `what` names it in the error.
fn take_text(input: &mut &[u8], what: &str) -> Result<String> {
    let bytes = take_length_prefixed(input)?;
    match str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::corruption(format!("{what} is not UTF-8"))),
    }
}

/// Decodes a level, a varint of at most [`LEVEL_MAX`].
fn take_level(input: &mut &[u8]) -> Result<usize> {
    let level = take_varint32(input)? as usize;
    if level > LEVEL_MAX {
        return Err(Error::corruption(format!(
            "level {level}, at most {LEVEL_MAX}"
        )));
    }
    Ok(level)
}

/// Decodes a log number, which may be 0 for none.
fn take_log_number(input: &mut &[u8]) -> Result<FileNumber> {
    checked_log_number(take_varint64(input)?)
}

/// Returns a log number, which may be 0; `Corruption` if it exceeds [`FILE_NUMBER_MAX`].
fn checked_log_number(number: FileNumber) -> Result<FileNumber> {
    if number > FILE_NUMBER_MAX {
        return Err(Error::corruption(format!(
            "file number {number}, at most {FILE_NUMBER_MAX}"
        )));
    }
    Ok(number)
}

/// Decodes the number of a table or blob file, which is not 0.
fn take_file_number(input: &mut &[u8]) -> Result<FileNumber> {
    match take_log_number(input)? {
        0 => Err(Error::corruption("file number 0")),
        number => Ok(number),
    }
}

/// Decodes a sequence number, a varint of at most [`MAX_SEQNO`].
fn take_seqno(input: &mut &[u8]) -> Result<SeqNo> {
    let seqno = take_varint64(input)?;
    if seqno > MAX_SEQNO {
        return Err(Error::corruption(format!(
            "sequence number {seqno}, at most {MAX_SEQNO}"
        )));
    }
    Ok(seqno)
}

/// Decodes a length-prefixed internal key that is the smallest or largest key of a file.
fn take_bound(input: &mut &[u8]) -> Result<Vec<u8>> {
    let bound = take_length_prefixed(input)?;
    InternalKey::check_bound(bound)?;
    Ok(bound.to_vec())
}

/// Returns the sequence number of a file bound; 0 for the end of a range tombstone.
fn seqno_of(key: &[u8]) -> SeqNo {
    match footer_of(key).1 >> 8 {
        MAX_SEQNO => 0,
        seqno => seqno,
    }
}

/// Decodes the size and the key bounds of a file, which follow its number in every file entry.
fn take_file_body(number: FileNumber, input: &mut &[u8]) -> Result<FileMeta> {
    let bytes = take_varint64(input)?;
    let smallest = take_bound(input)?;
    let largest = take_bound(input)?;
    Ok(FileMeta::new(number, bytes, smallest, largest))
}

/// Decodes the smallest and largest sequence number of a file.
fn take_seqno_bounds(file: &mut FileMeta, input: &mut &[u8]) -> Result<()> {
    file.smallest_seqno = take_seqno(input)?;
    file.largest_seqno = take_seqno(input)?;
    if file.smallest_seqno > file.largest_seqno {
        return Err(Error::corruption(format!(
            "file {}: sequence numbers from {} to {}",
            file.number, file.smallest_seqno, file.largest_seqno
        )));
    }
    Ok(())
}

/// Returns the index of a directory; `Corruption` if it has more than two bits.
fn checked_path_id(path_id: u32) -> Result<u8> {
    let id = u8::try_from(path_id).ok();
    let id = id.filter(|&id| usize::from(id) < DATA_PATHS_MAX);
    id.ok_or_else(|| Error::corruption(format!("path id {path_id}, at most 3")))
}

/// Returns the byte of a one-byte custom field; `Corruption` for another length.
fn one_byte(value: &[u8]) -> Result<u8> {
    match value {
        [byte] => Ok(*byte),
        _ => Err(Error::corruption(format!(
            "expected one byte, found {}",
            value.len()
        ))),
    }
}

/// Decodes the payload of one custom field of a file (RocksDB's `NewFileCustomTag`).
fn decode_file_field(file: &mut FileMeta, tag: u32, mut value: &[u8]) -> Result<()> {
    let input = &mut value;
    match tag {
        file_tag::NEED_COMPACTION => file.marked_for_compaction = one_byte(input)? == 1,
        file_tag::OLDEST_BLOB_FILE => file.oldest_blob_file = take_log_number(input)?,
        file_tag::OLDEST_ANCESTOR_TIME => file.oldest_ancestor_time = take_varint64(input)?,
        file_tag::CREATION_TIME => file.creation_time = take_varint64(input)?,
        file_tag::CHECKSUM => file.checksum = input.to_vec(),
        file_tag::CHECKSUM_NAME => file.checksum_name = input.to_vec(),
        file_tag::TEMPERATURE => file.temperature = one_byte(input)?,
        file_tag::UNIQUE_ID => {
            file.unique_id = [take_fixed64(input)?, take_fixed64(input)?];
        }
        file_tag::EPOCH => file.epoch = take_varint64(input)?,
        file_tag::COMPENSATED_RANGE_DELETION_BYTES => {
            file.compensated_range_deletion_bytes = take_varint64(input)?;
        }
        file_tag::TAIL_BYTES => {
            file.tail_bytes = take_varint64(input)?;
            if file.tail_bytes > file.bytes {
                return Err(Error::corruption(format!(
                    "tail of {} bytes in a file of {}",
                    file.tail_bytes, file.bytes
                )));
            }
        }
        file_tag::PATH_ID => file.path_id = checked_path_id(u32::from(one_byte(input)?))?,
        _ if file_tag::KEPT.contains(&tag) => file.other_fields.push((tag, input.to_vec())),
        _ if tag & file_tag::INCOMPATIBLE != 0 => {
            return Err(Error::corruption("new-file4 custom field not supported"));
        }
        _ => {}
    }
    Ok(())
}

/// Appends an encoded added-file entry (`kNewFile4`) without its tag.
fn encode_file(
    level: usize,
    file: &FileMeta,
    min_log_number_to_keep: Option<FileNumber>,
    out: &mut Vec<u8>,
) {
    put_varint64(out, level as u64);
    put_varint64(out, file.number);
    put_varint64(out, file.bytes);
    put_bound(out, &file.smallest, file.undated);
    put_bound(out, &file.largest, file.undated);
    put_varint64(out, file.smallest_seqno);
    put_varint64(out, file.largest_seqno);

    let nonzero = |value: u64| (value != 0).then_some(value);
    let known = |bytes: u8| (bytes != 0).then_some([bytes]);
    put_lp_number(
        out,
        file_tag::OLDEST_ANCESTOR_TIME,
        Some(file.oldest_ancestor_time),
    );
    put_lp_number(out, file_tag::CREATION_TIME, Some(file.creation_time));
    put_lp_number(out, file_tag::EPOCH, nonzero(file.epoch));
    if !file.checksum_name.is_empty() {
        put_lp(out, file_tag::CHECKSUM, Some(&file.checksum));
        put_lp(out, file_tag::CHECKSUM_NAME, Some(&file.checksum_name));
    }
    let path_id = known(file.path_id);
    put_lp(
        out,
        file_tag::PATH_ID,
        path_id.as_ref().map(<[u8; 1]>::as_slice),
    );
    let temperature = known(file.temperature);
    put_lp(
        out,
        file_tag::TEMPERATURE,
        temperature.as_ref().map(<[u8; 1]>::as_slice),
    );
    let marked = known(u8::from(file.marked_for_compaction));
    put_lp(
        out,
        file_tag::NEED_COMPACTION,
        marked.as_ref().map(<[u8; 1]>::as_slice),
    );
    let min_log_number = min_log_number_to_keep.map(u64::to_le_bytes);
    put_lp(
        out,
        file_tag::MIN_LOG_NUMBER_TO_KEEP,
        min_log_number.as_ref().map(<[u8; 8]>::as_slice),
    );
    put_lp_number(
        out,
        file_tag::OLDEST_BLOB_FILE,
        nonzero(file.oldest_blob_file),
    );
    let [high, low] = file.unique_id;
    if (high, low) != (0, 0) {
        let mut id = Vec::with_capacity(16);
        put_fixed64(&mut id, high);
        put_fixed64(&mut id, low);
        put_lp(out, file_tag::UNIQUE_ID, Some(&id));
    }
    put_lp_number(
        out,
        file_tag::COMPENSATED_RANGE_DELETION_BYTES,
        nonzero(file.compensated_range_deletion_bytes),
    );
    put_lp_number(out, file_tag::TAIL_BYTES, nonzero(file.tail_bytes));
    put_lp(out, file_tag::UNDATED, file.undated.then_some(&[0_u8][..]));
    for tag in file_tag::KEPT {
        for (_, value) in file.other_fields.iter().filter(|field| field.0 == tag) {
            put_lp(out, tag, Some(value));
        }
    }
    put_varint32(out, file_tag::TERMINATE);
}

/// Appends a bound of a file, without its timestamp if the table has none.
fn put_bound(out: &mut Vec<u8>, bound: &[u8], undated: bool) {
    if !undated {
        return put_length_prefixed(out, bound);
    }
    let mut stored = Vec::new();
    strip_internal_into(&mut stored, bound);
    put_length_prefixed(out, &stored);
}

/// Encodes a blob file addition without its tag, and without custom fields.
fn encode_blob_addition(file: &BlobFileMeta, out: &mut Vec<u8>) {
    put_varint64(out, file.number);
    put_varint64(out, file.count);
    put_varint64(out, file.bytes);
    put_length_prefixed(out, &file.checksum_name);
    put_length_prefixed(out, &file.checksum);
    put_varint32(out, BLOB_TERMINATE);
}

/// Decodes a blob file addition; skips unknown custom fields that may be ignored.
fn take_blob_addition(input: &mut &[u8]) -> Result<BlobFileMeta> {
    let file = BlobFileMeta {
        number: take_file_number(input)?,
        count: take_varint64(input)?,
        bytes: take_varint64(input)?,
        checksum_name: take_length_prefixed(input)?.to_vec(),
        checksum: take_length_prefixed(input)?.to_vec(),
        garbage_count: 0,
        garbage_bytes: 0,
        reader: Default::default(),
    };
    skip_blob_fields(input)?;
    Ok(file)
}

/// Encodes a blob file garbage entry without its tag.
fn encode_blob_garbage(garbage: &BlobGarbage, out: &mut Vec<u8>) {
    put_varint64(out, garbage.number);
    put_varint64(out, garbage.count);
    put_varint64(out, garbage.bytes);
    put_varint32(out, BLOB_TERMINATE);
}

/// Decodes a blob file garbage entry; skips unknown custom fields that may be ignored.
fn take_blob_garbage(input: &mut &[u8]) -> Result<BlobGarbage> {
    let garbage = BlobGarbage {
        number: take_file_number(input)?,
        count: take_varint64(input)?,
        bytes: take_varint64(input)?,
    };
    skip_blob_fields(input)?;
    Ok(garbage)
}

/// Skips custom fields of a blob file entry; fails for one that must not be ignored.
fn skip_blob_fields(input: &mut &[u8]) -> Result<()> {
    loop {
        match take_varint32(input)? {
            BLOB_TERMINATE => return Ok(()),
            tag if tag & file_tag::INCOMPATIBLE != 0 => {
                return Err(Error::corruption(format!(
                    "blob file field {tag} is not supported"
                )));
            }
            _ => take_length_prefixed(input)?,
        };
    }
}

/// Appends an encoded WAL addition: the log number and the synced size if known.
fn encode_wal_addition(wal: &WalAddition, out: &mut Vec<u8>) {
    put_varint64(out, wal.number);
    put_number(out, WAL_SYNCED_BYTES, wal.synced_bytes);
    put_varint32(out, WAL_TERMINATE);
}

/// Decodes a WAL addition, up to its terminator.
fn take_wal_addition(input: &mut &[u8]) -> Result<WalAddition> {
    let mut wal = WalAddition {
        number: take_log_number(input)?,
        synced_bytes: None,
    };
    loop {
        match take_varint32(input)? {
            WAL_TERMINATE => return Ok(wal),
            WAL_SYNCED_BYTES => wal.synced_bytes = Some(take_varint64(input)?),
            tag => return Err(Error::corruption(format!("log field {tag} is unknown"))),
        }
    }
}

#[cfg(test)]
mod tests;
