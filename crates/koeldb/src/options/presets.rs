//! Presets: sets of options for a purpose.

use koeldb_base::codec::Compression;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::filter::FilterPolicy;

use super::block_based::{BlockBasedOptions, DataBlockIndexType};
use super::cache::Cache;
use super::column_family::{ColumnFamilyOptions, CompactionStyle};
use super::cuckoo::CuckooTableOptions;
use super::db::Options;
use super::table_format::TableFormat;

impl ColumnFamilyOptions {
    /// Optimizes a column family for reads of single keys.
    ///
    /// Sets hashed data blocks, a Bloom filter of 10 bits per key, a block cache of
    /// `block_cache_megabytes`, and a filter in the memtable.
    pub fn optimize_for_point_lookup(&mut self, block_cache_megabytes: u64) -> &mut Self {
        let mut table = BlockBasedOptions::new();
        table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
        table.data_block_hash_table_util_ratio = 0.75;
        table.filter_policy = FilterPolicy::bloom(10.0);
        table.set_block_cache(&Cache::new_lru_cache(
            block_cache_megabytes.saturating_mul(1 << 20),
        ));
        self.table_factory = TableFormat::BlockBased(table);
        self.memtable_prefix_bloom_size_ratio = 0.02;
        self.memtable_whole_key_filtering = true;
        self
    }

    /// Keeps values of at least `min_bytes` bytes in blob files, of 4 KiB if that is 0.
    ///
    /// The files are collected and compressed: sets `enable_blob_files`, `min_blob_size`,
    /// `enable_blob_garbage_collection` and `blob_compression_type`, the latter to LZ4 if this build
    /// has it.
    pub fn separate_values(&mut self, min_bytes: u64) -> &mut Self {
        self.enable_blob_files = true;
        self.min_blob_size = match min_bytes {
            0 => 4 << 10,
            bytes => bytes,
        };
        self.enable_blob_garbage_collection = true;
        self.blob_compression_type = match Compression::Lz4.is_available() {
            true => Compression::Lz4,
            false => Compression::None,
        };
        self
    }

    /// Optimizes for read-only lookups of fixed-size keys and values: cuckoo tables.
    pub fn optimize_for_cuckoo_lookup(&mut self) -> &mut Self {
        self.table_factory = TableFormat::Cuckoo(CuckooTableOptions::new());
        self.compression = Compression::None;
        self
    }

    /// Configures leveled compaction for a memory budget of the memtables, in bytes.
    ///
    /// RocksDB's default budget is 512 MiB.
    pub fn optimize_level_style_compaction(&mut self, memtable_memory_budget: u64) -> &mut Self {
        self.write_buffer_size = memtable_memory_budget / 4;
        self.min_write_buffer_number_to_merge = 2;
        self.max_write_buffer_number = 6;
        self.level0_file_num_compaction_trigger = 2;
        self.target_file_size_base = memtable_memory_budget / 8;
        self.max_bytes_for_level_base = memtable_memory_budget;
        self.compaction_style = CompactionStyle::Level;
        let codec = [Compression::Lz4, Compression::Snappy]
            .into_iter()
            .find(|codec| codec.is_available())
            .unwrap_or(Compression::None);
        let levels = usize::try_from(self.num_levels).unwrap_or(0);
        self.compression_per_level = (0..levels)
            .map(|level| if level < 2 { Compression::None } else { codec })
            .collect();
        self
    }

    /// Configures universal compaction for a memory budget of the memtables, in bytes.
    ///
    /// RocksDB's default is 512 MiB.
    pub fn optimize_universal_style_compaction(
        &mut self,
        memtable_memory_budget: u64,
    ) -> &mut Self {
        self.write_buffer_size = memtable_memory_budget / 4;
        self.min_write_buffer_number_to_merge = 2;
        self.max_write_buffer_number = 6;
        self.compaction_style = CompactionStyle::Universal;
        self.compaction_options_universal.compression_size_percent = 80;
        self
    }

    /// Optimizes for databases well below a gigabyte: little memory, metadata blocks in `cache`.
    pub fn optimize_for_small_db(&mut self, cache: &Cache) -> &mut Self {
        self.write_buffer_size = 2 << 20;
        self.target_file_size_base = 2 << 20;
        self.max_bytes_for_level_base = 10 << 20;
        self.soft_pending_compaction_bytes_limit = 256 << 20;
        self.hard_pending_compaction_bytes_limit = 1 << 30;
        let mut table = BlockBasedOptions::new();
        table.set_block_cache(cache);
        table.cache_index_and_filter_blocks = true;
        table.index_type = IndexType::TwoLevel;
        self.table_factory = TableFormat::BlockBased(table);
        self
    }

    /// Sets the column family's part of RocksDB's `PrepareForBulkLoad`: no compactions or stalls.
    fn prepare_for_bulk_load(&mut self) {
        self.level0_file_num_compaction_trigger = 1 << 30;
        self.level0_slowdown_writes_trigger = 1 << 30;
        self.level0_stop_writes_trigger = 1 << 30;
        self.soft_pending_compaction_bytes_limit = 0;
        self.hard_pending_compaction_bytes_limit = 0;
        self.disable_auto_compactions = true;
        self.max_compaction_bytes = 1 << 60;
        self.num_levels = 2;
        self.max_write_buffer_number = 6;
        self.min_write_buffer_number_to_merge = 1;
        self.target_file_size_base = 256 << 20;
    }

    /// Sets `force_consistency_checks` to false, without effect: the checks are always on.
    pub fn disable_extra_checks(&mut self) -> &mut Self {
        self.force_consistency_checks = false;
        self
    }
}

/// Presets: several options for a purpose.
impl Options {
    /// Sets the number of concurrent flushes and compactions (RocksDB's default is 16).
    pub fn increase_parallelism(&mut self, threads: u32) -> &mut Self {
        self.set_max_background_jobs(threads)
    }

    /// See [`ColumnFamilyOptions::separate_values`].
    pub fn separate_values(&mut self, min_bytes: u64) -> &mut Self {
        self.cf.separate_values(min_bytes);
        self
    }

    /// See [`ColumnFamilyOptions::optimize_for_point_lookup`].
    pub fn optimize_for_point_lookup(&mut self, block_cache_megabytes: u64) -> &mut Self {
        self.cf.optimize_for_point_lookup(block_cache_megabytes);
        self
    }

    /// See [`ColumnFamilyOptions::optimize_for_cuckoo_lookup`]; files are mapped into memory.
    pub fn optimize_for_cuckoo_lookup(&mut self) -> &mut Self {
        self.cf.optimize_for_cuckoo_lookup();
        self.set_allow_mmap_reads(true)
    }

    /// See [`ColumnFamilyOptions::optimize_level_style_compaction`].
    pub fn optimize_level_style_compaction(&mut self, memtable_memory_budget: u64) -> &mut Self {
        self.cf
            .optimize_level_style_compaction(memtable_memory_budget);
        self
    }

    /// See [`ColumnFamilyOptions::optimize_universal_style_compaction`].
    pub fn optimize_universal_style_compaction(
        &mut self,
        memtable_memory_budget: u64,
    ) -> &mut Self {
        self.cf
            .optimize_universal_style_compaction(memtable_memory_budget);
        self
    }

    /// Optimizes for databases well below a gigabyte: few threads and files, a cache of 16 MiB.
    pub fn optimize_for_small_db(&mut self) -> &mut Self {
        self.cf
            .optimize_for_small_db(&Cache::new_lru_cache(16 << 20));
        self.db.max_file_opening_threads = 1;
        self.db.max_open_files = 5000;
        self
    }

    /// Prepares for a bulk load followed by a manual compaction: no automatic ones, no stalls.
    pub fn prepare_for_bulk_load(&mut self) -> &mut Self {
        self.cf.prepare_for_bulk_load();
        self.db.max_background_flushes = 4;
        self.db.max_background_compactions = 2;
        self
    }
}
