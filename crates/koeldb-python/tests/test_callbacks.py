"""Plug-ins that call the module, threads that meet, and forks in the middle of calls."""

import gc
import os
import subprocess
import sys
import threading
import time

import pytest

import koeldb


def run(program: str, path) -> str:
    """Runs a program that hangs if it fails."""
    program = "import sys, threading, koeldb; path = sys.argv[1]\n" + program
    ran = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_plug_in_cannot_use_the_iterator_that_calls_it(path):
    out = run(
        """
def merge(key, existing, operands):
    try:
        next(entries)
    except RuntimeError as error:
        print(error)
    return b"x"
db = koeldb.Db(path, merge_operator=koeldb.MergeOperator("m", merge))
db.merge(b"1", b"2")
entries = iter(db.items())
assert list(entries) == [(b"1", b"x")]
""",
        path,
    )
    assert "in use by a call of this thread" in out


def test_a_plug_in_cannot_wait_for_its_own_thread(path):
    out = run(
        """
def merge(key, existing, operands):
    for call in (db.close, db.flush, db.compact):
        try:
            call()
        except RuntimeError as error:
            print(error)
    return b"x"
db = koeldb.Db(path, merge_operator=koeldb.MergeOperator("m", merge))
for _ in range(2):
    db.merge(b"1", b"2")
    db.flush()
db.compact()
assert db[b"1"] == b"x"
""",
        path,
    )
    for name in ("close", "flush", "compact"):
        assert f"{name} cannot be called" in out


def test_garbage_in_a_plug_in_is_dropped_without_a_wait(path):
    collected = threading.Event()
    inside, outside = threading.Event(), threading.Event()

    def merge(key, existing, operands):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            outside.wait(10)
            gc.collect()
            collected.set()
        return b"x"

    operator = koeldb.MergeOperator("m", merge)

    class Cycle:
        pass

    def forget() -> None:
        cycle = Cycle()
        cycle.self = cycle
        cycle.db = koeldb.Db(path, merge_operator=operator, level0_file_num_compaction_trigger=2)
        for _ in range(2):
            cycle.db.merge(b"1", b"2")
            cycle.db.flush()
        assert inside.wait(10)

    gc.disable()
    try:
        forget()
        # The database is garbage; the next collection is the plug-in's, in a thread of the engine.
        outside.set()
        assert collected.wait(10)
    finally:
        gc.enable()
    for _ in range(100):
        try:
            with koeldb.Db(path, merge_operator=operator) as db:
                assert db[b"1"] == b"x"
            return
        except koeldb.IoError:
            time.sleep(0.05)
    pytest.fail("the forgotten database is still open")


def test_exceptions_of_plug_ins(path):
    answer = [ValueError("oops")]

    def compare(a, b):
        if answer:
            raise answer[0]
        return (a > b) - (a < b)

    def merge(key, existing, operands):
        if answer:
            raise answer[0]
        return b"x"

    order, operator = koeldb.Comparator("c", compare), koeldb.MergeOperator("m", merge)
    failure = answer.pop()
    with koeldb.Db(path, comparator=order) as db:
        db.update({b"1": b"a", b"2": b"b"})
        answer.append(failure)
        for read in (
            lambda: db[b"1"],
            lambda: b"1" in db,
            lambda: list(db),
            lambda: db.multi_get([b"1", b"2"]),
        ):
            with pytest.raises(ValueError, match="oops"):
                read()
        answer.clear()
        assert db[b"1"] == b"a"
    with koeldb.Db(path.with_name("merged"), merge_operator=operator) as db:
        db.merge(b"1", b"2")
        answer.append(failure)
        with pytest.raises(koeldb.Corruption) as failed:
            db[b"1"]
        assert failed.value.__cause__ is failure
        answer[0] = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            db[b"1"]
        answer.clear()
        assert db[b"1"] == b"x"


def test_an_interrupt_in_a_comparator_does_not_stop_writes(path):
    interrupts = []

    def compare(a, b):
        if interrupts:
            raise interrupts.pop()
        return (a > b) - (a < b)

    with koeldb.Db(path, comparator=koeldb.Comparator("c", compare)) as db:
        db.update({b"1": b"a", b"2": b"b"})
        for call in (lambda: db.put(b"3", b"c"), lambda: db.get(b"1"), lambda: list(db)):
            interrupts.append(KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                call()
            assert not interrupts
        db[b"4"] = b"d"
        db.flush()
        assert dict(db) == {b"1": b"a", b"2": b"b", b"3": b"c", b"4": b"d"}


@pytest.mark.parametrize("options", [{}, {"locks": True}, {"ttl": 1000}])
def test_no_two_threads_get_the_same_entry(path, options):
    with koeldb.Db(path, **options) as db:
        updates(db)


def updates(db):
    count = 500
    keys = [b"%04d" % n for n in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def together(work):
        found: list[object] = []
        threads = [threading.Thread(target=work, args=(found, n)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def popitem(found, _):
        while db:
            try:
                found.append(db.popitem()[0])
            except KeyError:
                pass

    def setdefault(found, thread):
        found.extend(db.setdefault(key, b"%d" % thread) for key in keys)

    def pop(found, _):
        found.extend(key for key in keys if db.pop(key, None) is not None)

    def delete(found, _):
        for key in keys:
            try:
                del db[key]
                found.append(key)
            except KeyError:
                pass

    try:
        for remove in (popitem, pop, delete):
            assert len(together(setdefault)) == 4 * count
            firsts = dict(db)
            assert set(together(setdefault)) == set(firsts.values())
            assert dict(db) == firsts
            assert sorted(together(remove)) == keys
            assert not db
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_in_the_middle_of_calls_does_not_hang(path):
    out = run(
        """
import os, signal, time
from koeldb import _native
db = koeldb.Db(path, locks=True)
db.update((b"%05d" % n, b"x" * 1000) for n in range(2000))
holder = db.transaction()
holder[b"held"] = b"1"
batch, transaction = db.batch(), db.transaction(lock_timeout=100)
columns, updates = _native.columns(db, None, None, None, False, 1 << 20), db.updates_since(1)
def waits():
    transaction.put(b"held", b"2")
def writes():
    while True:
        for n in range(100):
            batch[b"%d" % n] = b"x" * 10_000
        batch.write()
threads = [threading.Thread(target=work, daemon=True) for work in (waits, writes, writes)]
for thread in threads: thread.start()
time.sleep(0.2)
calls = [
    lambda: batch.put(b"1", b"2"), lambda: len(batch), batch.clear, batch.write, lambda: batch.size,
    transaction.commit, transaction.rollback, lambda: transaction.__exit__(None, None, None),
    lambda: next(columns), lambda: next(updates), lambda: _native.ldb(["--db=" + path, "scan"]),
]
for number, call in enumerate(calls):
    for _ in range(3):
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            try:
                call()
            except RuntimeError as error:
                os._exit(0 if "fork" in str(error) else 2)
            os._exit(3)
        _, status = os.waitpid(child, 0)
        if status:
            print(number, status)
            sys.stdout.flush()
            os._exit(1)
print("done")
sys.stdout.flush()
os._exit(0)
""",
        path,
    )
    assert out == "done\n"


def test_a_plug_in_cannot_use_the_cursor_batch_or_table_that_calls_it(path):
    out = run(
        """
calls = ()
def compare(a, b):
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            print(error)
    return (a > b) - (a < b)
order = koeldb.Comparator("c", compare)
db = koeldb.Db(path, comparator=order)
db.update({b"a": b"1", b"b": b"2"})
cursor, batch = db.cursor(), koeldb.Batch()
table = koeldb.SstFileWriter(path + ".sst", comparator=order)
table.put(b"x", b"1")
batch.put(b"c", b"3")
for own, work in (
    (lambda: cursor.valid, lambda: cursor.seek(b"b")),
    (lambda: len(batch), lambda: db.write(batch)),
    (lambda: table.file_size, lambda: table.put(b"y", b"2")),
    (lambda: db.ingest([path]), lambda: db.cursor().seek(b"a")),
    (db.pause_background_work, lambda: db.cursor().seek(b"a")),
):
    calls = (own,)
    work()
    calls = ()
    print("next")
table.finish()
db.ingest([path + ".sst"])
assert list(db) == [b"a", b"b", b"c", b"x", b"y"]
""",
        path,
    )
    cursor, batch, table, ingest, pause, _ = out.split("next\n")
    for refused in (cursor, batch, table):
        assert "in use by a call of this thread" in refused
    assert "ingest cannot be called" in ingest
    assert "pause_background_work cannot be called" in pause


def test_a_fork_while_a_cursor_and_a_cache_are_in_use(path):
    run(
        """
import os, time
cache, settings = koeldb.Cache(1 << 20), koeldb.Settings(create_if_missing=True)
settings.set_block_based_tables(cache=cache)
limit = koeldb.WriteBufferManager(1 << 20)
settings.set_write_buffer_manager(limit)
db = koeldb.Db(path, settings=settings)
db.update({b"%06d" % number: b"v" * 100 for number in range(20_000)})
db.flush()
cursor, snapshot, batch = db.cursor(), db.snapshot(), koeldb.Batch()
table = koeldb.SstFileWriter(path + ".sst")
table.put(b"a", b"b")
is_over = False
def work():
    while not is_over:
        cursor.seek_to_first()
        while cursor.read(1000):
            cache.set_capacity(1 << 20)
thread = threading.Thread(target=work)
thread.start()
calls = (
    lambda: cursor.seek(b"1"), lambda: cursor.valid, lambda: cursor.read(1), cursor.check,
    lambda: snapshot.cursor(), lambda: snapshot.get(b"1", fill_cache=True),
    lambda: table.put(b"b", b""), table.finish, lambda: batch.put(b"a", b""), batch.clear,
    lambda: db.write(batch), lambda: db.key_may_exist(b"1"), lambda: db.get_entity(b"1"),
    lambda: db.ingest(["1.sst"]), db.live_files, db.pause_background_work,
    lambda: cache.usage, lambda: cache.set_capacity(5), lambda: limit.usage,
    lambda: settings.get("comparator"), settings.copy, lambda: settings.set(max_open_files=5),
    lambda: koeldb.SstFileWriter(path + ".2.sst"), lambda: koeldb.destroy(path, settings),
)
for _ in range(10):
    time.sleep(0.003)
    child = os.fork()
    if child == 0:
        try:
            for call in calls:
                try:
                    call()
                except RuntimeError as error:
                    assert "forked" in str(error), error
                else:
                    os._exit(1)
            del cursor, snapshot, batch, table
        except BaseException as error:
            print(error, flush=True)
            os._exit(2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
is_over = True
thread.join()
assert len(db) == 20_000
""",
        path,
    )
