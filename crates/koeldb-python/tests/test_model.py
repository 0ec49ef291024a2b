"""Mixed operations of four threads against a dict as model, with reopenings and killed processes.

KOELDB_OPERATIONS is their number, 40,000 if it is not set.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import threading

import koeldb
import steps

OPERATIONS = int(os.environ.get("KOELDB_OPERATIONS", "40000"))
THREADS = 4
KEYS = 500


def key(thread: int, number: int) -> bytes:
    return b"%d:%04d" % (thread, number)


def work(db: koeldb.Db, thread: int, model: dict[bytes, bytes], operations: int, seed: int) -> None:
    """Changes the keys of a thread, and compares all that it reads with its model."""
    draw = random.Random(seed)
    first, last = key(thread, 0), key(thread, KEYS)
    for step in range(operations):
        name = key(thread, draw.randrange(KEYS))
        kind = draw.randrange(100)
        if kind < 30:
            model[name] = value = b"%d" % step * draw.randrange(1, 20)
            db[name] = value
        elif kind < 40:
            db.delete(name)
            model.pop(name, None)
        elif kind < 45:
            with db.batch() as batch:
                for _ in range(5):
                    name = key(thread, draw.randrange(KEYS))
                    batch[name] = model[name] = b"batch %d" % step
        elif kind < 50:
            with db.transaction() as transaction:
                value = transaction.get_for_update(name, b"") + b"."
                assert value == model.get(name, b"") + b"."
                transaction[name] = model[name] = value
        elif kind < 52:
            ends = sorted(draw.sample(range(KEYS), 2))
            start, stop = key(thread, ends[0]), key(thread, ends[0] + min(10, ends[1] - ends[0]))
            db.delete_range(start, stop)
            for gone in [name for name in model if start <= name < stop]:
                del model[gone]
        elif kind < 60:
            names = [key(thread, draw.randrange(KEYS)) for _ in range(10)]
            assert db.multi_get(names) == [model.get(name) for name in names]
        elif kind < 62:
            assert dict(db.items(first, last)) == model
        elif kind < 63:
            entries = list(db.items(name, last, reverse=draw.random() < 0.5))
            assert dict(entries) == {k: v for k, v in model.items() if k >= name}
        elif kind < 64 and step % 10 == 0:
            db.flush()
        else:
            assert db.get(name) == model.get(name)


def run(db: koeldb.Db, models: list[dict[bytes, bytes]], operations: int, seed: int) -> None:
    failures: list[BaseException] = []

    def guarded(thread: int) -> None:
        try:
            work(db, thread, models[thread], operations // THREADS, seed * THREADS + thread)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure


def test_threads_and_reopenings(path: pathlib.Path) -> None:
    models: list[dict[bytes, bytes]] = [{} for _ in range(THREADS)]
    for seed in range(8):
        with koeldb.Db(path, write_buffer_size=1 << 20) as db:
            found = dict(db)
            assert found == {k: v for model in models for k, v in model.items()}
            run(db, models, OPERATIONS // 8, seed)


def test_killed_processes_lose_nothing(path: pathlib.Path) -> None:
    draw = random.Random(7)
    models: list[steps.Model] = [steps.new_model() for _ in range(THREADS)]
    done = [0] * THREADS
    for _ in range(max(4, OPERATIONS // 10_000)):
        arguments = [str(path), str(draw.choice([32 << 10, 256 << 10])), str(THREADS)]
        child = subprocess.Popen(
            [sys.executable, steps.__file__, *arguments], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        said = list(done)
        kill_after = draw.randrange(20, 2000)
        for count, line in enumerate(child.stdout):
            if line.endswith("\n"):
                thread, step = map(int, line.split())
                said[thread] = step
            if count == kill_after:
                child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
        with koeldb.Db(path) as db:
            for thread, model in enumerate(models):
                last = steps.last(db, thread)
                # One step may have been done and not yet said.
                assert said[thread] <= last <= said[thread] + 1
                for step in range(done[thread] + 1, last + 1):
                    steps.change_model(model, steps.changes(thread, step))
                done[thread] = last
                for name, expected in model.items():
                    found = dict(db.family(name).items(b"%d:" % thread, b"%d;" % thread))
                    found.pop(steps.counter(thread), None)
                    assert found == expected
    assert sum(done) > 0


def resident() -> int:
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_gets_do_not_leak(db: koeldb.Db) -> None:
    db.update((b"%05d" % n, b"v" * 100) for n in range(1000))
    db.flush()
    names = [b"%05d" % n for n in range(2000)]

    def gets(count: int) -> None:
        for n in range(count):
            name = names[n % 2000]
            db.get(name)
            if n % 10 == 0:
                db.multi_get(names[:10])
                db.get_view(name)
                next(iter(db.items(name)), None)

    gets(20_000)
    before = resident()
    gets(max(OPERATIONS, 40_000))
    assert resident() - before < 4 << 20
