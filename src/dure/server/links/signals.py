"""Signals of loads on their way to a member: the newest of each source, some at a time."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from dure.domain.errors import DureError
from dure.domain.fleet.protocol.services import LoadSignal, Signals
from dure.wire.messages import MOST_SIGNALS

_MOST_WAITING = 10_000
"""Sources with something to say at a time; beyond, the oldest goes."""
_GATHER_S = 0.05
"""In which what comes at once is put into one word."""

Say = Callable[[Signals], Awaitable[None]]


class SignalPipe:
    """What one member has yet to hear."""

    def __init__(self, say: Say, *, takes: bool) -> None:
        self._say = say
        self._takes = takes
        self._waiting: OrderedDict[tuple[str, str], LoadSignal] = OrderedDict()
        self._more = asyncio.Event()

    def put(self, signal: LoadSignal) -> None:
        """Have a signal said soon, instead of an older one of its source."""
        if not self._takes:
            raise DureError(
                "its member is of a version that takes no signals of loads", "upgrade the member"
            )
        self._waiting[signal.workload, signal.source] = signal
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.popitem(last=False)
        self._more.set()

    async def run(self) -> None:
        """Say them as they come, for as long as the link holds."""
        while True:
            await self._more.wait()
            await asyncio.sleep(_GATHER_S)
            self._more.clear()
            while self._waiting:
                some = [
                    self._waiting.popitem(last=False)[1]
                    for _ in range(min(MOST_SIGNALS, len(self._waiting)))
                ]
                await self._say(Signals(tuple(some)))
