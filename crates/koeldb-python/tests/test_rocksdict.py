"""Directories of rocksdict in raw mode, which is RocksDB's engine: both ways."""

import random

import pytest

import koeldb

rocksdict = pytest.importorskip("rocksdict")


def options():
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(64 << 10)
    return options


def change(draw, store, model, steps):
    for step in range(steps):
        name = b"%04d" % draw.randrange(2000)
        if draw.randrange(4):
            store[name] = model[name] = b"%d:" % step + draw.randbytes(draw.randrange(200))
        elif name in model:
            del store[name]
            del model[name]


def test_directories_go_both_ways(path):
    draw = random.Random(5)
    model: dict[bytes, bytes] = {}
    birds: dict[bytes, bytes] = {}
    for _ in range(4):
        theirs = rocksdict.Rdict(str(path), options(), {"birds": options()} if birds else None)
        assert dict(theirs.items()) == model
        family = (
            theirs.get_column_family("birds")
            if birds
            else theirs.create_column_family("birds", options())
        )
        assert dict(family.items()) == birds
        change(draw, theirs, model, 3000)
        change(draw, family, birds, 1000)
        if draw.randrange(2):
            theirs.flush()
        family.close()
        theirs.close()
        config = (path / "rocksdict-config.json").read_text()
        with koeldb.Db(path, write_buffer_size=64 << 10, load_options=draw.randrange(2) == 0) as db:
            assert dict(db) == model and dict(db.family("birds")) == birds
            change(draw, db, model, 3000)
            change(draw, db.family("birds"), birds, 1000)
            if draw.randrange(2):
                db.compact()
        assert (path / "rocksdict-config.json").read_text() == config
    with koeldb.Db(path, read_only=True) as db:
        assert dict(db) == model and dict(db.family("birds")) == birds
