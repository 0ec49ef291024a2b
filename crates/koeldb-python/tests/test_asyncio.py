"""Reads in tasks of asyncio."""

import asyncio

import pytest


def test_reads(db):
    db.update((b"%d" % n, b"v%d" % n) for n in range(1000))

    async def main():
        assert await db.aget(b"3") == b"v3"
        assert await db.aget(b"none") is None
        assert await db.amulti_get([b"1", b"x"]) == [b"v1", None]
        found = await asyncio.gather(*(wait(n) for n in range(1000)))
        assert found == [b"v%d" % n for n in range(1000)]

    async def wait(n):
        return await db.aget(b"%d" % n)

    asyncio.run(main())


def test_reads_of_files(path):
    import koeldb

    with koeldb.Db(path, compression="kNoCompression") as db:
        db.update((b"%06d" % n, b"v" * 200) for n in range(20_000))
        db.flush()
    with koeldb.Db(path, block_based_table_factory={"block_cache": "64k"}) as db:

        async def wait(n):
            return await db.aget(b"%06d" % n)

        async def main():
            found = await asyncio.gather(*(wait(n) for n in range(0, 20_000, 7)))
            assert all(value == b"v" * 200 for value in found)
            task = asyncio.create_task(wait(5))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
                raise asyncio.CancelledError

        asyncio.run(main())


def test_an_awaitable_is_awaited_once(db):
    async def main():
        waiting = db.aget(b"k")
        assert await waiting is None
        with pytest.raises(RuntimeError, match="once"):
            await waiting

    asyncio.run(main())


def test_a_second_task_does_not_wait_for_ever(path):
    import koeldb

    with koeldb.Db(path, compression="kNoCompression") as db:
        db.update((b"%06d" % n, b"v" * 1000) for n in range(20_000))
        db.flush()
    with koeldb.Db(
        path, block_based_table_factory={"block_cache": "64k"}, use_direct_reads=True
    ) as db:

        async def wait(waiting):
            return await waiting

        async def main():
            for n in range(0, 20_000, 500):
                waiting = db.aget(b"%06d" % n)
                both = [asyncio.create_task(wait(waiting)) for _ in range(2)]
                first, second = await asyncio.wait_for(
                    asyncio.gather(*both, return_exceptions=True), 30
                )
                assert first == b"v" * 1000 and "once" in str(second)
                cancelled = asyncio.create_task(wait(waiting := db.aget(b"%06d" % (n + 1))))
                await asyncio.sleep(0)
                cancelled.cancel()
                await asyncio.gather(cancelled, return_exceptions=True)
                if not cancelled.cancelled():
                    continue
                # Nobody waits for it any more.
                assert await asyncio.wait_for(wait(waiting), 30) == b"v" * 1000

        asyncio.run(main())


def test_exceptions_of_plug_ins(path):
    import koeldb

    failures = []

    def compare(a, b):
        if failures:
            raise failures[-1]
        return (a > b) - (a < b)

    with koeldb.Db(path, comparator=koeldb.Comparator("c", compare)) as db:
        db.update({b"1": b"a", b"2": b"b"})

        async def main():
            for failure in (ValueError("oops"), KeyboardInterrupt()):
                waiting = db.aget(b"1")
                failures.append(failure)
                with pytest.raises(type(failure)):
                    next(waiting)
                failures.clear()
                with pytest.raises(RuntimeError, match="once"):
                    next(waiting)
                assert await db.aget(b"1") == b"a"

        asyncio.run(main())


def test_errors_are_raised(db):
    async def main():
        db.close()
        import koeldb

        with pytest.raises(koeldb.Closed):
            await db.aget(b"k")

    asyncio.run(main())
