//! The meta file of a backup: its format in both schemas, without I/O.
//!
//! ```text
//! schema 1                                  schema 2
//!                                           schema_version 2.1
//! <seconds since 1970>                      <seconds since 1970>
//! <sequence number>                         <sequence number>
//! [metadata <hexadecimal>]                  [<name> <data>]…
//! <file count>                              <file count>
//! <path> crc32 <CRC-32C, decimal>           <path>( <name> <data>)…
//! …                                         …
//!                                           <path> ni::excluded true
//!                                           [// FOOTER, then <name> <data>…]
//! ```
//!
//! Format: RocksDB's (`utilities/backup/backup_engine.cc`, release 11.9). In schema 2, unknown names
//! are ignored, unless they begin with `ni::`. The footer `koeldb.crc32c` is the checksum of all
//! bytes before its line.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fmt::Write as _;

use koeldb_base::checksum::crc32c;
use koeldb_base::{Error, Result, SeqNo};

use super::layout::{BackupId, BackupPath};
use crate::state::hex::{hex, unhex};

/// The longest meta file, in bytes.
pub(super) const META_BYTES_MAX: u64 = 64 << 20;

/// The longest application metadata, in bytes.
pub(super) const APP_METADATA_BYTES_MAX: usize = 1 << 20;

const FOOTER: &str = "// FOOTER";
const FOOTER_CRC: &str = "koeldb.crc32c";

/// A line of a meta file that lists a backed-up file: path, checksum and length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetaFile {
    pub(super) path: BackupPath,
    pub(super) crc32c: Option<u32>,
    /// The length of the file in bytes; absent in schema 1.
    pub(super) bytes: Option<u64>,
}

/// The content of a meta file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BackupMeta {
    pub(super) unix_secs: u64,
    pub(super) seqno: SeqNo,
    pub(super) app_metadata: Vec<u8>,
    pub(super) files: Vec<MetaFile>,
    pub(super) excluded: Vec<BackupPath>,
}

impl BackupMeta {
    /// Encodes the meta file in schema 1 or 2.
    pub(super) fn encode(&self, schema: u32) -> String {
        let mut text = String::new();
        if schema >= 2 {
            text.push_str("schema_version 2.1\n");
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}\n{}", self.unix_secs, self.seqno);
        if !self.app_metadata.is_empty() {
            text.push_str("metadata ");
            text.push_str(&hex(&self.app_metadata));
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.files.len());
        for file in &self.files {
            let _ = write!(text, "{}", file.path);
            if let Some(crc32c) = file.crc32c {
                let _ = write!(text, " crc32 {crc32c}");
            }
            if let Some(bytes) = file.bytes.filter(|_| schema >= 2) {
                let _ = write!(text, " size {bytes}");
            }
            text.push('\n');
        }
        if schema >= 2 {
            for path in &self.excluded {
                let _ = writeln!(text, "{path} ni::excluded true");
            }
            let _ = writeln!(text, "{FOOTER}");
            let sum = crc32c(text.as_bytes());
            let _ = writeln!(text, "{FOOTER_CRC} {sum}");
        }
        text
    }

    /// Decodes the meta file of backup `id`.
    ///
    /// # Errors
    /// `Corruption` with the line for bytes that violate the format; `NotSupported` for a newer
    /// schema or a field that must be understood.
    pub(super) fn decode(bytes: &[u8], id: BackupId) -> Result<Self> {
        let text = str::from_utf8(bytes)
            .map_err(|_| Error::corruption("the meta file of a backup is not text"))?;
        let mut lines = Lines::new(text);
        let meta = Self::decode_lines(&mut lines, id);
        meta.map_err(|error| error.context(format!("line {}", lines.number)))
    }

    /// Decodes the lines of a meta file (schema version 1 or 2.x).
    fn decode_lines(lines: &mut Lines<'_>, id: BackupId) -> Result<Self> {
        let mut meta = BackupMeta::default();
        let mut first = lines.required("the time")?;
        let mut schema = 1;
        if let Some(version) = first.strip_prefix("schema_version ") {
            if version != "2" && !version.starts_with("2.") {
                return Err(Error::not_supported(format!(
                    "unsupported schema version {version:?} of a backup"
                )));
            }
            schema = 2;
            first = lines.required("the time")?;
        }
        meta.unix_secs = decimal(first, "time")?;
        meta.seqno = decimal(lines.required("the sequence number")?, "sequence number")?;
        let count = meta.decode_fields(lines, schema)?;
        let has_footer = meta.decode_files(lines, schema, id)?;
        if count != meta.files.len() as u64 {
            return Err(Error::corruption(format!(
                "the meta file declares {count} files and lists {}",
                meta.files.len()
            )));
        }
        if has_footer {
            decode_footer(lines)?;
        }
        Ok(meta)
    }

    /// Decodes the fields before the list of files; returns the number of files.
    fn decode_fields(&mut self, lines: &mut Lines<'_>, schema: u32) -> Result<u64> {
        loop {
            let line = lines.required("the number of files")?;
            if line.starts_with(|first: char| first.is_ascii_digit()) {
                return decimal(line, "number of files");
            }
            let Some((name, data)) = line.split_once(' ') else {
                return Err(Error::corruption("a field without data"));
            };
            if name == "metadata" {
                self.app_metadata = app_metadata(data)?;
            } else if schema < 2 {
                return Err(Error::corruption(format!("unexpected field {name:?}")));
            } else {
                refuse_unknown(name)?;
            }
        }
    }

    /// Decodes the list of files; returns whether a footer follows.
    fn decode_files(&mut self, lines: &mut Lines<'_>, schema: u32, id: BackupId) -> Result<bool> {
        while let Some(line) = lines.next() {
            if schema >= 2 && line == FOOTER {
                return Ok(true);
            }
            let mut words = line.split(' ');
            let path = words.next().unwrap_or_default();
            let path = BackupPath::parse(path, id)?;
            let mut file = MetaFile {
                path,
                crc32c: None,
                bytes: None,
            };
            let mut is_excluded = false;
            while let Some(name) = words.next() {
                let data = words
                    .next()
                    .ok_or_else(|| Error::corruption(format!("field {name:?} without data")))?;
                match name {
                    "crc32" => file.crc32c = Some(checksum(data)?),
                    _ if schema < 2 => {
                        return Err(Error::corruption(format!("unexpected field {name:?}")));
                    }
                    "size" => file.bytes = Some(decimal(data, "size")?),
                    "ni::excluded" => is_excluded = excluded(data)?,
                    _ => refuse_unknown(name)?,
                }
            }
            if is_excluded {
                self.excluded.push(file.path);
            } else if schema < 2 && file.crc32c.is_none() {
                return Err(Error::corruption("a listed file has no checksum"));
            } else {
                self.files.push(file);
            }
        }
        Ok(false)
    }
}

/// Decodes the footer, whose unknown fields are ignored unless they start with `ni::`.
fn decode_footer(lines: &mut Lines<'_>) -> Result<()> {
    loop {
        let before = lines.consumed();
        let Some(line) = lines.next() else {
            return Ok(());
        };
        let Some((name, data)) = line.split_once(' ') else {
            return Err(Error::corruption("a footer field has no data"));
        };
        if name != FOOTER_CRC {
            refuse_unknown(name)?;
            continue;
        }
        let (stored, computed) = (checksum(data)?, crc32c(before.as_bytes()));
        if stored != computed {
            return Err(Error::corruption(format!(
                "checksum mismatch of the meta file: stored = {stored}, computed = {computed}"
            )));
        }
    }
}

/// The lines of a meta file, each of which ends with a newline.
struct Lines<'t> {
    text: &'t str,
    rest: &'t str,
    /// The number of the last line, from 1.
    number: u64,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Lines {
            text,
            rest: text,
            number: 0,
        }
    }

    /// Returns the text of the lines read so far, over which the checksum is computed.
    fn consumed(&self) -> &'t str {
        let bytes = self.text.len().saturating_sub(self.rest.len());
        self.text.get(..bytes).unwrap_or_default()
    }

    /// Returns the next line; `None` at the end.
    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        self.number = self.number.saturating_add(1);
        Some(line)
    }

    /// Returns the next line; `Corruption` if there is none.
    fn required(&mut self, what: &str) -> Result<&'t str> {
        self.next()
            .ok_or_else(|| Error::corruption(format!("the meta file ends before {what}")))
    }
}

/// Fails with `NotSupported` if an unknown field must not be ignored (`ni::`).
fn refuse_unknown(name: &str) -> Result<()> {
    if name.starts_with("ni::") {
        return Err(Error::not_supported(format!(
            "unknown field {name:?} of a backup, which must not be ignored"
        )));
    }
    Ok(())
}

/// Decodes `ni::excluded`: whether the file is excluded from the backup.
fn excluded(data: &str) -> Result<bool> {
    match data {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::not_supported(format!("ni::excluded {data:?}"))),
    }
}

/// Parses a decimal number without sign and without leading zeros.
fn decimal(text: &str, what: &str) -> Result<u64> {
    let is_exact =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    match text.parse() {
        Ok(number) if is_exact => Ok(number),
        _ => Err(Error::corruption(format!(
            "{what} {text:?} is not a number"
        ))),
    }
}

/// Decodes a crc32c in decimal.
fn checksum(text: &str) -> Result<u32> {
    let number = decimal(text, "checksum")?;
    u32::try_from(number).map_err(|_| Error::corruption(format!("checksum {text:?} is too large")))
}

/// Decodes the application metadata of a backup, which is hexadecimal.
fn app_metadata(text: &str) -> Result<Vec<u8>> {
    let bytes = unhex(text).filter(|bytes| bytes.len() <= APP_METADATA_BYTES_MAX);
    bytes.ok_or_else(|| Error::corruption("the application metadata is not hexadecimal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> BackupPath {
        BackupPath::parse(text, 3).unwrap()
    }

    fn sample() -> BackupMeta {
        BackupMeta {
            unix_secs: 1_700_000_000,
            seqno: 77,
            app_metadata: b"nightly\0".to_vec(),
            files: vec![
                MetaFile {
                    path: path("shared_checksum/000008_sABC_123.sst"),
                    crc32c: Some(5),
                    bytes: None,
                },
                MetaFile {
                    path: path("private/3/CURRENT"),
                    crc32c: Some(u32::MAX),
                    bytes: None,
                },
            ],
            excluded: Vec::new(),
        }
    }

    #[test]
    fn schema_1_has_rocksdbs_bytes() {
        let text = sample().encode(1);
        assert_eq!(
            text,
            "1700000000\n77\nmetadata 6E696768746C7900\n2\n\
             shared_checksum/000008_sABC_123.sst crc32 5\n\
             private/3/CURRENT crc32 4294967295\n"
        );
        assert_eq!(BackupMeta::decode(text.as_bytes(), 3).unwrap(), sample());
    }

    #[test]
    fn schema_2_round_trips_and_notices_every_changed_byte() {
        let mut meta = sample();
        meta.files[0].bytes = Some(123);
        meta.files[1].bytes = Some(16);
        meta.excluded
            .push(path("shared_checksum/000009_sABC_9.sst"));
        let text = meta.encode(2);
        assert_eq!(BackupMeta::decode(text.as_bytes(), 3).unwrap(), meta);
        let footer = text.find(FOOTER_CRC).unwrap();
        for at in 0..footer {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(changed) = BackupMeta::decode(&bytes, 3) {
                // Without a footer line there is no checksum: a file entry takes its place.
                panic!("byte {at}: {changed:?}");
            }
        }
    }

    #[test]
    fn fields_of_later_versions_are_ignored_or_refused_as_they_ask() {
        let body = "schema_version 2.7\n1\n2\nzone eu\n1\nshared/000001.sst crc32 1 owner me\n";
        let meta = BackupMeta::decode(body.as_bytes(), 1).unwrap();
        assert_eq!(meta.files.len(), 1);
        for text in [
            "schema_version 3.0\n1\n2\n0\n",
            "schema_version 2\n1\n2\nni::zone eu\n0\n",
            "schema_version 2\n1\n2\n1\nshared/000001.sst ni::key x\n",
            "schema_version 2\n1\n2\n1\nshared/000001.sst ni::excluded perhaps\n",
            "schema_version 2\n1\n2\n0\n// FOOTER\nni::sum 7\n",
        ] {
            let error = BackupMeta::decode(text.as_bytes(), 1).unwrap_err();
            assert_eq!(error.kind(), koeldb_base::ErrorKind::NotSupported, "{text}");
        }
    }

    #[test]
    fn what_violates_the_format_is_corruption_with_its_line() {
        for (line, text) in [
            (0, ""),
            (1, "noon\n"),
            (1, "+1\n2\n0\n"),
            (1, "01\n2\n0\n"),
            (1, "1\n"),
            (3, "1\n2\nzone eu\n0\n"),
            (3, "1\n2\nmetadata 4\n0\n"),
            (3, "1\n2\nmetadata zz\n0\n"),
            (3, "1\n2\n1\n"),
            (4, "1\n2\n0\nshared/000001.sst crc32 1\n"),
            (4, "1\n2\n1\nshared/000001.sst\n"),
            (4, "1\n2\n1\nshared/000001.sst crc32\n"),
            (4, "1\n2\n1\nshared/000001.sst crc32 4294967296\n"),
            (4, "1\n2\n1\nshared/000001.sst crc32 1 size 5\n"),
            (4, "1\n2\n1\nshared/../000001.sst crc32 1\n"),
            (4, "1\n2\n1\n/etc/passwd crc32 1\n"),
            (4, "1\n2\n1\nprivate/2/CURRENT crc32 1\n"),
            (4, "1\n2\n1\n\n"),
        ] {
            let error = BackupMeta::decode(text.as_bytes(), 1).unwrap_err();
            assert!(error.is_corruption(), "{text:?}: {error}");
            let at = format!("line {line}");
            assert!(error.to_string().contains(&at), "{text:?}: {error}");
        }
    }
}
