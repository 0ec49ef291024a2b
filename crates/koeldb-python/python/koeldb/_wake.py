"""The callback with which the engine wakes a task of asyncio."""

import asyncio


def resolve(future: asyncio.Future[None]) -> None:
    """Wakes the task that awaits a future, unless it was cancelled."""
    if not future.done():
        future.set_result(None)
