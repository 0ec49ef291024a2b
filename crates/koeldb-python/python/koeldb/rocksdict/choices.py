"""Values of options that are chosen by name, as static methods: `DBCompressionType.lz4()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_C = TypeVar("_C", bound="Choice")


class Choice:
    """One value of an option, which has RocksDB's name for it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text})"


class choice:
    """A static method that returns a value."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, instance: object, owner: type[_C]) -> Callable[[], _C]:
        return lambda: owner(self.text)


class DBCompressionType(Choice):
    """A codec of blocks."""

    none = choice("kNoCompression")
    snappy = choice("kSnappyCompression")
    zlib = choice("kZlibCompression")
    bz2 = choice("kBZip2Compression")
    lz4 = choice("kLZ4Compression")
    lz4hc = choice("kLZ4HCCompression")
    zstd = choice("kZSTD")


class DBCompactionStyle(Choice):
    """A style of compactions."""

    level = choice("kCompactionStyleLevel")
    universal = choice("kCompactionStyleUniversal")
    fifo = choice("kCompactionStyleFIFO")


class DBRecoveryMode(Choice):
    """What an open does with a damaged log."""

    tolerate_corrupted_tail_records = choice("kTolerateCorruptedTailRecords")
    absolute_consistency = choice("kAbsoluteConsistency")
    point_in_time = choice("kPointInTimeRecovery")
    skip_any_corrupted_record = choice("kSkipAnyCorruptedRecords")


class ChecksumType(Choice):
    """A checksum of blocks."""

    no_checksum = choice("kNoChecksum")
    crc32c = choice("kCRC32c")
    xxhash = choice("kxxHash")
    xxhash64 = choice("kxxHash64")
    xxh3 = choice("kXXH3")


class BlockBasedIndexType(Choice):
    """An index of blocks."""

    binary_search = choice("kBinarySearch")
    hash_search = choice("kHashSearch")
    two_level_index_search = choice("kTwoLevelIndexSearch")


class DataBlockIndexType(Choice):
    """An index in a block."""

    binary_search = choice("kDataBlockBinarySearch")
    binary_and_hash = choice("kDataBlockBinaryAndHash")


class UniversalCompactionStopStyle(Choice):
    """How a universal compaction picks files."""

    similar = choice("kCompactionStopStyleSimilarSize")
    total = choice("kCompactionStopStyleTotalSize")


class KeyEncodingType(Choice):
    """An encoding of the keys of a plain table."""

    none = choice("kPlain")
    plain = choice("kPlain")
    prefix = choice("kPrefix")


class BottommostLevelCompaction(Choice):
    """What a manual compaction does with the last level."""

    skip = choice("kSkip")
    if_have_compaction_filter = choice("kIfHaveCompactionFilter")
    force = choice("kForce")
    force_optimized = choice("kForceOptimized")


class MemtableFactory(Choice):
    """A kind of memtable."""

    vector = choice("vector")

    @staticmethod
    def hash_skip_list(bucket_count: int, height: int, branching_factor: int) -> MemtableFactory:
        """A skip list for each prefix of keys."""
        return MemtableFactory(
            f"{{id=prefix_hash;bucket_count={bucket_count};skiplist_height={height};"
            f"branching_factor={branching_factor};}}"
        )

    @staticmethod
    def hash_link_list(bucket_count: int) -> MemtableFactory:
        """A list for each prefix of keys."""
        return MemtableFactory(f"{{id=hash_linkedlist;bucket_count={bucket_count};}}")


class SliceTransform(Choice):
    """A function that selects the prefix of a key."""

    __slots__ = ("config",)

    #: What `rocksdict-config.json` says of it.
    config: str | dict[str, int]

    def __init__(self, text: str, config: str | dict[str, int]) -> None:
        super().__init__(text)
        self.config = config

    @staticmethod
    def create_fixed_prefix(len: int) -> SliceTransform:
        """The first bytes of a key; shorter keys have no prefix."""
        return SliceTransform(f"fixed:{len}", {"Fixed": len})

    @staticmethod
    def create_max_len_prefix(len: int) -> SliceTransform:
        """The first bytes of a key, or all of a shorter one: from 1 to 128."""
        return SliceTransform(f"max_len:{len}", {"MaxLen": len})

    @staticmethod
    def create_noop() -> SliceTransform:
        """The whole key."""
        return SliceTransform("rocksdb.Noop", "Noop")

    @staticmethod
    def from_config(config: str | dict[str, int]) -> SliceTransform:
        """Returns the function of an entry of `rocksdict-config.json`."""
        if isinstance(config, dict) and "Fixed" in config:
            return SliceTransform.create_fixed_prefix(config["Fixed"])
        if isinstance(config, dict) and "MaxLen" in config:
            return SliceTransform.create_max_len_prefix(config["MaxLen"])
        if config == "Noop":
            return SliceTransform.create_noop()
        raise ValueError(
            f"rocksdict-config.json names the prefix extractor {config!r}, which is unknown"
        )
