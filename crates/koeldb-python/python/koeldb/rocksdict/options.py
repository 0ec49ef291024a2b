"""Options of databases and column families: RocksDict's setters over RocksDB's names."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import koeldb

from .arguments import checked
from .choices import (
    Choice,
    DBCompactionStyle,
    DBCompressionType,
    DBRecoveryMode,
    MemtableFactory,
    SliceTransform,
)
from .config import Config
from .resources import Cache, DBPath, Env, WriteBufferManager
from .tables import (
    BlockBasedOptions,
    CuckooTableOptions,
    FifoCompactOptions,
    PlainTableFactoryOptions,
    UniversalCompactOptions,
)

_V = TypeVar("_V", int, float, str, bool)
_C = TypeVar("_C", bound=Choice)


def refusing(setter: str, change: Callable[..., None], *words: Any, **options: Any) -> None:
    """Calls `change`.

    What the engine does not support becomes a `NotImplementedError` of the setter's name.
    """
    try:
        change(*words, **options)
    except koeldb.NotSupported as error:
        raise NotImplementedError(f"{setter}: {error}") from error


def _setter(name: str, kind: type[_V]) -> Callable[[Options, _V], None]:
    """Returns the setter of an option that has a number, flag or text."""

    def setter(self: Options, value: _V, /) -> None:
        self._set(name, checked(name, kind, value))

    return setter


def _chooser(name: str, kind: type[_C]) -> Callable[[Options, _C], None]:
    """Returns the setter of an option that is chosen by name."""

    def setter(self: Options, value: _C, /) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"{name} is a {kind.__name__}, not {type(value).__name__}")
        self._set(name, value.text)

    return setter


class Options:
    """Options of a database or column family.

    In raw mode keys and values are bytes, else objects of Python.
    """

    def __init__(self, raw_mode: bool = False) -> None:
        self._settings = koeldb.Settings(create_if_missing=True)
        self._raw_mode = raw_mode
        self._prefix_extractor: SliceTransform | None = None
        #: The database that was last opened with the options.
        self._opened: weakref.ref[Any] | None = None
        if not raw_mode:
            self._settings.set(comparator="rocksdict")

    def _set(self, name: str, value: Any) -> None:
        refusing(name, self._settings.set, **{name: value})

    def _copy(self) -> Options:
        copy = Options.__new__(Options)
        copy.__dict__.update(self.__dict__)
        copy._settings = self._settings.copy()
        return copy

    @staticmethod
    def _loaded(
        settings: koeldb.Settings, raw_mode: bool, extractor: SliceTransform | None
    ) -> Options:
        """Returns the options of a directory, with what its OPTIONS file only names."""
        options = Options(raw_mode)
        options._settings = settings
        if not raw_mode:
            settings.set(comparator="rocksdict")
        if extractor is not None:
            options.set_prefix_extractor(extractor)
        return options

    @staticmethod
    def load_latest(
        path: str,
        env: Env | None = None,
        ignore_unknown_options: bool = False,
        cache: Cache | None = None,
    ) -> tuple[Options, dict[str, Options]]:
        """Returns the options with which a directory and its families were last opened.

        The blocks are cached where those of other databases are: `cache` has no effect.
        """
        config = Config.load(path)
        own, families = koeldb.Settings.load(
            path, ignore_unsupported_options=True, ignore_unknown_options=ignore_unknown_options
        )
        extractors = config.prefix_extractors
        return Options._loaded(own, config.raw_mode, extractors.get("default")), {
            name: Options._loaded(settings, config.raw_mode, extractors.get(name))
            for name, settings in families.items()
        }

    # Open and close.
    create_if_missing = _setter("create_if_missing", bool)
    create_missing_column_families = _setter("create_missing_column_families", bool)
    set_error_if_exists = _setter("error_if_exists", bool)
    set_paranoid_checks = _setter("paranoid_checks", bool)
    set_max_open_files = _setter("max_open_files", int)
    set_max_file_opening_threads = _setter("max_file_opening_threads", int)
    set_skip_stats_update_on_db_open = _setter("skip_stats_update_on_db_open", bool)
    set_skip_checking_sst_file_sizes_on_db_open = _setter(
        "skip_checking_sst_file_sizes_on_db_open", bool
    )
    set_is_fd_close_on_exec = _setter("is_fd_close_on_exec", bool)

    # Logs.
    set_wal_dir = _setter("wal_dir", str)
    set_wal_recovery_mode = _chooser("wal_recovery_mode", DBRecoveryMode)
    set_wal_ttl_seconds = _setter("WAL_ttl_seconds", int)
    set_wal_size_limit_mb = _setter("WAL_size_limit_MB", int)
    set_max_total_wal_size = _setter("max_total_wal_size", int)
    set_recycle_log_file_num = _setter("recycle_log_file_num", int)
    set_use_fsync = _setter("use_fsync", bool)
    set_bytes_per_sync = _setter("bytes_per_sync", int)
    set_wal_bytes_per_sync = _setter("wal_bytes_per_sync", int)
    set_max_manifest_file_size = _setter("max_manifest_file_size", int)
    set_manifest_preallocation_size = _setter("manifest_preallocation_size", int)

    # The informational log and statistics.
    set_db_log_dir = _setter("db_log_dir", str)
    set_max_log_file_size = _setter("max_log_file_size", int)
    set_log_file_time_to_roll = _setter("log_file_time_to_roll", int)
    set_keep_log_file_num = _setter("keep_log_file_num", int)
    set_stats_dump_period_sec = _setter("stats_dump_period_sec", int)
    set_stats_persist_period_sec = _setter("stats_persist_period_sec", int)
    set_dump_malloc_stats = _setter("dump_malloc_stats", bool)
    set_report_bg_io_stats = _setter("report_bg_io_stats", bool)

    # Writes and memtables.
    set_write_buffer_size = _setter("write_buffer_size", int)
    set_db_write_buffer_size = _setter("db_write_buffer_size", int)
    set_max_write_buffer_number = _setter("max_write_buffer_number", int)
    set_min_write_buffer_number = _setter("min_write_buffer_number_to_merge", int)
    set_min_write_buffer_number_to_merge = _setter("min_write_buffer_number_to_merge", int)
    set_max_write_buffer_size_to_maintain = _setter("max_write_buffer_size_to_maintain", int)
    set_allow_concurrent_memtable_write = _setter("allow_concurrent_memtable_write", bool)
    set_enable_write_thread_adaptive_yield = _setter("enable_write_thread_adaptive_yield", bool)
    set_enable_pipelined_write = _setter("enable_pipelined_write", bool)
    set_unordered_write = _setter("unordered_write", bool)
    set_atomic_flush = _setter("atomic_flush", bool)
    set_arena_block_size = _setter("arena_block_size", int)
    set_memtable_huge_page_size = _setter("memtable_huge_page_size", int)
    set_memtable_prefix_bloom_ratio = _setter("memtable_prefix_bloom_size_ratio", float)
    set_memtable_whole_key_filtering = _setter("memtable_whole_key_filtering", bool)
    set_memtable_factory = _chooser("memtable_factory", MemtableFactory)
    set_bloom_locality = _setter("bloom_locality", int)
    set_max_successive_merges = _setter("max_successive_merges", int)
    set_inplace_update_support = _setter("inplace_update_support", bool)
    set_inplace_update_locks = _setter("inplace_update_num_locks", int)

    # Files.
    set_allow_mmap_reads = _setter("allow_mmap_reads", bool)
    set_allow_mmap_writes = _setter("allow_mmap_writes", bool)
    set_use_direct_reads = _setter("use_direct_reads", bool)
    set_use_direct_io_for_flush_and_compaction = _setter(
        "use_direct_io_for_flush_and_compaction", bool
    )
    set_writable_file_max_buffer_size = _setter("writable_file_max_buffer_size", int)
    set_delete_obsolete_files_period_micros = _setter("delete_obsolete_files_period_micros", int)
    set_table_cache_num_shard_bits = _setter("table_cache_numshardbits", int)
    set_advise_random_on_open = _setter("advise_random_on_open", bool)
    set_use_adaptive_mutex = _setter("use_adaptive_mutex", bool)
    set_avoid_unnecessary_blocking_io = _setter("avoid_unnecessary_blocking_io", bool)
    set_allow_ingest_behind = _setter("allow_ingest_behind", bool)

    # Levels and compactions.
    set_num_levels = _setter("num_levels", int)
    set_compaction_style = _chooser("compaction_style", DBCompactionStyle)
    set_level_compaction_dynamic_level_bytes = _setter("level_compaction_dynamic_level_bytes", bool)
    set_level_zero_file_num_compaction_trigger = _setter("level0_file_num_compaction_trigger", int)
    set_level_zero_slowdown_writes_trigger = _setter("level0_slowdown_writes_trigger", int)
    set_level_zero_stop_writes_trigger = _setter("level0_stop_writes_trigger", int)
    set_max_bytes_for_level_base = _setter("max_bytes_for_level_base", int)
    set_max_bytes_for_level_multiplier = _setter("max_bytes_for_level_multiplier", float)
    set_target_file_size_base = _setter("target_file_size_base", int)
    set_target_file_size_multiplier = _setter("target_file_size_multiplier", int)
    set_max_compaction_bytes = _setter("max_compaction_bytes", int)
    set_soft_pending_compaction_bytes_limit = _setter("soft_pending_compaction_bytes_limit", int)
    set_hard_pending_compaction_bytes_limit = _setter("hard_pending_compaction_bytes_limit", int)
    set_disable_auto_compactions = _setter("disable_auto_compactions", bool)
    set_max_background_jobs = _setter("max_background_jobs", int)
    set_max_subcompactions = _setter("max_subcompactions", int)
    set_compaction_readahead_size = _setter("compaction_readahead_size", int)

    # Compression.
    set_compression_type = _chooser("compression", DBCompressionType)
    set_bottommost_compression_type = _chooser("bottommost_compression", DBCompressionType)
    set_zstd_max_train_bytes = _setter("compression_opts.zstd_max_train_bytes", int)

    # Reads.
    set_optimize_filters_for_hits = _setter("optimize_filters_for_hits", bool)
    set_max_sequential_skip_in_iterations = _setter("max_sequential_skip_in_iterations", int)

    # Blob files.
    set_enable_blob_files = _setter("enable_blob_files", bool)
    set_min_blob_size = _setter("min_blob_size", int)
    set_blob_file_size = _setter("blob_file_size", int)
    set_blob_compression_type = _chooser("blob_compression_type", DBCompressionType)
    set_enable_blob_gc = _setter("enable_blob_garbage_collection", bool)
    set_blob_gc_age_cutoff = _setter("blob_garbage_collection_age_cutoff", float)
    set_blob_gc_force_threshold = _setter("blob_garbage_collection_force_threshold", float)
    set_blob_compaction_readahead_size = _setter("blob_compaction_readahead_size", int)

    def set_max_bytes_for_level_multiplier_additional(self, level_values: list[int]) -> None:
        """Sets a factor of the size of each level."""
        self._set("max_bytes_for_level_multiplier_additional", level_values)

    def set_compression_options(
        self, w_bits: int, level: int, strategy: int, max_dict_bytes: int
    ) -> None:
        """Sets the parameters of the codec."""
        self._compression("compression_opts", w_bits, level, strategy, max_dict_bytes)

    def set_bottommost_compression_options(
        self, w_bits: int, level: int, strategy: int, max_dict_bytes: int, enable: bool
    ) -> None:
        """Sets the parameters of the codec of the last level."""
        self._compression("bottommost_compression_opts", w_bits, level, strategy, max_dict_bytes)
        self._set("bottommost_compression_opts.enabled", enable)

    def set_bottommost_zstd_max_train_bytes(self, value: int, enable: bool) -> None:
        """Sets the bytes from which a dictionary of the last level is made."""
        self._set("bottommost_compression_opts.zstd_max_train_bytes", value)
        self._set("bottommost_compression_opts.enabled", enable)

    def _compression(
        self, name: str, window_bits: int, level: int, strategy: int, max_dict_bytes: int
    ) -> None:
        members = {
            "window_bits": window_bits,
            "level": level,
            "strategy": strategy,
            "max_dict_bytes": max_dict_bytes,
        }
        refusing(
            name,
            self._settings.set,
            **{f"{name}.{member}": value for member, value in members.items()},
        )

    def set_compression_per_level(self, level_types: list[DBCompressionType]) -> None:
        """Sets a codec for each level."""
        self._set("compression_per_level", [codec.text for codec in level_types])

    def set_min_level_to_compress(self, lvl: int) -> None:
        """Leaves the levels before `lvl` without compression."""
        if lvl >= 0:
            levels, codec = int(self._settings.get("num_levels")), self._settings.get("compression")
            plain = DBCompressionType.none().text
            self._set(
                "compression_per_level",
                [plain if level < lvl else codec for level in range(levels)],
            )

    def set_prefix_extractor(self, prefix_extractor: SliceTransform) -> None:
        """Sets the function that selects the prefix of a key, in the bytes of the key."""
        config = prefix_extractor.config
        if isinstance(config, dict) and not 1 <= config.get("MaxLen", 1) <= 128:
            raise ValueError("the prefix of create_max_len_prefix has from 1 to 128 bytes")
        self._set("prefix_extractor", prefix_extractor.text)
        self._prefix_extractor = prefix_extractor

    def set_block_based_table_factory(self, factory: BlockBasedOptions) -> None:
        """Makes new tables block-based."""
        refusing(
            "set_block_based_table_factory",
            self._settings.set_block_based_tables,
            cache=factory._cache and factory._cache._cache,
            **factory._texts,
        )

    def set_plain_table_factory(self, options: PlainTableFactoryOptions) -> None:
        """Makes new tables plain."""
        self._set("table_factory", options._factory(self._raw_mode))

    def set_cuckoo_table_factory(self, factory: CuckooTableOptions) -> None:
        """Makes new tables cuckoo tables."""
        self._set("table_factory", {"id": "CuckooTable", **factory._texts})

    def set_universal_compaction_options(self, uco: UniversalCompactOptions) -> None:
        """Sets the options of universal compactions."""
        self._set("compaction_options_universal", uco._texts())

    def set_fifo_compaction_options(self, fco: FifoCompactOptions) -> None:
        """Sets the options of FIFO compactions."""
        self._set("compaction_options_fifo", {"max_table_files_size": fco.max_table_files_size})

    def add_compact_on_deletion_collector_factory(
        self, window_size: int, num_dels_trigger: int, deletion_ratio: float
    ) -> None:
        """Marks tables for compaction that have many deletions among adjacent entries."""
        self._set(
            "table_properties_collectors",
            f"{{{{id=CompactOnDeletionCollector;window_size={window_size};"
            f"deletion_trigger={num_dels_trigger};deletion_ratio={deletion_ratio};}}}}",
        )

    def set_db_paths(self, paths: list[DBPath]) -> None:
        """Sets the directories of tables."""
        self._settings.set_db_paths([(path.path, path.target_size) for path in paths])

    def set_write_buffer_manager(self, write_buffer_manager: WriteBufferManager) -> None:
        """Limits the memory of memtables of all databases that have the same object."""
        self._settings.set_write_buffer_manager(write_buffer_manager._manager)

    def set_ratelimiter(
        self, rate_bytes_per_sec: int, refill_period_us: int, fairness: int
    ) -> None:
        """Limits the bytes a second that flushes and compactions write.

        Only the rate has an effect.
        """
        self._set("rate_limiter_bytes_per_sec", rate_bytes_per_sec)

    def set_auto_tuned_ratelimiter(
        self, rate_bytes_per_sec: int, refill_period_us: int, fairness: int
    ) -> None:
        """Limits the bytes a second that flushes and compactions write. The rate is not tuned."""
        self._set("rate_limiter_bytes_per_sec", rate_bytes_per_sec)

    def set_env(self, env: Env) -> None:
        """Has no effect: there is one environment."""

    def set_row_cache(self, cache: Cache) -> None:
        """Has no effect: there is no cache of rows."""

    def enable_statistics(self) -> None:
        """Counts operations."""
        self._set("statistics", "BasicStatistics")

    def get_statistics(self) -> str | None:
        """Returns the counts of the database that was last opened with the options."""
        opened = None if self._opened is None else self._opened()
        family: koeldb.Family | None = None if opened is None else opened._family
        return None if family is None else family.property("rocksdb.options-statistics")

    def increase_parallelism(self, parallelism: int) -> None:
        """Sets how many flushes and compactions run concurrently."""
        self._settings.increase_parallelism(parallelism)

    def optimize_for_point_lookup(self, cache_size: int) -> None:
        """Optimizes for reads of single keys, with a cache of so many megabytes."""
        self._settings.optimize_for_point_lookup(cache_size)

    def optimize_level_style_compaction(self, memtable_memory_budget: int) -> None:
        """Configures leveled compaction for so many bytes of memtables."""
        self._settings.optimize_level_style_compaction(memtable_memory_budget)

    def optimize_universal_style_compaction(self, memtable_memory_budget: int) -> None:
        """Configures universal compaction for so many bytes of memtables."""
        self._settings.optimize_universal_style_compaction(memtable_memory_budget)

    def prepare_for_bulk_load(self) -> None:
        """Prepares for a bulk load followed by a compaction."""
        self._settings.prepare_for_bulk_load()
