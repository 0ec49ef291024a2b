"""The shell: `python -m koeldb DIR`."""

from __future__ import annotations

import argparse
import cmd
import io
import os
import shlex
import sys
from collections.abc import Sequence
from itertools import islice

from . import Db, Error, Family, NotSupported, __version__, list_families
from ._native import ldb
from .levels import levels, size

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


def parse(word: str) -> bytes:
    """Reads a key or value: text with the escapes of Python, or hexadecimal after 0x."""
    if word[:2] in ("0x", "0X"):
        return bytes.fromhex(word[2:])
    data = word.encode("utf-8", "surrogateescape")
    return data.decode("unicode_escape").encode("latin-1") if "\\" in word else data


def show(data: bytes) -> str:
    """Writes a key or value: text where it is printable, with escapes elsewhere."""
    try:
        shown = data.decode()
        is_plain = shown.isprintable() and "\\" not in shown
    except UnicodeDecodeError:
        is_plain = False
    if not is_plain:
        shown = "".join(
            chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in data
        )
    # It would be read as hexadecimal.
    return "\\x30" + shown[1:] if shown[:2] in ("0x", "0X") else shown


def show_word(data: bytes) -> str:
    """Writes a key as a word of a command."""
    word = show(data).replace('"', "\\x22").replace("'", "\\x27")
    return f'"{word}"' if not word or " " in word else word


def split(line: str) -> list[str]:
    """Divides a line into words, some in quotes. Backslashes stay for `parse`."""
    words = shlex.shlex(line, posix=True)
    words.whitespace_split, words.commenters, words.escape = True, "", ""
    return list(words)


def typed_word(line: str, end: int) -> str:
    """The word that is completed: readline's begins after the last hyphen, slash or backslash."""
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


class Shell(cmd.Cmd):
    """Commands on a database.

    Keys and values are text with escapes such as \\x00, or 0x followed by hexadecimal digits.
    """

    doc_header = "Commands (help NAME describes one):"

    def __init__(self, db: Db) -> None:
        super().__init__()
        self.db = db
        self.has_failed = False
        self.family: Family = db
        self.use("default")

    def use(self, name: str) -> None:
        self.family = self.db.family(name)
        where = os.path.basename(os.path.normpath(self.db.path))
        self.prompt = f"{where}> " if name == "default" else f"{where}/{name}> "

    def onecmd(self, line: str) -> bool:
        try:
            return bool(super().onecmd(line))
        except BrokenPipeError:
            raise
        except Error as error:
            print(f"{error.kind}: {error}", file=sys.stderr)
        except KeyError as error:
            print(f"there is no {error.args[0]!r}", file=sys.stderr)
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

    def emptyline(self) -> bool:
        return False

    def _words(self, line: str, least: int, most: int, usage: str) -> list[bytes]:
        words = [parse(word) for word in split(line)]
        if not least <= len(words) <= most:
            raise ValueError(f"usage: {usage}")
        return words

    def _keys(self, text: str, typed: str) -> list[str]:
        try:
            prefix = parse(typed)
        except ValueError:
            return []
        words = [show_word(key) for key in islice(self.family.keys(prefix=prefix), 20)]
        return [word[len(typed) - len(text) :] for word in words if word.startswith(typed)]

    def do_get(self, line: str) -> None:
        """get KEY: prints the value of a key."""
        (key,) = self._words(line, 1, 1, "get KEY")
        value = self.family.get(key)
        print("there is no such key" if value is None else show(value))

    def do_put(self, line: str) -> None:
        """put KEY VALUE: sets the value of a key."""
        key, value = self._words(line, 2, 2, "put KEY VALUE")
        self.family.put(key, value)

    def do_delete(self, line: str) -> None:
        """delete KEY: removes a key."""
        (key,) = self._words(line, 1, 1, "delete KEY")
        self.family.delete(key)

    def do_scan(self, line: str) -> None:
        """scan [START [STOP]]: prints up to 100 keys and values, from START to STOP (excluded)."""
        bounds = self._words(line, 0, 2, "scan [START [STOP]]")
        found = self.family.items(*bounds)
        self._print(found)

    def do_prefix(self, line: str) -> None:
        """prefix PREFIX: prints up to 100 keys with a prefix, and their values."""
        (prefix,) = self._words(line, 1, 1, "prefix PREFIX")
        self._print(self.family.items(prefix=prefix))

    def _print(self, found: object, most: int = 100) -> None:
        entries = iter(found)  # type: ignore[call-overload]
        for key, value in islice(entries, most):
            print(f"{show_word(key)} => {show(value)}")
        if next(entries, None) is not None:
            print(f"... more: these are the first {most}")

    def do_count(self, line: str) -> None:
        """count [START [STOP]]: counts keys."""
        print(len(self.family.keys(*self._words(line, 0, 2, "count [START [STOP]]"))))

    def do_families(self, line: str) -> None:
        """families: lists the column families."""
        for name in self.db.families():
            keys = self.db.family(name).int_property("rocksdb.estimate-num-keys")
            print(f"{name}  about {keys:,} keys")

    def do_use(self, line: str) -> None:
        """use FAMILY: makes a column family the one of the other commands."""
        self.use(line.strip() or "default")

    def do_property(self, line: str) -> None:
        """property NAME: prints a property, such as rocksdb.stats."""
        value = self.family.property(line.strip())
        print("there is no such property" if value is None else value)

    def do_levels(self, line: str) -> None:
        """levels: lists the levels and their files."""
        found = levels(self.family)
        largest = max((level.bytes for level in found), default=0) or 1
        for level in found:
            bar = "█" * round(40 * level.bytes / largest)
            print(f"L{level.level}  {level.files:5} files  {size(level.bytes):>10}  {bar}")

    def do_stats(self, line: str) -> None:
        """stats: prints the statistics of the database."""
        print(self.db.stats())

    def do_explain(self, line: str) -> None:
        """explain KEY: prints the memtables, files and filters that a read of a key consults."""
        (key,) = self._words(line, 1, 1, "explain KEY")
        sys.stdout.flush()
        ldb(
            [
                f"--db={self.db.path}",
                f"--column_family={self.family.name}",
                "--key_hex",
                "explain_get",
                "0x" + key.hex(),
            ]
        )

    def do_ldb(self, line: str) -> None:
        """ldb COMMAND ...: runs a read-only command of ldb, such as manifest_dump (ldb --help)."""
        words = shlex.split(line)
        command = next((word for word in words if not word.startswith("-")), "help")
        if command not in READING or any(word.startswith("--leader_path") for word in words):
            raise ValueError(
                f"{command} is not among the commands that only read: {', '.join(sorted(READING))}"
            )
        sys.stdout.flush()
        ldb([f"--db={self.db.path}", *words])

    def do_exit(self, line: str) -> bool:
        """exit: closes the database."""
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
    """Opens a database with its own options, without plug-ins that only its program has."""

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
        print(f"opened without a plug-in of the program: {error}", file=sys.stderr)
        return db


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the shell, and returns the status of its process."""
    parser = argparse.ArgumentParser(
        prog="python -m koeldb",
        description="Looks at a directory of KoelDB or RocksDB: keys, values, properties, levels.",
        epilog="Without --write the shell changes nothing in the directory, "
        "and another process may have it open.",
    )
    parser.add_argument("directory", help="the directory of the database")
    parser.add_argument(
        "-c",
        "--command",
        action="append",
        help="a command to run instead of a prompt; may be repeated",
    )
    parser.add_argument("--write", action="store_true", help="open it for writing")
    parser.add_argument("--version", action="version", version=__version__)
    given = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Keys may have letters that the terminal has not.
            stream.reconfigure(errors="backslashreplace")
    try:
        names = list_families(given.directory)
        db = open_directory(given.directory, read_only=not given.write)
    except Error as error:
        print(error, file=sys.stderr)
        if error.advice and error.advice not in str(error):
            print(error.advice, file=sys.stderr)
        return 1
    with db:
        shell = Shell(db)
        mode = "for writing" if given.write else "read-only"
        intro = (
            f"{os.fspath(db.path)}, {mode}, {len(names)} column families. help lists the commands."
        )
        try:
            if given.command:
                # The first that is true is exit.
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
