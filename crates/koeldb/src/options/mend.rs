//! Replaces values of OPTIONS files that an open would reject although RocksDB wrote them.
//!
//! RocksDB checks the options of an open, but not all changes by `SetOptions` while the database
//! runs; it then writes the values to the OPTIONS file. Such a directory must open, so each of
//! these values is replaced by the nearest legal one when the file is loaded. The replaced values
//! are in `LoadedOptions::mended`, and the open writes them to LOG. The same value set in code is
//! rejected ([`refuse`](super::refuse)).

use koeldb_base::KeyOrder;
use koeldb_base::codec::Compression;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::block_based::index::IndexSearch;

use super::block_based::BlockBasedOptions;
use super::column_family::{ColumnFamilyOptions, CompactionStyle};
use super::config::MendedOption;
use super::cuckoo::CuckooTableOptions;
use super::db::DbOptions;
use super::memtable::MemtableFactory;
use super::options_file::ParsedFile;
use super::plain::PlainTableOptions;
use super::refuse::{CUCKOO_BLOCK_SIZE_MAX, LEVELS_MAX, is_offpeak_window};
use super::registry::{OptionValue, Section, Style};
use super::table_format::TableFormat;

/// A mender of the values of one section, which records each replacement.
struct Mender<'m> {
    section: String,
    mended: &'m mut Vec<MendedOption>,
}

impl Mender<'_> {
    /// Gives `field` the value `to` if it `is_refused`.
    fn mend<T: OptionValue>(
        &mut self,
        is_refused: bool,
        name: &str,
        field: &mut T,
        to: T,
        why: &str,
    ) {
        if !is_refused {
            return;
        }
        let text = |field: &T| field.write(Style::Full).unwrap_or_default();
        let value = text(field);
        *field = to;
        self.mended.push(MendedOption {
            section: self.section.clone(),
            name: name.to_owned(),
            value,
            used: text(field),
            reason: why.to_owned(),
        });
    }
}

/// Replaces the values that an open would reject.
pub(crate) fn mend(file: &mut ParsedFile) {
    let mut mended = std::mem::take(&mut file.mended);
    let mut mender = Mender {
        section: DbOptions::NAME.to_owned(),
        mended: &mut mended,
    };
    mender.database(&mut file.db);
    for (name, family) in &mut file.families {
        mender.section = format!("{} \"{name}\"", ColumnFamilyOptions::NAME);
        mender.family(family, &mut file.db);
        mender.section = format!("{} \"{name}\"", family.table_factory.section());
        mender.tables(family, &file.db);
    }
    file.mended = mended;
}

impl Mender<'_> {
    fn database(&mut self, db: &mut DbOptions) {
        self.mend(
            db.keep_log_file_num == 0,
            "keep_log_file_num",
            &mut db.keep_log_file_num,
            1,
            "at least 1 file is kept",
        );
        self.mend(
            db.best_efforts_recovery,
            "best_efforts_recovery",
            &mut db.best_efforts_recovery,
            false,
            "recovery to an older state is not there; a missing file is an error",
        );
        self.mend(
            db.use_direct_io_for_flush_and_compaction && db.writable_file_max_buffer_size == 0,
            "writable_file_max_buffer_size",
            &mut db.writable_file_max_buffer_size,
            1 << 20,
            "direct writes need a buffer",
        );
        self.mend(
            !is_offpeak_window(&db.daily_offpeak_time_utc),
            "daily_offpeak_time_utc",
            &mut db.daily_offpeak_time_utc,
            String::new(),
            "is HH:mm-HH:mm with different ends, or empty",
        );
        self.mend(
            db.read_io_executor_threads <= 0,
            "read_io_executor_threads",
            &mut db.read_io_executor_threads,
            1,
            "at least 1",
        );
    }

    fn family(&mut self, cf: &mut ColumnFamilyOptions, db: &mut DbOptions) {
        self.codecs(cf);
        let rep = cf.memtable_factory.rep();
        let refused = rep.check(&cf.comparator, cf.prefix_extractor.is_some());
        let why = refused.as_ref().err().map_or("", |error| error.message());
        self.mend(
            refused.is_err(),
            "memtable_factory",
            &mut cf.memtable_factory,
            MemtableFactory::default(),
            why,
        );
        let bytes = &mut cf.memtable_protection_bytes_per_key;
        let is_refused = !matches!(*bytes, 0 | 1 | 2 | 4 | 8);
        let name = "memtable_protection_bytes_per_key";
        self.mend(is_refused, name, bytes, 0, "one of 0, 1, 2, 4, 8");
        let bytes = &mut cf.block_protection_bytes_per_key;
        let is_refused = !matches!(*bytes, 0 | 1 | 2 | 4 | 8);
        let name = "block_protection_bytes_per_key";
        self.mend(is_refused, name, bytes, 0, "one of 0, 1, 2, 4, 8");
        self.mend(
            cf.max_successive_merges > 0 && db.unordered_write,
            "max_successive_merges",
            &mut cf.max_successive_merges,
            0,
            "must be 0 with unordered_write",
        );
        self.shape(cf, db);
    }

    fn codecs(&mut self, cf: &mut ColumnFamilyOptions) {
        let why = "this build has no such codec; tables that it compressed cannot be read";
        let default = ColumnFamilyOptions::default().compression;
        for (name, codec) in [
            ("compression", &mut cf.compression),
            ("blob_compression_type", &mut cf.blob_compression_type),
        ] {
            self.mend(!codec.is_available(), name, codec, default, why);
        }
        let is_missing = |codec: &Compression| !codec.is_available();
        self.mend(
            cf.bottommost_compression.as_ref().is_some_and(is_missing),
            "bottommost_compression",
            &mut cf.bottommost_compression,
            None,
            why,
        );
        let mut levels = cf.compression_per_level.clone();
        for codec in levels.iter_mut().filter(|codec| is_missing(codec)) {
            *codec = default;
        }
        self.mend(
            levels != cf.compression_per_level,
            "compression_per_level",
            &mut cf.compression_per_level,
            levels,
            why,
        );
        for (prefix, options) in [
            ("compression_opts", &mut cf.compression_opts),
            (
                "bottommost_compression_opts",
                &mut cf.bottommost_compression_opts,
            ),
            ("blob_compression_opts", &mut cf.blob_compression_opts),
        ] {
            self.mend(
                options.max_dict_bytes < 0,
                &format!("{prefix}.max_dict_bytes"),
                &mut options.max_dict_bytes,
                0,
                "at least 0",
            );
            self.mend(
                options.zstd_max_train_bytes > 0 && options.max_dict_bytes == 0,
                &format!("{prefix}.zstd_max_train_bytes"),
                &mut options.zstd_max_train_bytes,
                0,
                "needs max_dict_bytes above 0",
            );
        }
    }

    fn shape(&mut self, cf: &mut ColumnFamilyOptions, db: &mut DbOptions) {
        let fifo = cf.compaction_style == CompactionStyle::Fifo;
        self.mend(
            cf.num_levels > LEVELS_MAX,
            "num_levels",
            &mut cf.num_levels,
            LEVELS_MAX,
            "at most 256",
        );
        self.mend(
            cf.level0_file_num_compaction_trigger < 0,
            "level0_file_num_compaction_trigger",
            &mut cf.level0_file_num_compaction_trigger,
            1,
            "at least 1",
        );
        self.mend(
            cf.target_file_size_multiplier < 1,
            "target_file_size_multiplier",
            &mut cf.target_file_size_multiplier,
            1,
            "at least 1",
        );
        self.mend(
            fifo && cf.ttl > 0 && db.max_open_files != -1,
            "max_open_files",
            &mut db.max_open_files,
            -1,
            "FIFO compaction with ttl needs -1",
        );
        self.mend(
            db.open_files_async && (fifo || !db.skip_stats_update_on_db_open),
            "open_files_async",
            &mut db.open_files_async,
            false,
            "needs skip_stats_update_on_db_open, and is not for FIFO compaction",
        );
        let ages = &mut cf.compaction_options_fifo.file_temperature_age_thresholds;
        let ascend = ages.is_sorted_by(|a, b| a.age < b.age);
        self.mend(
            fifo && !ages.is_empty() && (cf.num_levels > 1 || !ascend),
            "compaction_options_fifo.file_temperature_age_thresholds",
            ages,
            Vec::new(),
            "needs num_levels=1 and ascending ages",
        );
        let trigger = cf.level0_file_num_compaction_trigger.max(1);
        let read_amp = &mut cf.compaction_options_universal.max_read_amp;
        self.mend(
            *read_amp < -1 || (*read_amp > 0 && *read_amp < trigger),
            "compaction_options_universal.max_read_amp",
            read_amp,
            -1,
            "-1, 0, or at least level0_file_num_compaction_trigger",
        );
        let threshold = &mut cf.read_triggered_compaction_threshold;
        self.mend(
            !(*threshold >= 0.0 && threshold.is_finite()),
            "read_triggered_compaction_threshold",
            threshold,
            0.0,
            "a finite number of at least 0; 0 is off",
        );
        let age = &mut cf.blob_garbage_collection_age_cutoff;
        let is_refused = !(0.0..=1.0).contains(age);
        let name = "blob_garbage_collection_age_cutoff";
        self.mend(is_refused, name, age, 0.25, "from 0 to 1");
        let share = &mut cf.blob_garbage_collection_force_threshold;
        let is_refused = !(0.0..=1.0).contains(share);
        let name = "blob_garbage_collection_force_threshold";
        self.mend(is_refused, name, share, 1.0, "from 0 to 1");
        let chosen = super::sanitize::CHOOSE_SECONDS;
        if cf.table_factory.block_based().is_none() {
            for (name, seconds) in [
                ("ttl", &mut cf.ttl),
                (
                    "periodic_compaction_seconds",
                    &mut cf.periodic_compaction_seconds,
                ),
            ] {
                let is_refused = *seconds > 0 && *seconds != chosen;
                self.mend(is_refused, name, seconds, 0, "needs block-based tables");
            }
        }
    }

    fn tables(&mut self, cf: &mut ColumnFamilyOptions, db: &DbOptions) {
        let has_prefixes = cf.prefix_extractor.is_some();
        let compresses = cf.compresses();
        match &mut cf.table_factory {
            TableFormat::Cuckoo(table) => self.cuckoo(table, db),
            TableFormat::Plain(table) => self.plain(table, has_prefixes),
            TableFormat::BlockBased(table) => {
                let is_bytewise = matches!(
                    cf.comparator,
                    KeyOrder::Bytewise | KeyOrder::ReverseBytewise
                );
                self.index(table, has_prefixes, is_bytewise);
                self.blocks(table, compresses);
            }
        }
    }

    fn cuckoo(&mut self, table: &mut CuckooTableOptions, db: &DbOptions) {
        use super::CuckooResidency as Residency;
        let is_mapped = matches!(table.residency, Residency::Mapped | Residency::MappedHuge);
        self.mend(
            is_mapped && !db.allow_mmap_reads
                || table.residency == Residency::Paged && table.keep_versions,
            "residency",
            &mut table.residency,
            Residency::Auto,
            "kMapped and kMappedHuge need allow_mmap_reads; kPaged is not for keep_versions",
        );
        let ratio = &mut table.hash_table_ratio;
        self.mend(
            !(*ratio > 0.0 && *ratio <= 1.0),
            "hash_table_ratio",
            ratio,
            0.9,
            "above 0 and at most 1",
        );
        self.mend(
            table.cuckoo_block_size > CUCKOO_BLOCK_SIZE_MAX,
            "cuckoo_block_size",
            &mut table.cuckoo_block_size,
            CUCKOO_BLOCK_SIZE_MAX,
            "at most 65536",
        );
    }

    fn plain(&mut self, table: &mut PlainTableOptions, has_prefixes: bool) {
        let ratio = &mut table.hash_table_ratio;
        let is_number = *ratio >= 0.0 && ratio.is_finite();
        self.mend(
            !is_number || (*ratio > 0.0 && !has_prefixes && !table.full_scan_mode),
            "hash_table_ratio",
            ratio,
            0.0,
            "a finite number of at least 0, and 0 without prefix_extractor",
        );
        self.mend(
            table.bloom_bits_per_key < 0,
            "bloom_bits_per_key",
            &mut table.bloom_bits_per_key,
            0,
            "at least 0; 0 is no filter",
        );
    }

    fn index(&mut self, table: &mut BlockBasedOptions, has_prefixes: bool, is_bytewise: bool) {
        self.mend(
            table.index_type == IndexType::HashSearch && !has_prefixes,
            "index_type",
            &mut table.index_type,
            IndexType::BinarySearch,
            "kHashSearch needs a prefix_extractor",
        );
        self.mend(
            table.index_block_search_type == IndexSearch::Interpolation && !is_bytewise,
            "index_block_search_type",
            &mut table.index_block_search_type,
            IndexSearch::Binary,
            "kInterpolation needs a bytewise comparator",
        );
        for (name, on) in [
            (
                "cache_index_and_filter_blocks",
                &mut table.cache_index_and_filter_blocks,
            ),
            (
                "pin_l0_filter_and_index_blocks_in_cache",
                &mut table.pin_l0_filter_and_index_blocks_in_cache,
            ),
        ] {
            let is_refused = *on && table.no_block_cache;
            self.mend(is_refused, name, on, false, "needs a block cache");
        }
        let ratio = &mut table.data_block_hash_table_util_ratio;
        self.mend(
            ratio.is_nan() || *ratio <= 0.0,
            "data_block_hash_table_util_ratio",
            ratio,
            0.75,
            "above 0",
        );
    }

    fn blocks(&mut self, table: &mut BlockBasedOptions, compresses: bool) {
        self.mend(
            table.format_version > 7,
            "format_version",
            &mut table.format_version,
            7,
            "from 2 to 7",
        );
        self.mend(
            table.block_size > u64::from(u32::MAX),
            "block_size",
            &mut table.block_size,
            u64::from(u32::MAX),
            "at most 4294967295",
        );
        self.mend(
            table.block_align && (compresses || !table.block_size.is_power_of_two()),
            "block_align",
            &mut table.block_align,
            false,
            "needs kNoCompression and a block_size that is a power of two",
        );
        let alignment = &mut table.super_block_alignment_size;
        self.mend(
            *alignment != 0 && (!alignment.is_power_of_two() || *alignment > u64::from(u32::MAX)),
            "super_block_alignment_size",
            alignment,
            0,
            "0 or a power of two below 4 GiB",
        );
        let ratio = &mut table.super_block_alignment_space_overhead_ratio;
        let is_refused = (1..4).contains(ratio);
        let name = "super_block_alignment_space_overhead_ratio";
        self.mend(is_refused, name, ratio, 4, "0 or at least 4");
    }
}
