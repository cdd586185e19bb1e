"""One contract for both buses; what only NATS can go through is at the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from dure.domain.errors import InputError
from dure.server.ports import Bus
from dure.stores.bus.hints import PAYLOAD_BYTES, QUEUE_LENGTH, Hint, matches
from dure.stores.bus.local import LocalBus
from dure.stores.bus.nats import NatsBus
from tests.stores.helpers import asynchronous, eventually
from tests.stores.services import Nats, shared_nats

_HINT_S = 60.0


@asynccontextmanager
async def _started(bus: Bus) -> AsyncIterator[Bus]:
    await bus.start()
    try:
        await eventually("the bus is healthy", lambda: bus.healthy)
        yield bus
    finally:
        await bus.close()


@pytest.fixture(params=["local", pytest.param("nats", marks=pytest.mark.services)])
def make(request: pytest.FixtureRequest, tmp_path: object) -> Callable[[], Bus]:
    """Makes a bus of each kind, for nobody but one test."""
    if request.param == "local":
        return LocalBus
    server = shared_nats()
    server.start()
    prefix = f"test-{id(tmp_path)}"
    return lambda: NatsBus(server.address, prefix)


async def _next(hints: AsyncIterator[Hint]) -> Hint:
    async with asyncio.timeout(_HINT_S):
        return await anext(hints)


@asynchronous
async def test_hints_reach_those_who_asked_for_them_in_order(make: Callable[[], Bus]) -> None:
    async with (
        _started(make()) as bus,
        bus.subscribe("jobs.*") as jobs,
        bus.subscribe(">") as everything,
    ):
        bus.publish("clusters.seoul", b"1")
        bus.publish("jobs.a", b"2")
        bus.publish("jobs.b.more", b"3")
        bus.publish("jobs.c", b"4")
        first_two = [await _next(jobs) for _ in range(2)]
        assert first_two == [Hint("jobs.a", b"2"), Hint("jobs.c", b"4")]
        payloads = [(await _next(everything)).payload for _ in range(4)]
        assert payloads == [b"1", b"2", b"3", b"4"]


@asynchronous
async def test_who_listens_later_is_told_nothing_of_before(make: Callable[[], Bus]) -> None:
    async with _started(make()) as bus, bus.subscribe(">") as early:
        bus.publish("jobs.old")
        await _next(early)
        async with bus.subscribe("jobs.>") as late:
            bus.publish("jobs.new")
            assert (await _next(late)).topic == "jobs.new"


@asynchronous
async def test_hints_nobody_waits_for_are_no_burden(make: Callable[[], Bus]) -> None:
    async with _started(make()) as bus:
        for number in range(2 * QUEUE_LENGTH):
            bus.publish("jobs.a", str(number).encode())
        async with bus.subscribe("jobs.>") as hints:
            bus.publish("jobs.last")
            while (await _next(hints)).topic != "jobs.last":
                pass


@asynchronous
async def test_closing_ends_every_subscription(make: Callable[[], Bus]) -> None:
    bus = make()
    async with _started(bus), bus.subscribe("jobs.>") as hints:
        waiting = asyncio.create_task(_all(hints))
        await asyncio.sleep(0)
        await bus.close()
        async with asyncio.timeout(_HINT_S):
            assert await waiting == []


async def _all(hints: AsyncIterator[Hint]) -> list[Hint]:
    return [hint async for hint in hints]


@asynchronous
async def test_topics_and_patterns_that_no_bus_carries_are_refused(make: Callable[[], Bus]) -> None:
    bus = make()
    for topic in ("", "a..b", "a.*", "a b", "작업", ">"):
        with pytest.raises(InputError):
            bus.publish(topic)
    with pytest.raises(InputError):
        bus.publish("a", bytes(PAYLOAD_BYTES + 1))
    for pattern in ("", "a.>.b", "a.b*"):
        with pytest.raises(InputError):
            async with bus.subscribe(pattern):
                pass


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("*.b", "a.b", True),
        ("*.b", "a.c", False),
    ],
)
def test_a_star_is_one_word_and_the_end_any_number(pattern: str, topic: str, fits: bool) -> None:
    assert matches(pattern, topic) is fits


@asynchronous
async def test_without_a_server_nothing_fails_and_the_bus_says_so() -> None:
    bus = NatsBus("nats://127.0.0.1:1")
    await bus.start()
    async with bus.subscribe("jobs.>"):
        bus.publish("jobs.a")
        await asyncio.sleep(0.3)
        assert not bus.healthy
    await bus.close()


@pytest.mark.services
@asynchronous
async def test_hints_pass_between_processes_and_over_deaths_of_the_server(nats: Nats) -> None:
    async with (
        _started(NatsBus(nats.address, "deaths")) as here,
        _started(NatsBus(nats.address, "deaths")) as there,
        here.subscribe("jobs.>") as hints,
    ):
        for death in range(3):
            number = str(death).encode()
            there.publish("jobs.before", number)
            assert await _next(hints) == Hint("jobs.before", number)
            nats.kill()
            await eventually("both notice", lambda: not here.healthy and not there.healthy)
            there.publish("jobs.during", number)
            nats.start()
            assert await _next(hints) == Hint("jobs.during", number)
            await eventually("both are back", lambda: here.healthy and there.healthy)


@pytest.mark.services
@asynchronous
async def test_what_was_published_while_one_was_cut_off_is_told_afterwards(nats: Nats) -> None:
    relay = _Relay(nats.port)
    await relay.open()
    async with (
        _started(NatsBus(nats.address, "cut")) as there,
        _started(NatsBus(f"nats://127.0.0.1:{relay.port}", "cut")) as here,
        here.subscribe("jobs.>") as hints,
        there.subscribe("jobs.>") as beside,
    ):
        there.publish("jobs.a")
        assert (await _next(hints)).topic == "jobs.a"
        await relay.cut()
        await eventually("it notices", lambda: not here.healthy)
        there.publish("jobs.b")
        assert [(await _next(beside)).topic for _ in range(2)] == ["jobs.a", "jobs.b"]
        await relay.open()
        assert (await _next(hints)).topic == "jobs.b"
    await relay.cut()


@pytest.mark.services
@asynchronous
async def test_a_stream_with_other_limits_gets_ours(nats: Nats) -> None:
    client = Client()
    await client.connect(nats.address)
    session = client.jetstream()
    await session.add_stream(
        StreamConfig(name="limits-hints", subjects=["limits.hints.>"], max_msgs=5)
    )
    async with _started(NatsBus(nats.address, "limits")), _started(NatsBus(nats.address, "limits")):
        config = (await session.stream_info("limits-hints")).config
        assert config.max_msgs == 100_000
        assert config.max_bytes is not None
        assert config.max_bytes > 0
        assert config.max_age == 600.0
    await client.close()


class _Relay:
    """A link to a server that can be cut."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, other_writer}
        await asyncio.gather(self._copy(reader, other_writer), self._copy(other_reader, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)


@asynchronous
async def test_a_bus_ends_though_the_library_swallows_a_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending = asyncio.Event()

    class Stubborn:
        """As the library is while it ends a session: it takes the cancellation for its own."""

        async def connect(self, *_: object, **__: object) -> None:
            raise OSError("nobody is there")

        async def close(self) -> None:
            ending.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(2.0)

    monkeypatch.setattr("dure.stores.bus.nats.Client", Stubborn)
    bus = NatsBus("nats://127.0.0.1:1")
    await bus.start()
    await ending.wait()
    async with asyncio.timeout(20.0):
        await bus.close()
