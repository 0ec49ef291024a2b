//! The messages of remote compaction: a job's input and its result, as RocksDB 11.9 writes them.
//!
//! ```text
//! message := version (fixed32, little-endian, 1) { name '=' value ';' }
//! string  := upper-case hexadecimal digits
//! number  := decimal          boolean := 'true' | 'false'
//! list    := element { ':' element }      an element with ':' is in braces, a list with '=' too
//! record  := '{' { name '=' value ';' } '}'
//! ```
//!
//! Fields come in any order. Unknown names are ignored and missing ones have their default, so that
//! releases with other fields understand each other. (RocksDB: `db/compaction/compaction_service_job.cc`.)

use std::fmt::{Display, Write as _};
use std::str::FromStr;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_table::TableProperties;

use crate::options::grammar;
use crate::state::hex::{hex, unhex};

/// The only version of both messages.
const VERSION: u32 = 1;

/// The longest message that is decoded.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The description of a compaction for its worker (RocksDB: `CompactionServiceInput`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobInput {
    pub(crate) family: String,
    /// The live snapshots, ascending.
    pub(crate) snapshots: Vec<SeqNo>,
    /// The names of the input tables.
    pub(crate) files: Vec<String>,
    pub(crate) output_level: u32,
    pub(crate) db_id: String,
    /// The first user key; `None` for no bound.
    pub(crate) begin: Option<Vec<u8>>,
    /// The user key before which the job ends; `None` for no bound.
    pub(crate) end: Option<Vec<u8>>,
    pub(crate) options_file: u64,
}

/// An output table of a worker (RocksDB: `CompactionServiceOutputFile`).
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputTable {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) smallest_seqno: SeqNo,
    pub(crate) largest_seqno: SeqNo,
    /// The smallest internal key.
    pub(crate) smallest: Vec<u8>,
    /// The largest internal key.
    pub(crate) largest: Vec<u8>,
    pub(crate) oldest_ancestor_time: u64,
    pub(crate) creation_time: u64,
    pub(crate) epoch: u64,
    pub(crate) checksum: Vec<u8>,
    pub(crate) checksum_name: Vec<u8>,
    pub(crate) marked_for_compaction: bool,
    pub(crate) unique_id: [u64; 2],
    /// Whether the table belongs above the output level.
    pub(crate) is_proximal: bool,
    /// The properties, which a reader takes from the table instead.
    pub(crate) properties: TableProperties,
}

/// The statistics of a remote compaction: times, files, bytes and entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobFigures {
    pub(crate) elapsed_micros: u64,
    pub(crate) cpu_micros: u64,
    pub(crate) input_files: u64,
    pub(crate) input_files_there: u64,
    pub(crate) input_bytes: u64,
    pub(crate) input_entries: u64,
    pub(crate) output_files: u64,
    pub(crate) output_bytes: u64,
    pub(crate) output_entries: u64,
    pub(crate) is_manual: bool,
}

/// The result of a remote compaction (RocksDB: `CompactionServiceResult`).
#[derive(Clone, Debug, Default)]
pub(crate) struct JobResult {
    /// The error of a job that failed.
    pub(crate) error: Option<Error>,
    pub(crate) files: Vec<OutputTable>,
    pub(crate) output_level: u32,
    /// The directory of the tables.
    pub(crate) directory: String,
    pub(crate) figures: JobFigures,
}

/// The codes of statuses in a message, by their number.
const CODES: [(u8, ErrorKind); 14] = [
    (1, ErrorKind::NotFound),
    (2, ErrorKind::Corruption),
    (3, ErrorKind::NotSupported),
    (4, ErrorKind::InvalidArgument),
    (5, ErrorKind::IoError),
    (6, ErrorKind::MergeInProgress),
    (7, ErrorKind::Incomplete),
    (8, ErrorKind::ShutdownInProgress),
    (9, ErrorKind::TimedOut),
    (10, ErrorKind::Aborted),
    (11, ErrorKind::Busy),
    (12, ErrorKind::Expired),
    (13, ErrorKind::TryAgain),
    (15, ErrorKind::ColumnFamilyDropped),
];

/// A function that returns one number of the table properties.
type NumberOf = fn(&TableProperties) -> u64;

/// The numbers of table properties by their names in messages.
const PROPERTY_NUMBERS: [(&str, NumberOf); 32] = [
    ("orig_file_number", |of| of.original_file_number),
    ("data_size", |of| of.data_bytes),
    ("index_size", |of| of.index_bytes),
    ("index_partitions", |of| of.index_partitions),
    ("top_level_index_size", |of| of.top_level_index_bytes),
    ("index_key_is_user_key", |of| of.index_key_is_user_key),
    ("index_value_is_delta_encoded", |of| {
        of.index_value_is_delta_encoded
    }),
    ("filter_size", |of| of.filter_bytes),
    ("raw_key_size", |of| of.raw_key_bytes),
    ("raw_value_size", |of| of.raw_value_bytes),
    ("num_data_blocks", |of| of.data_block_count),
    ("num_data_blocks_compression_rejected", |of| {
        of.compression_rejected_count
    }),
    ("num_data_blocks_compression_bypassed", |of| {
        of.compression_bypassed_count
    }),
    ("num_uniform_blocks", |of| of.uniform_block_count),
    ("num_entries", |of| of.entry_count),
    ("num_filter_entries", |of| of.filter_entry_count),
    ("num_deletions", |of| of.deletion_count),
    ("num_merge_operands", |of| of.merge_operand_count),
    ("num_range_deletions", |of| of.range_deletion_count),
    ("format_version", |of| of.format_version),
    ("fixed_key_len", |of| of.fixed_key_bytes),
    ("column_family_id", |of| of.column_family_id),
    ("creation_time", |of| of.creation_time),
    ("oldest_key_time", |of| of.oldest_key_time),
    ("newest_key_time", |of| of.newest_key_time),
    ("file_creation_time", |of| of.file_creation_time),
    ("slow_compression_estimated_data_size", |of| {
        of.slow_compression_data_bytes
    }),
    ("fast_compression_estimated_data_size", |of| {
        of.fast_compression_data_bytes
    }),
    ("tail_start_offset", |of| of.tail_start_offset),
    ("user_defined_timestamps_persisted", |of| {
        of.user_timestamps_persisted
    }),
    ("data_block_restart_interval", |of| {
        of.data_block_restart_interval
    }),
    ("index_block_restart_interval", |of| {
        of.index_block_restart_interval
    }),
];

/// A function that returns one text of the table properties.
type TextOf = fn(&TableProperties) -> &[u8];

/// The texts of table properties by their names in messages.
const PROPERTY_TEXTS: [(&str, TextOf); 12] = [
    ("db_id", |of| &of.db_id),
    ("db_session_id", |of| &of.session_id),
    ("db_host_id", |of| &of.host_id),
    ("column_family_name", |of| &of.column_family_name),
    ("filter_policy_name", |of| &of.filter_policy_name),
    ("comparator_name", |of| &of.comparator_name),
    ("merge_operator_name", |of| &of.merge_operator_name),
    ("prefix_extractor_name", |of| &of.prefix_extractor_name),
    ("property_collectors_names", |of| {
        &of.property_collector_names
    }),
    ("compression_name", |of| &of.compression_name),
    ("compression_options", |of| &of.compression_options),
    ("seqno_to_time_mapping", |of| &of.seqno_to_time_mapping),
];

/// A record of a message under construction, in the option-string syntax `name=value;`.
#[derive(Default)]
struct Writer(String);

impl Writer {
    /// Appends the field `name=value;`.
    fn put(&mut self, name: &str, value: impl Display) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{name}={value};");
        self
    }

    /// Appends a string field, as upper-case hexadecimal digits.
    fn bytes(&mut self, name: &str, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.put(name, hex(bytes.as_ref()))
    }

    /// Appends a nested record, in braces.
    fn record(&mut self, name: &str, record: &Writer) -> &mut Self {
        self.put(name, format_args!("{{{}}}", record.0))
    }

    /// Appends a list field: elements joined by `:`, those that contain a `:` in braces.
    fn list(&mut self, name: &str, elements: impl IntoIterator<Item = String>) -> &mut Self {
        let in_braces = |element: String| match element.contains(':') {
            true => format!("{{{element}}}"),
            false => element,
        };
        let elements: Vec<String> = elements.into_iter().map(in_braces).collect();
        let list = elements.join(":");
        let is_nested = list.contains('=') || (elements.len() > 1 && list.starts_with('{'));
        match is_nested {
            true => self.put(name, format_args!("{{{list}}}")),
            false => self.put(name, list),
        }
    }

    /// Returns the message: the version (fixed32), then the fields.
    fn message(&self) -> Vec<u8> {
        let mut message = VERSION.to_le_bytes().to_vec();
        message.extend_from_slice(self.0.as_bytes());
        message
    }
}

/// The parsed fields of a record of a message: pairs of name and value text.
struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    /// Parses a message into its fields; checks its length and version.
    fn of_message(message: &'a [u8]) -> Result<Self> {
        let text = match message.split_first_chunk() {
            Some((version, text)) if !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX => {
                match u32::from_le_bytes(*version) {
                    VERSION => text,
                    other => {
                        return Err(Error::not_supported(format!(
                            "remote compaction: version {other} of a message"
                        )));
                    }
                }
            }
            _ => return Err(refused("a message", "its length")),
        };
        let text = std::str::from_utf8(text).map_err(|_| refused("a message", "a byte"))?;
        Self::of_record(text)
    }

    /// Parses the fields of a record without its outer braces.
    fn of_record(text: &'a str) -> Result<Self> {
        Ok(Fields(grammar::pairs(text)?))
    }

    /// Returns the text of the first field with this name; `None` if it is missing.
    fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    /// Parses a number or boolean; a missing field has the default.
    fn parse<T: FromStr + Default>(&self, name: &str) -> Result<T> {
        match self.get(name) {
            Some(value) => value.parse().map_err(|_| refused(name, value)),
            None => Ok(T::default()),
        }
    }

    /// Decodes a string field from hexadecimal digits; a missing field is empty.
    fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        self.get(name)
            .map_or(Ok(Vec::new()), |text| decoded(name, text))
    }

    /// Decodes a string field in UTF-8; a missing field is empty.
    fn text(&self, name: &str) -> Result<String> {
        utf8(name, self.bytes(name)?)
    }

    /// Parses a nested record; a missing field has no fields.
    fn record(&self, name: &str) -> Result<Fields<'a>> {
        Self::of_record(self.get(name).unwrap_or_default())
    }

    /// Splits a list field into the texts of its elements; a missing field is empty.
    fn list(&self, name: &str) -> Result<Vec<&'a str>> {
        let text = self.get(name).unwrap_or_default();
        // One pair of braces belongs to the list, unless it is that of its only element.
        Ok(grammar::elements(name, grammar::strip_outer_braces(text))?)
    }

    /// Parses a list of numbers; a missing field is empty.
    fn numbers(&self, name: &str) -> Result<Vec<u64>> {
        let parse = |text: &str| text.parse().map_err(|_| refused(name, text));
        self.list(name)?.into_iter().map(parse).collect()
    }
}

/// Returns the `Corruption` error of a field with an invalid value.
fn refused(name: &str, value: &str) -> Error {
    let value: String = value.chars().take(40).collect();
    Error::corruption(format!("remote compaction: {name} cannot be {value:?}"))
}

/// Decodes the value of the field `name` from hexadecimal digits.
fn decoded(name: &str, text: &str) -> Result<Vec<u8>> {
    unhex(text).ok_or_else(|| refused(name, text))
}

/// Decodes the bytes of field `name` as UTF-8.
fn utf8(name: &str, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| refused(name, "a text that is not UTF-8"))
}

/// Returns the file name of a table, by which messages refer to it: `000012.sst`.
pub(crate) fn table_name(number: FileNumber) -> String {
    format!("{number:06}.sst")
}

/// Parses the file number from the file name of a table in a message.
pub(crate) fn table_number(name: &str) -> Result<FileNumber> {
    match file_name::parse(name) {
        Some(FileKind::Table(number)) if name == table_name(number) => Ok(number),
        _ => Err(Error::corruption(format!(
            "remote compaction: {name:?} is not the name of a table"
        ))),
    }
}

impl JobInput {
    /// Encodes the message (RocksDB: `CompactionServiceInput::Write`).
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let (begin, end) = (self.begin.as_deref(), self.end.as_deref());
        writer
            .bytes("cf_name", &self.family)
            .list("snapshots", self.snapshots.iter().map(u64::to_string))
            .list(
                "input_files",
                self.files.iter().map(|name| hex(name.as_bytes())),
            )
            .put("output_level", self.output_level)
            .bytes("db_id", &self.db_id)
            .put("has_begin", begin.is_some())
            .bytes("begin", begin.unwrap_or_default())
            .put("has_end", end.is_some())
            .bytes("end", end.unwrap_or_default())
            .put("options_file_number", self.options_file);
        writer.message()
    }

    /// Decodes the message (RocksDB: `CompactionServiceInput::Read`).
    pub(crate) fn decode(message: &[u8]) -> Result<Self> {
        let fields = Fields::of_message(message)?;
        let bound = |has: &str, name: &str| {
            let key = fields.bytes(name)?;
            Ok::<_, Error>(fields.parse::<bool>(has)?.then_some(key))
        };
        let name = |text: &str| utf8("input_files", decoded("input_files", text)?);
        let files = fields.list("input_files")?;
        Ok(JobInput {
            family: fields.text("cf_name")?,
            snapshots: fields.numbers("snapshots")?,
            files: files.into_iter().map(name).collect::<Result<_>>()?,
            output_level: fields.parse("output_level")?,
            db_id: fields.text("db_id")?,
            begin: bound("has_begin", "begin")?,
            end: bound("has_end", "end")?,
            options_file: fields.parse("options_file_number")?,
        })
    }
}

impl OutputTable {
    /// Encodes the record of the table (RocksDB: `CompactionServiceOutputFile`).
    fn write(&self) -> Writer {
        let mut properties = Writer::default();
        for (name, number) in PROPERTY_NUMBERS {
            properties.put(name, number(&self.properties));
        }
        for (name, text) in PROPERTY_TEXTS {
            properties.bytes(name, text(&self.properties));
        }
        let mut writer = Writer::default();
        writer
            .bytes("file_name", &self.name)
            .put("file_size", self.bytes)
            .put("smallest_seqno", self.smallest_seqno)
            .put("largest_seqno", self.largest_seqno)
            .bytes("smallest_internal_key", &self.smallest)
            .bytes("largest_internal_key", &self.largest)
            .put("oldest_ancester_time", self.oldest_ancestor_time)
            .put("file_creation_time", self.creation_time)
            .put("epoch_number", self.epoch)
            .bytes("file_checksum", &self.checksum)
            .bytes("file_checksum_func_name", &self.checksum_name)
            .put("paranoid_hash", 0)
            .put("marked_for_compaction", self.marked_for_compaction)
            .list("unique_id", self.unique_id.iter().map(u64::to_string))
            .record("table_properties", &properties)
            .put("is_proximal_level_output", self.is_proximal)
            .put("file_temperature", "kUnknown");
        writer
    }

    /// Decodes the record of a table; its properties are checked but not kept.
    fn read(text: &str) -> Result<Self> {
        let fields = Fields::of_record(text)?;
        let unique_id = fields.numbers("unique_id")?;
        // Parsed only to detect damage: the properties are read from the table itself.
        let properties = fields.record("table_properties")?;
        for (name, _) in PROPERTY_NUMBERS {
            properties.parse::<u64>(name)?;
        }
        for (name, _) in PROPERTY_TEXTS {
            properties.bytes(name)?;
        }
        fields.parse::<u64>("paranoid_hash")?;
        Ok(OutputTable {
            name: fields.text("file_name")?,
            bytes: fields.parse("file_size")?,
            smallest_seqno: fields.parse("smallest_seqno")?,
            largest_seqno: fields.parse("largest_seqno")?,
            smallest: fields.bytes("smallest_internal_key")?,
            largest: fields.bytes("largest_internal_key")?,
            oldest_ancestor_time: fields.parse("oldest_ancester_time")?,
            creation_time: fields.parse("file_creation_time")?,
            epoch: fields.parse("epoch_number")?,
            checksum: fields.bytes("file_checksum")?,
            checksum_name: fields.bytes("file_checksum_func_name")?,
            marked_for_compaction: fields.parse("marked_for_compaction")?,
            unique_id: match unique_id[..] {
                [high, low] => [high, low],
                [] => [0, 0],
                _ => return Err(refused("unique_id", "a list of another length")),
            },
            is_proximal: fields.parse("is_proximal_level_output")?,
            properties: TableProperties::default(),
        })
    }
}

impl JobFigures {
    /// Encodes the figures of the job (`stats`) and of its level (`output_level_stats`).
    fn write(&self) -> (Writer, Writer) {
        let (mut job, mut level) = (Writer::default(), Writer::default());
        job.put("elapsed_micros", self.elapsed_micros)
            .put("cpu_micros", self.cpu_micros)
            .put("has_accurate_num_input_records", true)
            .put("num_input_records", self.input_entries)
            .put("num_input_files", self.input_files)
            .put("num_input_files_at_output_level", self.input_files_there)
            .put("num_output_records", self.output_entries)
            .put("num_output_files", self.output_files)
            .put("is_manual_compaction", self.is_manual)
            .put("is_remote_compaction", true)
            .put("total_input_bytes", self.input_bytes)
            .put("total_output_bytes", self.output_bytes);
        // COMPAT: a primary adds the figures of its input to those of the level, and refuses a sum
        // that differs from the entries of the job. RocksDB's workers leave them at 0.
        level
            .put("micros", self.elapsed_micros)
            .put("cpu_micros", self.cpu_micros)
            .put("bytes_written", self.output_bytes)
            .put("num_output_files", self.output_files)
            .put("num_output_records", self.output_entries)
            .put("count", 1);
        (job, level)
    }

    /// Decodes the figures from the field `stats` of a result.
    fn read(result: &Fields<'_>) -> Result<Self> {
        let job = result.record("stats")?;
        Ok(JobFigures {
            elapsed_micros: job.parse("elapsed_micros")?,
            cpu_micros: job.parse("cpu_micros")?,
            input_files: job.parse("num_input_files")?,
            input_files_there: job.parse("num_input_files_at_output_level")?,
            input_bytes: job.parse("total_input_bytes")?,
            input_entries: job.parse("num_input_records")?,
            output_files: job.parse("num_output_files")?,
            output_bytes: job.parse("total_output_bytes")?,
            output_entries: job.parse("num_output_records")?,
            is_manual: job.parse("is_manual_compaction")?,
        })
    }
}

impl JobResult {
    /// Encodes the message (RocksDB: `CompactionServiceResult::Write`).
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut status = Writer::default();
        let kind = self.error.as_ref().map(Error::kind);
        let known = CODES.iter().find(|(_, known)| Some(*known) == kind);
        // Kinds without a code of their own are aborted jobs.
        let code = known.map_or(u8::from(kind.is_some()) * 10, |(code, _)| *code);
        let message = self.error.as_ref().map(Error::to_string);
        status
            .put("code", code)
            .put("subcode", 0)
            .put("severity", 0)
            .bytes("message", message.unwrap_or_default());
        let (job, level) = self.figures.write();
        let mut levels = Writer::default();
        levels
            .record("output_level_stats", &level)
            .put("has_proximal_level_output", false);
        let in_braces = |file: &OutputTable| format!("{{{}}}", file.write().0);
        let mut writer = Writer::default();
        writer
            .record("status", &status)
            .list("output_files", self.files.iter().map(in_braces))
            .put("output_level", self.output_level)
            .bytes("output_path", &self.directory)
            .put("bytes_read", self.figures.input_bytes)
            .put("bytes_written", self.figures.output_bytes)
            .record("stats", &job)
            .record("internal_stats", &levels);
        writer.message()
    }

    /// Decodes the message (RocksDB: `CompactionServiceResult::Read`).
    pub(crate) fn decode(message: &[u8]) -> Result<Self> {
        let fields = Fields::of_message(message)?;
        let status = fields.record("status")?;
        let text = status.text("message")?;
        let error = match status.parse::<u8>("code")? {
            0 => None,
            code => {
                let known = CODES.iter().find(|(known, _)| *known == code);
                let kind = known.ok_or_else(|| refused("code", &code.to_string()))?.1;
                Some(Error::with_kind(kind, format!("remote compaction: {text}")))
            }
        };
        for name in ["subcode", "severity"] {
            status.parse::<u8>(name)?;
        }
        for name in ["bytes_read", "bytes_written"] {
            fields.parse::<u64>(name)?;
        }
        let files = fields.list("output_files")?;
        Ok(JobResult {
            error,
            files: files
                .into_iter()
                .map(OutputTable::read)
                .collect::<Result<_>>()?,
            output_level: fields.parse("output_level")?,
            directory: fields.text("output_path")?,
            figures: JobFigures::read(&fields)?,
        })
    }
}

#[cfg(test)]
mod tests;
