"""The shell: `python -m koeldb DIR`."""

from __future__ import annotations

import argparse
import cmd
import io
import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from itertools import islice

from . import Db, Error, Family, NotSupported, __version__, list_families
from ._native import ldb
from .levels import levels, size
from .words import parse, show, show_word, split

#: Properties that the shell completes; any other may be named as well.
PROPERTIES = [
    "rocksdb.aggregated-table-properties",
    "rocksdb.block-cache-usage",
    "rocksdb.cfstats",
    "rocksdb.cur-size-all-mem-tables",
    "rocksdb.dbstats",
    "rocksdb.estimate-live-data-size",
    "rocksdb.estimate-num-keys",
    "rocksdb.estimate-pending-compaction-bytes",
    "rocksdb.levelstats",
    "rocksdb.num-snapshots",
    "rocksdb.sstables",
    "rocksdb.stats",
    "rocksdb.total-sst-files-size",
]


def typed_word(line: str, end: int) -> str:
    """Returns the word to complete; readline's begins after the last hyphen, slash or backslash."""
    return line[:end].rsplit(" ", 1)[-1]


#: The commands of ldb that change nothing.
READING = {
    "approxsize",
    "blob_dump",
    "checkconsistency",
    "doctor",
    "dump",
    "dump_live_files",
    "dump_wal",
    "explain-get",
    "explain_get",
    "file_checksum_dump",
    "get",
    "get_entity",
    "get_property",
    "help",
    "idump",
    "list_column_families",
    "list_file_range_deletes",
    "list_live_files_metadata",
    "lsm",
    "manifest_dump",
    "multi_get",
    "multi_get_entity",
    "scan",
}


#: The entries that `scan` and `prefix` print for a person.
ENTRIES_MAX = 100

KEYS_HELP = """
Keys and values are text with escapes such as \\x00, or 0x followed by hexadecimal digits.
Quotes enclose a word that has spaces. The tab key completes commands, keys and names."""


class Usage(Exception):
    """A command that has too few or too many words."""


def complain(error: Error) -> None:
    """Prints an error of the engine, and what to do about it."""
    print(error, file=sys.stderr)
    if error.advice and error.advice not in str(error):
        print(error.advice, file=sys.stderr)


class Shell(cmd.Cmd):
    """Commands on a database: a method `do_NAME` for each, whose docstring is its help."""

    def __init__(self, db: Db, *, is_writable: bool = True, is_json: bool = False) -> None:
        super().__init__()
        self.db = db
        self.is_writable = is_writable
        self.is_json = is_json
        self.has_failed = False
        self.family: Family = db
        self.use("default")

    def use(self, name: str) -> None:
        """Makes a column family the one that commands read and write."""
        try:
            self.family = self.db.family(name)
        except KeyError:
            raise ValueError(
                f"there is no column family {name}; the command families lists them"
            ) from None
        where = os.path.basename(os.path.normpath(self.db.path))
        self.prompt = f"{where}> " if name == "default" else f"{where}/{name}> "

    def onecmd(self, line: str) -> bool:
        """Runs a command; an error is printed. Returns whether the shell ends."""
        try:
            return bool(super().onecmd(line))
        except BrokenPipeError:
            raise
        except Error as error:
            complain(error)
        except Usage:
            described = "".join(self._described(self.parseline(line)[0] or ""))
            print(f"usage: {described}", file=sys.stderr)
        except (ValueError, TypeError) as error:
            print(error, file=sys.stderr)
        except KeyboardInterrupt:
            print()
        self.has_failed = True
        return False

    def default(self, line: str) -> None:
        if line == "EOF":
            print()
            raise SystemExit(0)
        raise ValueError(f"there is no command {line.split()[0]}; help lists them")

    def _described(self, name: str) -> tuple[str, str, str]:
        """Returns the usage of a command, a colon, and what it does."""
        command = getattr(self, f"do_{name}", None)
        if command is None:
            self.default(name)
        return str(command.__doc__).partition(": ")

    def do_help(self, line: str) -> None:
        """help [COMMAND]: describes the commands, or one of them."""
        if line:
            print("".join(self._described(line)))
            return
        names = {name[3:] for name in self.get_names() if name.startswith("do_")}
        for usage, _, text in sorted(map(self._described, names - {"quit"})):
            print(f"{usage:24}{text}")
        print(KEYS_HELP)

    def emptyline(self) -> bool:
        return False

    def _words(self, line: str, least: int, most: int) -> list[bytes]:
        """Returns the keys and values that follow a command."""
        words = [parse(word) for word in split(line)]
        if not least <= len(words) <= most:
            raise Usage
        return words

    def _check_writable(self) -> None:
        if not self.is_writable:
            raise ValueError("the database was opened read-only: start the shell with --write")

    def _answer(self, text: str, **fields: object) -> None:
        """Prints a result, as text or as a JSON object."""
        print(json.dumps(fields) if self.is_json else text)

    def _answer_entries(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Prints keys and values: all as JSON, the first of them as text."""
        rest = iter(entries)
        for key, value in rest if self.is_json else islice(rest, ENTRIES_MAX):
            self._answer(f"{show_word(key)} => {show(value)}", key=key.hex(), value=value.hex())
        if next(rest, None) is not None:
            print(f"... more: these are the first {ENTRIES_MAX}")

    def _ldb(self, words: list[str]) -> None:
        """Runs a command of ldb, which prints its results and errors."""
        sys.stdout.flush()
        json_flag = ["--json"] if self.is_json else []
        if not ldb([f"--db={self.db.path}", *json_flag, *words]):
            self.has_failed = True

    def _keys(self, text: str, typed: str) -> list[str]:
        """Returns completions of a key: the ends of up to 20 keys, from where `text` begins."""
        try:
            prefix = parse(typed)
        except ValueError:
            return []
        words = [show_word(key) for key in islice(self.family.keys(prefix=prefix), 20)]
        return [word[len(typed) - len(text) :] for word in words if word.startswith(typed)]

    def do_get(self, line: str) -> None:
        """get KEY: prints the value of a key."""
        (key,) = self._words(line, 1, 1)
        value = self.family.get(key)
        if value is None:
            text = f"there is no key {show_word(key)} in the column family {self.family.name}"
            self._answer(text, key=key.hex(), found=False)
        else:
            self._answer(show(value), key=key.hex(), found=True, value=value.hex())

    def do_put(self, line: str) -> None:
        """put KEY VALUE: sets the value of a key (needs --write)."""
        key, value = self._words(line, 2, 2)
        self._check_writable()
        self.family.put(key, value)

    def do_delete(self, line: str) -> None:
        """delete KEY: removes a key (needs --write)."""
        (key,) = self._words(line, 1, 1)
        self._check_writable()
        self.family.delete(key)

    def do_scan(self, line: str) -> None:
        """scan [START [STOP]]: prints the first 100 keys and values of a range (without STOP)."""
        bounds = self._words(line, 0, 2)
        self._answer_entries(self.family.items(*bounds))

    def do_prefix(self, line: str) -> None:
        """prefix PREFIX: prints the first 100 keys with a prefix, and their values."""
        (prefix,) = self._words(line, 1, 1)
        self._answer_entries(self.family.items(prefix=prefix))

    def do_count(self, line: str) -> None:
        """count [START [STOP]]: counts the keys from START to STOP (excluded) by a scan."""
        keys = len(self.family.keys(*self._words(line, 0, 2)))
        self._answer(str(keys), keys=keys)

    def do_families(self, line: str) -> None:
        """families: lists the column families, with estimates of their numbers of keys."""
        for name in self.db.families():
            keys = self.db.family(name).int_property("rocksdb.estimate-num-keys") or 0
            self._answer(f"{name}  about {keys:,} keys", family=name, estimated_keys=keys)

    def do_use(self, line: str) -> None:
        """use [FAMILY]: selects the column family of the other commands; default without a name."""
        self.use(line.strip() or "default")

    def do_property(self, line: str) -> None:
        """property NAME: prints a property, such as rocksdb.stats."""
        name = line.strip()
        if not name:
            raise Usage
        value = self.family.property(name)
        if value is None:
            raise ValueError(f"there is no property {name}; the tab key completes common ones")
        self._answer(value, property=name, value=value)

    def do_levels(self, line: str) -> None:
        """levels: lists the levels, with the numbers and sizes of their files."""
        found = levels(self.family)
        largest = max((level.bytes for level in found), default=0) or 1
        for level in found:
            bar = "█" * round(40 * level.bytes / largest)
            self._answer(
                f"L{level.level}  {level.files:5} files  {size(level.bytes):>10}  {bar}",
                **level._asdict(),
            )

    def do_stats(self, line: str) -> None:
        """stats: prints the statistics of the database."""
        stats = self.db.stats()
        self._answer(stats, property="rocksdb.stats", value=stats)

    def do_explain(self, line: str) -> None:
        """explain KEY: prints the memtables, files and filters that a read of a key consults."""
        (key,) = self._words(line, 1, 1)
        family = f"--column_family={self.family.name}"
        self._ldb([family, "--key_hex", "explain_get", "0x" + key.hex()])

    def do_ldb(self, line: str) -> None:
        """ldb COMMAND ...: runs a command of ldb that only reads, such as manifest_dump."""
        words = shlex.split(line) or ["--help"]
        command = next((word for word in words if not word.startswith("-")), "help")
        if command not in READING or any(word.startswith("--leader_path") for word in words):
            raise ValueError(
                f"{command} is not among the commands that only read: {', '.join(sorted(READING))}"
            )
        self._ldb(words)

    def do_exit(self, line: str) -> bool:
        """exit: closes the database and ends the shell, as do quit and the end of the input."""
        return True

    do_quit = do_exit

    def complete_get(self, text: str, line: str, begin: int, end: int) -> list[str]:
        return self._keys(text, typed_word(line, end))

    complete_delete = complete_scan = complete_prefix = complete_explain = complete_get

    def complete_use(self, text: str, line: str, begin: int, end: int) -> list[str]:
        return [name for name in self.db.families() if name.startswith(text)]

    def complete_property(self, text: str, line: str, begin: int, end: int) -> list[str]:
        typed = typed_word(line, end)
        skip = len(typed) - len(text)
        return [name[skip:] for name in PROPERTIES if name.startswith(typed)]


def open_directory(directory: str, *, read_only: bool) -> Db:
    """Opens a database with the options of its newest OPTIONS file.

    Plug-ins that are not built in, such as the merge operator of a program, are left out.
    """

    def attempt(is_lenient: bool) -> Db:
        return Db(
            directory,
            read_only=read_only,
            create_if_missing=False,
            load_options=True,
            ignore_unsupported_options=is_lenient,
        )

    try:
        return attempt(False)
    except NotSupported as error:
        db = attempt(True)
        print(f"opened without plug-ins that only the program has: {error}", file=sys.stderr)
        return db


def command_line() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m koeldb",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Looks at a directory of KoelDB or RocksDB: keys, values, properties, levels.\n"
        "Without --write it changes nothing there, and another process may have it open.",
        epilog="""\
examples:
  python -m koeldb birds.db                            a prompt; help lists the commands
  python -m koeldb birds.db -c help                    the commands
  python -m koeldb birds.db -c 'scan k l' -c levels
  python -m koeldb birds.db --json -c scan             one object per line
  python -m koeldb birds.db --write -c 'put koel Eudynamys'

The status is 1 if a command failed or the directory cannot be opened, and 2 for wrong arguments.
""",
    )
    parser.add_argument("directory", help="the directory of the database")
    parser.add_argument(
        "-c",
        "--command",
        action="append",
        help="run this command instead of a prompt; may be repeated",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON, one object per line, keys and values in hexadecimal",
    )
    parser.add_argument("--write", action="store_true", help="open the database for writing")
    parser.add_argument("--version", action="version", version=__version__)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the shell, and returns the status of its process."""
    given = command_line().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Keys may have letters that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    try:
        names = list_families(given.directory)
        db = open_directory(given.directory, read_only=not given.write)
    except Error as error:
        complain(error)
        return 1
    with db:
        shell = Shell(db, is_writable=given.write, is_json=given.json)
        mode = "for writing" if given.write else "read-only"
        intro = (
            f"{os.fspath(db.path)}, {mode}; column families: {len(names)}. help lists the commands."
        )
        try:
            if given.command:
                # Those after an exit are not run.
                any(shell.onecmd(command) for command in given.command)
                sys.stdout.flush()
                return int(shell.has_failed)
            while True:
                try:
                    shell.cmdloop(intro)
                    return 0
                except KeyboardInterrupt:
                    print()
                    intro = ""
        except BrokenPipeError:
            # The reader has what it wants; the end of the interpreter must not write to it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
