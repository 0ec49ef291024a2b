"""Arrow record batches of keys and values, with pyarrow.

The columns `key` and `value` have the type large binary. A batch shares the memory that the scan
filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from . import _native
from ._native import Family, Memory

SCHEMA = pa.schema(
    [pa.field("key", pa.large_binary(), nullable=False), pa.field("value", pa.large_binary())]
)


def _binary(count: int, column: tuple[Memory, Memory], valid: Memory | None = None) -> Any:
    """Returns an array of `count` strings in a column's offsets and bytes; null if not `valid`."""
    buffers = [
        None if valid is None else pa.py_buffer(valid),
        pa.py_buffer(column[0]),
        pa.py_buffer(column[1]),
    ]
    return pa.Array.from_buffers(pa.large_binary(), count, buffers)


def _column(array: Any) -> tuple[Any, Any]:
    """Returns the bytes of an array or chunked array, and their offsets or width."""
    if not isinstance(array, (pa.Array, pa.ChunkedArray)):
        raise TypeError(f"keys and values must be pyarrow arrays, not {type(array).__name__}")
    if array.null_count:
        raise ValueError("keys and values must not be null")
    if isinstance(array, pa.ChunkedArray):
        if not pa.types.is_fixed_size_binary(array.type):
            # Together the chunks may have more bytes than offsets of 32 bits can address.
            array = array.cast(pa.large_binary())
        array = array.combine_chunks()
    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = array.buffers()[1]
        return memoryview(data)[array.offset * width :][: len(array) * width], width
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    if offsets is None:
        return b"", bytes(8)
    return data or b"", memoryview(offsets)[array.offset * 8 : (array.offset + len(array) + 1) * 8]


def scan(
    db: Family,
    start: bytes | None = None,
    stop: bytes | None = None,
    *,
    prefix: bytes | None = None,
    reverse: bool = False,
    rows: int = 65536,
) -> Iterator[Any]:
    """Iterates over a range, that of `Db.items`, in record batches of up to `rows` rows.

    `pyarrow.Table.from_batches(scan(db), SCHEMA)` makes a table of them.
    `pyarrow.RecordBatchReader.from_batches(SCHEMA, scan(db))` lets other libraries read them one by
    one.
    """
    for count, keys, values in _native.columns(db, start, stop, prefix, reverse, rows):
        yield pa.record_batch([_binary(count, keys), _binary(count, values)], schema=SCHEMA)


def multi_get(db: Family, keys: Any) -> Any:
    """Returns the values of an array of keys as an array, null for keys that do not exist."""
    count, valid, values = _native.multi_get_column(db, *_column(keys))
    return _binary(count, values, valid)


def put(db: Family, batch: Any, *, sync: bool = False, disable_wal: bool = False) -> int:
    """Writes the columns `key` and `value` of a record batch or table in one batch, all or none.

    Returns the number of rows. `sync` and `disable_wal` are those of `Db.put`.
    """
    keys, values = batch.column("key"), batch.column("value")
    return _native.put_columns(db, *_column(keys), *_column(values), sync, disable_wal)
