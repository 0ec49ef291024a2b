"""Options of single calls: reads, writes, ingestions, compactions, and how a database is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .arguments import checked
from .choices import BottommostLevelCompaction
from .encoding import Key, encode_key


def _setter(name: str, kind: type[Any]) -> Callable[[Any, Any], None]:
    """Returns the setter of an option that `self._options` has once it was set."""

    def setter(self: Any, value: Any, /) -> None:
        self._options[name] = checked(name, kind, value)

    return setter


class ReadOptions:
    """Options of reads."""

    def __init__(self) -> None:
        self._options: dict[str, bool | int] = {}
        self._lower: Key | None = None
        self._upper: Key | None = None

    fill_cache = _setter("fill_cache", bool)
    set_prefix_same_as_start = _setter("prefix_same_as_start", bool)
    set_total_order_seek = _setter("total_order_seek", bool)
    set_max_skippable_internal_keys = _setter("max_skippable_internal_keys", int)
    set_ignore_range_deletions = _setter("ignore_range_deletions", bool)
    set_verify_checksums = _setter("verify_checksums", bool)
    set_readahead_size = _setter("readahead_size", int)
    set_tailing = _setter("tailing", bool)
    set_pin_data = _setter("pin_data", bool)
    set_async_io = _setter("async_io", bool)

    def set_background_purge_on_iterator_cleanup(self, v: bool) -> None:
        """Has no effect: obsolete files are always removed in the background."""

    def set_iterate_lower_bound(self, key: Key) -> None:
        """Sets the key at which scans begin."""
        self._lower = key

    def set_iterate_upper_bound(self, key: Key) -> None:
        """Sets the key before which scans end."""
        self._upper = key

    def _bounds(self, raw_mode: bool) -> tuple[bytes | None, bytes | None]:
        lower, upper = (
            key if key is None else encode_key(key, raw_mode) for key in (self._lower, self._upper)
        )
        return lower, upper


class WriteOptions:
    """Options of writes."""

    def __init__(self) -> None:
        #: Whether a write survives a power cut.
        self.sync = False
        #: Whether a write may be lost in a crash of the process until the next flush.
        self.disable_wal = False
        self.ignore_missing_column_families = False
        self.no_slowdown = False
        #: Hints, which have no effect.
        self.low_pri = False
        self.memtable_insert_hint_per_batch = False

    def _options(self) -> dict[str, bool]:
        for name in ("ignore_missing_column_families", "no_slowdown"):
            if getattr(self, name):
                raise NotImplementedError(f"WriteOptions.{name}: there are no such writes")
        return {"sync": bool(self.sync), "disable_wal": bool(self.disable_wal)}


class FlushOptions:
    """Options of flushes, which wait until they are done."""

    def __init__(self) -> None:
        self.wait = True


class IngestExternalFileOptions:
    """Options of the ingestion of tables."""

    def __init__(self) -> None:
        self._options: dict[str, bool] = {}

    set_move_files = _setter("move_files", bool)
    set_snapshot_consistency = _setter("snapshot_consistency", bool)
    set_allow_global_seqno = _setter("allow_global_seqno", bool)
    set_allow_blocking_flush = _setter("allow_blocking_flush", bool)
    set_ingest_behind = _setter("ingest_behind", bool)


class CompactOptions:
    """Options of manual compactions."""

    def __init__(self) -> None:
        self._options: dict[str, bool | int | str] = {}

    set_exclusive_manual_compaction = _setter("exclusive_manual_compaction", bool)
    set_change_level = _setter("change_level", bool)

    def set_bottommost_level_compaction(self, lvl: BottommostLevelCompaction) -> None:
        """Sets what is done with the last level."""
        self._options["bottommost_level_compaction"] = lvl.text

    def set_target_level(self, lvl: int) -> None:
        """Sets the level to which the tables are moved, if `set_change_level` is on.

        Negative for the best.
        """
        self._options.pop("target_level", None)
        if lvl >= 0:
            self._options["target_level"] = lvl


@dataclass(frozen=True)
class AccessType:
    """How a database is opened."""

    kind: str
    secondary_path: str | None = None
    ttl: int | None = None
    error_if_log_file_exist: bool = False

    @staticmethod
    def read_write() -> AccessType:
        """For reads and writes."""
        return AccessType("read_write")

    @staticmethod
    def read_only(error_if_log_file_exist: bool = False) -> AccessType:
        """For reads. With `error_if_log_file_exist` a directory with logs is refused."""
        return AccessType("read_only", error_if_log_file_exist=error_if_log_file_exist)

    @staticmethod
    def secondary(secondary_path: str) -> AccessType:
        """For reads beside the process that writes, with a directory of its own."""
        return AccessType("secondary", secondary_path=secondary_path)

    @staticmethod
    def with_ttl(duration: int) -> AccessType:
        """For reads and writes; compactions remove entries older than so many seconds."""
        return AccessType("with_ttl", ttl=duration)
