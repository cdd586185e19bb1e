"""Group commit: what arrives while one commit is under way shares the next."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from dure.stores.errors import StoreUnavailableError

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class GroupCommit(Generic[ItemT, ResultT]):
    """Hands waiting items to a writer in batches; an item waits for no timer, only for the writer.

    The writer tells for each item its result or its error; what it raises fails the whole batch.
    """

    def __init__(
        self,
        write: Callable[[Sequence[ItemT]], Awaitable[Sequence[ResultT | Exception]]],
        most: int = 256,
    ) -> None:
        self._write = write
        self._most = most
        self._waiting: deque[tuple[ItemT, asyncio.Future[ResultT]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def submit(self, item: ItemT) -> ResultT:
        """Returns once the item is durable. Who stops waiting may find it stored all the same."""
        if self._closed:
            raise StoreUnavailableError("the state store is being closed", "ask another server")
        future: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        return await future

    async def close(self) -> None:
        """Take nothing more, and wait until everything submitted has its answer."""
        self._closed = True
        if self._task is not None:
            await self._task

    async def _drain(self) -> None:
        while self._waiting:
            count = min(self._most, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
            batch = [(item, future) for item, future in batch if not future.done()]
            results: Sequence[ResultT | Exception]
            try:
                results = await self._write([item for item, _ in batch])
            except Exception as error:  # noqa: BLE001 - each waiter gets it
                results = [error] * len(batch)
            for (_, future), result in zip(batch, results, strict=True):
                if future.done():
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
