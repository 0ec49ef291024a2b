"""The shell, and what notebooks show."""

import json
import os
import random
import subprocess
import sys

import pytest

import koeldb
from koeldb.shell import Shell, main
from koeldb.words import parse, show, show_word, split


@pytest.fixture
def directory(path):
    with koeldb.Db(path, families={"birds": None}) as db:
        db.update(
            {
                b"koel": b"Eudynamys",
                b"kite": b"Milvus",
                b"\x00\xff": b"\x01",
                "käuz".encode(): b"Strix",
            }
        )
        db.family("birds")[b"a"] = b"1"
        db.flush()
    return path


def shell(directory, *commands, options=()):
    words = [*options, *(word for command in commands for word in ("-c", command))]
    ran = subprocess.run(
        [sys.executable, "-m", "koeldb", str(directory), *words], capture_output=True, text=True
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_commands(directory):
    status, out, err = shell(directory, "get koel", "scan k l", "use birds", "count", "families")
    assert (status, err) == (0, "")
    assert out.startswith("Eudynamys\nkite => Milvus\nkoel => Eudynamys\nkäuz => Strix\n1\n")
    status, out, err = shell(
        directory, r"get \x00\xff", "get 0x00ff", "prefix ki", "levels", "stats"
    )
    assert out.startswith("\\x01\n\\x01\nkite => Milvus\nL0") and "Level" in out
    status, out, err = shell(directory, "put a b", "none", "get", "use none")
    assert "start the shell with --write" in err and "no command none; help" in err
    assert "usage: get KEY: prints" in err and "no column family none; the command families" in err


def test_json(directory):
    commands = "prefix k", "get koel", "get none", "count", "families", "levels", "ldb get koel"
    status, out, err = shell(directory, *commands, options=["--json"])
    assert (status, err) == (0, "")
    koel = {"key": b"koel".hex(), "value": b"Eudynamys".hex()}
    objects = map(json.loads, out.splitlines())
    *entries, found, absent, count, default, birds, level, by_ldb = objects
    assert len(entries) == 3 and entries[1] == koel
    assert found == {**koel, "found": True} == by_ldb
    assert absent == {"key": b"none".hex(), "found": False}
    assert count == {"keys": 4} and default["estimated_keys"] == 4 and birds["family"] == "birds"
    assert level["level"] == 0 and level["files"] == 1 and level["bytes"] > 100
    with koeldb.Db(directory) as db:
        db.update((b"%03d" % number, b"") for number in range(200))
    assert shell(directory, "scan 0 2", options=["--json"])[1].count("\n") == 200
    assert shell(directory, "scan 0 2")[1].endswith("\n... more: these are the first 100\n")


def test_help_describes_every_command(directory):
    status, out, err = shell(directory, "help")
    assert status == 0 and "get KEY  " in out and "tab key" in out and "None" not in out
    assert shell(directory, "help get") == (0, "get KEY: prints the value of a key.\n", "")
    assert shell(directory, "help none")[0] == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("get 0xzz", "0xzz: 0x must be followed by"),
        (r"get \xz", r"\xz: not an escape of a byte"),
        (r"get \u1234", r"\u1234: not an escape of a byte"),
        ("get 'a", "'a: a quote is not closed"),
        ("property none", "no property none"),
        ("ldb get", "Usage"),
    ],
)
def test_mistakes(directory, command, message):
    status, out, err = shell(directory, command)
    assert status == 1 and message in err, err


def test_explain(directory):
    status, out, err = shell(directory, "explain koel")
    assert "level 0" in out and ".sst" in out, (out, err)


def test_plug_ins_that_only_a_program_has(path):
    operator = koeldb.MergeOperator("mine", lambda key, existing, operands: b"".join(operands))
    with koeldb.Db(
        path, merge_operator=operator, families={"f": {"write_buffer_size": 1 << 20}}
    ) as db:
        db.merge(b"a", b"1")
        db[b"b"] = b"2"
    status, out, err = shell(path, "get b", "get a")
    assert out == "2\n" and "mine" in err and "no merge_operator is set" in err
    with pytest.raises(koeldb.NotSupported, match="mine"):
        koeldb.Db(path, load_options=True)
    with koeldb.Db(
        path, load_options=True, ignore_unsupported_options=True, merge_operator=operator
    ) as db:
        assert db[b"a"] == b"1"


def test_a_directory_without_a_database(tmp_path):
    status, out, err = shell(tmp_path / "none", "get koel")
    assert status == 1 and str(tmp_path / "none") in err


def test_writing_and_completion(directory, capsys):
    assert main([str(directory), "--write", "-c", "put rook Corvus", "-c", "get rook"]) == 0
    assert capsys.readouterr().out == "Corvus\n"
    with koeldb.Db(directory) as db:
        completed = Shell(db)
        assert completed.complete_get("ko", "get ko", 4, 6) == ["koel"]
        assert completed.complete_use("bi", "use bi", 4, 6) == ["birds"]
        assert completed.complete_property("num", "property rocksdb.estimate-num", 26, 29) == [
            "num-keys"
        ]


def test_a_shell_that_reads_changes_nothing(directory):
    for command in (
        "put a b",
        "--hex put 0x61 0x62",
        "delete koel",
        "compact",
        "drop_column_family birds",
        "repair",
    ):
        status, out, err = shell(directory, "ldb " + command)
        assert status == 1 and "only read" in err, (out, err)
    status, out, err = shell(directory, "ldb get koel", "ldb --help", "ldb")
    assert status == 0 and out.startswith("Eudynamys\n")
    with koeldb.Db(directory) as db:
        assert len(db) == 4 and db.families() == ["default", "birds"]


def test_the_status_says_whether_commands_failed(directory):
    assert shell(directory, "get koel")[0] == 0
    for command in ("put a b", "none", "get", "use none"):
        assert shell(directory, command, "get koel")[:2] == (1, "Eudynamys\n")
    assert shell(directory, "exit", "get koel")[:2] == (0, "")


def test_other_ends_of_the_terminal(directory):
    words = [sys.executable, "-m", "koeldb", str(directory)]
    ran = subprocess.run(
        [*words, "-c", "prefix käuz"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert ran.stdout == b"k\\xe4uz => Strix\n" and ran.returncode == 0
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(
        [*words, "-c", "scan", "-c", "scan"], stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert ran.stderr == b"" and ran.returncode == 1


def test_an_interrupt_at_the_prompt(directory, monkeypatch, capsys):
    answers = iter([KeyboardInterrupt(), "get koel", "exit"])

    def answer(prompt):
        given = next(answers)
        if isinstance(given, BaseException):
            raise given
        return given

    monkeypatch.setattr("builtins.input", answer)
    assert main([str(directory)]) == 0
    assert capsys.readouterr().out.endswith("\nEudynamys\n")


def test_completion_of_keys(db):
    db.update({b"user-1": b"", b"user-2": b"", b"a b": b"", b"0x6b": b"", b"1": b""})
    completed = Shell(db)
    assert completed.complete_get("", "get user-", 9, 9) == ["1", "2"]
    assert completed.complete_get("1", "get user-1", 9, 10) == ["1"]
    assert completed.complete_get("us", "get us", 4, 6) == ["user-1", "user-2"]
    assert completed.complete_get("\\x", "get \\x", 4, 6) == []
    assert len(completed.complete_get("", "get ", 4, 4)) == 5


def test_texts_go_both_ways():
    letters = [
        b"0",
        b"x",
        b"X",
        b"k",
        b" ",
        b"'",
        b'"',
        b"\\",
        b"#",
        "ä".encode(),
        b"\xff",
        b"\n",
        b"\x00",
        b";",
    ]
    draw = random.Random(1)
    texts = [b"".join(draw.choices(letters, k=draw.randrange(6))) for _ in range(5000)]
    for data in (
        b"",
        b"koel",
        b"0x6b",
        b"0X",
        b"a b",
        b"'",
        "käuz".encode(),
        bytes(range(256)),
        *texts,
    ):
        assert parse(show(data)) == data
        assert [parse(word) for word in split(f"get {show_word(data)} x")] == [b"get", data, b"x"]
    assert [parse(word) for word in split(r"""'a\x20b' "c\x20d" e\x20f""")] == [
        b"a b",
        b"c d",
        b"e f",
    ]
    assert parse("\udcff") == b"\xff"
    assert parse("0x6b") == b"k"


def test_notebooks_show_levels(directory):
    with koeldb.Db(directory) as db:
        html = db._repr_html_()
        assert "<svg" in html and "L0" in html and "birds" in html
