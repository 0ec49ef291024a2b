"""NumPy arrays of keys and values of fixed length.

A column of `n` keys is an array whose first dimension is `n` and whose rows are the bytes of the
keys: a two-dimensional array of `uint8`, or a one-dimensional array of a type of fixed size, such
as `S16` or `>u8` (big-endian integers sort numerically). Columns of values have the same form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import Family

_Array = npt.NDArray[Any]


def _bytes(array: _Array) -> memoryview:
    """Returns the memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def _column(array: _Array, name: str) -> tuple[memoryview, int]:
    """Returns the bytes of an array, and their number per row; `name` is for errors."""
    if not isinstance(array, np.ndarray):
        # A list of byte strings would be padded to the longest.
        raise TypeError(f"{name} must be an array, not {type(array).__name__}")
    if array.ndim == 0 or array.dtype.hasobject or array.dtype.kind == "U":
        raise ValueError(
            f"{name} must be an array of rows of bytes or numbers, such as S16, "
            f"not of {array.ndim} dimensions and the type {array.dtype}"
        )
    array = np.ascontiguousarray(array)
    width = array.itemsize
    for length in array.shape[1:]:
        width *= length
    if width == 0:
        raise ValueError(f"the rows of {name} are empty")
    return _bytes(array), width


def put(
    db: Family, keys: _Array, values: _Array, *, sync: bool = False, disable_wal: bool = False
) -> int:
    """Sets the values of keys in one batch, all or none; returns the number of keys.

    `sync` and `disable_wal` are those of `Db.put`.
    """
    key_bytes, key_width = _column(keys, "keys")
    value_bytes, value_width = _column(values, "values")
    return _native.put_columns(
        db, key_bytes, key_width, value_bytes, value_width, sync, disable_wal
    )


def multi_get_into(db: Family, keys: _Array, out: _Array, mask: _Array) -> int:
    """Fills the rows of `out` with the values of keys, and `mask` with whether each exists.

    `out` and `mask` must be contiguous; `mask` has a byte or bool for each key. The row of a key
    that does not exist is unchanged. A value whose length differs from that of a row raises a
    `ValueError`. Returns the number of keys that exist.
    """
    key_bytes, key_width = _column(keys, "keys")
    if mask.itemsize != 1:
        raise ValueError("mask must be an array of bytes or bools")
    for name, array in (("out", out), ("mask", mask)):
        if not array.flags.c_contiguous:
            raise ValueError(f"{name} must be contiguous")
    return _native.multi_get_into(db, key_bytes, key_width, _bytes(out), _bytes(mask))


def multi_get(
    db: Family, keys: _Array, dtype: npt.DTypeLike
) -> tuple[_Array, npt.NDArray[np.bool_]]:
    """Returns the values of keys as an array of `dtype`, and whether each key exists.

    The value of a key that does not exist is zero.
    """
    out = np.zeros(len(keys), dtype)
    mask = np.zeros(len(keys), np.bool_)
    multi_get_into(db, keys, out, mask)
    return out, mask


def scan(
    db: Family,
    key: npt.DTypeLike,
    value: npt.DTypeLike,
    start: bytes | None = None,
    stop: bytes | None = None,
    *,
    prefix: bytes | None = None,
    reverse: bool = False,
    rows: int = 65536,
) -> Iterator[tuple[_Array, _Array]]:
    """Iterates over a range in pairs of arrays, keys and values, of up to `rows` rows.

    `key` and `value` are the types of a row; a key or value of another length raises `ValueError`.
    The range is that of `Db.items`. The arrays are read-only views of the memory that the scan
    filled.
    """
    key_type, value_type = np.dtype(key), np.dtype(value)
    for _, keys, values in _native.columns(db, start, stop, prefix, reverse, rows):
        for name, (offsets, _), kind in (("key", keys, key_type), ("value", values, value_type)):
            lengths = np.diff(np.frombuffer(memoryview(offsets), np.int64))
            wrong = lengths[lengths != kind.itemsize]
            if len(wrong):
                raise ValueError(
                    f"a {name} has {wrong[0]} bytes, but the type {kind} has {kind.itemsize}"
                )
        yield (
            np.frombuffer(memoryview(keys[1]), key_type),
            np.frombuffer(memoryview(values[1]), value_type),
        )
