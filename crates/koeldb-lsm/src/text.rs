//! Text forms of keys, tables, trees, edits and compaction plans.
//!
//! They appear in LOG lines, in the output of tools and in test scripts.
//!
//! ```text
//! key      a#12,SET                    user key, sequence number, type; `#inf`: the largest number
//! table    000012:[a#12,SET-z#9,DEL] 64M seqs=9-12 epoch=3
//! tree     L0
//!            000012:[…] …
//! plan     LevelL0FilesNum: L0[000012] + L6[000007] -> L6 bottommost
//! ```
//!
//! User keys are escaped as in a Rust byte string; the alternate form (`{:#}`) prints them in
//! hexadecimal. An edit has the format of RocksDB's `ldb manifest_dump --verbose`, one field on
//! each line.

use std::fmt;

use koeldb_base::key::{MAX_SEQNO, footer_of};

use crate::pick::CompactionPlan;
use crate::version::edit::ColumnFamilyChange;
use crate::version::{FileMeta, Version, VersionEdit};

/// An encoded internal key that is displayed as `user key#sequence number,TYPE`.
#[derive(Clone, Copy, Debug)]
pub struct KeyText<'a>(pub &'a [u8]);

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user_key, footer) = footer_of(self.0);
        write_user_key(f, user_key)?;
        match footer >> 8 {
            MAX_SEQNO => f.write_str("#inf,")?,
            seqno => write!(f, "#{seqno},")?,
        }
        match type_name(footer.to_le_bytes()[0]) {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#04x}", footer & 0xff),
        }
    }
}

/// Writes a user key with escapes, or in hexadecimal for the alternate format.
fn write_user_key(f: &mut fmt::Formatter<'_>, user_key: &[u8]) -> fmt::Result {
    if f.alternate() {
        f.write_str("0x")?;
        return user_key.iter().try_for_each(|byte| write!(f, "{byte:02X}"));
    }
    write!(f, "{}", user_key.escape_ascii())
}

/// Returns the short name of a value type byte, such as `SET`; `None` for an unknown one.
#[must_use]
pub fn type_name(byte: u8) -> Option<&'static str> {
    Some(match byte {
        0x00 => "DEL",
        0x01 => "SET",
        0x02 => "MERGE",
        0x07 => "SINGLEDEL",
        0x0f => "RANGEDEL",
        0x11 => "BLOB",
        0x14 => "DELTS",
        0x16 => "ENTITY",
        0x18 => "SETSEQ",
        _ => return None,
    })
}

/// A byte count that is displayed with the largest binary unit that divides it: `64M`, `1500`.
#[derive(Clone, Copy, Debug)]
pub struct BytesText(pub u64);

impl fmt::Display for BytesText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "G"), (20, "M"), (10, "K")];
        let fits = |shift: u32| self.0 >= 1 << shift && self.0.trailing_zeros() >= shift;
        match units.iter().find(|(shift, _)| fits(*shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Display for FileMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}:[", self.number)?;
        fmt::Display::fmt(&KeyText(&self.smallest), f)?;
        f.write_str("-")?;
        fmt::Display::fmt(&KeyText(&self.largest), f)?;
        write!(f, "] {}", BytesText(self.bytes))?;
        write!(f, " seqs={}-{}", self.smallest_seqno, self.largest_seqno)?;
        write!(f, " epoch={}", self.epoch)?;
        for (name, time) in [
            ("created", self.creation_time),
            ("ancestor", self.oldest_ancestor_time),
        ] {
            if time > 0 {
                write!(f, " {name}={time}")?;
            }
        }
        if self.marked_for_compaction {
            f.write_str(" marked")?;
        }
        if self.is_being_compacted() {
            f.write_str(" compacting")?;
        }
        Ok(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (level, files) in self.levels.iter().enumerate() {
            if files.files.is_empty() {
                continue;
            }
            writeln!(f, "L{level}")?;
            for file in &files.files {
                f.write_str("  ")?;
                fmt::Display::fmt(&**file, f)?;
                f.write_str("\n")?;
            }
        }
        for blob_file in self.blob_files.values() {
            writeln!(
                f,
                "blob file {:06}: {} in {} blobs, {} in {} of them garbage",
                blob_file.number,
                BytesText(blob_file.bytes),
                blob_file.count,
                BytesText(blob_file.garbage_bytes),
                blob_file.garbage_count
            )?;
        }
        Ok(())
    }
}

/// Formats a version edit like RocksDB's tools; keys are formatted by [`Quoted`].
impl fmt::Display for VersionEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "VersionEdit {{")?;
        if let Some(id) = &self.db_id {
            writeln!(f, "  DB ID: {}", String::from_utf8_lossy(id))?;
        }
        if let Some(comparator) = &self.comparator {
            writeln!(f, "  Comparator: {comparator}")?;
        }
        let numbers = [
            ("LogNumber", self.log_number),
            ("PrevLogNumber", self.prev_log_number),
            ("NextFileNumber", self.next_file_number),
            ("MaxColumnFamily", self.max_column_family.map(u64::from)),
            ("MinLogNumberToKeep", self.min_log_number_to_keep),
            ("LastSeq", self.last_seqno),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                writeln!(f, "  {name}: {number}")?;
            }
        }
        for (level, number) in &self.deleted_files {
            writeln!(f, "  DeleteFile: {level} {number}")?;
        }
        for (level, file) in &self.added_files {
            write!(f, "  AddFile: {level} {} {} ", file.number, file.bytes)?;
            fmt::Display::fmt(&Quoted(&file.smallest), f)?;
            f.write_str(" .. ")?;
            fmt::Display::fmt(&Quoted(&file.largest), f)?;
            if file.oldest_blob_file != 0 {
                write!(f, " blob_file:{}", file.oldest_blob_file)?;
            }
            writeln!(
                f,
                " oldest_ancester_time:{} file_creation_time:{} epoch_number:{} tail size: {}",
                file.oldest_ancestor_time, file.creation_time, file.epoch, file.tail_bytes
            )?;
        }
        for file in &self.added_blob_files {
            let (number, count, bytes) = (file.number, file.count, file.bytes);
            let checksum_name = file.checksum_name.escape_ascii();
            write!(
                f,
                "  BlobFileAddition: blob_file_number: {number} total_blob_count: {count} \
                 total_blob_bytes: {bytes} checksum_method: {checksum_name} checksum_value: "
            )?;
            for byte in &file.checksum {
                write!(f, "{byte:02X}")?;
            }
            writeln!(f)?;
        }
        for garbage in &self.blob_garbage {
            writeln!(
                f,
                "  BlobFileGarbage: blob_file_number: {} garbage_blob_count: {} garbage_blob_bytes: {}",
                garbage.number, garbage.count, garbage.bytes
            )?;
        }
        for wal in &self.wal_additions {
            writeln!(f, "  WalAddition: {wal:?}")?;
        }
        if let Some(number) = self.wal_deletion {
            writeln!(f, "  WalDeletion: log_number: {number}")?;
        }
        writeln!(f, "  ColumnFamily: {}", self.family)?;
        match &self.family_change {
            Some(ColumnFamilyChange::Add(name)) => writeln!(f, "  ColumnFamilyAdd: {name}")?,
            Some(ColumnFamilyChange::Drop) => writeln!(f, "  ColumnFamilyDrop: ")?,
            None => {}
        }
        if let Some(remaining) = self.remaining_in_group {
            writeln!(f, "  AtomicGroup: {remaining} entries remains")?;
        }
        f.write_str("}")
    }
}

/// An encoded internal key that is displayed as by RocksDB's tools: `'a' seq:12, type:1`.
///
/// The key is in hexadecimal if requested (`{:#}`) or if it is not printable.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user_key, footer) = footer_of(self.0);
        let is_printable = user_key
            .iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        f.write_str("'")?;
        if is_printable && !f.alternate() {
            f.write_str(&String::from_utf8_lossy(user_key))?;
        } else {
            user_key
                .iter()
                .try_for_each(|byte| write!(f, "{byte:02X}"))?;
        }
        write!(f, "' seq:{}, type:{}", footer >> 8, footer & 0xff)
    }
}

impl fmt::Display for CompactionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: ", self.reason)?;
        for (index, input) in self.inputs.iter().enumerate() {
            let separator = if index == 0 { "" } else { " + " };
            write!(f, "{separator}L{}[", input.level)?;
            for (index, file) in input.files.iter().enumerate() {
                let separator = if index == 0 { "" } else { " " };
                write!(f, "{separator}{:06}", file.number)?;
            }
            f.write_str("]")?;
        }
        if self.deletion_only {
            return f.write_str(" -> dropped");
        }
        write!(f, " -> L{}", self.output_level)?;
        if self.trivial_move {
            f.write_str(" moved")?;
        }
        if self.bottommost {
            f.write_str(" bottommost")?;
        }
        for (name, bytes) in [
            ("target", self.target_file_bytes),
            ("overlap", self.max_grandparent_bytes),
        ] {
            if bytes != u64::MAX {
                write!(f, " {name}={}", BytesText(bytes))?;
            }
        }
        if !self.grandparents.is_empty() {
            f.write_str(" grandparents=[")?;
            for (index, file) in self.grandparents.iter().enumerate() {
                let separator = if index == 0 { "" } else { " " };
                write!(f, "{separator}{:06}", file.number)?;
            }
            f.write_str("]")?;
        }
        if let Some((level, key)) = &self.next_cursor {
            write!(f, " cursor=L{level}:{}", KeyText(key))?;
        }
        Ok(())
    }
}
