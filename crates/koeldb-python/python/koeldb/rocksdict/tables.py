"""Options of kinds of tables and of styles of compaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from .arguments import checked
from .choices import (
    BlockBasedIndexType,
    ChecksumType,
    DataBlockIndexType,
    KeyEncodingType,
    UniversalCompactionStopStyle,
)
from .resources import Cache


class _Texts(Protocol):
    _texts: dict[str, Any]


_V = TypeVar("_V", int, float, bool)


def _setter(name: str, kind: type[_V]) -> Callable[[Any, _V], None]:
    """Returns the setter of an option of a table."""

    def setter(self: _Texts, value: _V, /) -> None:
        self._texts[name] = checked(name, kind, value)

    return setter


class BlockBasedOptions:
    """Options of block-based tables."""

    def __init__(self) -> None:
        self._texts: dict[str, Any] = {}
        self._cache: Cache | None = None

    set_block_size = _setter("block_size", int)
    set_block_restart_interval = _setter("block_restart_interval", int)
    set_index_block_restart_interval = _setter("index_block_restart_interval", int)
    set_metadata_block_size = _setter("metadata_block_size", int)
    set_partition_filters = _setter("partition_filters", bool)
    set_cache_index_and_filter_blocks = _setter("cache_index_and_filter_blocks", bool)
    set_pin_l0_filter_and_index_blocks_in_cache = _setter(
        "pin_l0_filter_and_index_blocks_in_cache", bool
    )
    set_pin_top_level_index_and_filter = _setter("pin_top_level_index_and_filter", bool)
    set_format_version = _setter("format_version", int)
    set_data_block_hash_ratio = _setter("data_block_hash_table_util_ratio", float)

    def set_block_cache(self, cache: Cache) -> None:
        """Uses a cache for blocks."""
        self._cache = cache

    def disable_cache(self) -> None:
        """Uses no cache for blocks."""
        self._texts["no_block_cache"] = True

    def set_bloom_filter(self, bits_per_key: float, block_based: bool) -> None:
        """Adds Bloom filters.

        They are for whole tables; those of single blocks are no more in RocksDB either.
        """
        self._texts["filter_policy"] = f"bloomfilter:{bits_per_key}:false"

    def set_index_type(self, index_type: BlockBasedIndexType) -> None:
        """Sets the index of blocks."""
        self._texts["index_type"] = index_type.text

    def set_data_block_index_type(self, index_type: DataBlockIndexType) -> None:
        """Sets the index in a block."""
        self._texts["data_block_index_type"] = index_type.text

    def set_checksum_type(self, checksum_type: ChecksumType) -> None:
        """Sets the checksum of blocks."""
        self._texts["checksum"] = checksum_type.text


class CuckooTableOptions:
    """Options of cuckoo tables."""

    def __init__(self) -> None:
        self._texts: dict[str, Any] = {}

    set_hash_ratio = _setter("hash_table_ratio", float)
    set_max_search_depth = _setter("max_search_depth", int)
    set_cuckoo_block_size = _setter("cuckoo_block_size", int)
    set_identity_as_first_hash = _setter("identity_as_first_hash", bool)
    set_use_module_hash = _setter("use_module_hash", bool)


class PlainTableFactoryOptions:
    """Options of plain tables."""

    def __init__(self) -> None:
        #: The bytes of a key, 0 if they differ; in the default mode without the byte of the type.
        self.user_key_length = 0
        self.bloom_bits_per_key = 10
        self.hash_table_ratio = 0.75
        self.index_sparseness = 16
        self.huge_page_tlb_size = 0
        self.encoding_type: KeyEncodingType = KeyEncodingType.plain()
        self.full_scan_mode = False
        self.store_index_in_file = False

    def _factory(self, raw_mode: bool) -> dict[str, Any]:
        length = self.user_key_length
        return {
            "id": "PlainTable",
            "user_key_len": length if raw_mode or not length else length + 1,
            "bloom_bits_per_key": self.bloom_bits_per_key,
            "hash_table_ratio": self.hash_table_ratio,
            "index_sparseness": self.index_sparseness,
            "huge_page_tlb_size": self.huge_page_tlb_size,
            "encoding_type": self.encoding_type.text,
            "full_scan_mode": self.full_scan_mode,
            "store_index_in_file": self.store_index_in_file,
        }


class UniversalCompactOptions:
    """Options of universal compactions."""

    def __init__(self) -> None:
        self.size_ratio = 1
        self.min_merge_width = 2
        self.max_merge_width = 2**31 - 1
        self.max_size_amplification_percent = 200
        self.compression_size_percent = -1
        self.stop_style: UniversalCompactionStopStyle = UniversalCompactionStopStyle.total()

    def _texts(self) -> dict[str, Any]:
        return {name: getattr(value, "text", value) for name, value in vars(self).items()}


class FifoCompactOptions:
    """Options of FIFO compactions."""

    def __init__(self) -> None:
        #: The bytes of tables above which the oldest are removed.
        self.max_table_files_size = 0x280000000
