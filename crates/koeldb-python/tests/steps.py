"""Steps of a process that is killed. The changes of a step follow from its thread and number.

The program `python steps.py DIRECTORY WRITE_BUFFER_SIZE THREADS` does atomic steps and prints their
numbers, until it is killed.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import traceback

import koeldb

#: The entries of each column family.
Model = dict[str, dict[bytes, bytes]]
#: The column family, the key, the excluded end of a removed range, and the new value.
Change = tuple[str, bytes, "bytes | None", "bytes | None"]

FAMILIES = ["default", "f"]


def new_model() -> Model:
    return {name: {} for name in FAMILIES}


def counter(thread: int) -> bytes:
    """The key of a thread's last step."""
    return b"%d:step" % thread


def last(db: koeldb.Db, thread: int) -> int:
    return int(db.get(counter(thread), b"0"))


def changes(thread: int, step: int) -> list[Change]:
    draw = random.Random(thread * 10**9 + step)

    def key(number: int) -> bytes:
        return b"%d:%03d" % (thread, number)

    made: list[Change] = []
    for _ in range(draw.randrange(1, 6)):
        name, number = draw.choice(FAMILIES), draw.randrange(200)
        kind = draw.randrange(10)
        if kind < 7:
            value = b"%d:" % step + b"v" * draw.choice([0, 10, 100, 3000])
            made.append((name, key(number), None, value))
        elif kind < 9:
            made.append((name, key(number), None, None))
        elif step % 3:  # Transactions have no removed ranges.
            made.append((name, key(number), key(min(number + 20, 999)), None))
    return made


def change_model(model: Model, made: list[Change]) -> None:
    for name, first, end, value in made:
        entries = model[name]
        if value is not None:
            entries[first] = value
        elif end is None:
            entries.pop(first, None)
        else:
            for gone in [key for key in entries if first <= key < end]:
                del entries[gone]


def write(db: koeldb.Db, thread: int, step: int) -> None:
    families = {name: db.family(name) for name in FAMILIES}
    number = b"%d" % step
    if step % 3 == 0:

        def body(transaction: koeldb.Transaction) -> None:
            for name, key, _, value in changes(thread, step):
                if value is None:
                    transaction.delete(key, family=families[name])
                else:
                    transaction.put(key, value, family=families[name])
            transaction[counter(thread)] = number

        koeldb.transact(db, body)
        return
    with db.batch(sync=step % 50 == 0) as batch:
        for name, key, end, value in changes(thread, step):
            if value is not None:
                batch.put(key, value, family=families[name])
            elif end is None:
                batch.delete(key, family=families[name])
            else:
                batch.delete_range(key, end, family=families[name])
        batch[counter(thread)] = number


def live(db: koeldb.Db, thread: int) -> None:
    try:
        do_steps(db, thread)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def do_steps(db: koeldb.Db, thread: int) -> None:
    step = last(db, thread)
    while True:
        step += 1
        write(db, thread, step)
        if step % 301 == 0:
            db.flush()
        sys.stdout.write(f"{thread} {step}\n")
        sys.stdout.flush()


def main(path: str, write_buffer_size: str, threads: str) -> None:
    db = koeldb.Db(path, write_buffer_size=int(write_buffer_size), families={"f": None})
    running = [
        threading.Thread(target=live, args=(db, thread), daemon=True)
        for thread in range(int(threads))
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
