"""An embedded key-value store: sorted mappings of bytes on disk, in RocksDB's formats.

    import koeldb

    with koeldb.Db("birds.db") as db:
        db[b"koel"] = b"Eudynamys"
        for name, genus in db.items(prefix=b"k"):
            print(name, genus)

`Db` is a `MutableMapping[bytes, bytes]`. Keys and values are `bytes` or other contiguous buffers;
results are `bytes`. Options are keyword arguments with RocksDB's names; `options()` lists them.

Every call that may block releases the global interpreter lock (GIL). Any number of threads may use
a database, its column families and snapshots. A batch or transaction is for one thread at a time.
"""

from __future__ import annotations

import atexit as _atexit
import collections.abc as _abc
import os as _os
import random as _random
import time as _time
from collections.abc import Callable as _Callable
from typing import NamedTuple as _NamedTuple
from typing import TypeVar as _TypeVar

from . import _native
from ._native import (
    Awaitable,
    Backups,
    Batch,
    Cache,
    Comparator,
    Cursor,
    Db,
    Entries,
    Family,
    Items,
    Keys,
    Memory,
    MergeOperator,
    Settings,
    Snapshot,
    SstFileWriter,
    Transaction,
    Updates,
    Values,
    WriteBufferManager,
    __version__,
    destroy,
    list_families,
    repair,
)
from .errors import (
    Aborted,
    Busy,
    Closed,
    Corruption,
    Error,
    Expired,
    FamilyDropped,
    Incomplete,
    InvalidArgument,
    IoError,
    MemoryLimit,
    MergeInProgress,
    NotFound,
    NotSupported,
    TimedOut,
    TryAgain,
)

__all__ = [
    "Aborted",
    "Awaitable",
    "Backups",
    "Batch",
    "Busy",
    "Cache",
    "Closed",
    "Comparator",
    "Corruption",
    "Cursor",
    "Db",
    "Entries",
    "Error",
    "Expired",
    "Family",
    "FamilyDropped",
    "Incomplete",
    "InvalidArgument",
    "IoError",
    "Items",
    "Keys",
    "Memory",
    "MemoryLimit",
    "MergeInProgress",
    "MergeOperator",
    "NotFound",
    "NotSupported",
    "Option",
    "Settings",
    "Snapshot",
    "SstFileWriter",
    "TimedOut",
    "Transaction",
    "TryAgain",
    "Updates",
    "Values",
    "WriteBufferManager",
    "__version__",
    "destroy",
    "list_families",
    "options",
    "repair",
    "transact",
]

_R = _TypeVar("_R")


class Option(_NamedTuple):
    """The description of an option."""

    #: RocksDB's name, the keyword argument.
    name: str
    #: The part of RocksDB's options to which it belongs, such as `DBOptions` or `CFOptions`.
    section: str
    #: The type of its value.
    kind: str
    #: The default, as text that the option accepts.
    default: str
    #: Unit, range and special values.
    range: str
    #: Whether `set_options` or `set_db_options` changes it while the database is open.
    is_mutable: bool
    documentation: str


def options() -> list[Option]:
    """Describes all options of databases, column families and tables."""
    return [Option(*row) for row in _native.option_table()]


def transact(
    db: Db, body: _Callable[[Transaction], _R], *, attempts: int = 10, sync: bool = False
) -> _R:
    """Runs `body` in a transaction, commits it and returns what `body` returned.

    After a conflict (`Busy`, `Expired`, `TimedOut`, `TryAgain`) it pauses for a random time and
    repeats both, up to `attempts` times in all; then it raises the error of the last attempt.
    `body` may run several times, so it should have no effects outside the transaction. With `sync`
    the commit survives a power cut.
    """
    pause = 0.001
    for attempt in range(1, attempts + 1):
        transaction = db.transaction(sync=sync)
        try:
            with transaction:
                result = body(transaction)
            return result
        except (Busy, Expired, TimedOut, TryAgain) as error:
            if attempt == attempts or error.outcome == "Indeterminate":
                raise
        _time.sleep(pause * _random.random())
        pause *= 2
    raise ValueError("attempts must be at least 1")


_abc.MutableMapping.register(Family)
_abc.Mapping.register(Snapshot)
_abc.ItemsView.register(Items)
_abc.KeysView.register(Keys)
_abc.ValuesView.register(Values)

_atexit.register(_native.close_all)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_native.after_fork_in_child)
