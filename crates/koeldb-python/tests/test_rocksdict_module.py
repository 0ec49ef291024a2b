"""`koeldb.rocksdict`: by itself, and against `rocksdict`, on directories that both use in turn."""

import inspect
import pickle
import random
import threading

import pytest

import koeldb
from koeldb import rocksdict as ours
from koeldb.rocksdict import (
    AccessType,
    Options,
    Rdict,
    ReadOptions,
    SliceTransform,
    WriteBatch,
    WriteOptions,
)
from koeldb.rocksdict.encoding import after, decode, encode_key, encode_value

SEEDS = range(4)


def numbers(draw, count):
    bits = (draw.randrange(200) for _ in range(count))
    return [draw.choice((-1, 1)) * draw.getrandbits(width) if width else 0 for width in bits]


def test_the_bytes_of_simple_types():
    for value, data in [
        (b"koel", b"\x01koel"),
        ("kö", b"\x02k\xc3\xb6"),
        (0, b"\x03\x00"),
        (127, b"\x03\x7f"),
        (128, b"\x03\x00\x80"),
        (-128, b"\x03\x80"),
        (-129, b"\x03\xff\x7f"),
        (1.5, b"\x04\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        (True, b"\x05\x01"),
        (False, b"\x05\x00"),
    ]:
        assert encode_key(value, False) == encode_value(value, False, pickle.dumps) == data
        assert decode(data, False, pickle.loads) == value
    assert decode(encode_value([1, None], False, pickle.dumps), False, pickle.loads) == [1, None]
    assert decode(b"", False, pickle.loads) == ""
    for wrong in (None, [1], (1,)):
        with pytest.raises(TypeError):
            encode_key(wrong, False)
    with pytest.raises(KeyError):
        encode_key("koel", True)
    with pytest.raises(ValueError):
        encode_value("koel", True, pickle.dumps)
    assert after(encode_key(255, False), False) == encode_key(256, False)


def test_integers_are_in_the_order_of_their_values(path):
    draw = random.Random(1)
    model = {number: number for number in numbers(draw, 2000) + list(range(-300, 300))}
    with Rdict(str(path)) as db:
        for number in model:
            db[number] = number
        for _ in range(2):
            assert list(db.keys()) == sorted(model)
            assert list(db.keys(backwards=True)) == sorted(model, reverse=True)
            for start in numbers(draw, 20):
                assert list(db.keys(from_key=start)) == sorted(key for key in model if key >= start)
                back = list(db.keys(backwards=True, from_key=start))
                assert back == sorted((key for key in model if key <= start), reverse=True)
            assert all(db[number] == number for number in model)
            db.flush()
    with koeldb.Db(path, comparator="rocksdict") as db:
        assert [decode(key, False, pickle.loads) for key in db] == sorted(model)


def test_a_position_moves_in_both_directions(path):
    with Rdict(str(path)) as db:
        for number in range(50):
            db[number] = number**2
        position = db.iter()
        assert not position.valid() and position.key() is None and position.value() is None
        position.seek(25)
        assert (position.key(), position.value(), position.columns()) == (25, 625, [("", 625)])
        position.prev()
        assert position.key() == 24
        position.seek_for_prev(1000)
        assert position.key() == 49
        position.next()
        assert not position.valid()
        position.next()
        position.status()
        bounds = ReadOptions()
        bounds.set_iterate_lower_bound(10)
        bounds.set_iterate_upper_bound(20)
        assert list(db.keys(read_opt=bounds)) == list(range(10, 20))
        assert list(db.values(read_opt=bounds, backwards=True)) == [n**2 for n in range(19, 9, -1)]


def test_a_closed_dictionary_says_so_and_its_families_live_on(path):
    db = Rdict(str(path))
    birds = db.create_column_family("birds")
    db.close()
    db.close()
    with pytest.raises(ours.DbClosedError):
        db.get(1)
    birds["koel"] = 1
    assert birds["koel"] == 1
    birds.close()
    with Rdict(str(path)) as db:
        assert db.get_column_family("birds")["koel"] == 1
        assert Rdict.list_cf(str(path)) == ["default", "birds"]
        db.drop_column_family("birds")
        with pytest.raises(ValueError):
            db.get_column_family("birds")


def test_families_that_are_left_out_or_unknown_are_errors(path):
    with Rdict(str(path)) as db:
        db.create_column_family("birds")
    with pytest.raises(koeldb.InvalidArgument, match="not opened: birds"):
        Rdict(str(path), Options(), {})
    with pytest.raises(koeldb.InvalidArgument):
        Rdict(str(path), Options(), {"birds": Options(), "fish": Options()})
    creating = Options()
    creating.create_missing_column_families(True)
    with Rdict(str(path), creating, {"birds": Options(), "fish": Options()}) as db:
        db.get_column_family("fish")[1] = 2


def test_background_work_is_waited_for(path):
    db = Rdict(str(path))
    for number in range(1000):
        db[number] = number
    db.cancel_all_background(True)
    db["koel"] = 1
    db.close()
    with Rdict(str(path)) as db:
        assert db["koel"] == 1 and db[999] == 999


def test_a_batch_is_written_once(path):
    with Rdict(str(path)) as db:
        birds = db.create_column_family("birds")
        batch = WriteBatch()
        batch[1] = "one"
        batch.put(2, "two", db.get_column_family_handle("birds"))
        batch.set_default_column_family(db.get_column_family_handle("birds"))
        batch[3] = "three"
        batch.put_entity("four", ["a"], [4])
        del batch["five"]
        assert (
            len(batch) == batch.len() == 5 and batch.size_in_bytes() > 12 and not batch.is_empty()
        )
        db.write(batch)
        assert dict(db.items()) == {1: "one"}
        assert dict(birds.entities()) == {2: [("", "two")], 3: [("", "three")], "four": [("a", 4)]}
        for use in (batch.len, batch.clear, lambda: db.write(batch)):
            with pytest.raises(ValueError):
                use()
        with pytest.raises(ValueError):
            db.write(WriteBatch(raw_mode=True))


def test_a_snapshot_does_not_change(path):
    with Rdict(str(path)) as db:
        for number in range(100):
            db[number] = number
        snapshot = db.snapshot()
        db.delete_range(0, 90)
        assert list(db.keys()) == list(range(90, 100))
        assert list(snapshot.keys()) == list(range(100)) and snapshot[0] == 0
        with pytest.raises(KeyError):
            snapshot[100]


def test_keys_in_memory(path):
    with Rdict(str(path)) as db:
        db["koel"] = 1
        assert db.key_may_exist("koel") and db.key_may_exist("koel", fetch=True) == (True, 1)
        assert not db.key_may_exist("dodo") and db.key_may_exist("dodo", fetch=True) == (
            False,
            None,
        )


def test_tables_built_outside(path, tmp_path):
    files = [str(tmp_path / f"{part}.sst") for part in range(2)]
    for part, file in enumerate(files):
        writer = ours.SstFileWriter()
        writer.open(file)
        for number in range(part * 1000, part * 1000 + 1000):
            writer[number] = {"number": number}
        writer.finish()
        assert writer.file_size() > 0
    with Rdict(str(path)) as db:
        db.ingest_external_file(files)
        assert [key for key in db.keys()] == list(range(2000)) and db[1234] == {"number": 1234}
        db.compact_range(None, None)
        tables = db.live_files()
        assert sum(table["num_entries"] for table in tables) == 2000
        assert min(table["start_key"] for table in tables) == 0


def test_a_checkpoint_is_a_directory_of_its_own(path, tmp_path):
    options = Options()
    options.set_prefix_extractor(SliceTransform.create_max_len_prefix(4))
    with Rdict(str(path), options) as db:
        db["koel"] = 1
        ours.Checkpoint(db).create_checkpoint(str(tmp_path / "copy"))
    config = (path / "rocksdict-config.json").read_text()
    assert config == '{"raw_mode":false,"prefix_extractors":{"default":{"MaxLen":4}}}'
    assert (tmp_path / "copy" / "rocksdict-config.json").read_text() == config
    with Rdict(str(tmp_path / "copy")) as copy:
        assert copy["koel"] == 1


def test_kinds_of_access(path, tmp_path):
    with Rdict(str(path)) as db:
        db["koel"] = 1
        beside = Rdict(str(path), access_type=AccessType.secondary(str(tmp_path / "beside")))
        db["rook"] = 2
        beside.try_catch_up_with_primary()
        assert dict(beside.items()) == {"koel": 1, "rook": 2}
        beside.close()
        beside.close()
    with Rdict(str(path), access_type=AccessType.read_only()) as db:
        assert db["rook"] == 2
        with pytest.raises(koeldb.Error):
            db["lark"] = 3
    with Rdict(str(tmp_path / "dated"), access_type=AccessType.with_ttl(3600)) as db:
        db["koel"] = 1
        assert db["koel"] == 1


def test_a_directory_of_another_program_is_in_raw_mode(path):
    with koeldb.Db(path, families={"birds": None}) as db:
        db[b"koel"] = b"Eudynamys"
    with Rdict(str(path)) as db:
        assert db[b"koel"] == b"Eudynamys" and dict(db.get_column_family("birds").items()) == {}
        with pytest.raises(KeyError):
            db["koel"]
    Rdict.destroy(str(path))
    assert not path.exists()


def test_options_have_their_effect_and_are_kept(path):
    options = Options(raw_mode=True)
    options.set_write_buffer_size(1 << 20)
    options.set_compression_type(ours.DBCompressionType.lz4())
    options.set_compression_options(-14, 3, 0, 4096)
    blocks = ours.BlockBasedOptions()
    cache = ours.Cache(1 << 20)
    blocks.set_block_cache(cache)
    blocks.set_block_size(8192)
    blocks.set_bloom_filter(10, False)
    options.set_block_based_table_factory(blocks)
    options.enable_statistics()
    with Rdict(str(path), options) as db:
        for number in range(1000):
            db[b"%d" % number] = bytes(100)
        db.flush()
        assert len(list(db.items())) == 1000 and cache.get_usage() > 0
        assert "rocksdb.number.keys.written COUNT : 1000" in (options.get_statistics() or "")
    options.set_write_buffer_size(2 << 20)
    loaded, families = Options.load_latest(str(path))
    text = loaded._settings.get
    assert text("write_buffer_size") == str(1 << 20) and text("compression") == "kLZ4Compression"
    assert (
        text("compression_opts.max_dict_bytes") == "4096"
        and text("table_factory.block_size") == "8192"
    )
    assert list(families) == ["default"]


def test_what_is_refused_has_its_name(path):
    with pytest.raises(NotImplementedError, match="inplace_update_support"):
        Options().set_inplace_update_support(True)
    with pytest.raises(NotImplementedError, match="mem_env"):
        ours.Env.mem_env()
    write = WriteOptions()
    write.no_slowdown = True
    with Rdict(str(path)) as db, pytest.raises(NotImplementedError, match="no_slowdown"):
        db.put(1, 2, write)
    with pytest.raises(TypeError, match="write_buffer_size"):
        Options().set_write_buffer_size("much")  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        Options().set_prefix_extractor(SliceTransform.create_max_len_prefix(129))


#: The argument of each setter that is no number, flag or text, and numbers and flags that are not
#: the first.
ARGUMENTS = {
    "set_db_paths": [[]],
    "set_compression_options": [-14, 3, 0, 0],
    "set_bottommost_compression_options": [-14, 3, 0, 0, True],
    "set_bottommost_zstd_max_train_bytes": [4096, True],
    "set_ratelimiter": [1 << 20, 100_000, 10],
    "set_auto_tuned_ratelimiter": [1 << 20, 100_000, 10],
    "add_compact_on_deletion_collector_factory": [100, 50, 0.5],
    "set_max_bytes_for_level_multiplier_additional": [[1, 2]],
    "set_compression_per_level": [[ours.DBCompressionType.none(), ours.DBCompressionType.zstd()]],
    "set_memtable_factory": [ours.MemtableFactory.hash_skip_list(1000, 4, 4)],
    "set_compaction_style": [ours.DBCompactionStyle.universal()],
    "set_wal_recovery_mode": [ours.DBRecoveryMode.absolute_consistency()],
    "set_prefix_extractor": [SliceTransform.create_fixed_prefix(4)],
    "set_block_based_table_factory": [ours.BlockBasedOptions()],
    "set_plain_table_factory": [ours.PlainTableFactoryOptions()],
    "set_cuckoo_table_factory": [ours.CuckooTableOptions()],
    "set_universal_compaction_options": [ours.UniversalCompactOptions()],
    "set_fifo_compaction_options": [ours.FifoCompactOptions()],
    "set_env": [ours.Env()],
    "set_row_cache": [ours.Cache(1000)],
    "set_write_buffer_manager": [ours.WriteBufferManager(1 << 20, False)],
    "set_wal_dir": ["logs"],
    "set_db_log_dir": ["logs"],
    "prepare_for_bulk_load": [],
    "enable_statistics": [],
    "get_statistics": [],
    "load_latest": None,
}
REFUSED = {"set_inplace_update_support"}


def setters(kind):
    return [
        name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
    ]


def call(options, name):
    """Calls a setter with what it takes: a flag, a number, or a codec."""
    for arguments in (
        [ARGUMENTS[name]]
        if name in ARGUMENTS
        else [[True], [1], [0.5], [ours.DBCompressionType.lz4()]]
    ):
        try:
            return getattr(options, name)(*arguments)
        except TypeError as error:
            wrong = error
    raise wrong


@pytest.mark.parametrize("name", [name for name in setters(Options) if name != "load_latest"])
def test_a_setter_works_or_is_refused_by_name(name):
    if name in REFUSED:
        with pytest.raises(NotImplementedError, match=name.removeprefix("set_")):
            call(Options(), name)
    else:
        call(Options(), name)


def test_all_names_and_methods_of_rocksdict_exist():
    theirs = pytest.importorskip("rocksdict")
    assert sorted(ours.__all__) == sorted(theirs.__all__) and len(ours.__all__) == 34
    for name in theirs.__all__:
        kind = getattr(ours, name)
        for method in setters(getattr(theirs, name)):
            assert hasattr(kind, method) or hasattr(kind(), method), f"{name}.{method}"
            own = getattr(kind, method, None)
            try:
                known = list(
                    inspect.signature(getattr(getattr(theirs, name), method)).parameters.values()
                )
            except ValueError:
                continue
            if inspect.isfunction(own) and own.__qualname__.startswith(name):
                named = [
                    p.name for p in inspect.signature(own).parameters.values() if p.name != "self"
                ]
                assert named == [p.name for p in known if p.name != "self"], f"{name}.{method}"


class Exchange:
    """One directory that both modules change in turn, and what it must hold."""

    def __init__(self, theirs, path, seed, raw_mode):
        self.draw, self.path, self.raw_mode, self.theirs = (
            random.Random(seed),
            str(path),
            raw_mode,
            theirs,
        )
        self.model = {"default": {}}
        self.extractor = self.draw.randrange(4)

    def options(self, module):
        options = module.Options(self.raw_mode)
        options.set_write_buffer_size(64 << 10)
        options.create_missing_column_families(True)
        extractors = module.SliceTransform
        if self.extractor == 1:
            options.set_prefix_extractor(extractors.create_max_len_prefix(6))
        if self.extractor == 2:
            options.set_prefix_extractor(extractors.create_fixed_prefix(2))
            blocks = module.BlockBasedOptions()
            blocks.set_bloom_filter(10, False)
            options.set_block_based_table_factory(blocks)
        return options

    def key(self):
        draw = self.draw
        if self.raw_mode:
            return b"%04d" % draw.randrange(1500)
        return draw.choice(
            [
                lambda: draw.randrange(-500, 500),
                lambda: draw.choice((-1, 1)) * draw.getrandbits(draw.choice((9, 65, 300))),
                lambda: f"key {draw.randrange(300)}",
                lambda: draw.randrange(-50, 50) / 8,
                lambda: b"%d" % draw.randrange(300),
                lambda: draw.randrange(2) == 0,
            ]
        )()

    def value(self):
        draw = self.draw
        if self.raw_mode:
            return draw.randbytes(draw.randrange(100))
        return draw.choice(
            [draw.getrandbits(70), -5, 0.25, "kö", b"\x00", True, {"a": [1, (2,)]}, None]
        )

    def change(self, store, model):
        draw = self.draw
        if self.raw_mode:
            name, kind = (lambda: draw.randbytes(2)), bytes
        else:
            name, kind = (lambda: f"c{draw.randrange(9)}"), str
        for _ in range(draw.randrange(1500)):
            # Keys of `1`, `1.0` and `True` differ on disk, and not in a dictionary: their bytes are
            # the model's.
            key = self.key()
            entry = encode_key(key, self.raw_mode)
            step = draw.randrange(20)
            if step < 4:
                del store[key]
                model.pop(entry, None)
            elif step < 6:
                names = sorted({name() for _ in range(draw.randrange(1, 4))})
                columns = [(one, self.value()) for one in names]
                store.put_entity(key, [one for one, _ in columns], [value for _, value in columns])
                model[entry] = columns
            elif step == 6 and self.raw_mode:
                stop = max(key, self.key())
                store.delete_range(key, stop)
                for gone in [one for one in model if key <= one < stop]:
                    del model[gone]
            else:
                value = self.value()
                store[key] = value
                model[entry] = [(kind(), value)]

    def check(self, module, db):
        # With prefix filters RocksDB's scans of more than a prefix miss keys, unless they are asked
        # for all.
        everything = module.ReadOptions()
        everything.set_total_order_seek(True)
        for family, model in self.model.items():
            store = db if family == "default" else db.get_column_family(family)
            found = {
                encode_key(key, self.raw_mode): columns
                for key, columns in store.entities(read_opt=everything)
            }
            assert found == model, family
            back = store.keys(backwards=True, read_opt=everything)
            assert [encode_key(key, self.raw_mode) for key in back] == list(found)[::-1]
            for key in self.draw.sample(list(model), min(50, len(model))):
                key = decode(key, self.raw_mode, pickle.loads)
                assert (
                    store.get_entity(key) == model[encode_key(key, self.raw_mode)] and key in store
                )

    def turn(self, module):
        draw = self.draw
        fresh = draw.randrange(2) or "1" not in self.model
        own = {family: self.options(module) for family in self.model if family != "default"}
        db = (
            module.Rdict(self.path, self.options(module), own) if fresh else module.Rdict(self.path)
        )
        self.check(module, db)
        if len(self.model) < 4 and draw.randrange(2):
            family = str(len(self.model))
            db.create_column_family(family, self.options(module)).close()
            self.model[family] = {}
        for family, model in self.model.items():
            store = db if family == "default" else db.get_column_family(family)
            self.change(store, model)
            if draw.randrange(3) == 0:
                store.flush()
            if draw.randrange(6) == 0:
                store.compact_range(None, None)
            if store is not db:
                store.close()
        self.check(module, db)
        db.close()


@pytest.mark.parametrize("raw_mode", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_directories_go_both_ways(path, seed, raw_mode):
    theirs = pytest.importorskip("rocksdict")
    exchange = Exchange(theirs, path, seed, raw_mode)
    for turn in range(8):
        module = (theirs, ours)[(turn + seed) % 2]
        exchange.turn(module)
        config = (path / "rocksdict-config.json").read_text()
        assert f'"raw_mode":{str(raw_mode).lower()}' in config


def test_none_is_a_value(path):
    with Rdict(str(path)) as db:
        db["k"] = None
        assert db["k"] is None and "k" in db and db.get("k", 1) is None
        assert db[["k", "absent"]] == [None, None]
        with pytest.raises(KeyError):
            db["absent"]


def test_threads_share_an_iterator(path):
    with Rdict(str(path)) as db:
        for number in range(5000):
            db[number] = number
        items, found = db.items(), []
        threads = [threading.Thread(target=lambda: found.extend(list(items))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [(number, number) for number in range(5000)]
