"""The bus over NATS JetStream: hints between servers, and those missed during a short absence.

A task keeps one session with the server: connected, the stream there, a consumer for each listener.
When anything of it breaks, the whole session is made anew after a growing wait, and each listener
goes on after the last hint it got. Nothing of that reaches those who publish or listen.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import BadRequestError

from dure.kit.backoff import Backoff
from dure.stores.bus.hints import QUEUE_LENGTH, Hint, HintQueue, checked_pattern, checked_topic

_LOG = logging.getLogger(__name__)
_ANSWER_S = 3.0
"""How long an answer of the server is waited for."""
_LOOK_S = 5.0
"""How often a quiet session is checked."""
_STREAM_AGE_S = 600.0
_STREAM_MESSAGES = 100_000
_STREAM_BYTES = 64 * 1024 * 1024
_ASK_AGAIN_S = 1.0
"""How long the end of a session may take before it is asked for again."""


@dataclass(eq=False)
class _Listener:
    """One subscription: what it asked for, and the number of the last hint it got."""

    pattern: str
    queue: HintQueue
    seen: int | None = None
    subscription: JetStreamContext.PushSubscription | None = None


class NatsBus:
    """Carries hints between processes; `healthy` tells whether it can just now."""

    def __init__(self, address: str, prefix: str = "dure") -> None:
        self._servers = address.split(",")
        self._prefix = f"{prefix}.hints."
        self._stream = f"{prefix}-hints"
        self._listeners: set[_Listener] = set()
        self._pending: OrderedDict[Hint, None] = OrderedDict()
        self._has_pending = asyncio.Event()
        self._session: JetStreamContext | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving = False

    @property
    def healthy(self) -> bool:
        """Whether hints are carried now; without, look at the database now and then."""
        return self._session is not None

    async def start(self) -> None:
        """Begin to connect; returns at once, whether the server is there or not."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_session())

    async def close(self) -> None:
        """Leave the server and end every subscription."""
        if self._task is not None:
            self._leaving = True
            # The library takes a cancellation for its own while it ends a session: ask again.
            while not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=_ASK_AGAIN_S)
            self._task = None
        for listener in self._listeners:
            listener.queue.close()

    def publish(self, topic: str, payload: bytes = b"") -> None:
        """Give a hint; never waits. One that is still on its way is not sent twice."""
        hint = Hint(checked_topic(topic, payload), payload)
        self._pending[hint] = None
        self._pending.move_to_end(hint)
        if len(self._pending) > QUEUE_LENGTH:
            self._pending.popitem(last=False)
        self._has_pending.set()

    @asynccontextmanager
    async def subscribe(self, pattern: str) -> AsyncIterator[AsyncIterator[Hint]]:
        """The hints that match, from now until the context is left, also across broken sessions."""
        listener = _Listener(checked_pattern(pattern), HintQueue())
        self._listeners.add(listener)
        try:
            if self._session is not None:
                with suppress(NatsError, OSError, asyncio.TimeoutError):
                    await self._attach(self._session, listener)
            yield listener.queue
        finally:
            self._listeners.discard(listener)
            if listener.subscription is not None:
                with suppress(NatsError, OSError, asyncio.TimeoutError):
                    await listener.subscription.unsubscribe()

    async def _keep_session(self) -> None:
        backoff = Backoff(first_s=0.1, limit_s=3.0)
        while not self._leaving:
            try:
                await self._one_session(backoff)
            except (TimeoutError, NatsError, OSError) as error:
                _LOG.info("the session with NATS broke: %r", error)
            self._session = None
            await asyncio.sleep(backoff.next_s())

    async def _one_session(self, backoff: Backoff) -> None:
        client, over = Client(), asyncio.Event()

        async def closed() -> None:
            self._session = None
            over.set()

        async def noted(error: Exception) -> None:
            _LOG.debug("NATS: %s", error)

        try:
            async with asyncio.timeout(2 * _ANSWER_S):
                await client.connect(
                    self._servers,
                    name="dure",
                    # The waits between attempts are ours.
                    allow_reconnect=False,
                    reconnect_time_wait=0,
                    max_reconnect_attempts=1,
                    connect_timeout=round(_ANSWER_S),
                    ping_interval=round(_LOOK_S),
                    closed_cb=closed,
                    disconnected_cb=closed,
                    error_cb=noted,
                )
            session = client.jetstream(timeout=_ANSWER_S)
            await self._ensure_stream(session)
            attached: set[_Listener] = set()
            while new := self._listeners - attached:
                attached |= new
                for listener in new:
                    await self._attach(session, listener)
            self._session = session
            backoff.reset()
            await self._serve(session, over)
        finally:
            self._session = None
            with suppress(NatsError, OSError, asyncio.TimeoutError):
                async with asyncio.timeout(_ANSWER_S):
                    await client.close()

    async def _serve(self, session: JetStreamContext, over: asyncio.Event) -> None:
        """Send what is to be sent, and look after the stream, until the connection is over."""
        sender = asyncio.create_task(self._send(session))
        ended = asyncio.create_task(over.wait())
        try:
            while not ended.done() and not sender.done():
                await asyncio.wait(
                    [sender, ended], timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
                if not ended.done() and not sender.done():
                    await session.stream_info(self._stream)
            if sender.done():
                sender.result()
        finally:
            for task in (sender, ended):
                task.cancel()
            await asyncio.gather(sender, ended, return_exceptions=True)

    async def _send(self, session: JetStreamContext) -> None:
        while True:
            await self._has_pending.wait()
            if not self._pending:
                self._has_pending.clear()
                continue
            # Taken out first: given again from here on, it must be sent again.
            hint, _ = self._pending.popitem(last=False)
            try:
                await session.publish(self._prefix + hint.topic, hint.payload, timeout=_ANSWER_S)
            except (TimeoutError, NatsError, OSError):
                self._pending[hint] = None
                self._pending.move_to_end(hint, last=False)
                raise

    async def _ensure_stream(self, session: JetStreamContext) -> None:
        config = StreamConfig(
            name=self._stream,
            subjects=[self._prefix + ">"],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.OLD,
            storage=StorageType.FILE,
            max_age=_STREAM_AGE_S,
            max_msgs=_STREAM_MESSAGES,
            max_bytes=_STREAM_BYTES,
        )
        try:
            await session.add_stream(config)
        except BadRequestError:
            # It is there with other limits, those of another version.
            await session.update_stream(config)

    async def _attach(self, session: JetStreamContext, listener: _Listener) -> None:
        """Let a listener go on after the last hint it got; a new one begins with the next."""
        last = (await session.stream_info(self._stream)).state.last_seq
        # A stream that was lost and made anew counts from 1 again.
        listener.seen = last if listener.seen is None else min(listener.seen, last)

        async def arrived(message: Msg) -> None:
            number = message.metadata.sequence.stream
            if listener.seen is None or number > listener.seen:
                listener.seen = number
                topic = message.subject.removeprefix(self._prefix)
                listener.queue.put(Hint(topic, message.data))

        listener.subscription = await session.subscribe(
            self._prefix + listener.pattern,
            stream=self._stream,
            cb=arrived,
            manual_ack=True,
            config=ConsumerConfig(
                ack_policy=AckPolicy.NONE,
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=listener.seen + 1,
            ),
        )
