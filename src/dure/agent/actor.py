"""One GPU's thread: ticks on time, and does in between what others ask of the GPU."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dure.agent.gpu import Gpu
from dure.domain.errors import DureError

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

TICK_NS = 20_000_000
"""At most: the plan follows what happened by one tick."""
_IDLE_TICK_NS = 200_000_000
"""With no process on the GPU there is nothing to decide."""
_ANSWER_S = 10.0
_MORE_NS = 5_000_000
"""A process that registers waits for the answer and is seldom alone: for so long after one, a tick
waits for the next."""
_MOST_LATE_NS = 100_000_000
"""And never longer than this in all."""

_Ask = tuple[Callable[[Gpu], Any], "Future[Any]", bool]


@dataclass(slots=True)
class Actor:
    """Owns a `Gpu`; nobody else touches it."""

    gpu: Gpu
    last_round_ns: int = field(default_factory=time.monotonic_ns)
    tick_took_ns: int = 0
    _asks: "queue.SimpleQueue[_Ask | None]" = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    @property
    def uuid(self) -> str:
        return self.gpu.identity.uuid

    def start(self) -> None:
        """Begin to tick."""
        name = f"gpu-{self.gpu.identity.index}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what was asked, then end."""
        self._asks.put(None)
        if self._thread is not None:
            self._thread.join(_ANSWER_S)

    def call(self, act: Callable[[Gpu], _T], *, more: bool = False) -> _T:
        """Have something done in the GPU's thread; its result, or what it raised. `more`: the like
        may follow at once, and goes before a tick."""
        answer: Future[_T] = Future()
        self._asks.put((act, answer, more))
        try:
            return answer.result(_ANSWER_S)
        except FutureTimeoutError as error:
            raise DureError(
                f"GPU {self.gpu.identity.index} is busy deciding", "try again; see the agent's log"
            ) from error

    def _run(self) -> None:
        next_ns = time.monotonic_ns()
        more_ns = 0
        while True:
            due_ns = max(next_ns, min(more_ns, next_ns + _MOST_LATE_NS))
            wait_s = (due_ns - time.monotonic_ns()) / 1e9
            if wait_s <= 0:
                self._tick()
                pause_ns = TICK_NS if self.gpu.clients else _IDLE_TICK_NS
                next_ns = max(next_ns + pause_ns, time.monotonic_ns() + pause_ns // 4)
                continue
            try:
                ask = self._asks.get(timeout=wait_s)
            except queue.Empty:
                continue
            if ask is None:
                return
            act, answer, more = ask
            self._do(act, answer)
            if more:
                more_ns = time.monotonic_ns() + _MORE_NS
            if self.gpu.clients:
                next_ns = min(next_ns, time.monotonic_ns() + TICK_NS)

    def _tick(self) -> None:
        began_ns = time.monotonic_ns()
        try:
            self.gpu.tick()
        except Exception:  # noqa: BLE001, logged with its trace
            _log.exception("GPU %d: a tick failed; the next one tries again", self._index)
            self.gpu.open_gate("a tick failed; see the log")
        now_ns = time.monotonic_ns()
        self.tick_took_ns = now_ns - began_ns
        self.last_round_ns = now_ns

    def _do(self, act: Callable[[Gpu], Any], answer: "Future[Any]") -> None:
        try:
            answer.set_result(act(self.gpu))
        except BaseException as error:  # noqa: BLE001, it belongs to whoever asked
            answer.set_exception(error)
        self.last_round_ns = time.monotonic_ns()

    @property
    def _index(self) -> int:
        return self.gpu.identity.index
