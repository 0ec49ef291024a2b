"""Families, options, snapshots, batches, copies, errors."""

import subprocess
import sys

import pytest

import koeldb


def test_families(path):
    with koeldb.Db(path, families={"birds": {"write_buffer_size": 1 << 20}}) as db:
        birds = db.family("birds")
        birds[b"koel"] = b"Eudynamys"
        assert birds.name == "birds" and b"koel" not in db
        db.create_family("trees", compression="kNoCompression")[b"oak"] = b"Quercus"
        assert sorted(db.families()) == ["birds", "default", "trees"]
        with pytest.raises(KeyError):
            db.family("none")
    with koeldb.Db(path) as db:
        assert db.family("trees")[b"oak"] == b"Quercus"
        db.drop_family("trees")
        assert sorted(db.families()) == ["birds", "default"]
    assert sorted(koeldb.list_families(path)) == ["birds", "default"]


def test_options_have_rocksdbs_names(path):
    table = {"filter_policy": "bloomfilter:10:false", "block_size": 8192}
    with koeldb.Db(
        path, block_based_table_factory=table, compression="kLZ4Compression", max_open_files=100
    ) as db:
        db.set_options(write_buffer_size=1 << 20)
        db.set_db_options(max_background_jobs=4)
        options = next(path.glob("OPTIONS-*")).read_text()
        assert "block_size=8192" in options
    with pytest.raises(TypeError, match="did you mean write_buffer_size"):
        koeldb.Db(path, write_bufer_size=3)
    with pytest.raises(koeldb.InvalidArgument):
        koeldb.Db(path, write_buffer_size="many")
    with pytest.raises(TypeError):
        koeldb.Db(path, write_buffer_size=object())
    names = {option.name: option for option in koeldb.options()}
    assert names["write_buffer_size"].is_mutable and names["write_buffer_size"].documentation


def test_options_of_the_directory(path):
    with koeldb.Db(path, families={"f": {"prefix_extractor": "fixed:3"}}) as db:
        db.family("f")[b"abcd"] = b"1"
    with koeldb.Db(path, load_options=True) as db:
        assert db.family("f")[b"abcd"] == b"1"


def test_snapshots(db):
    db.update({b"a": b"1", b"b": b"2"})
    with db.snapshot() as before:
        db[b"a"] = b"9"
        del db[b"b"]
        assert dict(before) == {b"a": b"1", b"b": b"2"} and len(before) == 2
        assert before[b"b"] == b"2" and before.get(b"c", b"-") == b"-" and b"c" not in before
        assert before.multi_get([b"a", b"c"]) == [b"1", None]
        assert list(before.items(b"b")) == [(b"b", b"2")]
        with pytest.raises(KeyError):
            before[b"c"]
    with pytest.raises(ValueError, match="released"):
        before[b"a"]


def test_batches(db):
    family = db.create_family("f")
    with db.batch(sync=True) as batch:
        batch[b"a"] = b"1"
        batch.put(b"b", b"2", family=family)
        batch.delete(b"c")
        assert len(batch) == 3 and batch.size > 0
    assert db[b"a"] == b"1" and family[b"b"] == b"2"
    with pytest.raises(RuntimeError):
        with db.batch() as batch:
            batch[b"x"] = b"1"
            raise RuntimeError
    assert b"x" not in db
    with db.batch() as batch:
        batch.delete_range(b"a", b"z")
    assert not db


def test_transactions(path):
    with koeldb.Db(path, locks=True) as db:
        with db.transaction() as transaction:
            transaction[b"a"] = b"1"
            assert transaction[b"a"] == b"1" and b"a" not in db
            assert list(transaction.items()) == [(b"a", b"1")]
            transaction.set_save_point()
            transaction[b"b"] = b"2"
            transaction.rollback_to_save_point()
        assert dict(db) == {b"a": b"1"}
        first, second = db.transaction(), db.transaction(lock_timeout=0.05)
        first.put(b"k", b"1")
        with pytest.raises(koeldb.TimedOut):
            second.put(b"k", b"2")
        first.commit()
        second.rollback()
        assert db[b"k"] == b"1"
        with pytest.raises(ValueError, match="committed"):
            first.put(b"k", b"2")
        with pytest.raises(RuntimeError):
            with db.transaction() as transaction:
                transaction[b"x"] = b"1"
                raise RuntimeError
        assert b"x" not in db


def test_optimistic_transactions_repeat(db):
    db[b"n"] = b"0"
    tries = []

    def add(transaction):
        value = int(transaction.get_for_update(b"n"))
        if not tries:
            db[b"n"] = b"10"
        tries.append(value)
        transaction[b"n"] = b"%d" % (value + 1)
        return value

    assert koeldb.transact(db, add) == 10 and db[b"n"] == b"11" and tries == [0, 10]
    loser = db.transaction()
    loser.get_for_update(b"n")
    db[b"n"] = b"20"
    loser.put(b"n", b"30")
    with pytest.raises(koeldb.Busy) as failed:
        loser.commit()
    assert failed.value.is_retryable and failed.value.outcome == "NotApplied"


def test_merge_operators(path):
    def add(key, existing, operands):
        return b"%d" % (int(existing or 0) + sum(map(int, operands)))

    operator = koeldb.MergeOperator(
        "add", add, lambda key, operands: b"%d" % sum(map(int, operands))
    )
    with koeldb.Db(path, merge_operator=operator) as db:
        for n in range(100):
            db.merge(b"n", b"%d" % n)
        assert db[b"n"] == b"4950"
        db.flush()
        db.merge(b"n", b"50")
        db.compact()
        assert db[b"n"] == b"5000"
        db.merge(b"n", b"x")
        with pytest.raises(koeldb.Error, match="invalid literal"):
            db[b"n"]
    with koeldb.Db(path.with_name("other"), merge_operator="stringappend") as db:
        db.merge(b"k", b"a")
        db.merge(b"k", b"b")
        assert db[b"k"] == b"a,b"


def test_comparators(path):
    order = koeldb.Comparator("backwards", lambda a, b: (a < b) - (a > b))
    with koeldb.Db(path, comparator=order) as db:
        db.update((b"%03d" % n, b"") for n in range(300))
        db.flush()
        assert list(db) == [b"%03d" % n for n in reversed(range(300))]
        assert db[b"123"] == b""
        db.clear()
        assert not db
    with pytest.raises(koeldb.InvalidArgument, match="backwards"):
        koeldb.Db(path)


def test_copies(path, db):
    db[b"a"] = b"1"
    backups = koeldb.Backups(path.with_name("backups"))
    first = backups.create(db, metadata=b"first")
    db[b"a"] = b"2"
    second = backups.create(db, flush=True)
    assert [entry["id"] for entry in backups.list()] == [first, second]
    assert backups.list()[0]["metadata"] == b"first"
    backups.verify(second)
    backups.restore(path.with_name("restored"), first)
    with koeldb.Db(path.with_name("restored")) as restored:
        assert restored[b"a"] == b"1"
    backups.purge(1)
    assert len(backups.list()) == 1
    db.checkpoint(path.with_name("checkpoint"))
    with koeldb.Db(path.with_name("checkpoint"), read_only=True) as copy:
        assert copy[b"a"] == b"2"
        with pytest.raises(koeldb.NotSupported):
            copy[b"b"] = b"1"


def test_a_secondary(path, db):
    db[b"a"] = b"1"
    with koeldb.Db(path, secondary=path.with_name("secondary")) as follower:
        assert follower[b"a"] == b"1"
        db[b"b"] = b"2"
        follower.catch_up()
        assert follower[b"b"] == b"2"


def test_updates(db):
    start = db.latest_sequence_number
    with db.batch() as batch:
        batch[b"a"] = b"1"
        batch.delete(b"b")
    assert list(db.updates_since(start)) == [
        (start + 1, [("put", 0, b"a", b"1"), ("delete", 0, b"b")])
    ]


def test_properties(db):
    db[b"a"] = b"1"
    db.flush()
    assert "Level" in db.stats()
    assert db.int_property("rocksdb.estimate-num-keys") == 1
    assert db.property("rocksdb.num-files-at-level0") == "1" and db.property("none") is None
    db.verify_checksums()


def test_errors(path, db):
    with pytest.raises(koeldb.IoError) as failed:
        koeldb.Db(path)
    error = failed.value
    assert isinstance(error, OSError) and error.kind == "IoError" and "lock" in str(error).lower()
    assert str(error.file).endswith("LOCK") and error.advice
    db.close()
    db.close()
    with pytest.raises(koeldb.Closed):
        db[b"a"]
    with pytest.raises(koeldb.Closed):
        db[b"a"] = b"1"
    with pytest.raises(koeldb.InvalidArgument) as failed:
        koeldb.Db(path.with_name("none"), create_if_missing=False)
    assert isinstance(failed.value, ValueError)


def test_damage_is_an_error(path):
    with koeldb.Db(path, compression="kNoCompression") as db:
        db.update((b"%04d" % n, b"v" * 100) for n in range(1000))
        db.flush()
    table = next(path.glob("*.sst"))
    data = bytearray(table.read_bytes())
    data[100] ^= 1
    table.write_bytes(data)
    with koeldb.Db(path) as db:
        with pytest.raises(koeldb.Corruption) as failed:
            list(db.items())
        assert str(failed.value.file) == str(table)


def test_a_forgotten_database_is_closed_at_the_end(path):
    program = f"""
import koeldb
db = koeldb.Db({str(path)!r})
db.put(b"k", b"v", disable_wal=True)
entries = iter(db)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with koeldb.Db(path) as db:
        assert db[b"k"] == b"v"


def test_a_fork_cannot_harm(path):
    program = f"""
import os, koeldb
db = koeldb.Db({str(path)!r})
db[b"k"] = b"v"
entries = iter(db.items())
child = os.fork()
if child == 0:
    try:
        db[b"k"]
    except RuntimeError as error:
        assert "fork" in str(error), error
    else:
        os._exit(3)
    try:
        koeldb.Db({str(path) + "2"!r})
    except RuntimeError:
        pass
    else:
        os._exit(4)
    del db, entries
    raise SystemExit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
db[b"after"] = b"1"
assert dict(db) == {{b"k": b"v", b"after": b"1"}}
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_family_of_another_database_is_refused(path):
    with (
        koeldb.Db(path, families={"f": None}) as db,
        koeldb.Db(path.with_name("other"), families={"f": None}) as other,
    ):
        other[b"k"] = b"foreign"
        other.family("f")[b"k"] = b"foreign"
        for family in (other, other.family("f")):
            transaction, batch, snapshot = db.transaction(), db.batch(), db.snapshot()
            for call in (
                lambda: transaction.get(b"k", family=family),
                lambda: transaction.get_for_update(b"k", family=family),
                lambda: transaction.put(b"k", b"v", family=family),
                lambda: list(transaction.items(family=family)),
                lambda: batch.put(b"k", b"v", family=family),
                lambda: batch.delete_range(b"a", b"z", family=family),
                lambda: snapshot.get(b"k", family=family),
                lambda: list(snapshot.items(family=family)),
            ):
                with pytest.raises(koeldb.InvalidArgument, match="another database"):
                    call()
            assert len(batch) == 0


def test_a_dropped_family_is_not_its_successor(path):
    with koeldb.Db(path, families={"f": None}) as db:
        old = db.family("f")
        old[b"1"] = b"1"
        db.drop_family("f")
        new = db.create_family("f")
        with pytest.raises(koeldb.FamilyDropped):
            old[b"2"] = b"2"
        with pytest.raises(koeldb.FamilyDropped):
            with db.batch() as batch:
                batch[b"k"] = b"v"
                batch.put(b"2", b"2", family=old)
        assert dict(new) == {} == dict(db) and dict(old) == {b"1": b"1"}


def test_texts_of_options_are_values(path):
    table = {"filter_policy": "bloomfilter:10:false;block_size=999", "block_size": 8192}
    with pytest.raises((koeldb.Error, TypeError)):
        koeldb.Db(path, block_based_table_factory=table)
    for names in (
        {"block_size=8192;format_version": 5},
        {"filter_policy": "a}"},
        {"filter_policy": "}{"},
    ):
        with pytest.raises(ValueError):
            koeldb.Db(path, block_based_table_factory=names)
    itself: dict = {}
    itself["metadata_cache_options"] = itself
    with pytest.raises(ValueError, match="deep"):
        koeldb.Db(path, block_based_table_factory=itself)
    with pytest.raises(TypeError, match="path"):
        koeldb.Db(path, wal_dir=b"/tmp")
    wal = path.with_name("wal")
    table = {
        "block_cache": {"capacity": "1M", "num_shard_bits": 2},
        "metadata_cache_options": "{partition_pinning=kAll;}",
    }
    with koeldb.Db(path, wal_dir=wal, block_based_table_factory=table) as db:
        db[b"k"] = b"v"
        assert list(wal.glob("*.log"))
        assert "partition_pinning=kAll" in next(path.glob("OPTIONS-*")).read_text()
        operator = koeldb.MergeOperator("m", print)
        with pytest.raises(koeldb.InvalidArgument, match="fixed"):
            db.set_options(write_buffer_size=1 << 20, merge_operator=operator)
        with pytest.raises(koeldb.InvalidArgument, match="fixed"):
            db.set_db_options(max_background_jobs=3, merge_operator=operator)
