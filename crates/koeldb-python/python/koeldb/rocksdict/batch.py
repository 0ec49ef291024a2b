"""Batches of writes, and tables that are built outside of a database."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import koeldb

from .encoding import Key, encode_key, encode_value
from .options import Options

if TYPE_CHECKING:
    from .database import ColumnFamily


def columns_of(
    names: list[Any], values: list[Any], raw_mode: bool, dumps: Callable[[Any], bytes]
) -> list[tuple[bytes, bytes]]:
    """Returns the bytes of columns."""
    if len(names) != len(values):
        raise ValueError(f"there are {len(names)} names of columns and {len(values)} values")
    return [
        (encode_value(name, raw_mode, dumps), encode_value(value, raw_mode, dumps))
        for name, value in zip(names, values)
    ]


def _native(column_family: ColumnFamily | None) -> koeldb.Family | None:
    """Returns the column family of a handle."""
    return None if column_family is None else column_family._family


class WriteBatch:
    """Writes that `Rdict.write` does together or not at all."""

    def __init__(self, raw_mode: bool = False) -> None:
        self._raw_mode = raw_mode
        self._open: koeldb.Batch | None = koeldb.Batch()
        self._default: ColumnFamily | None = None
        self._dumps: Callable[[Any], bytes] = pickle.dumps

    @property
    def _batch(self) -> koeldb.Batch:
        if self._open is None:
            raise ValueError("the batch was written already: make a new WriteBatch()")
        return self._open

    def _take(self) -> koeldb.Batch:
        batch, self._open, self._default = self._batch, None, None
        return batch

    def _key(self, key: Key) -> bytes:
        return encode_key(key, self._raw_mode)

    def __len__(self) -> int:
        return len(self._batch)

    def __setitem__(self, key: Key, value: Any) -> None:
        self.put(key, value, self._default)

    def __delitem__(self, key: Key) -> None:
        self.delete(key, self._default)

    def set_dumps(self, dumps: Callable[[Any], bytes]) -> None:
        """Sets the function that makes bytes of objects."""
        self._dumps = dumps

    def set_default_column_family(self, column_family: ColumnFamily | None = None) -> None:
        """Sets the column family of `batch[key] = value`, `del batch[key]` and `put_entity`."""
        self._default = column_family

    def len(self) -> int:
        """The number of writes."""
        return len(self._batch)

    def size_in_bytes(self) -> int:
        """The bytes of the batch."""
        return self._batch.size

    def is_empty(self) -> bool:
        """Whether there is no write."""
        return len(self._batch) == 0

    def put(self, key: Key, value: Any, column_family: ColumnFamily | None = None) -> None:
        """Sets the value of a key."""
        data = encode_value(value, self._raw_mode, self._dumps)
        self._batch.put(self._key(key), data, family=_native(column_family))

    def put_entity(self, key: Key, names: list[Any], values: list[Any]) -> None:
        """Sets the columns of a key, in the default column family of the batch."""
        if self._default is None:
            raise ValueError("put_entity needs WriteBatch.set_default_column_family(handle)")
        columns = columns_of(names, values, self._raw_mode, self._dumps)
        self._batch.put_entity(self._key(key), columns, family=self._default._family)

    def delete(self, key: Key, column_family: ColumnFamily | None = None) -> None:
        """Removes a key."""
        self._batch.delete(self._key(key), family=_native(column_family))

    def delete_range(self, begin: Key, end: Key, column_family: ColumnFamily | None = None) -> None:
        """Removes the keys from `begin` to `end`, which is excluded."""
        self._batch.delete_range(self._key(begin), self._key(end), family=_native(column_family))

    def clear(self) -> None:
        """Discards the writes."""
        self._batch.clear()


class SstFileWriter:
    """A writer of tables, from keys in their order, which `Rdict.ingest_external_file` adds."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = (options or Options())._copy()
        self._dumps: Callable[[Any], bytes] = pickle.dumps
        self._open: koeldb.SstFileWriter | None = None
        self._size = 0

    @property
    def _writer(self) -> koeldb.SstFileWriter:
        if self._open is None:
            raise ValueError("there is no file: SstFileWriter.open(path) makes one")
        return self._open

    def set_dumps(self, dumps: Callable[[Any], bytes]) -> None:
        """Sets the function that makes bytes of objects."""
        self._dumps = dumps

    def open(self, path: str) -> None:
        """Begins a file, in the place of one of the same name."""
        self._open = None
        if os.path.exists(path):
            os.unlink(path)
        self._open, self._size = koeldb.SstFileWriter(path, self._options._settings), 0

    def finish(self) -> None:
        """Completes the file."""
        writer, self._open = self._writer, None
        self._size = writer.finish()

    def file_size(self) -> int:
        """The bytes of the file."""
        return self._size if self._open is None else self._open.file_size

    def __setitem__(self, key: Key, value: Any) -> None:
        raw_mode = self._options._raw_mode
        self._writer.put(encode_key(key, raw_mode), encode_value(value, raw_mode, self._dumps))

    def __delitem__(self, key: Key) -> None:
        self._writer.delete(encode_key(key, self._options._raw_mode))
