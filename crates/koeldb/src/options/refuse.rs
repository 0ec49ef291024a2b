//! Checks of settings that open rejects: contradictory ones, and ones of missing features.
//!
//! The errors of all column families are collected into one, so that a configuration can be
//! corrected in one step. The options must be sanitized.

use std::fmt::Display;

use koeldb_base::codec::Compression;
use koeldb_base::{Error, ErrorKind, KeyOrder, Result};
use koeldb_table::block_based::format::IndexType;
use koeldb_table::block_based::index::IndexSearch;

use super::CuckooResidency;
use super::block_based::BlockBasedOptions;
use super::column_family::{ColumnFamilyOptions, CompactionStyle};
use super::compaction::CompressionOptions;
use super::cuckoo::CuckooTableOptions;
use super::db::DbOptions;
use super::memtable::MemtableFactory;
use super::plain::PlainTableOptions;
use super::table_format::TableFormat;

/// The maximum number of levels; RocksDB has no limit and allocates them all.
pub(super) const LEVELS_MAX: i32 = 256;

/// The maximum number of adjacent slots in the window of a cuckoo table.
pub(super) const CUCKOO_BLOCK_SIZE_MAX: u32 = 1 << 16;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Refusals {
    messages: Vec<String>,
    all_unsupported: bool,
    family: Option<String>,
}

impl Refusals {
    fn push(&mut self, unsupported: bool, option: &str, value: &dyn Display, why: &str) {
        self.all_unsupported = unsupported && (self.messages.is_empty() || self.all_unsupported);
        self.messages.push(match &self.family {
            Some(family) => format!("{option}={value} (column family \"{family}\"): {why}"),
            None => format!("{option}={value}: {why}"),
        });
    }

    fn invalid(&mut self, refused: bool, option: &str, value: impl Display, why: &str) {
        if refused {
            self.push(false, option, &value, why);
        }
    }

    fn unsupported(&mut self, refused: bool, option: &str, value: impl Display, why: &str) {
        if refused {
            self.push(true, option, &value, why);
        }
    }

    pub(crate) fn into_result(self) -> Result<()> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let kind = if self.all_unsupported {
            ErrorKind::NotSupported
        } else {
            ErrorKind::InvalidArgument
        };
        Err(Error::with_kind(kind, self.messages.join("; ")))
    }

    /// Checks the options of a database.
    pub(crate) fn check_db(&mut self, db: &DbOptions) {
        self.family = None;
        self.invalid(
            db.allow_mmap_reads && db.use_direct_reads,
            "allow_mmap_reads",
            true,
            "not together with use_direct_reads; set one of them to false",
        );
        self.invalid(
            db.keep_log_file_num == 0,
            "keep_log_file_num",
            0,
            "at least 1 file is kept",
        );
        self.invalid(
            db.unordered_write && !db.allow_concurrent_memtable_write,
            "unordered_write",
            true,
            "needs allow_concurrent_memtable_write=true",
        );
        self.invalid(
            db.unordered_write && db.enable_pipelined_write,
            "unordered_write",
            true,
            "not together with enable_pipelined_write; set one of them to false",
        );
        self.invalid(
            db.atomic_flush && db.enable_pipelined_write,
            "atomic_flush",
            true,
            "not together with enable_pipelined_write; set one of them to false",
        );
        self.unsupported(
            db.best_efforts_recovery,
            "best_efforts_recovery",
            true,
            "recovery to an older state is not there yet; leave the option out",
        );
        self.invalid(
            db.use_direct_io_for_flush_and_compaction && db.writable_file_max_buffer_size == 0,
            "writable_file_max_buffer_size",
            0,
            "must be above 0 with use_direct_io_for_flush_and_compaction",
        );
        self.invalid(
            !is_offpeak_window(&db.daily_offpeak_time_utc),
            "daily_offpeak_time_utc",
            &db.daily_offpeak_time_utc,
            "is HH:mm-HH:mm with different ends, or empty",
        );
        self.invalid(
            !db.write_dbid_to_manifest && !db.write_identity_file,
            "write_identity_file",
            false,
            "write_dbid_to_manifest or write_identity_file must be true, or the database has no identity",
        );
        self.invalid(
            db.read_io_executor_threads <= 0,
            "read_io_executor_threads",
            db.read_io_executor_threads,
            "at least 1",
        );
        self.invalid(
            db.open_files_async && !db.skip_stats_update_on_db_open,
            "open_files_async",
            true,
            "needs skip_stats_update_on_db_open=true",
        );
        self.invalid(
            db.max_open_files < -1,
            "max_open_files",
            db.max_open_files,
            "-1 for no limit, or at least 20",
        );
    }

    /// Checks the options that only matter to a database that is written.
    pub(crate) fn check_db_writes(&mut self, db: &DbOptions) {
        self.unsupported(
            db.atomic_flush,
            "atomic_flush",
            true,
            "families are not flushed together yet; keep the WAL on, which makes writes across families atomic",
        );
    }

    /// Checks the options of a database with pessimistic transactions.
    pub(crate) fn check_transactions(&mut self, db: &DbOptions) {
        self.unsupported(
            db.unordered_write,
            "unordered_write",
            true,
            "not together with set_transactions: transactions need writes that are visible as a whole",
        );
    }

    pub(crate) fn check_family(&mut self, name: &str, cf: &ColumnFamilyOptions, db: &DbOptions) {
        self.family = Some(name.to_owned());
        self.check_compression(cf);
        self.check_memtables(cf, db);
        self.check_shape(cf, db);
        self.check_format(cf, db);
        self.family = None;
    }

    fn check_compression(&mut self, cf: &ColumnFamilyOptions) {
        let mut codecs = vec![
            ("compression", cf.compression),
            ("blob_compression_type", cf.blob_compression_type),
        ];
        codecs.extend(
            cf.bottommost_compression
                .map(|codec| ("bottommost_compression", codec)),
        );
        codecs.extend(
            cf.compression_per_level
                .iter()
                .map(|codec| ("compression_per_level", *codec)),
        );
        codecs.dedup();
        for (option, codec) in codecs {
            if !codec.is_available() {
                let why = match codec.feature() {
                    Some(feature) => format!(
                        "this build has no such codec; build with the feature \"{feature}\", or choose another"
                    ),
                    None => "RocksDB has it on Windows only; choose another codec".to_owned(),
                };
                self.push(true, option, &codec.option_name(), &why);
            }
        }
        for (option, options) in [
            ("compression_opts", &cf.compression_opts),
            (
                "bottommost_compression_opts",
                &cf.bottommost_compression_opts,
            ),
            ("blob_compression_opts", &cf.blob_compression_opts),
        ] {
            self.check_compression_options(option, options);
        }
    }

    fn check_compression_options(&mut self, option: &str, options: &CompressionOptions) {
        self.invalid(
            options.zstd_max_train_bytes > 0 && options.max_dict_bytes == 0,
            &format!("{option}.zstd_max_train_bytes"),
            options.zstd_max_train_bytes,
            "needs max_dict_bytes above 0",
        );
        self.invalid(
            options.max_dict_bytes < 0,
            &format!("{option}.max_dict_bytes"),
            options.max_dict_bytes,
            "at least 0",
        );
    }

    fn check_memtables(&mut self, cf: &ColumnFamilyOptions, db: &DbOptions) {
        let rep = cf.memtable_factory.rep();
        if let Err(error) = rep.check(&cf.comparator, cf.prefix_extractor.is_some()) {
            let why = format!("{}; or use skip_list", error.message());
            self.push(false, "memtable_factory", &cf.memtable_factory.name(), &why);
        }
        if let MemtableFactory::SortedHash(options) = &cf.memtable_factory {
            self.invalid(
                options.sorted_vector_limit == 0,
                "memtable_factory.sorted_vector_limit",
                0,
                "at least 1",
            );
        }
        self.invalid(
            cf.max_successive_merges > 0 && db.unordered_write,
            "max_successive_merges",
            cf.max_successive_merges,
            "must be 0 with unordered_write",
        );
        for (option, bytes) in [
            (
                "memtable_protection_bytes_per_key",
                cf.memtable_protection_bytes_per_key,
            ),
            (
                "block_protection_bytes_per_key",
                u32::from(cf.block_protection_bytes_per_key),
            ),
        ] {
            self.unsupported(
                !matches!(bytes, 0 | 1 | 2 | 4 | 8),
                option,
                bytes,
                "one of 0, 1, 2, 4, 8",
            );
        }
    }

    fn check_shape(&mut self, cf: &ColumnFamilyOptions, db: &DbOptions) {
        let fifo = cf.compaction_style == CompactionStyle::Fifo;
        self.invalid(
            cf.num_levels > LEVELS_MAX,
            "num_levels",
            cf.num_levels,
            "at most 256",
        );
        self.invalid(
            cf.level0_file_num_compaction_trigger < 0,
            "level0_file_num_compaction_trigger",
            cf.level0_file_num_compaction_trigger,
            "at least 1",
        );
        self.invalid(
            cf.target_file_size_multiplier < 1,
            "target_file_size_multiplier",
            cf.target_file_size_multiplier,
            "at least 1",
        );
        self.unsupported(
            fifo && cf.ttl > 0 && db.max_open_files != -1,
            "ttl",
            cf.ttl,
            "with FIFO compaction needs max_open_files=-1; or set ttl=0",
        );
        self.unsupported(
            fifo && db.open_files_async,
            "open_files_async",
            true,
            "not with FIFO compaction",
        );
        let ages = &cf.compaction_options_fifo.file_temperature_age_thresholds;
        self.invalid(
            fifo && !ages.is_empty() && cf.num_levels > 1,
            "compaction_options_fifo.file_temperature_age_thresholds",
            ages.len(),
            "needs num_levels=1",
        );
        self.invalid(
            fifo && !ages.is_sorted_by(|a, b| a.age < b.age),
            "compaction_options_fifo.file_temperature_age_thresholds",
            ages.len(),
            "ages must ascend",
        );
        let read_amp = cf.compaction_options_universal.max_read_amp;
        self.invalid(
            read_amp < -1 || (read_amp > 0 && read_amp < cf.level0_file_num_compaction_trigger),
            "compaction_options_universal.max_read_amp",
            read_amp,
            "-1, 0, or at least level0_file_num_compaction_trigger",
        );
        self.invalid(
            !(cf.read_triggered_compaction_threshold >= 0.0
                && cf.read_triggered_compaction_threshold.is_finite()),
            "read_triggered_compaction_threshold",
            cf.read_triggered_compaction_threshold,
            "a finite number of at least 0; 0 is off",
        );
        if cf.enable_blob_garbage_collection {
            for (option, share) in [
                (
                    "blob_garbage_collection_age_cutoff",
                    cf.blob_garbage_collection_age_cutoff,
                ),
                (
                    "blob_garbage_collection_force_threshold",
                    cf.blob_garbage_collection_force_threshold,
                ),
            ] {
                self.invalid(!(0.0..=1.0).contains(&share), option, share, "from 0 to 1");
            }
        }
    }

    fn check_format(&mut self, cf: &ColumnFamilyOptions, db: &DbOptions) {
        let Some(table) = cf.table_factory.block_based() else {
            match &cf.table_factory {
                TableFormat::Cuckoo(table) => self.check_cuckoo(table, db),
                TableFormat::Plain(table) => self.check_plain(cf, table),
                TableFormat::BlockBased(_) => {}
            }
            for (option, seconds) in [
                ("ttl", cf.ttl),
                (
                    "periodic_compaction_seconds",
                    cf.periodic_compaction_seconds,
                ),
            ] {
                self.unsupported(
                    seconds > 0,
                    option,
                    seconds,
                    "needs block-based tables; set it to 0",
                );
            }
            return;
        };
        self.check_block_based(cf, table);
    }

    fn check_cuckoo(&mut self, table: &CuckooTableOptions, db: &DbOptions) {
        for (residency, name) in [
            (CuckooResidency::Mapped, "kMapped"),
            (CuckooResidency::MappedHuge, "kMappedHuge"),
        ] {
            self.invalid(
                table.residency == residency && !db.allow_mmap_reads,
                "residency",
                name,
                "needs allow_mmap_reads=true",
            );
        }
        self.invalid(
            table.residency == CuckooResidency::Paged && table.keep_versions,
            "residency",
            "kPaged",
            "not together with keep_versions; set one of them otherwise",
        );
        let ratio = table.hash_table_ratio;
        self.invalid(
            !(ratio > 0.0 && ratio <= 1.0),
            "hash_table_ratio",
            ratio,
            "above 0 and at most 1",
        );
        self.invalid(
            table.cuckoo_block_size > CUCKOO_BLOCK_SIZE_MAX,
            "cuckoo_block_size",
            table.cuckoo_block_size,
            "at most 65536",
        );
    }

    fn check_plain(&mut self, cf: &ColumnFamilyOptions, table: &PlainTableOptions) {
        let ratio = table.hash_table_ratio;
        self.invalid(
            !(ratio >= 0.0 && ratio.is_finite()),
            "hash_table_ratio",
            ratio,
            "a finite number of at least 0; 0 is binary search",
        );
        self.unsupported(
            ratio > 0.0 && cf.prefix_extractor.is_none() && !table.full_scan_mode,
            "hash_table_ratio",
            ratio,
            "a plain table needs a prefix_extractor for its hash index; set one, or set the ratio to 0 for binary \
             search",
        );
        self.invalid(
            table.bloom_bits_per_key < 0,
            "bloom_bits_per_key",
            table.bloom_bits_per_key,
            "at least 0; 0 is no filter",
        );
    }

    fn check_block_based(&mut self, cf: &ColumnFamilyOptions, table: &BlockBasedOptions) {
        self.invalid(
            table.index_type == IndexType::HashSearch && cf.prefix_extractor.is_none(),
            "index_type",
            "kHashSearch",
            "needs a prefix_extractor",
        );
        self.invalid(
            table.index_block_search_type == IndexSearch::Interpolation
                && !matches!(
                    cf.comparator,
                    KeyOrder::Bytewise | KeyOrder::ReverseBytewise
                ),
            "index_block_search_type",
            "kInterpolation",
            "needs the comparator leveldb.BytewiseComparator or rocksdb.ReverseBytewiseComparator",
        );
        for (option, on) in [
            (
                "cache_index_and_filter_blocks",
                table.cache_index_and_filter_blocks,
            ),
            (
                "pin_l0_filter_and_index_blocks_in_cache",
                table.pin_l0_filter_and_index_blocks_in_cache,
            ),
        ] {
            self.invalid(
                on && table.no_block_cache,
                option,
                true,
                "needs a block cache; set no_block_cache=false",
            );
        }
        self.invalid(
            !(2..=7).contains(&table.format_version),
            "format_version",
            table.format_version,
            "from 2 to 7",
        );
        self.invalid(
            table.block_align && cf.compresses(),
            "block_align",
            true,
            "needs kNoCompression for compression, bottommost_compression and compression_per_level",
        );
        self.invalid(
            table.block_align && !table.block_size.is_power_of_two(),
            "block_size",
            table.block_size,
            "a power of two, with block_align",
        );
        self.invalid(
            table.block_size > u64::from(u32::MAX),
            "block_size",
            table.block_size,
            "at most 4294967295",
        );
        let alignment = table.super_block_alignment_size;
        self.invalid(
            alignment != 0 && (!alignment.is_power_of_two() || alignment > u64::from(u32::MAX)),
            "super_block_alignment_size",
            alignment,
            "0 or a power of two below 4 GiB",
        );
        self.invalid(
            (1..4).contains(&table.super_block_alignment_space_overhead_ratio),
            "super_block_alignment_space_overhead_ratio",
            table.super_block_alignment_space_overhead_ratio,
            "0 or at least 4",
        );
        self.invalid(
            table.data_block_hash_table_util_ratio.is_nan()
                || table.data_block_hash_table_util_ratio <= 0.0,
            "data_block_hash_table_util_ratio",
            table.data_block_hash_table_util_ratio,
            "above 0",
        );
    }
}

impl ColumnFamilyOptions {
    /// Whether the tables of any level are compressed.
    pub(super) fn compresses(&self) -> bool {
        let mut codecs = std::iter::once(&self.compression)
            .chain(&self.bottommost_compression)
            .chain(&self.compression_per_level);
        codecs.any(|codec| *codec != Compression::None)
    }
}

/// Whether a text is empty or `HH:mm-HH:mm` with two different times.
pub(super) fn is_offpeak_window(text: &str) -> bool {
    fn minutes(text: &str) -> Option<u32> {
        let (hours, minutes) = text.split_once(':')?;
        let number = |text: &str, max: u32| {
            let is_two_digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_two_digits
                .then(|| text.parse::<u32>().ok())
                .flatten()
                .filter(|number| *number <= max)
        };
        Some(number(hours, 23)? * 60 + number(minutes, 59)?)
    }
    text.is_empty()
        || text
            .split_once('-')
            .and_then(|(start, end)| Some((minutes(start)?, minutes(end)?)))
            .is_some_and(|(start, end)| start != end)
}
