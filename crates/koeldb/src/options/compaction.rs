//! Structs of options nested in those of a column family: codecs, universal and FIFO compaction.

use std::time::Duration;

use super::declare::option_section;
use super::grammar;
use super::registry::Refusal;
use super::value::{option_enum, read_scalar};

option_section! {
    /// The settings of a compression codec (RocksDB: `CompressionOptions`).
    pub struct CompressionOptions, "CFOptions/compression_opts";
    options {
        /// zlib window.
        [honoured mutable "6.12"] window_bits: i32 = -14, "Zlib: negative = raw deflate.",
            set_window_bits(value: i32), get_window_bits;
        /// Compression level; LZ4 reads a negative level as acceleration.
        [honoured mutable "6.12"] level: i32 = 32_767, "32767 = default of the codec: zlib 6 (zlib's own -1), LZ4 acceleration 1, LZ4HC its default, ZSTD 3.",
            set_level(value: i32), get_level;
        /// zlib strategy.
        [honoured mutable "6.12"] strategy: i32 = 0, "",
            set_strategy(value: i32), get_strategy;
        /// A block is stored compressed only if it is at most this many bytes per 1024 of input.
        [honoured mutable "8.3"] max_compressed_bytes_per_kb: i32 = 896, "0..1024.",
            set_max_compressed_bytes_per_kb(count: u32 as Count), get_max_compressed_bytes_per_kb;
        /// Dictionary size per file.
        [honoured mutable "6.12"] max_dict_bytes: i32 = 0, "0 = no dictionary.",
            set_max_dict_bytes(count: u32 as Count), get_max_dict_bytes;
        /// Sample bytes for training a ZSTD dictionary.
        [honoured mutable "6.12"] zstd_max_train_bytes: u32 = 0, "Needs max_dict_bytes > 0.",
            set_zstd_max_train_bytes(count: u32), get_zstd_max_train_bytes;
        /// Threads that compress blocks of one file.
        [accepted mutable "6.12"] parallel_threads: u32 = 1, "1 = off.",
            set_parallel_threads(count: u32), get_parallel_threads;
        /// Use these settings for the bottommost level.
        [honoured mutable "6.12"] enabled: bool = false, "Only read in bottommost_compression_opts.",
            set_enabled(on: bool), get_enabled;
        /// Data buffered before the dictionary is built.
        [honoured mutable "6.19"] max_dict_buffer_bytes: u64 = 0, "0 = target file size.",
            set_max_dict_buffer_bytes(value: u64), get_max_dict_buffer_bytes;
        /// Train the ZSTD dictionary on samples; false: use the samples themselves.
        [honoured mutable "7.3"] use_zstd_dict_trainer: bool = true, "",
            set_use_zstd_dict_trainer(on: bool), get_use_zstd_dict_trainer;
        /// Let ZSTD add its own frame checksum.
        [honoured mutable "8.6"] checksum: bool = false, "ZSTD only.",
            set_checksum(on: bool), get_checksum;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        CompressionOptions {};
    }
    short_form read_positional;
}

/// Reads the positional form of compression options, `window_bits:level:strategy[:…]`.
///
/// RocksDB before 6.12 wrote this form, also in braces. `None` for another form.
fn read_positional(
    target: &mut CompressionOptions,
    name: &str,
    text: &str,
) -> Option<Result<(), Refusal>> {
    let text = grammar::strip_braces(text);
    (!text.contains('=')).then(|| {
        *target = positional(target.clone(), name, text)?;
        Ok(())
    })
}

/// Parses compression options in the positional form: 3 to 9 fields separated by colons.
fn positional(
    mut options: CompressionOptions,
    name: &str,
    text: &str,
) -> Result<CompressionOptions, Refusal> {
    let fields: Vec<&str> = text.split(':').collect();
    if fields.len() < 3 || fields.len() > 9 {
        return Err(Refusal::invalid(format!(
            "Error parsing {name}: \"{text}\" has {} fields, and the positional form has 3 to 9 (window_bits:level:strategy\
             [:max_dict_bytes[:zstd_max_train_bytes[:parallel_threads:enabled[:max_dict_buffer_bytes\
             [:use_zstd_dict_trainer]]]]]); use {{level=…;window_bits=…;}}",
            if text.is_empty() { 0 } else { fields.len() }
        )));
    }
    for (at, field) in fields.iter().copied().enumerate() {
        match at {
            0 => options.window_bits = read_scalar(name, field)?,
            1 => options.level = read_scalar(name, field)?,
            2 => options.strategy = read_scalar(name, field)?,
            3 => options.max_dict_bytes = read_scalar(name, field)?,
            4 => options.zstd_max_train_bytes = read_scalar(name, field)?,
            5 if fields.len() == 6 => options.enabled = read_scalar(name, field)?,
            5 => options.parallel_threads = read_scalar(name, field)?,
            6 => options.enabled = read_scalar(name, field)?,
            7 => options.max_dict_buffer_bytes = read_scalar(name, field)?,
            _ => options.use_zstd_dict_trainer = read_scalar(name, field)?,
        }
    }
    Ok(options)
}

option_enum! {
    /// How sorted runs are added to a universal compaction triggered by the size ratio.
    pub enum CompactionStopStyle {
        /// By the total size of the picked runs.
        TotalSize = "kCompactionStopStyleTotalSize",
        /// By the size of the last picked run.
        SimilarSize = "kCompactionStopStyleSimilarSize",
    }
}

option_section! {
    /// Settings of universal compaction.
    pub struct UniversalCompactionOptions, "CFOptions/compaction_options_universal";
    options {
        /// Tolerance when sizes of neighbouring runs are compared.
        [honoured mutable "5.10"] size_ratio: u32 = 1, "Percent.",
            set_size_ratio(count: u32), get_size_ratio;
        /// Minimum number of sorted runs per merge; ignored once writes have stopped.
        [honoured mutable "5.10"] min_merge_width: u32 = 2, ">=2.",
            set_min_merge_width(count: u32), get_min_merge_width;
        /// Maximum number of sorted runs per merge.
        [honoured mutable "5.10"] max_merge_width: u32 = u32::MAX, "0 and 1 act as 2 once writes have stopped.",
            set_max_merge_width(count: u32), get_max_merge_width;
        /// Extra data over the last run that triggers a full compaction.
        [honoured mutable "5.10"] max_size_amplification_percent: u32 = 200, "Percent.",
            set_max_size_amplification_percent(count: u32), get_max_size_amplification_percent;
        /// Share of the data, oldest first, that is compressed. The outputs of manual compactions and
        /// of those for size amplification are always compressed.
        [honoured mutable "5.10"] compression_size_percent: i32 = -1, "Percent; -1 = compress all.",
            set_compression_size_percent(value: i32), get_compression_size_percent;
        /// Number of sorted runs above which the newest are merged whatever their sizes. It is capped
        /// below level0_stop_writes_trigger, at which writes stop.
        [honoured mutable "9.4"] max_read_amp: i32 = -1, "-1 = level0_file_num_compaction_trigger is the limit; 0 = chosen from size_ratio; else >= trigger.",
            set_max_read_amp(value: i32), get_max_read_amp;
        /// How runs are added to a size-ratio merge.
        [honoured mutable "5.10"] stop_style: CompactionStopStyle = CompactionStopStyle::TotalSize, "",
            set_stop_style(value: CompactionStopStyle), get_stop_style;
        /// Split size-amplification compactions into parts.
        [accepted mutable "6.26"] incremental: bool = false, "Experimental.",
            set_incremental(on: bool), get_incremental;
        /// Move instead of rewriting files that do not overlap.
        [honoured mutable "5.10"] allow_trivial_move: bool = false, "",
            set_allow_trivial_move(on: bool), get_allow_trivial_move;
        /// Lock fewer input files while bottom-priority compactions wait.
        [accepted mutable "10.4"] reduce_file_locking: bool = true, "",
            set_reduce_file_locking(on: bool), get_reduce_file_locking;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        UniversalCompactionOptions {};
    }
}

option_enum! {
    /// The temperature of data, a hint to file systems with several storage tiers.
    pub enum Temperature {
        /// Unknown.
        Unknown = "kUnknown",
        /// Hot.
        Hot = "kHot",
        /// Warm.
        Warm = "kWarm",
        /// Cool.
        Cool = "kCool",
        /// Cold.
        Cold = "kCold",
        /// Ice.
        Ice = "kIce",
    }
}

impl Temperature {
    /// Returns the byte that stands for the temperature in MANIFESTs and file systems.
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Temperature::Unknown => 0,
            Temperature::Hot => 0x04,
            Temperature::Warm => 0x08,
            Temperature::Cool => 0x0A,
            Temperature::Cold => 0x0C,
            Temperature::Ice => 0x10,
        }
    }
}

option_section! {
    /// A temperature and the age from which files of FIFO compaction get it.
    pub struct FileTemperatureAge, "CFOptions/compaction_options_fifo/file_temperature_age_thresholds";
    options {
        /// Temperature to give.
        [honoured mutable "8.3"] temperature: Temperature = Temperature::Unknown, "",
            set_temperature(value: Temperature), get_temperature;
        /// Age from which the temperature applies.
        [honoured mutable "8.3"] age: u64 = 0, "Seconds.",
            set_age(time: Duration as Seconds), get_age;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        FileTemperatureAge {};
    }
}

option_section! {
    /// Settings of FIFO compaction.
    pub struct FifoCompactionOptions, "CFOptions/compaction_options_fifo";
    options {
        /// Total table size above which the oldest files are dropped.
        [honoured mutable "5.9"] max_table_files_size: u64 = 1 << 30, "Bytes.",
            set_max_table_files_size(bytes: u64), get_max_table_files_size;
        /// Age at which a file becomes warm.
        [honoured mutable "6.24"] age_for_warm: u64 = 0, "Seconds; 0 = off, as is any value beside file_temperature_age_thresholds.",
            set_age_for_warm(time: Duration as Seconds), get_age_for_warm;
        /// Merge small L0 files.
        [honoured mutable "5.9"] allow_compaction: bool = false, "",
            set_allow_compaction(on: bool), get_allow_compaction;
        /// Temperature by age of a file: a table that reaches an age is rewritten with the temperature.
        [honoured mutable "8.3"] file_temperature_age_thresholds: Vec<FileTemperatureAge> = Vec::new(), "`{{temperature=kWarm;age=10;}:{…}}`, ages ascending, num_levels=1; empty prints as `file_temperature_age_thresholds=;`.";
        /// Copy files as they are when their temperature changes.
        [accepted mutable "10.4"] allow_trivial_copy_when_change_temperature: bool = false, "",
            set_allow_trivial_copy_when_change_temperature(on: bool), get_allow_trivial_copy_when_change_temperature;
        /// Buffer of the copy of a file whose temperature changes.
        [accepted mutable "10.4"] trivial_copy_buffer_size: u64 = 4096, "Bytes.",
            set_trivial_copy_buffer_size(bytes: u64), get_trivial_copy_buffer_size;
        /// Total size of table and blob files above which the oldest files are dropped.
        [accepted mutable "11.0"] max_data_files_size: u64 = 0, "Bytes; 0 = use max_table_files_size.",
            set_max_data_files_size(bytes: u64), get_max_data_files_size;
        /// Choose L0 merge sizes from the ratio of table to blob bytes.
        [accepted mutable "11.0"] use_kv_ratio_compaction: bool = false, "",
            set_use_kv_ratio_compaction(on: bool), get_use_kv_ratio_compaction;
    }
    declined {}
    removed {
        [fixed] ttl "Removed. Moved to the family option ttl.";
    }
    aliases {}
    accessors {
        FifoCompactionOptions {};
    }
    short_form read_size;
}

impl FifoCompactionOptions {
    /// Sets the temperatures of tables by their ages, which must ascend.
    ///
    /// Default: empty.
    pub fn set_file_temperature_age_thresholds(
        &mut self,
        ages: impl Into<Vec<FileTemperatureAge>>,
    ) -> &mut Self {
        self.file_temperature_age_thresholds = ages.into();
        self
    }

    /// The option `file_temperature_age_thresholds`.
    #[must_use]
    pub fn get_file_temperature_age_thresholds(&self) -> &[FileTemperatureAge] {
        &self.file_temperature_age_thresholds
    }
}

/// Reads the short form of FIFO options, a number for `max_table_files_size`; `None` for others.
fn read_size(
    target: &mut FifoCompactionOptions,
    name: &str,
    text: &str,
) -> Option<Result<(), Refusal>> {
    let text = grammar::strip_braces(text);
    let is_number = text.starts_with(|char: char| char.is_ascii_digit()) && !text.contains('=');
    is_number.then(|| {
        target.max_table_files_size = read_scalar(name, text)?;
        Ok(())
    })
}
