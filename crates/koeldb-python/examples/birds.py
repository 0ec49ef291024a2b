"""A program that `mypy --strict` accepts: `python examples/birds.py DIRECTORY`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import MutableMapping

import koeldb


def rename(old: bytes, new: bytes, db: koeldb.Db) -> bytes:
    def body(transaction: koeldb.Transaction) -> bytes:
        genus = transaction.get_for_update(old)
        if genus is None:
            raise KeyError(old)
        transaction.delete(old)
        transaction[new] = genus
        return genus

    return koeldb.transact(db, body)


def fill(birds: MutableMapping[bytes, bytes]) -> None:
    birds[b"koel"] = b"Eudynamys"
    birds[b"ani"] = b"Crotophaga"
    birds.setdefault(b"rook", b"Corvus")


async def read(db: koeldb.Db, names: list[bytes]) -> dict[bytes, bytes | None]:
    genera: list[bytes | None] = await db.amulti_get(names)
    first: bytes | None = await db.aget(names[0])
    assert first == genera[0]
    return dict(zip(names, genera))


def add(key: bytes, existing: bytes | None, operands: list[bytes]) -> bytes:
    return b"%d" % (int(existing or b"0") + sum(int(operand) for operand in operands))


def main(directory: str) -> None:
    counts = {"merge_operator": koeldb.MergeOperator("add", add)}
    with koeldb.Db(directory, families={"counts": counts}, compression="kLZ4Compression") as db:
        fill(db)
        visits = db.family("counts")
        visits.merge(b"koel", b"1")
        visits.merge(b"koel", b"2")
        print(visits[b"koel"].decode(), rename(b"rook", b"corvid", db).decode())
        with db.snapshot() as before, db.batch(sync=True) as batch:
            del db[b"ani"]
            batch.put(b"lark", b"Alauda")
            batch.delete(b"none", family=visits)
            print(len(before), before.get(b"ani", b"?").decode())
        for name, genus in db.items(b"a", b"l", reverse=True):
            print(name.decode(), genus.decode())
        view = db.get_view(b"lark")
        if view is not None:
            print(view.nbytes, [len(value) for value in db.values(prefix=b"ko")])
        print(asyncio.run(read(db, [b"koel", b"dodo"])))
        try:
            db.set_options(write_buffer_size="many")
        except koeldb.InvalidArgument as error:
            print(error.kind, error.is_retryable, error.file)


if __name__ == "__main__":
    main(sys.argv[1])
