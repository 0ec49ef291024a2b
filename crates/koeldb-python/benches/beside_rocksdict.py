"""Compares the speed of KoelDB and rocksdict on the same data.

Each round runs a workload on both, in one process, and the next round in the opposite order. The
figure of a row is the median over the rounds of rocksdict's time divided by KoelDB's.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import rocksdict

import koeldb
from koeldb import arrays, arrow

VALUE = 100
CACHE = 256 << 20
#: Of reads from the device: a small part of the data.
SMALL_CACHE = 1 << 20


def key(number: int) -> bytes:
    return b"%016d" % number


class Koel:
    def __init__(self, path: str, is_direct: bool) -> None:
        cache = SMALL_CACHE if is_direct else CACHE
        table = {"block_cache": str(cache), "filter_policy": "bloomfilter:10:false"}
        self.db = koeldb.Db(
            path,
            read_only=is_direct,
            use_direct_reads=is_direct,
            block_based_table_factory=table,
        )

    def multi_get(self, names: list[bytes]) -> list[bytes | None]:
        return self.db.multi_get(names)

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.db.items())

    def keys(self) -> Iterator[bytes]:
        return iter(self.db.keys())

    def prefix(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        return list(self.db.items(prefix=prefix))

    def columns(self) -> Any:
        return pa.Table.from_batches(arrow.scan(self.db), arrow.SCHEMA)

    def rows(self, names: Any) -> Any:
        return arrays.multi_get(self.db, names, f"S{VALUE}")

    def batch(self, pairs: list[tuple[bytes, bytes]]) -> None:
        batch = self.db.batch()
        for name, value in pairs:
            batch[name] = value
        batch.write()

    def settle(self) -> None:
        self.db.flush()
        self.db.compact()

    def close(self) -> None:
        self.db.close()


class Rocks:
    def __init__(self, path: str, is_direct: bool) -> None:
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_use_direct_reads(is_direct)
        tables = rocksdict.BlockBasedOptions()
        tables.set_block_cache(rocksdict.Cache(SMALL_CACHE if is_direct else CACHE))
        tables.set_bloom_filter(10, False)
        options.set_block_based_table_factory(tables)
        access = rocksdict.AccessType
        self.db = rocksdict.Rdict(
            path, options, access_type=access.read_only() if is_direct else access.read_write()
        )

    def multi_get(self, names: list[bytes]) -> list[bytes | None]:
        return self.db.get(names)

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.db.items())

    def keys(self) -> Iterator[bytes]:
        return iter(self.db.keys())

    def prefix(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        found = []
        for name, value in self.db.items(from_key=prefix):
            if not name.startswith(prefix):
                break
            found.append((name, value))
        return found

    def columns(self) -> Any:
        pairs = list(self.db.items())
        kinds = [(name, pa.large_binary()) for name in ("key", "value")]
        return pa.table(
            [[key for key, _ in pairs], [value for _, value in pairs]], schema=pa.schema(kinds)
        )

    def rows(self, names: Any) -> Any:
        found = self.db.get(names.tolist())
        return np.array([value or b"" for value in found]), np.array(
            [value is not None for value in found]
        )

    def batch(self, pairs: list[tuple[bytes, bytes]]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for name, value in pairs:
            batch[name] = value
        self.db.write(batch)

    def settle(self) -> None:
        self.db.flush()
        self.db.compact_range(None, None)

    def close(self) -> None:
        self.db.close()


Store = Koel | Rocks


def threads(count: int, body: Callable[[int], object]) -> None:
    running = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def consume(entries: Iterator[Any]) -> int:
    count = 0
    for _ in entries:
        count += 1
    return count


#: What is timed, and how many operations it is.
Work = tuple[Callable[[], object], int]


def each(call: Callable[[Any], object], arguments: list[Any]) -> Work:
    def run() -> None:
        for argument in arguments:
            call(argument)

    return run, len(arguments)


def workloads(keys: int, is_direct: bool) -> dict[str, Callable[[Store, random.Random], Work]]:
    """Each prepares its arguments, which are not timed."""
    value = random.Random(3).randbytes(VALUE)

    def names(draw: random.Random, count: int) -> list[bytes]:
        return [key(draw.randrange(keys)) for _ in range(count)]

    def get(db: Store, draw: random.Random) -> Work:
        return each(db.db.get, names(draw, 20_000))

    def index(db: Store, draw: random.Random) -> Work:
        return each(db.db.__getitem__, names(draw, 20_000))

    def contains(db: Store, draw: random.Random) -> Work:
        return each(db.db.__contains__, names(draw, 20_000))

    def absent(db: Store, draw: random.Random) -> Work:
        return each(db.db.get, [name + b"x" for name in names(draw, 20_000)])

    def put(db: Store, draw: random.Random) -> Work:
        store = db.db

        def run() -> None:
            for name in chosen:
                store[name] = value

        chosen = names(draw, 20_000)
        return run, len(chosen)

    def multi_get(db: Store, draw: random.Random) -> Work:
        run, count = each(db.multi_get, [names(draw, 100) for _ in range(300)])
        return run, 100 * count

    def scan(db: Store, draw: random.Random) -> Work:
        return lambda: consume(db.scan()), keys

    def scan_keys(db: Store, draw: random.Random) -> Work:
        return lambda: consume(db.keys()), keys

    def scan_columns(db: Store, draw: random.Random) -> Work:
        return lambda: db.columns(), keys

    def multi_get_rows(db: Store, draw: random.Random) -> Work:
        run, count = each(db.rows, [np.array(names(draw, 1000)) for _ in range(30)])
        return run, 1000 * count

    def prefix(db: Store, draw: random.Random) -> Work:
        return each(db.prefix, [name[:14] for name in names(draw, 2_000)])

    def batch(db: Store, draw: random.Random) -> Work:
        run, count = each(
            db.batch, [[(name, value) for name in names(draw, 100)] for _ in range(200)]
        )
        return run, 100 * count

    def few(db: Store, draw: random.Random) -> Work:
        return each(db.db.get, names(draw, 1000))

    def shared(
        prepare: Callable[[Store, random.Random], Work], count: int = 2
    ) -> Callable[[Store, random.Random], Work]:
        def both(db: Store, draw: random.Random) -> Work:
            works = [prepare(db, random.Random(draw.random())) for _ in range(count)]
            done = sum(work[1] for work in works)
            return lambda: threads(count, lambda number: works[number][0]()), done

        return both

    if is_direct:
        return {
            "get from the device": few,
            "get from the device, 2 threads": shared(few),
            "get from the device, 4 threads": shared(few, 4),
        }
    return {
        "get": get,
        "db[key]": index,
        "key in db": contains,
        "get, absent": absent,
        "multi_get of 100": multi_get,
        "multi_get of 1000 into NumPy": multi_get_rows,
        "full scan": scan,
        "full scan of keys": scan_keys,
        "full scan into Arrow": scan_columns,
        "prefix scan of 100": prefix,
        "get, 2 threads": shared(get),
        "multi_get of 100, 2 threads": shared(multi_get),
        "full scan, 2 threads": shared(scan),
        "put": put,
        "batch of 100": batch,
        "put, 2 threads": shared(put),
        "batch of 100, 2 threads": shared(batch),
    }


def fill(stores: list[Store], keys: int) -> None:
    draw = random.Random(1)
    values = [draw.randbytes(VALUE) for _ in range(1000)]
    for store in stores:
        for begin in range(0, keys, 1000):
            numbers = range(begin, min(begin + 1000, keys))
            store.batch([(key(number), values[number % 1000]) for number in numbers])
        store.settle()


def compare(
    name: str, prepare: Callable[[Store, random.Random], Work], stores: list[Store], rounds: int
) -> dict[str, Any]:
    """Runs a workload, and returns the figures of its row."""
    ratios: list[float] = []
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        spent = [0.0, 0.0]
        for index in (0, 1) if number % 2 else (1, 0):
            run, done = prepare(stores[index], random.Random(number))
            begun = time.perf_counter()
            run()
            spent[index] = (time.perf_counter() - begun) / done
        if number:  # The first warms the caches.
            ratios.append(spent[1] / spent[0])
            times[0].append(spent[0] * 1e9)
            times[1].append(spent[1] * 1e9)
    return {
        "row": name,
        "koeldb_ns": round(statistics.median(times[0])),
        "rocksdict_ns": round(statistics.median(times[1])),
        "ratio": round(statistics.median(ratios), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--keys",
        type=int,
        default=200_000,
        help="keys of 16 bytes with values of 100 (%(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each row (%(default)s)")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each row")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for is_direct in (False, True):
            stores: list[Store] = [
                Koel(f"{directory}/koel", is_direct),
                Rocks(f"{directory}/rocks", is_direct),
            ]
            if not is_direct:
                fill(stores, given.keys)
            for name, prepare in workloads(given.keys, is_direct).items():
                if given.only not in name:
                    continue
                figures = compare(name, prepare, stores, given.rounds)
                line = "{row:30} {koeldb_ns:8} ns  {rocksdict_ns:8} ns  {ratio:5.2f}x"
                print(json.dumps(figures) if given.json else line.format(**figures), flush=True)
            for store in stores:
                if not is_direct:
                    store.settle()
                store.close()


if __name__ == "__main__":
    main()
