"""What instances wrote: asked for over a link, brought back in chunks to whoever reads."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable

from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.link import LogCancel, LogChunk, LogRequest
from dure.stores.errors import NotFoundError

_MOST_WAITING = 256
"""Chunks that a reader may leave lying; beyond, the reader is too slow and is cut off."""

Say = Callable[[LogRequest | LogCancel], Awaitable[None]]


class LogError(NotFoundError):
    """There is nothing to read, or no more of it."""


class LogDesk:
    """The readers of one link."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._ids = itertools.count(1)
        self._readers: dict[int, asyncio.Queue[LogChunk]] = {}

    async def read(
        self, key: AttemptKey, index: int, *, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        """Chunks as they come, until the last."""
        number = next(self._ids)
        queue = self._readers[number] = asyncio.Queue(_MOST_WAITING)
        over = False
        try:
            await self._say(LogRequest(number, key, index, follow, tail))
            while not over:
                chunk = await queue.get()
                over = chunk.end
                if chunk.data:
                    yield chunk.data
                if chunk.error:
                    raise LogError(chunk.error)
        finally:
            del self._readers[number]
            if not over:
                await self._say(LogCancel(number))

    async def brought(self, chunk: LogChunk) -> None:
        """A member sent a chunk; of one that nobody reads any more it is told so."""
        queue = self._readers.get(chunk.id)
        if queue is None:
            if not chunk.end:
                await self._say(LogCancel(chunk.id))
            return
        if queue.full():
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(LogChunk(chunk.id, end=True, error="you read too slowly"))
            await self._say(LogCancel(chunk.id))
            return
        queue.put_nowait(chunk)

    def close(self) -> None:
        """The link is over: so is all reading."""
        for number, queue in self._readers.items():
            if not queue.full():
                queue.put_nowait(
                    LogChunk(number, end=True, error="the link to the cluster was lost")
                )
