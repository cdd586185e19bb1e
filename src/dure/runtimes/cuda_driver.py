"""The driver's process lock, called through helper processes with a bounded wait each.

Several helpers, since one call may wait for a copy of its target while another container is to be
let go at once. A helper that does not answer in time is killed and replaced. One that hangs inside
the driver does not die of that before the driver lets it, so nobody waits for its end.
"""

import logging
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from enum import IntEnum
from typing import IO

from dure.domain.errors import DureError
from dure.kit.waiting import readable
from dure.runtimes import cuda_helper

_log = logging.getLogger(__name__)

ANSWER_S = 3.0
"""For calls that wait for nothing; measured 0.5 ms, and starting a helper some 0.3 s."""
MOST_READY = 24
"""Helpers that are started before they are needed, at most."""
_AT_ONCE = 4
"""Of them begin together."""
_END_S = 1.0
"""How long a helper that was killed is waited for: it takes milliseconds, unless it hangs."""
_MOST_STUCK = 64
"""Killed helpers that the driver does not let die, at most: each keeps its memory, and a driver
that holds so many does not answer the next one either."""


class LockState(IntEnum):
    """CUprocessState."""

    RUNNING = 0
    LOCKED = 1
    CHECKPOINTED = 2
    FAILED = 3


class Result(IntEnum):
    """The CUresults that are told apart."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OPERATING_SYSTEM = 304
    ILLEGAL_STATE = 401
    NOT_READY = 600
    NOT_SUPPORTED = 801


class DriverHangsError(DureError):
    """A call did not return in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the driver said."""

    code: int
    value: int

    @property
    def ok(self) -> bool:
        return self.code == Result.SUCCESS


class _Helper:
    def __init__(self) -> None:
        environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dure.runtimes.cuda_helper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._out: IO[bytes] = self._process.stdout
        self.asked = ""
        """What it was asked last."""

    def ask(self, request: str, timeout_s: float) -> Answer | None:
        """The answer; None where there is none in time, or the helper died."""
        self.asked = request
        try:
            os.write(self._in.fileno(), request.encode() + b"\n")
        except OSError:
            return None
        line = self._out.readline() if readable([self._out], timeout_s) else b""
        words = line.split()
        return Answer(int(words[0]), int(words[1])) if len(words) == 2 else None

    def end(self) -> bool:
        """Kill it; False: it hangs in the driver, and ends when that lets it."""
        self._process.kill()
        self._in.close()
        self._out.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def outlast(self) -> None:
        """Wait for its end, however long that takes."""
        self._process.wait()


class CudaDriver:
    """Asks the driver from any thread."""

    def __init__(self, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._idle: list[_Helper] = []
        self._alive = 0
        """Helpers that are there or about to be."""
        self._expected = MOST_READY
        """Calls that may wait at a time, as far as was said."""
        self._stuck: dict[_Helper, str] = {}
        """What helpers were asked that were killed and have not ended."""
        self._lock = threading.Lock()
        self._starting = threading.Semaphore(_AT_ONCE)
        self._closed = False

    def expect(self, calls: int) -> None:
        """So many calls may wait at a time: have helpers for them ready; returns at once.

        A helper opens the driver when it starts. Where twenty containers are to be locked while
        they make their contexts, twenty helpers would make the driver's queue twice as long.
        """
        with self._lock:
            self._expected = min(calls, MOST_READY)
            missing = self._expected - self._alive
            if missing <= 0 or self._closed:
                return
            self._alive += missing
        for started in range(missing):
            thread = threading.Thread(target=self._make_ready, name="lock-helper", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no more threads: helpers start when they are needed
                _log.warning("helpers of the CUDA lock are not started ahead (%s)", error)
                self._lost(missing - started)
                return

    @property
    def ready(self) -> int:
        """Helpers that wait to be asked."""
        return len(self._idle)

    def state(self, pid: int) -> LockState | None:
        """A process's state; None where it is no CUDA process or is gone."""
        answer = self._ask(f"state {pid}", self._answer_s)
        return LockState(answer.value) if answer.ok else None

    def lock(self, pid: int, wait_s: float) -> Answer:
        """Hold a process's CUDA calls; waits for the copy that runs, and no longer than asked."""
        return self._ask(f"lock {pid} {int(wait_s * 1000)}", wait_s + self._answer_s)

    def unlock(self, pid: int) -> Answer:
        """Let them go on."""
        return self._ask(f"unlock {pid}", self._answer_s)

    def may_lock(self, pid: int) -> bool:
        """Whether a lock that nobody waits for any more may yet come to be."""
        with self._lock:
            return any(asked.split()[:2] == ["lock", str(pid)] for asked in self._stuck.values())

    def version(self) -> Answer:
        """The CUDA version of the driver, such as 12080, or why there is none."""
        return self._ask("probe", self._answer_s)

    def close(self) -> None:
        """End the helpers."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for helper in idle:
            self._end(helper)

    def _ask(self, request: str, timeout_s: float) -> Answer:
        with self._lock:
            helper = self._idle.pop() if self._idle else None
            if helper is None and len(self._stuck) >= _MOST_STUCK:
                raise DriverHangsError(
                    f"{len(self._stuck)} calls hang in the CUDA driver ({request})",
                    "use --pause-with docker",
                )
            self._alive += helper is None
        try:
            helper = helper or _Helper()
        except OSError as error:
            self._lost()
            raise DureError(f"no helper for the CUDA lock ({error})") from error
        answer = helper.ask(request, timeout_s)
        self._put_back(helper, whole=answer is not None)
        if answer is None:
            raise DriverHangsError(
                f"the CUDA driver did not answer within {timeout_s:g} s ({request})",
                "use --pause-with docker",
            )
        return answer

    def _make_ready(self) -> None:
        """Start one helper and have it open the driver."""
        with self._starting:
            try:
                helper = None if self._closed else _Helper()
            except OSError:
                helper = None  # who needs it tries again, and says what is wrong
            if helper is None:
                self._lost()
                return
            self._put_back(helper, whole=helper.ask("probe", self._answer_s) is not None)

    def _put_back(self, helper: _Helper, *, whole: bool) -> None:
        """A helper has answered, or has to end."""
        with self._lock:
            keep = whole and not self._closed and len(self._idle) < max(1, self._expected)
            if keep:
                self._idle.append(helper)
        if not keep:
            self._end(helper)

    def _end(self, helper: _Helper) -> None:
        """Returns soon, also where the helper hangs: whoever asked has others to let go."""
        ended = helper.end()
        self._lost()
        if ended:
            return
        with self._lock:
            self._stuck[helper] = helper.asked
        _log.error("a helper of the CUDA lock hangs in the driver, and is left to end by itself")
        reaper = threading.Thread(
            target=self._reap, args=(helper,), name="lock-reaper", daemon=True
        )
        try:
            reaper.start()
        except RuntimeError as error:  # no more threads: it stays a zombie, and counts as stuck
            _log.warning("nobody waits for its end (%s)", error)

    def _reap(self, helper: _Helper) -> None:
        helper.outlast()
        with self._lock:
            del self._stuck[helper]

    def _lost(self, helpers: int = 1) -> None:
        with self._lock:
            self._alive -= helpers


def explain(answer: Answer) -> str:
    """A result in words."""
    match answer.code:
        case cuda_helper.NO_LIBRARY:
            return f"{cuda_helper.LIBRARY} is not installed"
        case cuda_helper.NO_SYMBOL:
            return "the driver has no process lock; it needs version 570 or newer"
        case Result.NOT_READY:
            return "the process did not come to rest in time"
        case Result.NOT_SUPPORTED:
            return "the driver does not support it here"
    return f"CUDA error {answer.code}"
