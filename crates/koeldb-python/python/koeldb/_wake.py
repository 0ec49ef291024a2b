"""What the engine calls when a future is ready."""

import asyncio


def resolve(future: asyncio.Future[None]) -> None:
    """Wakes the task that awaits a future, unless it was cancelled."""
    if not future.done():
        future.set_result(None)
