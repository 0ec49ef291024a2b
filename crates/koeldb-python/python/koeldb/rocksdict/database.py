"""The class `Rdict`: a dictionary on disk, which is a column family of a database."""

from __future__ import annotations

import os
import pickle
import re
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

import koeldb

from .batch import WriteBatch, columns_of
from .calls import AccessType, CompactOptions, IngestExternalFileOptions, ReadOptions, WriteOptions
from .config import Config, file
from .encoding import Key, after, decode, encode_key, encode_value
from .iteration import RdictIter, Scans, decode_columns
from .options import Options

_DEFAULT = "default"
#: What stands for the value of an absent key.
_ABSENT = object()


class DbClosedError(koeldb.Closed):
    """The database is closed."""


class ColumnFamily:
    """A column family, for the writes of a batch."""

    def __init__(self, db: koeldb.Db, family: koeldb.Family) -> None:
        self._db = db
        self._family = family


def _families(path: str) -> list[str]:
    """Returns the column families of a directory, none if there is no database."""
    if not os.path.exists(os.path.join(path, "CURRENT")):
        return []
    return koeldb.list_families(path)


class Rdict(Scans):
    """A dictionary on disk.

    Keys are `str`, `int`, `float`, `bool` and `bytes`, and values any objects.

    In raw mode both are `bytes`. A directory of another program is opened in raw mode, with the
    options and column families that it has.
    """

    _db: koeldb.Db | None = None
    _family: koeldb.Family | None = None

    def __init__(
        self,
        path: str,
        options: Options | None = None,
        column_families: dict[str, Options] | None = None,
        access_type: AccessType = AccessType.read_write(),
    ) -> None:
        os.makedirs(path, exist_ok=True)
        try:
            loaded, loaded_families = Options.load_latest(path)
        except koeldb.Error:
            if options is None:
                options = Options()
        else:
            options = loaded if options is None else options
            column_families = loaded_families if column_families is None else column_families
        families = column_families or {}
        extractors = {_DEFAULT: options._prefix_extractor}
        extractors.update((name, own._prefix_extractor) for name, own in families.items())
        config = Config(
            options._raw_mode,
            {name: extractor for name, extractor in extractors.items() if extractor is not None},
        )
        writable = access_type.kind in ("read_write", "with_ttl")
        existing = _families(path)
        if writable and not existing:
            # A database is created in an empty directory.
            file(path).unlink(missing_ok=True)
        left_out = set(existing) - set(families) - {_DEFAULT}
        if writable and left_out:
            raise koeldb.InvalidArgument(
                f"Column families not opened: {', '.join(sorted(left_out))}"
            )
        if access_type.error_if_log_file_exist and any(
            re.fullmatch(r"\d+\.log", name) for name in os.listdir(path)
        ):
            raise koeldb.Corruption(f"{path} has logs, and error_if_log_file_exist is set")
        self._db = self._family = koeldb.Db(
            path,
            settings=options._settings,
            families={name: own._settings for name, own in families.items()},
            read_only=access_type.kind == "read_only",
            secondary=access_type.secondary_path,
            ttl=access_type.ttl,
        )
        if writable:
            config.save(path)
        options._opened = weakref.ref(self)
        self._path = path
        self._config = config
        self._raw_mode = options._raw_mode
        self._writable = writable
        self._loads: Callable[[bytes], Any] = pickle.loads
        self._dumps: Callable[[Any], bytes] = pickle.dumps
        self._read: ReadOptions = ReadOptions()
        self._write: WriteOptions = WriteOptions()

    def __enter__(self) -> Rdict:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # An object that is dropped has nobody to tell.
            pass

    def _open(self) -> tuple[koeldb.Db, koeldb.Family]:
        if self._db is None or self._family is None:
            raise DbClosedError("the Rdict is closed")
        return self._db, self._family

    @property
    def _mapping(self) -> koeldb.Family:
        if self._family is None:
            raise DbClosedError("the Rdict is closed")
        return self._family

    def _key(self, key: object) -> bytes:
        return encode_key(key, self._raw_mode)

    def _value(self, value: object) -> bytes:
        return encode_value(value, self._raw_mode, self._dumps)

    def _decode(self, data: bytes) -> Any:
        return decode(data, self._raw_mode, self._loads)

    def _written(self, write_opt: WriteOptions | None) -> dict[str, bool]:
        return (self._write if write_opt is None else write_opt)._options()

    def set_dumps(self, dumps: Callable[[Any], bytes]) -> None:
        """Sets the function that makes bytes of objects: `pickle.dumps` without it."""
        self._dumps = dumps

    def set_loads(self, loads: Callable[[bytes], Any]) -> None:
        """Sets the function that makes objects of bytes: `pickle.loads` without it."""
        self._loads = loads

    def set_read_options(self, read_opt: ReadOptions) -> None:
        """Sets the options of reads of keys."""
        self._read = read_opt

    def set_write_options(self, write_opt: WriteOptions) -> None:
        """Sets the options of writes."""
        write_opt._options()
        self._write = write_opt

    def __contains__(self, key: Key) -> bool:
        family, options = self._mapping, self._read._options
        if options:
            return family.get(self._key(key), None, **options) is not None
        return self._key(key) in family

    def __getitem__(self, key: Key | list[Key]) -> Any:
        # `None` is a value too.
        value = self.get(key, _ABSENT)
        if value is _ABSENT:
            raise KeyError(key)
        if isinstance(key, list):
            return [None if one is _ABSENT else one for one in value]
        return value

    def __setitem__(self, key: Key, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Key) -> None:
        self.delete(key)

    def get(
        self, key: Key | list[Key], default: Any = None, read_opt: ReadOptions | None = None
    ) -> Any:
        """Returns the value of a key, or a list of the values of a list of keys.

        `default` for an absent one.
        """
        family, options = self._mapping, (read_opt or self._read)._options
        if isinstance(key, list):
            found = family.multi_get([self._key(one) for one in key], **options)
            return [default if data is None else self._decode(data) for data in found]
        data = family.get(self._key(key), None, **options)
        return default if data is None else self._decode(data)

    def get_entity(self, key: Key, default: Any = None, read_opt: ReadOptions | None = None) -> Any:
        """Returns the columns of a key as pairs of name and value.

        Those of a plain value have an empty name.
        """
        columns = self._mapping.get_entity(self._key(key), **(read_opt or self._read)._options)
        return default if columns is None else decode_columns(columns, self._raw_mode, self._loads)

    def put(self, key: Key, value: Any, write_opt: WriteOptions | None = None) -> None:
        """Sets the value of a key."""
        self._mapping.put(self._key(key), self._value(value), **self._written(write_opt))

    def put_entity(
        self, key: Key, names: list[Any], values: list[Any], write_opt: WriteOptions | None = None
    ) -> None:
        """Sets the columns of a key."""
        columns = columns_of(names, values, self._raw_mode, self._dumps)
        self._mapping.put_entity(self._key(key), columns, **self._written(write_opt))

    def delete(self, key: Key, write_opt: WriteOptions | None = None) -> None:
        """Removes a key, which need not exist."""
        self._mapping.delete(self._key(key), **self._written(write_opt))

    def key_may_exist(
        self, key: Key, fetch: bool = False, read_opt: ReadOptions | None = None
    ) -> bool | tuple[bool, Any]:
        """Whether a key may exist, without reading files.

        With `fetch` also its value, if it is in memory.
        """
        family, data = self._mapping, self._key(key)
        if not fetch:
            return family.key_may_exist(data)
        options: dict[str, bool | int | str] = {
            **(read_opt or self._read)._options,
            "read_tier": "kBlockCacheTier",
        }
        try:
            found = family.get(data, None, **options)
        except koeldb.Incomplete:
            return True, None
        return found is not None, None if found is None else self._decode(found)

    def iter(self, read_opt: ReadOptions | None = None) -> RdictIter:
        """Returns a position."""
        read_opt = read_opt or ReadOptions()
        start, stop = read_opt._bounds(self._raw_mode)
        cursor = self._mapping.cursor(start, stop, **read_opt._options)
        return RdictIter(cursor, self._loads, self._raw_mode)

    def ingest_external_file(
        self, paths: list[str], opts: IngestExternalFileOptions | None = None
    ) -> None:
        """Adds tables that `SstFileWriter` wrote."""
        self._mapping.ingest(paths, **(opts or IngestExternalFileOptions())._options)

    def _find(self, name: str) -> koeldb.Family:
        db, _ = self._open()
        try:
            return db if name == _DEFAULT else db.family(name)
        except KeyError:
            raise ValueError(
                f"there is no column family {name!r}: create_column_family makes one"
            ) from None

    def get_column_family(self, name: str) -> Rdict:
        """Returns a column family as a dictionary."""
        family = self._find(name)
        other = Rdict.__new__(Rdict)
        other.__dict__.update(self.__dict__)
        other._family = family
        return other

    def get_column_family_handle(self, name: str) -> ColumnFamily:
        """Returns a column family for the writes of a batch."""
        return ColumnFamily(self._open()[0], self._find(name))

    def create_column_family(self, name: str, options: Options | None = None) -> Rdict:
        """Creates a column family."""
        db, options = self._open()[0], options or Options()
        if options._raw_mode != self._raw_mode:
            raise ValueError(f"the Options of a column family need raw_mode={self._raw_mode} here")
        db.create_family(name, options._settings)
        if options._prefix_extractor is not None:
            self._config.prefix_extractors[name] = options._prefix_extractor
        self._config.save(self._path)
        return self.get_column_family(name)

    def drop_column_family(self, name: str) -> None:
        """Removes a column family."""
        self._find(name)
        self._open()[0].drop_family(name)

    def write(self, write_batch: WriteBatch, write_opt: WriteOptions | None = None) -> None:
        """Does the writes of a batch, which is used up."""
        db, _ = self._open()
        if write_batch._raw_mode != self._raw_mode:
            raise ValueError(f"the WriteBatch needs raw_mode={self._raw_mode} here")
        options = self._written(write_opt)
        db.write(write_batch._take(), **options)

    def delete_range(self, begin: Key, end: Key, write_opt: WriteOptions | None = None) -> None:
        """Removes the keys from `begin` to `end`, which is excluded."""
        self._mapping.delete_range(self._key(begin), self._key(end), **self._written(write_opt))

    def snapshot(self) -> Snapshot:
        """Takes a snapshot of the column family."""
        return Snapshot(self)

    def path(self) -> str:
        """The directory."""
        self._open()
        return self._path

    def set_options(self, options: dict[str, str]) -> None:
        """Changes options of the column family."""
        self._mapping.set_options(**options)

    def property_value(self, name: str) -> str | None:
        """Returns the text of a property."""
        return self._mapping.property(name)

    def property_int_value(self, name: str) -> int | None:
        """Returns the number of a property."""
        return self._mapping.int_property(name)

    def latest_sequence_number(self) -> int:
        """The number of the newest write."""
        return self._open()[0].latest_sequence_number

    def live_files(self) -> list[dict[str, Any]]:
        """Returns the tables of all column families."""
        db, _ = self._open()
        found = [table for name in db.families() for table in db.family(name).live_files()]
        for table in found:
            del table["family"]
            for end in ("start_key", "end_key"):
                table[end] = self._decode(table[end])
        return found

    def compact_range(
        self, begin: Key | None, end: Key | None, compact_opt: CompactOptions | None = None
    ) -> None:
        """Compacts the tables with keys from `begin` to `end`, which is included."""
        start = None if begin is None else self._key(begin)
        stop = None if end is None else after(self._key(end), self._raw_mode)
        self._mapping.compact(start, stop, **(compact_opt or CompactOptions())._options)

    def try_catch_up_with_primary(self) -> None:
        """Reads what a secondary's primary has written since."""
        self._open()[0].catch_up()

    def cancel_all_background(self, wait: bool) -> None:
        """With `wait`, waits for the compactions and flushes that run.

        The close ends them; writes may start others.
        """
        db, _ = self._open()
        if wait:
            db.pause_background_work()
            db.resume_background_work()

    def flush(self, wait: bool = True) -> None:
        """Writes what is in memory to tables, and waits for it."""
        self._mapping.flush()

    def flush_wal(self, sync: bool = True) -> None:
        """Makes all writes so far survive a crash of the process, or with `sync` a power cut."""
        self._open()[0].flush_wal(sync=sync)

    def close(self) -> None:
        """Flushes the column family and closes the dictionary.

        The database closes with the last of its dictionaries, handles, snapshots and iterators. It
        may be called again.
        """
        db, family, self._db, self._family = self._db, self._family, None, None
        if db is not None and family is not None and self._writable:
            db.flush_wal(sync=True)
            family.flush()

    @staticmethod
    def destroy(path: str, options: Options | None = None) -> None:
        """Removes a database."""
        file(path).unlink(missing_ok=True)
        koeldb.destroy(path, (options or Options())._settings)

    @staticmethod
    def repair(path: str, options: Options | None = None) -> None:
        """Repairs a damaged database."""
        koeldb.repair(path, (options or Options())._settings)

    @staticmethod
    def list_cf(path: str, options: Options | None = None) -> list[str]:
        """Returns the names of the column families of a directory."""
        return koeldb.list_families(path)


class Snapshot(Scans):
    """A column family as it was when the snapshot was taken."""

    def __init__(self, rdict: Rdict) -> None:
        self._db, self._family = rdict._open()
        self._snapshot = self._db.snapshot()
        self._raw_mode = rdict._raw_mode
        self._loads = rdict._loads
        self._read = rdict._read

    def __getitem__(self, key: Key) -> Any:
        data = self._snapshot.get(
            encode_key(key, self._raw_mode), None, family=self._family, **self._read._options
        )
        if data is None:
            raise KeyError(key)
        return decode(data, self._raw_mode, self._loads)

    def iter(self, read_opt: ReadOptions | None = None) -> RdictIter:
        """Returns a position."""
        read_opt = read_opt or ReadOptions()
        start, stop = read_opt._bounds(self._raw_mode)
        cursor = self._snapshot.cursor(start, stop, family=self._family, **read_opt._options)
        return RdictIter(cursor, self._loads, self._raw_mode)


class Checkpoint:
    """Makes copies of an open database."""

    def __init__(self, db: Rdict) -> None:
        self._db, _ = db._open()
        self._config = db._config

    def create_checkpoint(self, path: str) -> None:
        """Makes a copy in a new directory."""
        self._db.checkpoint(path)
        self._config.save(path)
