//! Converts options to the plain structs of settings of the crates below.

use koeldb_base::Limits;
use koeldb_base::codec;
use koeldb_base::codec::Compression;
use koeldb_base::coding::to_usize;
use koeldb_lsm::job::DeletionTrigger;
use koeldb_lsm::pick::aged::AgeLimits;
use koeldb_lsm::pick::blob_garbage::BlobGarbageRule;
use koeldb_lsm::pick::dead_bytes::DeadBytesRule;
use koeldb_lsm::pick::offpeak::OffpeakWindow;
use koeldb_lsm::pick::paths::PathTargets;
use koeldb_lsm::pick::universal::RunLimit;
use koeldb_lsm::pick::{FileOrder, PickSettings, fifo, universal};
use koeldb_memtable::{BloomOptions, MemtableOptions};
use koeldb_table::block_based::builder::BlockBasedWriteOptions;
use koeldb_table::builder::WriteFormat;
use koeldb_table::cuckoo::builder::CuckooWriteOptions;
use koeldb_table::cuckoo::residency::Residency;
use koeldb_table::filter::FilterPolicy;
use koeldb_table::plain::builder::PlainWriteOptions;
use koeldb_table::plain::format::{Encoding, FILE_BYTES_MAX};
use koeldb_table::plain::reader::PlainReadOptions;
use koeldb_table::reader::{BlockBasedReadOptions, Pinning};

use super::block_based::{BlockBasedOptions, DataBlockIndexType, PinningTier};
use super::column_family::{BlobCollection, ColumnFamilyOptions, CompactionPri, CompactionStyle};
use super::compaction::{
    CompactionStopStyle, CompressionOptions, FifoCompactionOptions, Temperature,
};
use super::cuckoo::CuckooTableOptions;
use super::db::DbOptions;
use super::object::{FlushBlockPolicy, TablePropertiesCollector};
use super::plain::{EncodingType, PlainTableOptions};
use super::rules::database::minutes_of_window;
use super::table_format::TableFormat;

impl CompressionOptions {
    /// Converts the settings to the form in which compression codecs take them.
    pub(crate) fn codec_options(&self) -> codec::CompressionOptions {
        codec::CompressionOptions {
            level: self.level,
            window_bits: self.window_bits,
            strategy: self.strategy,
            max_compressed_bytes_per_kb: not_negative(self.max_compressed_bytes_per_kb),
            max_dict_bytes: not_negative(self.max_dict_bytes),
            zstd_max_train_bytes: self.zstd_max_train_bytes,
            max_dict_buffer_bytes: self.max_dict_buffer_bytes,
            use_zstd_dict_trainer: self.use_zstd_dict_trainer,
            checksum: self.checksum,
        }
    }
}

impl FifoCompactionOptions {
    /// Returns the FIFO age thresholds in seconds, ascending, with the temperatures of older files.
    fn temperature_ages(&self) -> Vec<(u64, u8)> {
        let ages = self.file_temperature_age_thresholds.iter();
        let ages: Vec<_> = ages
            .map(|threshold| (threshold.age, threshold.temperature.to_byte()))
            .collect();
        match self.age_for_warm {
            age if age > 0 && ages.is_empty() => vec![(age, Temperature::Warm.to_byte())],
            _ => ages,
        }
    }
}

impl DbOptions {
    /// Returns the maximum numbers of concurrent flushes and compactions.
    pub(crate) fn background_slots(&self) -> (u32, u32) {
        let at_least_one = |count: i32| u32::try_from(count).unwrap_or(1).max(1);
        if self.max_background_flushes == -1 && self.max_background_compactions == -1 {
            let jobs = at_least_one(self.max_background_jobs);
            let flushes = (jobs / 4).max(1);
            (flushes, jobs.saturating_sub(flushes).max(1))
        } else {
            (
                at_least_one(self.max_background_flushes),
                at_least_one(self.max_background_compactions),
            )
        }
    }
}

impl DbOptions {
    /// Returns the maximum number of open tables; `None` if it is not limited.
    ///
    /// Ten of the open files are for others.
    pub(crate) fn open_tables_max(&self) -> Option<usize> {
        let files = usize::try_from(self.max_open_files).ok()?;
        Some(files.saturating_sub(10))
    }

    /// Returns the permitted growth of a MANIFEST over its first size, in percent.
    pub(crate) fn manifest_space_amp_percent(&self) -> u32 {
        not_negative(self.max_manifest_space_amp_pct)
    }

    /// Returns the daily off-peak window (`daily_offpeak_time_utc`); `None` without one.
    pub(crate) fn offpeak_window(&self) -> Option<OffpeakWindow> {
        let (begin_minute, end_minute) = minutes_of_window(&self.daily_offpeak_time_utc)?;
        Some(OffpeakWindow {
            begin_minute,
            end_minute,
        })
    }
}

impl ColumnFamilyOptions {
    /// Returns the compression codec of new files at `level`, and its settings.
    ///
    /// `base_level` is the output level of level 0; `is_bottommost` means that no level below has
    /// data.
    pub(crate) fn compression_at(
        &self,
        level: u32,
        base_level: u32,
        is_bottommost: bool,
    ) -> (Compression, codec::CompressionOptions) {
        let options = if is_bottommost && self.bottommost_compression_opts.enabled {
            &self.bottommost_compression_opts
        } else {
            &self.compression_opts
        };
        let per_level = || {
            let place = if level == 0 {
                0
            } else {
                level.saturating_sub(base_level).saturating_add(1)
            };
            let last = self.compression_per_level.len().checked_sub(1)?;
            self.compression_per_level
                .get(to_usize(u64::from(place)).min(last))
                .copied()
        };
        let codec = match self.bottommost_compression {
            Some(codec) if is_bottommost => codec,
            _ => per_level().unwrap_or(self.compression),
        };
        (codec, options.codec_options())
    }

    /// Returns `compression_size_percent` of universal compaction; `None` to compress all data.
    pub(crate) fn compressed_percent(&self) -> Option<u32> {
        let percent = self.compaction_options_universal.compression_size_percent;
        let is_universal = self.compaction_style == CompactionStyle::Universal;
        u32::try_from(percent).ok().filter(|_| is_universal)
    }

    /// Returns the temperature of new tables of a compaction into `level`.
    pub(crate) fn temperature_at(&self, level: usize) -> Temperature {
        let is_last =
            i32::try_from(level).is_ok_and(|level| level.saturating_add(1) == self.num_levels);
        match self.last_level_temperature {
            Temperature::Unknown => self.default_write_temperature,
            _ if !is_last => self.default_write_temperature,
            temperature => temperature,
        }
    }

    /// Returns the triggers by which tables with many deletions are marked for compaction.
    pub(crate) fn deletion_triggers(&self) -> Vec<DeletionTrigger> {
        let collectors = self.table_properties_collectors.iter();
        collectors
            .filter_map(|collector| match collector {
                TablePropertiesCollector::CompactOnDeletion(collector) => Some(DeletionTrigger {
                    window_entries: collector.window_size,
                    deletions: collector.deletion_trigger,
                    ratio: collector.deletion_ratio,
                    min_file_bytes: collector.min_file_size,
                }),
                TablePropertiesCollector::CompactForTiering(_) => None,
            })
            .collect()
    }

    /// Returns the names of the table properties collectors, as table properties record them.
    pub(crate) fn property_collector_names(&self) -> String {
        let collectors = self.table_properties_collectors.iter();
        let names: Vec<&str> = collectors.map(TablePropertiesCollector::id).collect();
        format!("[{}]", names.join(","))
    }

    /// Returns the length of the key prefix at whose change compactions begin a new table.
    pub(crate) fn partition_bytes(&self) -> Option<usize> {
        let partitioner = self.sst_partitioner_factory.as_ref()?;
        Some(to_usize(partitioner.length))
    }

    /// Returns the options of memtables; the options must be sanitized.
    pub(crate) fn memtable_options(&self) -> MemtableOptions {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share between 0 and 0.25 of a size of at most 64 GiB; its size need not be exact"
        )]
        let bloom_bytes =
            (self.write_buffer_size as f64 * self.memtable_prefix_bloom_size_ratio) as u64;
        let has_keys = self.memtable_whole_key_filtering || self.prefix_extractor.is_some();
        MemtableOptions {
            rep: self.memtable_factory.rep(),
            arena_block_bytes: to_usize(self.arena_block_size),
            bloom: (bloom_bytes > 0 && has_keys).then(|| BloomOptions {
                bytes: to_usize(bloom_bytes),
                whole_keys: self.memtable_whole_key_filtering,
                prefixes: self.prefix_extractor.clone(),
            }),
            write_buffer_bytes: to_usize(self.write_buffer_size),
            prefixes: self.prefix_extractor.clone(),
            recycler: None,
            sorter: None,
            fixed_hash_seed: false,
            protection_bytes: self.memtable_protection_bytes_per_key as usize,
            checks_order: self.paranoid_memory_checks,
            tracks_timestamps: self.has_undated_tables(),
            charge: None,
        }
    }

    /// Whether new tables have no timestamps, although keys have.
    pub(crate) fn has_undated_tables(&self) -> bool {
        self.comparator.has_timestamps() && !self.persist_user_defined_timestamps
    }

    /// Returns the table builder options of block-based tables.
    ///
    /// `is_last_level` omits the filter if the options of the column family require it.
    pub(crate) fn block_based_write_options(&self, is_last_level: bool) -> BlockBasedWriteOptions {
        let table = self.table_factory.block_based();
        let mut options = table.map_or_else(
            BlockBasedWriteOptions::default,
            BlockBasedOptions::write_options,
        );
        options.compression_sample_period = self.sample_for_compression;
        if is_last_level && self.optimize_filters_for_hits {
            options.filter = FilterPolicy::None;
        }
        options
    }

    /// Returns the table format of new files, for the table builder.
    pub(crate) fn write_format(&self) -> WriteFormat {
        match &self.table_factory {
            TableFormat::Cuckoo(table) => WriteFormat::Cuckoo(table.write_options()),
            TableFormat::Plain(table) => {
                WriteFormat::Plain(table.write_options(self.bloom_locality > 0))
            }
            TableFormat::BlockBased(_) => WriteFormat::BlockBased,
        }
    }

    /// Returns the read options of plain tables, even if new files have another format.
    pub(crate) fn plain_read_options(&self) -> PlainReadOptions {
        match &self.table_factory {
            TableFormat::Plain(table) => table.read_options(),
            TableFormat::BlockBased(_) | TableFormat::Cuckoo(_) => PlainReadOptions::default(),
        }
    }

    /// Returns the memory residency of cuckoo tables, even if new files have another format.
    pub(crate) fn cuckoo_residency(&self) -> Residency {
        match &self.table_factory {
            TableFormat::Cuckoo(table) => table.residency,
            TableFormat::BlockBased(_) | TableFormat::Plain(_) => Residency::default(),
        }
    }

    /// Returns the size in bytes at which a job must start a new table.
    pub(crate) fn table_bytes_max(&self) -> u64 {
        match &self.table_factory {
            // This leaves space for an index, and for many versions of one key.
            TableFormat::Plain(_) => FILE_BYTES_MAX / 2,
            TableFormat::BlockBased(_) | TableFormat::Cuckoo(_) => u64::MAX,
        }
    }

    /// Returns the read options of block-based tables.
    pub(crate) fn block_based_read_options(&self) -> BlockBasedReadOptions {
        self.table_factory.block_based().map_or_else(
            BlockBasedReadOptions::default,
            BlockBasedOptions::read_options,
        )
    }
}

impl CuckooTableOptions {
    fn write_options(&self) -> CuckooWriteOptions {
        CuckooWriteOptions {
            hash_table_ratio: self.hash_table_ratio,
            depth_max: self.max_search_depth,
            window_slots: self.cuckoo_block_size.max(1),
            identity_first: self.identity_as_first_hash,
            use_module: self.use_module_hash,
            keep_versions: self.keep_versions,
            ..CuckooWriteOptions::default()
        }
    }
}

impl PlainTableOptions {
    fn write_options(&self, bloom_lines: bool) -> PlainWriteOptions {
        PlainWriteOptions {
            encoding: match self.encoding_type {
                EncodingType::Plain => Encoding::Plain,
                EncodingType::Prefix => Encoding::Prefix,
            },
            user_key_bytes: self.user_key_len,
            bloom_bits_per_key: not_negative(self.bloom_bits_per_key),
            bloom_lines,
            hash_table_ratio: self.hash_table_ratio,
            index_sparseness: self.index_sparseness,
            store_index: self.store_index_in_file,
            ..PlainWriteOptions::default()
        }
    }

    fn read_options(&self) -> PlainReadOptions {
        PlainReadOptions {
            bloom_bits_per_key: not_negative(self.bloom_bits_per_key),
            hash_table_ratio: self.hash_table_ratio,
            index_sparseness: self.index_sparseness,
            full_scan: self.full_scan_mode,
        }
    }
}

impl BlockBasedOptions {
    fn write_options(&self) -> BlockBasedWriteOptions {
        BlockBasedWriteOptions {
            format_version: self.format_version,
            checksum: self.checksum,
            block_bytes: to_usize(self.block_size),
            block_deviation_percent: not_negative(self.block_size_deviation),
            block_restart_interval: not_negative(self.block_restart_interval),
            block_align: self.block_align,
            super_block_bytes: self.super_block_alignment_size,
            super_block_padding_max: self
                .super_block_alignment_size
                .checked_div(self.super_block_alignment_space_overhead_ratio)
                .unwrap_or(0),
            compression_sample_period: 0,
            share_key_prefixes: self.use_delta_encoding,
            separate_values: self.separate_key_value_in_data_block,
            data_block_hash_index: self.data_block_index_type == DataBlockIndexType::BinaryAndHash,
            data_block_hash_utilization: self.data_block_hash_table_util_ratio,
            index_type: self.index_type,
            index_shortening: self.index_shortening,
            index_block_restart_interval: not_negative(self.index_block_restart_interval),
            compress_index: self.enable_index_compression,
            metadata_block_bytes: self.metadata_block_size,
            uniform_cv_threshold: self.uniform_cv_threshold,
            filter: self.filter_policy,
            whole_key_filtering: self.whole_key_filtering,
            partition_filters: self.partition_filters,
            couple_filter_partitions: !self.decouple_partitioned_filters,
            block_per_entry: self.flush_block_policy_factory == FlushBlockPolicy::EveryKey,
            verify_compression: self.verify_compression,
            verify_filters: self.detect_filter_construct_corruption,
        }
    }

    fn read_options(&self) -> BlockBasedReadOptions {
        let pinning = |tier: PinningTier, fallback: Pinning| match tier {
            PinningTier::Fallback => fallback,
            PinningTier::None => Pinning::None,
            PinningTier::FlushedAndSimilar => Pinning::Level0,
            PinningTier::All => Pinning::All,
        };
        let level0 = match self.pin_l0_filter_and_index_blocks_in_cache {
            true => Pinning::Level0,
            false => Pinning::None,
        };
        let top_level = match self.pin_top_level_index_and_filter {
            true => Pinning::All,
            false => Pinning::None,
        };
        let metadata = &self.metadata_cache_options;
        BlockBasedReadOptions {
            cache_index_and_filter_blocks: self.cache_index_and_filter_blocks,
            high_priority_metadata: self.cache_index_and_filter_blocks_with_high_priority,
            pin_unpartitioned: pinning(metadata.unpartitioned_pinning, level0),
            pin_top_level: pinning(metadata.top_level_index_pinning, top_level),
            pin_partitions: pinning(metadata.partition_pinning, level0),
            index_search: self.index_block_search_type,
            index_decoding: self.index_decoding,
        }
    }
}

/// Returns the ages at which leveled files become due for compaction, as by `ttl`.
pub(crate) fn age_limits(options: &ColumnFamilyOptions) -> AgeLimits {
    AgeLimits {
        ttl_secs: options.ttl,
        periodic_secs: options.periodic_compaction_seconds,
        bottommost_delay_secs: u64::from(options.bottommost_file_compaction_delay),
    }
}

/// The rule by which compactions empty blob files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlobRule {
    Age(BlobGarbageRule),
    DeadBytes(DeadBytesRule),
}

/// RocksDB's default of `blob_garbage_collection_age_cutoff`.
const ROCKSDB_AGE_CUTOFF: f64 = 0.25;

/// RocksDB's default of `blob_garbage_collection_force_threshold`: no compaction for that reason.
const ROCKSDB_FORCE_THRESHOLD: f64 = 1.0;

/// Returns the rule by which compactions empty blob files, if they do.
///
/// By default it is RocksDB's rule if one of the two options of that rule has another value than
/// RocksDB's default, otherwise the rule of dead bytes.
pub(crate) fn blob_rule(options: &ColumnFamilyOptions) -> BlobRule {
    let is_by_age = match options.blob_collection {
        BlobCollection::Age => true,
        BlobCollection::DeadBytes => false,
        BlobCollection::Default => {
            let cutoff = options.blob_garbage_collection_age_cutoff;
            let threshold = options.blob_garbage_collection_force_threshold;
            cutoff.to_bits() != ROCKSDB_AGE_CUTOFF.to_bits()
                || threshold.to_bits() != ROCKSDB_FORCE_THRESHOLD.to_bits()
        }
    };
    match is_by_age {
        true => BlobRule::Age(BlobGarbageRule {
            age_cutoff: options.blob_garbage_collection_age_cutoff,
            threshold: options.blob_garbage_collection_force_threshold,
        }),
        false => BlobRule::DeadBytes(DeadBytesRule {
            target: options.blob_collection_target,
            share: options.blob_collection_share,
            blob_file_bytes: options.blob_file_size,
        }),
    }
}

/// Returns the rule of collection by dead bytes, if compactions empty blob files by it.
pub(crate) fn dead_bytes_rule(options: &ColumnFamilyOptions) -> Option<DeadBytesRule> {
    match blob_rule(options) {
        BlobRule::DeadBytes(rule) if options.enable_blob_garbage_collection => Some(rule),
        BlobRule::DeadBytes(_) | BlobRule::Age(_) => None,
    }
}

/// Converts column family options to the settings that the compaction pickers read.
pub(crate) fn pick_settings(options: &ColumnFamilyOptions) -> PickSettings {
    let count = |number: i32| usize::try_from(number).unwrap_or(0);
    let universal = &options.compaction_options_universal;
    let fifo = &options.compaction_options_fifo;
    PickSettings {
        level0_file_num_compaction_trigger: count(options.level0_file_num_compaction_trigger)
            .max(1),
        level0_slowdown: count(options.level0_slowdown_writes_trigger),
        max_bytes_for_level_base: options.max_bytes_for_level_base,
        max_bytes_for_level_multiplier: options.max_bytes_for_level_multiplier,
        max_bytes_for_level_multiplier_additional: options
            .max_bytes_for_level_multiplier_additional
            .clone(),
        level_compaction_dynamic_level_bytes: options.level_compaction_dynamic_level_bytes,
        target_file_size_base: options.target_file_size_base,
        target_file_size_multiplier: u64::try_from(options.target_file_size_multiplier)
            .unwrap_or(1),
        max_compaction_bytes: options.max_compaction_bytes,
        table_bytes_max: options.table_bytes_max(),
        partition_bytes: options.partition_bytes(),
        file_order: match options.compaction_pri {
            CompactionPri::MinOverlappingRatio => FileOrder::MinOverlappingRatio,
            CompactionPri::ByCompensatedSize => FileOrder::CompensatedSize,
            CompactionPri::OldestLargestSeqFirst => FileOrder::OldestLargestSeqno,
            CompactionPri::OldestSmallestSeqFirst => FileOrder::OldestSmallestSeqno,
            CompactionPri::RoundRobin => FileOrder::RoundRobin,
        },
        paths: PathTargets {
            bytes: options.cf_paths.target_sizes(),
            chosen: None,
        },
        universal: universal::UniversalSettings {
            size_ratio: universal.size_ratio,
            min_merge_width: universal.min_merge_width as usize,
            max_merge_width: universal.max_merge_width as usize,
            max_size_amplification_percent: universal.max_size_amplification_percent,
            stop_on_similar_size: universal.stop_style == CompactionStopStyle::SimilarSize,
            allow_trivial_move: universal.allow_trivial_move,
            run_limit_max: count(options.level0_stop_writes_trigger)
                .saturating_sub(1)
                .max(1),
            run_limit: match usize::try_from(universal.max_read_amp) {
                Err(_) => RunLimit::Trigger,
                Ok(0) if universal.stop_style == CompactionStopStyle::TotalSize => {
                    RunLimit::BySizes {
                        first_run_bytes: options.write_buffer_size,
                    }
                }
                Ok(0) => RunLimit::Trigger,
                Ok(limit) => RunLimit::Fixed(limit),
            },
        },
        fifo: fifo::FifoSettings {
            max_table_files_size: fifo.max_table_files_size,
            ttl_secs: options.ttl,
            allow_compaction: fifo.allow_compaction,
            temperature_ages: fifo.temperature_ages(),
        },
    }
}

/// Returns the resource limits for reading files: those for untrusted files or the normal ones.
pub(crate) fn limits(untrusted: bool) -> Limits {
    match untrusted {
        true => Limits::UNTRUSTED,
        false => Limits::NORMAL,
    }
}

/// Converts a number that RocksDB stores as `int`; a negative number becomes 0.
fn not_negative(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
