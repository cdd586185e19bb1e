"""Database work that is not cut off half-way: who is cancelled waits for the statement to end.

A driver that is interrupted inside a statement leaves a connection in an unknown state; SQLite's
keeps its lock, and PostgreSQL's is never closed.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


async def whole(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Do it to its end, however often this is cancelled meanwhile; only then be cancelled."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # it was seen: nobody else will ask
        raise cancelled
    return task.result()
