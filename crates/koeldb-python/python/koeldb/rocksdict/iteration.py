"""Positions in a database, and iterators over its keys, values and columns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import koeldb

from .encoding import Key, decode, encode_key

Loads = Callable[[bytes], Any]


class RdictIter:
    """A position, which moves in both directions. An error of a move is that of `status`."""

    def __init__(self, cursor: koeldb.Cursor, loads: Loads, raw_mode: bool) -> None:
        self._cursor = cursor
        self._loads = loads
        self._raw_mode = raw_mode
        self._error: koeldb.Error | None = None

    def _move(self, move: Callable[..., bool], *key: bytes) -> None:
        self._error = None
        try:
            move(*key)
        except koeldb.Error as error:
            self._error = error

    def _decode(self, data: bytes) -> Any:
        return decode(data, self._raw_mode, self._loads)

    def valid(self) -> bool:
        """Whether there is an entry at the position."""
        return self._error is None and self._cursor.valid

    def status(self) -> None:
        """Raises the error of the last move."""
        if self._error is not None:
            raise self._error

    def seek_to_first(self) -> None:
        """Moves to the first entry."""
        self._move(self._cursor.seek_to_first)

    def seek_to_last(self) -> None:
        """Moves to the last entry."""
        self._move(self._cursor.seek_to_last)

    def seek(self, key: Key) -> None:
        """Moves to the first entry whose key is not before `key`."""
        self._move(self._cursor.seek, encode_key(key, self._raw_mode))

    def seek_for_prev(self, key: Key) -> None:
        """Moves to the last entry whose key is not behind `key`."""
        self._move(self._cursor.seek_for_prev, encode_key(key, self._raw_mode))

    def next(self) -> None:
        """Moves to the next entry."""
        self._move(self._cursor.next)

    def prev(self) -> None:
        """Moves to the entry before."""
        self._move(self._cursor.prev)

    def key(self) -> Any:
        """The key at the position, or `None`."""
        key = self._cursor.key if self.valid() else None
        return None if key is None else self._decode(key)

    def value(self) -> Any:
        """The value at the position, or `None`."""
        value = self._cursor.value if self.valid() else None
        return None if value is None else self._decode(value)

    def columns(self) -> list[tuple[Any, Any]] | None:
        """The columns at the position, or `None`."""
        columns = self._cursor.columns if self.valid() else None
        return None if columns is None else decode_columns(columns, self._raw_mode, self._loads)


def decode_columns(
    columns: list[tuple[bytes, bytes]], raw_mode: bool, loads: Loads
) -> list[tuple[Any, Any]]:
    """Returns the names and values of columns."""
    return [
        (decode(name, raw_mode, loads), decode(value, raw_mode, loads)) for name, value in columns
    ]


class _Entries(Iterator[Any]):
    """An iterator, which reads ahead. An error is raised, not taken for the end.

    Several threads may use it: each gets other entries.
    """

    _columns = False

    def __init__(self, position: RdictIter, backwards: bool, from_key: Key | None) -> None:
        cursor, raw_mode = position._cursor, position._raw_mode
        self._loads = position._loads
        self._raw_mode = raw_mode
        self._cursor, self._backwards = cursor, backwards
        self._size = 8
        self._pending: deque[tuple[bytes, Any]] = deque()
        if from_key is None:
            cursor.seek_to_last() if backwards else cursor.seek_to_first()
        else:
            seek = cursor.seek_for_prev if backwards else cursor.seek
            seek(encode_key(from_key, raw_mode))

    def _item(self, key: bytes, value: Any) -> Any:
        raise NotImplementedError

    def _columns_of(self, columns: list[tuple[bytes, bytes]]) -> list[tuple[Any, Any]]:
        return decode_columns(columns, self._raw_mode, self._loads)

    def __next__(self) -> Any:
        while True:
            try:
                entry = self._pending.popleft()
            except IndexError:
                pass
            else:
                return self._item(*entry)
            size, self._size = self._size, min(self._size * 8, 512)
            entries = self._cursor.read(size, reverse=self._backwards, columns=self._columns)
            if not entries:
                raise StopIteration
            # Other threads may have added theirs meanwhile: none is lost.
            self._pending.extend(entries)


class RdictItems(_Entries):
    """An iterator over pairs of key and value."""

    def _item(self, key: bytes, value: Any) -> Any:
        raw_mode, loads = self._raw_mode, self._loads
        return decode(key, raw_mode, loads), decode(value, raw_mode, loads)


class RdictKeys(_Entries):
    """An iterator over keys."""

    def _item(self, key: bytes, value: Any) -> Any:
        return decode(key, self._raw_mode, self._loads)


class RdictValues(_Entries):
    """An iterator over values."""

    def _item(self, key: bytes, value: Any) -> Any:
        return decode(value, self._raw_mode, self._loads)


class RdictColumns(_Entries):
    """An iterator over the columns of each key."""

    _columns = True

    def _item(self, key: bytes, value: Any) -> Any:
        return self._columns_of(value)


class RdictEntities(_Entries):
    """An iterator over pairs of key and columns."""

    _columns = True

    def _item(self, key: bytes, value: Any) -> Any:
        return decode(key, self._raw_mode, self._loads), self._columns_of(value)


class Scans:
    """The iterators of what has positions: a database, a column family, a snapshot."""

    def iter(self, read_opt: Any = None) -> RdictIter:
        """Returns a position."""
        raise NotImplementedError

    def items(
        self, backwards: bool = False, from_key: Key | None = None, read_opt: Any = None
    ) -> RdictItems:
        """Returns an iterator over pairs of key and value, from `from_key` on."""
        return RdictItems(self.iter(read_opt), backwards, from_key)

    def keys(
        self, backwards: bool = False, from_key: Key | None = None, read_opt: Any = None
    ) -> RdictKeys:
        """Returns an iterator over keys."""
        return RdictKeys(self.iter(read_opt), backwards, from_key)

    def values(
        self, backwards: bool = False, from_key: Key | None = None, read_opt: Any = None
    ) -> RdictValues:
        """Returns an iterator over values."""
        return RdictValues(self.iter(read_opt), backwards, from_key)

    def columns(
        self, backwards: bool = False, from_key: Key | None = None, read_opt: Any = None
    ) -> RdictColumns:
        """Returns an iterator over the columns of each key."""
        return RdictColumns(self.iter(read_opt), backwards, from_key)

    def entities(
        self, backwards: bool = False, from_key: Key | None = None, read_opt: Any = None
    ) -> RdictEntities:
        """Returns an iterator over pairs of key and columns."""
        return RdictEntities(self.iter(read_opt), backwards, from_key)
