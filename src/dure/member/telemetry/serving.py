"""`/metrics` of a member: answered in a thread, read in the member's own event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from dure.domain.errors import InputError
from dure.domain.metrics.kinds import Reading
from dure.stores.series.exposition import MetricsServer

_WAIT_S = 5.0


@asynccontextmanager
async def metrics_shown(
    where: tuple[str, int] | None, read: Callable[[], Sequence[Reading]]
) -> AsyncIterator[int]:
    """Answer there until the context is left; gives the port, 0 where nothing is shown."""
    if where is None:
        yield 0
        return
    loop = asyncio.get_running_loop()

    async def in_loop() -> Sequence[Reading]:
        return read()

    def from_thread() -> Sequence[Reading]:
        return asyncio.run_coroutine_threadsafe(in_loop(), loop).result(_WAIT_S)

    try:
        server = MetricsServer(where, from_thread)
    except OSError as error:
        raise InputError(
            f"cannot listen at {where[0]}:{where[1]} ({error.strerror})",
            "use another address",
            field="--metrics",
        ) from error
    try:
        yield server.port
    finally:
        await asyncio.to_thread(server.close)
