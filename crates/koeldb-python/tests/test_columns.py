"""NumPy and Arrow."""

import pytest

np = pytest.importorskip("numpy")


def test_arrays(db):
    from koeldb import arrays

    keys = np.arange(1000, dtype=">u8")
    values = np.random.default_rng(1).random(1000)
    assert arrays.put(db, keys, values) == 1000
    assert db[(7).to_bytes(8, "big")] == values[7].tobytes()
    found, there = arrays.multi_get(db, np.array([3, 5000, 7], ">u8"), np.float64)
    assert there.tolist() == [True, False, True] and found[0] == values[3] and found[1] == 0
    parts = list(arrays.scan(db, ">u8", np.float64, rows=300))
    assert [len(part[0]) for part in parts] == [300, 300, 300, 100]
    assert (np.concatenate([part[0] for part in parts]) == keys).all()
    assert (np.concatenate([part[1] for part in parts]) == values).all()
    out = np.full((2, 8), 255, np.uint8)
    mask = np.zeros(2, bool)
    rows = keys[[1, 2]].view(np.uint8).reshape(2, 8)
    assert arrays.multi_get_into(db, rows, out, mask) == 2
    assert out.tobytes() == values[1:3].tobytes() and mask.all()


def test_arrays_that_do_not_fit(db):
    from koeldb import arrays

    db[b"12345678"] = b"abc"
    with pytest.raises(ValueError):
        arrays.multi_get(db, np.array([b"12345678"]), np.float64)
    with pytest.raises(ValueError):
        list(arrays.scan(db, "S8", "S4"))
    with pytest.raises(ValueError):
        arrays.put(db, np.zeros(3, "u8"), np.zeros(2, "u8"))
    with pytest.raises(ValueError):
        arrays.put(db, np.array([object()]), np.zeros(1, "u8"))
    with pytest.raises(ValueError, match="contiguous"):
        arrays.multi_get_into(
            db, np.array([b"12345678"]), np.zeros((1, 6), np.uint8)[:, ::2], np.zeros(1, bool)
        )
    out = np.zeros(1, "S3")
    out.flags.writeable = False
    with pytest.raises(ValueError, match="writable"):
        arrays.multi_get_into(db, np.array([b"12345678"]), out, np.zeros(1, bool))


def test_entries_of_other_lengths_are_no_rows(db):
    from koeldb import arrays

    # Together they have the bytes of two rows.
    db.update({b"1234": b"v", b"123456789012": b"v"})
    with pytest.raises(ValueError, match="a key has 4 bytes, but the type .* has 8"):
        list(arrays.scan(db, "S8", "S1"))
    db.clear()
    db.update({b"1": b"", b"2": b"12"})
    with pytest.raises(ValueError, match="a value has 0 bytes"):
        list(arrays.scan(db, "S1", "S1"))


def test_what_is_no_array_of_bytes(db):
    from koeldb import arrays

    for keys in ([b"a", b"bbb"], np.array(["a", "bbb"]), np.array(b"a")):
        with pytest.raises((TypeError, ValueError), match="keys must be an array"):
            arrays.put(db, keys, np.zeros(2))
    with pytest.raises(ValueError, match="mask"):
        arrays.multi_get_into(db, np.arange(8, dtype=">u8"), np.zeros(8), np.zeros(1))
    assert not db


def test_arrow(db):
    pa = pytest.importorskip("pyarrow")
    from koeldb import arrow

    table = pa.table({"key": [b"a", b"bb", b"ccc"], "value": [b"1", b"", b"333"]})
    assert arrow.put(db, table) == 3
    assert dict(db) == {b"a": b"1", b"bb": b"", b"ccc": b"333"}
    found = arrow.multi_get(db, pa.array([b"ccc", b"none", b"bb"]))
    assert found.to_pylist() == [b"333", None, b""]
    found.validate(full=True)
    assert arrow.multi_get(db, pa.array([b"x", b"a", b"y"])[1:2]).to_pylist() == [b"1"]
    assert arrow.multi_get(db, pa.array(["a"])).to_pylist() == [b"1"]
    assert arrow.multi_get(db, pa.array([], pa.binary())).to_pylist() == []
    scanned = pa.Table.from_batches(arrow.scan(db, rows=2), arrow.SCHEMA)
    assert scanned.to_pydict() == {"key": [b"a", b"bb", b"ccc"], "value": [b"1", b"", b"333"]}
    scanned.validate(full=True)
    fixed = pa.array([b"a", b"z"], pa.binary(1))[0:1]
    assert arrow.multi_get(db, fixed).to_pylist() == [b"1"]
    with pytest.raises(ValueError, match="null"):
        arrow.multi_get(db, pa.array([None], pa.binary()))
    with pytest.raises(TypeError, match="must be pyarrow arrays, not list"):
        arrow.multi_get(db, [b"a"])
