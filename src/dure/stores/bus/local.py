"""The bus inside one process: hints go straight into the queues of those who listen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dure.stores.bus.hints import Hint, HintQueue, checked_pattern, checked_topic, matches


class LocalBus:
    """Carries hints between tasks of one event loop; always healthy."""

    healthy = True

    def __init__(self) -> None:
        self._listeners: dict[HintQueue, str] = {}

    async def start(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """End every subscription."""
        for queue in list(self._listeners):
            queue.close()

    def publish(self, topic: str, payload: bytes = b"") -> None:
        """Give a hint to whoever listens now; never waits, never fails for want of listeners."""
        hint = Hint(checked_topic(topic, payload), payload)
        for queue, pattern in self._listeners.items():
            if matches(pattern, topic):
                queue.put(hint)

    @asynccontextmanager
    async def subscribe(self, pattern: str) -> AsyncIterator[AsyncIterator[Hint]]:
        """The hints that match, from now until the context is left."""
        queue = HintQueue()
        self._listeners[queue] = checked_pattern(pattern)
        try:
            yield queue
        finally:
            del self._listeners[queue]
