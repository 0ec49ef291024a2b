"""Positions, columns of values, tables built outside, batches, options as objects."""

import random
import threading

import pytest

import koeldb


def test_a_cursor_against_a_sorted_list(path):
    draw = random.Random(7)
    model = {b"%04d" % draw.randrange(5000): draw.randbytes(draw.randrange(50)) for _ in range(800)}
    keys = sorted(model)
    with koeldb.Db(path) as db:
        db.update(model)
        db.flush()
        cursor = db.cursor()
        assert (
            not cursor.valid
            and cursor.key is None
            and cursor.value is None
            and cursor.columns is None
        )
        assert not cursor.next() and not cursor.prev()
        at = None
        for _ in range(3000):
            key, step = b"%04d" % draw.randrange(5000), draw.randrange(8)
            if step == 0:
                moved, at = cursor.seek(key), sum(one < key for one in keys)
            elif step == 1:
                moved, at = cursor.seek_for_prev(key), sum(one <= key for one in keys) - 1
            elif step == 2 and draw.randrange(9) == 0:
                moved, at = cursor.seek_to_first(), 0
            elif step == 3 and draw.randrange(9) == 0:
                moved, at = cursor.seek_to_last(), len(keys) - 1
            elif at is None:
                continue
            elif step < 6:
                moved, at = cursor.next(), at + 1
            else:
                moved, at = cursor.prev(), at - 1
            assert moved == cursor.valid == (0 <= at < len(keys))
            if moved:
                assert (cursor.key, cursor.value) == (keys[at], model[keys[at]])
            else:
                at = None
            cursor.check()
        cursor = db.cursor(b"1000", b"4000")
        cursor.seek_to_first()
        inside = [key for key in keys if b"1000" <= key < b"4000"]
        found = []
        while entries := cursor.read(draw.randrange(1, 50)):
            found += entries
        assert found == [(key, model[key]) for key in inside]
        cursor.seek_to_last()
        assert [key for key, _ in cursor.read(len(keys), reverse=True)] == inside[::-1]


def test_columns_of_values(db):
    db.put_entity(b"koel", {b"genus": b"Eudynamys", b"": b"bird"})
    db[b"rook"] = b"Corvus"
    birds = db.create_family("birds")
    birds.put_entity(b"ani", [(b"b", b"2"), (b"a", b"1")], sync=True)
    assert db[b"koel"] == b"bird" and birds[b"ani"] == b""
    assert db.get_entity(b"koel") == [(b"", b"bird"), (b"genus", b"Eudynamys")]
    assert db.get_entity(b"rook") == [(b"", b"Corvus")] and db.get_entity(b"dodo") is None
    assert birds.get_entity(b"ani") == [(b"a", b"1"), (b"b", b"2")]
    cursor = db.cursor()
    cursor.seek_to_first()
    assert cursor.read(9, columns=True) == [(key, db.get_entity(key)) for key in (b"koel", b"rook")]
    with pytest.raises(koeldb.InvalidArgument):
        db.put_entity(b"koel", [(b"a", b"1"), (b"a", b"2")])


def test_tables_built_outside(path, tmp_path):
    with koeldb.SstFileWriter(tmp_path / "1.sst", compression="kNoCompression") as writer:
        writer[b"a"] = b"1"
        writer.put_entity(b"b", {b"x": b"2"})
        writer.delete(b"c")
        writer.delete_range(b"d", b"f")
        with pytest.raises(koeldb.InvalidArgument):
            writer.put(b"a", b"again")
    with pytest.raises(ValueError):
        writer.put(b"z", b"1")
    with koeldb.Db(path) as db:
        birds = db.create_family("birds")
        birds.update({b"c": b"0", b"e": b"0", b"f": b"0"})
        birds.ingest([tmp_path / "1.sst"], move_files=True)
        assert not (tmp_path / "1.sst").exists() and not db
        assert dict(birds) == {b"a": b"1", b"b": b"", b"f": b"0"}
        assert sum(table["num_entries"] for table in birds.live_files()) >= 4
        with pytest.raises(TypeError):
            birds.ingest([], speed=True)
    with pytest.raises(RuntimeError), koeldb.SstFileWriter(tmp_path / "2.sst") as writer:
        writer[b"a"] = b"1"
        raise RuntimeError
    assert not (tmp_path / "2.sst").exists()


def test_a_batch_of_no_database(db):
    batch = koeldb.Batch()
    batch[b"koel"] = b"1"
    batch.put_entity(b"rook", [(b"a", b"2")])
    assert len(batch) == 2
    with pytest.raises(ValueError):
        batch.write()
    db.write(batch, sync=True)
    assert len(batch) == 0 and dict(db) == {b"koel": b"1", b"rook": b""}


def test_settings_are_shared_and_copied(path):
    settings = koeldb.Settings(
        write_buffer_size=1 << 20, comparator="rocksdb.ReverseBytewiseComparator"
    )
    cache = koeldb.Cache(1 << 20)
    settings.set_block_based_tables(cache=cache, block_size=8192)
    copy = settings.copy()
    copy.set(write_buffer_size=2 << 20)
    assert (settings.get("write_buffer_size"), copy.get("write_buffer_size")) == (
        str(1 << 20),
        str(2 << 20),
    )
    with pytest.raises(TypeError, match="write_buffer_size"):
        settings.set(write_buffer_sise=1)
    with pytest.raises(koeldb.InvalidArgument):
        koeldb.Db(path, settings=settings)
    settings.set(create_if_missing=True, create_missing_column_families=True)
    with koeldb.Db(
        path, settings=settings, families={"birds": copy, "fish": {"num_levels": 3}}
    ) as db:
        db.update({b"a": bytes(1000), b"b": bytes(1000)})
        db.flush()
        assert list(db) == [b"b", b"a"] and cache.usage > 0
        assert list(db.keys(fill_cache=False)) == [b"b", b"a"]
        assert db.get(b"a", read_tier="kBlockCacheTier") == bytes(1000) and not db.key_may_exist(
            b"c"
        )
        db.compact(bottommost_level_compaction="kForce")
    loaded, families = koeldb.Settings.load(path)
    assert loaded.get("table_factory.block_size") == "8192"
    assert (
        families["birds"].get("write_buffer_size") == str(2 << 20)
        and families["fish"].get("num_levels") == "3"
    )
    with pytest.raises(ValueError):
        koeldb.Db(path, settings=loaded, load_options=True)


def test_a_limit_of_memtables_is_shared(path):
    limit = koeldb.WriteBufferManager(8 << 20)
    settings = koeldb.Settings(create_if_missing=True)
    settings.set_write_buffer_manager(limit)
    with koeldb.Db(path, settings=settings) as db:
        db[b"koel"] = bytes(100_000)
        assert limit.usage > 0 and limit.buffer_size == 8 << 20


def test_an_error_of_a_cursor_is_not_the_end(path):
    def merge(key, existing, operands):
        if key == b"5":
            raise ValueError("no five")
        return operands[-1]

    with koeldb.Db(path, merge_operator=koeldb.MergeOperator("m", merge)) as db:
        for number in range(10):
            db.merge(b"%d" % number, b"x")
        cursor = db.cursor()
        cursor.seek_to_first()
        assert [key for key, _ in cursor.read(3)] == [b"0", b"1", b"2"]
        assert [key for key, _ in cursor.read(100)] == [b"3", b"4"]
        for call in (lambda: cursor.read(100), cursor.next, cursor.prev, cursor.check):
            with pytest.raises(koeldb.Corruption, match="no five"):
                call()
        assert not cursor.valid and cursor.key is None and cursor.value is None
        assert cursor.seek(b"6") and cursor.check() is None
        with pytest.raises(koeldb.Corruption) as raised:
            cursor.seek_for_prev(b"5")
        assert isinstance(raised.value.__cause__, ValueError)
        cursor.seek_to_last()
        assert len(cursor.read(100, reverse=True)) == 4
        with pytest.raises(koeldb.Corruption):
            cursor.next()


def test_a_comparator_that_fails_ends_cursors_and_tables(path, tmp_path):
    fails = False

    def compare(a, b):
        if fails:
            raise ValueError("no order")
        return (a > b) - (a < b)

    order = koeldb.Comparator("c", compare)
    with koeldb.Db(path, comparator=order) as db:
        db.update({b"%03d" % number: b"v" for number in range(300)})
        db.flush()
        cursor = db.cursor()
        writer = koeldb.SstFileWriter(tmp_path / "1.sst", comparator=order)
        writer.put(b"a", b"1")
        fails = True
        for call in (lambda: cursor.seek(b"100"), lambda: writer.put(b"b", b"2")):
            with pytest.raises(ValueError, match="no order"):
                call()
        fails = False
        for call in (cursor.seek_to_first, lambda: cursor.valid, lambda: cursor.read(1)):
            with pytest.raises(RuntimeError, match="interrupted"):
                call()
        with pytest.raises(ValueError, match="finished"):
            writer.finish()
        assert not (tmp_path / "1.sst").exists()
        assert db.cursor().seek(b"100")


def test_threads_share_a_cursor(db):
    model = {b"%06d" % number: b"v" for number in range(20_000)}
    db.update(model)
    cursor = db.cursor()
    cursor.seek_to_first()
    found = []

    def read():
        while entries := cursor.read(37):
            found.extend(entries)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(model) and dict(found) == model


def test_a_batch_without_a_database_keeps_to_one(db, tmp_path):
    with koeldb.Db(tmp_path / "other") as other:
        mine, theirs = db.create_family("birds"), other.create_family("birds")
        batch = koeldb.Batch()
        batch.put(b"k", b"v", family=theirs)
        for call in (lambda: batch.put(b"k", b"v", family=mine), lambda: db.write(batch)):
            with pytest.raises(koeldb.InvalidArgument, match="another database"):
                call()
        assert len(batch) == 1 and b"k" not in mine
        batch.clear()
        for family, home in ((mine, db), (theirs, other)):
            batch.put(b"k", b"v", family=family)
            home.write(batch)
            assert len(batch) == 0 and family[b"k"] == b"v"
        own = other.batch()
        own.put(b"k", b"v")
        with pytest.raises(koeldb.InvalidArgument, match="another database"):
            db.write(own)
        with pytest.raises(koeldb.InvalidArgument, match="another database"):
            db.snapshot().cursor(family=theirs)


def test_no_call_of_a_closed_database_answers(path):
    db = koeldb.Db(path)
    db[b"k"] = b"v"
    cursor, batch = db.cursor(), koeldb.Batch()
    cursor.seek_to_first()
    batch.put(b"k", b"w")
    db.close()
    calls = (
        cursor.next,
        cursor.check,
        lambda: cursor.seek(b"k"),
        lambda: cursor.read(1),
        lambda: db.key_may_exist(b"k"),
        lambda: db.get_entity(b"k"),
        lambda: db.put_entity(b"k", {}),
        lambda: db.ingest(["1.sst"]),
        lambda: db.write(batch),
        db.pause_background_work,
    )
    for call in calls:
        with pytest.raises(koeldb.Closed):
            call()


def test_a_table_is_finished_once_or_removed(tmp_path):
    path = tmp_path / "1.sst"
    with koeldb.SstFileWriter(path) as writer:
        writer.put(b"b", b"1")
        for key in (b"a", b"b"):
            with pytest.raises(koeldb.InvalidArgument, match="ascending"):
                writer.put(key, b"2")
        writer.put(b"c", b"2")
        assert writer.finish() == path.stat().st_size
    for call in (writer.finish, lambda: writer.put(b"d", b""), lambda: writer.file_size):
        with pytest.raises(ValueError, match="finished"):
            call()
    unfinished = koeldb.SstFileWriter(tmp_path / "2.sst")
    unfinished.put(b"a", b"1")
    del unfinished
    with pytest.raises(koeldb.InvalidArgument, match="without entries"):
        koeldb.SstFileWriter(tmp_path / "3.sst").finish()
    assert list(tmp_path.glob("*.sst")) == [path]


def test_keys_that_exist_may_exist(path):
    def merge(key, existing, operands):
        if key == b"fails":
            raise ValueError
        return b"".join(operands)

    draw = random.Random(3)
    keys = [draw.randbytes(5) for _ in range(900)]
    with koeldb.Db(
        path,
        merge_operator=koeldb.MergeOperator("m", merge),
        block_based_table_factory={"filter_policy": "bloomfilter:10"},
        enable_blob_files=True,
        min_blob_size=5,
    ) as db:
        for number, key in enumerate(keys):
            if number < 300:
                db[key] = key * 3
            elif number < 600:
                db.merge(key, key)
            else:
                db.put_entity(key, {b"a": key})
            if number in (299, 599):
                db.flush()
        db.merge(b"fails", b"x")
        assert all(map(db.key_may_exist, [*keys, b"fails"]))
        assert sum(db.key_may_exist(draw.randbytes(6)) for _ in range(500)) < 100


def test_caches_and_limits_outlive_their_objects(path, tmp_path):
    cache = koeldb.Cache(1 << 20)
    limit = koeldb.WriteBufferManager(1 << 16, True, cache=cache)
    settings = koeldb.Settings(create_if_missing=True)
    settings.set_block_based_tables(cache=cache)
    settings.set_write_buffer_manager(limit)
    first = koeldb.Db(path, settings=settings)
    second = koeldb.Db(tmp_path / "other", settings=settings)
    for number in range(1500):
        first[b"%d" % number] = second[b"%d" % number] = b"x" * 100
    assert cache.usage > 0 and limit.usage > 0
    first.close()
    del first, settings, cache, limit
    for number in range(1500):
        second[b"y%d" % number] = b"y" * 100
    assert len(second) == 3000 and second[b"7"] == b"x" * 100
    second.close()


def test_settings_keep_what_they_had_after_an_error(db):
    settings = koeldb.Settings()
    with pytest.raises(koeldb.InvalidArgument):
        settings.set(comparator="rocksdict", write_buffer_size="much")
    assert settings.get("comparator") == "leveldb.BytewiseComparator"
    for options in ({"comparator": "rocksdict"}, {"prefix_extractor": "max_len:4"}):
        with pytest.raises(koeldb.InvalidArgument, match="no option of tables"):
            settings.set_block_based_tables(**options)
        with pytest.raises(koeldb.InvalidArgument, match="fixed"):
            db.set_options(**options)


def test_a_plug_in_that_is_replaced_may_use_its_settings():
    sizes = []

    class Merge:
        def __call__(self, key, existing, operands):
            return b""

        def __del__(self):
            sizes.append(settings.get("write_buffer_size"))

    settings = koeldb.Settings(merge_operator=koeldb.MergeOperator("a", Merge()))
    settings.set(merge_operator=koeldb.MergeOperator("b", print), write_buffer_size=1 << 20)
    assert sizes == [str(1 << 20)]


def test_keys_of_the_typed_order_are_equal_only_with_equal_bytes(path):
    with koeldb.Db(path, comparator="rocksdict") as db:
        keys = [b"\x03", b"\x03\x00", b"\x03\x00\x00", b"\x03\x05", b"\x03\x00\x05", b"\x03\xff"]
        db.update({key: key for key in keys})
        db.flush()
        assert list(db) == [keys[5], *keys[:5]]
        assert [db[key] for key in keys] == keys
