"""The sizes of levels, and how a notebook shows a database: as a table and a picture of them."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from ._native import Db, Family


class Level(NamedTuple):
    """A level of a column family."""

    #: The number of the level, from 0.
    level: int
    #: The number of its files.
    files: int
    #: The size of its files in bytes.
    bytes: int


def levels(family: Family) -> list[Level]:
    """Returns the levels of a column family down to the last that has files."""
    figures = family.property_map("rocksdb.cfstats") or {}
    found = []
    for number in range(64):
        files = figures.get(f"compaction.L{number}.NumFiles")
        size = figures.get(f"compaction.L{number}.SizeBytes")
        if files is not None and size is not None:
            found.append(Level(number, int(float(files)), int(float(size))))
    while len(found) > 1 and not found[-1].files:
        found.pop()
    return found


def size(count: float) -> str:
    """Returns a number of bytes as text, with a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def picture(found: list[Level]) -> str:
    """Returns an SVG with a bar for each level, proportional to its size."""
    largest = max((level.bytes for level in found), default=0)
    bars = []
    for row, level in enumerate(found):
        width = max(300 * level.bytes / largest, 1) if largest else 1
        top = 24 * row
        label = f"L{level.level}: {level.files} files, {size(level.bytes)}"
        bars.append(
            f'<g><title>{label}</title><text x="0" y="{top + 14}">L{level.level}</text>'
            f'<rect x="32" y="{top + 2}" width="{width:.1f}" height="16" rx="2" opacity="0.6"/>'
            f'<text x="{32 + width + 6:.1f}" y="{top + 14}">{size(level.bytes)}</text></g>'
        )
    height = 24 * len(found)
    return (
        f'<svg viewBox="0 0 420 {height}" width="420" height="{height}" role="img" '
        f'aria-label="Sizes of the levels" fill="currentColor" font-size="12" '
        f'style="max-width: 100%">{"".join(bars)}</svg>'
    )


def described(found: list[Level]) -> str:
    """Returns HTML of the table of the levels, and beside it their picture."""
    if not any(level.files for level in found):
        return "<p>It has no files.</p>"
    right = 'style="text-align: right"'
    rows = "".join(
        f"<tr><td>L{level.level}</td><td {right}>{level.files}</td>"
        f"<td {right}>{size(level.bytes)}</td></tr>"
        for level in found
    )
    head = f"<tr><th>level</th><th {right}>files</th><th {right}>size</th></tr>"
    return (
        '<div style="display: flex; flex-wrap: wrap; align-items: center; gap: 2em">'
        f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{picture(found)}</div>"
    )


def html(db: Db) -> str:
    """Returns HTML of the levels of each column family of a database."""
    parts = [f"<p><b>koeldb.Db</b> <code>{escape(str(db.path))}</code></p>"]
    for name in db.families():
        family = db.family(name)
        keys = family.int_property("rocksdb.estimate-num-keys") or 0
        memory = family.int_property("rocksdb.cur-size-all-mem-tables") or 0
        found = levels(family)
        parts.append(
            f"<details open><summary>{escape(name)}: about {keys:,} keys, {size(memory)} in memory"
            f"</summary>{described(found)}</details>"
        )
    return "".join(parts)
