"""A database as a mapping."""

from collections.abc import ItemsView, Mapping, MutableMapping

import pytest

import koeldb


def test_is_a_mapping(db):
    assert isinstance(db, MutableMapping)
    assert isinstance(db.snapshot(), Mapping)
    assert isinstance(db.items(), ItemsView)
    db[b"koel"] = b"Eudynamys"
    assert db[b"koel"] == b"Eudynamys"
    assert b"koel" in db and b"ani" not in db
    assert db.get(b"ani") is None and db.get(b"ani", b"none") == b"none"
    with pytest.raises(KeyError, match="ani"):
        db[b"ani"]
    with pytest.raises(KeyError):
        del db[b"ani"]
    del db[b"koel"]
    assert not db and len(db) == 0


def test_methods_of_dict(db):
    db.update({b"a": b"1", b"b": b"2"})
    db.update([(b"c", b"3")])
    assert list(db) == [b"a", b"b", b"c"] and list(reversed(db)) == [b"c", b"b", b"a"]
    assert dict(db) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert db.setdefault(b"a", b"9") == b"1" and db.setdefault(b"d", b"4") == b"4"
    assert db.pop(b"d") == b"4" and db.pop(b"d", None) is None
    with pytest.raises(KeyError):
        db.pop(b"d")
    assert db.popitem() == (b"a", b"1")
    assert (b"b", b"2") in db.items() and (b"b", b"3") not in db.items()
    assert b"2" in db.values() and b"b" in db.keys()
    db.clear()
    assert list(db.items()) == []
    with pytest.raises(KeyError):
        db.popitem()


def test_ranges(db):
    db.update((b"%03d" % n, b"v%d" % n) for n in range(1000))
    assert [k for k in db.keys(b"010", b"013")] == [b"010", b"011", b"012"]
    assert [k for k in db.keys(prefix=b"99")] == [b"99%d" % n for n in range(10)]
    assert next(iter(db.values(reverse=True))) == b"v999"
    assert list(db.keys(b"997", reverse=True)) == [b"999", b"998", b"997"]
    assert len(db.items(b"100", b"200")) == 100
    assert list(reversed(db.keys(b"0", b"003"))) == [b"002", b"001", b"000"]
    view = db.items(prefix=b"00")
    assert len(list(view)) == 10 == len(list(view))
    with pytest.raises(ValueError):
        db.items(b"a", prefix=b"b")
    with pytest.raises(TypeError, match="readahead_size"):
        db.items(read_ahead=3)
    assert len(db.keys(fill_cache=False, readahead_size=1 << 20)) == 1000


def test_an_iterator_sees_one_moment(db):
    db.update((b"%05d" % n, b"old") for n in range(5000))
    entries = iter(db.items())
    assert next(entries) == (b"00000", b"old")
    db.update((b"%05d" % n, b"new") for n in range(0, 6000))
    assert {value for _, value in entries} == {b"old"}


def test_buffers(db):
    db[bytearray(b"key")] = memoryview(b"value")
    assert db.get(memoryview(b"..key")[2:]) == b"value"
    view = db.get_view(b"key")
    assert isinstance(view, memoryview) and view.readonly and bytes(view) == b"value"
    assert db.get_view(b"none") is None
    with pytest.raises(TypeError, match="encode"):
        db["key"] = b"value"
    with pytest.raises(TypeError):
        db[3] = b"value"
    with pytest.raises(TypeError, match="contiguous"):
        db[memoryview(b"abcdef")[::2]] = b"value"


def test_a_view_outlives_the_database(path):
    with koeldb.Db(path) as db:
        db[b"k"] = b"v" * 10_000
        view = db.get_view(b"k")
    del db
    assert bytes(view) == b"v" * 10_000


def test_multi_get(db):
    db.update((b"%d" % n, b"v%d" % n) for n in range(100))
    assert db.multi_get([b"3", b"none", bytearray(b"5")]) == [b"v3", None, b"v5"]
    assert db.multi_get(iter([])) == []


def test_survives(path):
    with koeldb.Db(path) as db:
        db[b"k"] = b"v"
    with koeldb.Db(path, create_if_missing=False) as db:
        assert db[b"k"] == b"v"
    koeldb.destroy(path)
    with pytest.raises(koeldb.InvalidArgument):
        koeldb.Db(path, create_if_missing=False)


def test_equality_and_sets(db):
    model = {b"a": b"1", b"b": b"2", b"c": b"3"}
    db.update(model)
    assert db == model and model == db and not db != model and db == db
    assert (
        db != {**model, b"d": b"4"}
        and db != {b"a": b"1"}
        and db != {**model, b"a": b"9"}
        and db != 3
    )
    with db.snapshot() as before:
        assert before == model and before == db
        db[b"d"] = b"4"
        assert before == model and before != db
        del db[b"d"]
    keys, items = db.keys(), db.items()
    for other in (
        set(),
        {b"a"},
        {b"a", b"b", b"c"},
        {b"a", b"x"},
        {b"x"},
        {b"a", b"b", b"c", b"d"},
    ):
        assert keys & other == model.keys() & other and other & keys == other & model.keys()
        assert keys | other == model.keys() | other and other | keys == other | model.keys()
        assert keys - other == model.keys() - other and other - keys == other - model.keys()
        assert keys ^ other == model.keys() ^ other and other ^ keys == other ^ model.keys()
        assert (keys == other) == (model.keys() == other) and (keys != other) == (
            model.keys() != other
        )
        assert (keys <= other) == (model.keys() <= other) and (keys < other) == (
            model.keys() < other
        )
        assert (keys >= other) == (model.keys() >= other) and (keys > other) == (
            model.keys() > other
        )
        assert (other <= keys) == (other <= model.keys())
        assert keys.isdisjoint(other) == model.keys().isdisjoint(other)
    assert items == model.items() and items - {(b"a", b"1")} == {(b"b", b"2"), (b"c", b"3")}
    assert keys != [b"a", b"b", b"c"] and db.keys(b"b") == {b"b", b"c"}
    with pytest.raises(TypeError):
        keys & 3
    with pytest.raises(TypeError):
        hash(db)


def test_views_have_what_is_in_their_range(path):
    order = koeldb.Comparator(
        "lower",
        lambda a, b: (a.lower() > b.lower()) - (a.lower() < b.lower()),
        equal_keys_have_equal_bytes=False,
    )
    for name, options in (("bytes", {}), ("lower", {"comparator": order})):
        with koeldb.Db(path.with_name(name), **options) as db:
            db.update((b"%c" % letter, b"%d" % letter) for letter in b"abcdefgh")
            for view in (db.keys(b"c", b"f"), db.keys(b"c", b"f", reverse=True)):
                assert [letter for letter in b"abcdefgh" if b"%c" % letter in view] == list(b"cde")
            assert (b"c", b"99") in db.items(b"c") and (b"c", b"98") not in db.items(b"c")
            assert (b"b", b"98") not in db.items(b"c") and b"zz" not in db.keys()
            assert (b"C" in db.keys()) == (b"C" in db) == (name == "lower")
    with koeldb.Db(path.with_name("bytes")) as db:
        assert (
            b"c" in db.keys(prefix=b"c")
            and b"d" not in db.keys(prefix=b"c")
            and b"c" in db.keys(prefix=b"")
        )


def test_clear(path):
    for name, options in (("plain", {}), ("locks", {"locks": True}), ("ttl", {"ttl": 1000})):
        with koeldb.Db(path.with_name(name), families={"f": None}, **options) as db:
            family = db.family("f")
            db[b"kept"] = b"1"
            for count in (0, 1, 2, 1000, 2500):
                family.update((b"%04d" % n, b"v") for n in range(count))
                family.clear()
                assert not family and len(family) == 0
            assert dict(db) == {b"kept": b"1"}


def test_updates_have_the_forms_of_dict(db):
    class Keys:
        def keys(self):
            return iter([b"k1", b"k2"])

        def __getitem__(self, key):
            return b"of " + key

    db.update(Keys())
    db.update([[b"l", b"1"], (b"m", b"2"), iter([b"n", b"3"])])
    db.update(db)
    assert dict(db) == {b"k1": b"of k1", b"k2": b"of k2", b"l": b"1", b"m": b"2", b"n": b"3"}

    def pairs():
        yield b"x", b"1"
        raise LookupError

    for wrong, error in (
        (pairs(), LookupError),
        ([(b"x",)], ValueError),
        ([b"abc"], ValueError),
        (3, TypeError),
    ):
        with pytest.raises(error):
            db.update(wrong)
    assert b"x" not in db
    with pytest.raises(TypeError):
        db.pop(b"none", 1, 2)
