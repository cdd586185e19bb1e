"""Recordings of a running agent: what its machines are told and answer, streamed to who may ask.

The recording goes to the asker, who writes it with his own rights: the agent opens no file. A
machine is copied in its own thread, within some milliseconds; all else is done elsewhere.
"""

import logging
import pickle
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from dure.agent.containers.manager import NodeTap
from dure.agent.desk import Desk
from dure.agent.gpu import Gpu, KernelTap
from dure.agent.registry import ROOT_UID, ForbiddenError
from dure.agent.wire import Peer
from dure.client.recordings import RecordingQuery
from dure.domain.errors import InputError
from dure.domain.units import format_bytes
from dure.kit.images import image_of
from dure.kit.taps import FULL, IN_TIME, Bounds, Tap, poured
from dure.node.machine import NodeMachine
from dure.node.notes import IMAGE, note_settings
from dure.runtimes.recording import entry_line, header_line
from dure.sim.kernel.journal_codec import encode_entry, encode_header

_log = logging.getLogger(__name__)

MOST_AT_ONCE = 4
"""Recordings of one agent."""


@dataclass(frozen=True, slots=True)
class Running:
    """A recording that has begun."""

    tap: Tap[Any]
    head: bytes
    """Its first line."""
    line: Callable[[Any], bytes]
    bounds: Bounds

    async def lines(self) -> AsyncIterator[bytes]:
        """All of it, as it comes."""
        async for data in poured(self.tap, self.line, self.bounds, self.head):
            yield data
        if self.tap.why_over not in (IN_TIME, FULL):
            _log.warning("a recording ended early: %s", self.tap.why_over)


class RecordingDesk:
    """Answers GET /v1/recording."""

    def __init__(self, desk: Desk, uid: int) -> None:
        self._desk = desk
        self._uid = uid
        self._running: list[Tap[Any]] = []

    def begin(self, asked: RecordingQuery, peer: Peer) -> Running:
        """Begin to record for a peer who may see what all tenants do."""
        if peer.uid not in (self._uid, ROOT_UID):
            raise ForbiddenError(
                f"only user {self._uid}, who runs the agent, or root may record all tenants",
                "ask them",
            )
        self._running = [tap for tap in self._running if not tap.why_over]
        if len(self._running) >= MOST_AT_ONCE:
            raise InputError(f"{MOST_AT_ONCE} recordings are under way", "wait until one has ended")
        tap: Tap[Any] = Tap()
        bounds = Bounds(asked.seconds, asked.most_bytes)
        try:
            if asked.level == "node":
                made = Running(tap, self._node_head(tap), _node_line, bounds)
            else:
                made = Running(tap, self._kernel_head(tap, asked.gpu), _kernel_line, bounds)
            if len(made.head) > asked.most_bytes:
                raise InputError(
                    f"what the machine knows takes {format_bytes(len(made.head))} by itself",
                    "let the recording be larger with --most",
                )
        except BaseException:
            tap.end("it could not begin")
            raise
        self._running.append(tap)
        return made

    def _kernel_head(self, tap: KernelTap, gpu: str) -> bytes:
        service = self._desk.service
        actor = service.actor_of(gpu) if gpu else service.actors[0]

        def begin(on: Gpu) -> bytes:
            on.taps.append(tap)
            return pickle.dumps(on.machine)

        machine = pickle.loads(actor.call(begin))
        return encode_header(machine.settings, machine) + b"\n"

    def _node_head(self, tap: NodeTap) -> bytes:
        machine = self._desk.container_desk().manager.begin_record(tap)
        assert isinstance(machine, NodeMachine)
        header = {**note_settings(machine.settings), IMAGE: image_of(machine)}
        return header_line(header).encode()


def _kernel_line(entry: Any) -> bytes:
    return encode_entry(*entry) + b"\n"


def _node_line(entry: Any) -> bytes:
    return entry_line(*entry).encode()
