"""The agent's end of the connection to its watchdog: beats, and whether somebody answers.

The watchdog learns of the agent's death by the end of this connection, so no other process may have
it: the descriptor is not inherited. Beats are sent only while the thread that decides comes round,
so that a hang counts as one though this thread goes on.
"""

import logging
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dure.agent.containers import watchdog
from dure.kit.waiting import readable

_log = logging.getLogger(__name__)

BEAT_S = 0.25
SILENT_S = 1.5
"""A watchdog that has not answered for so long is not there."""
STUCK_S = 2.0
"""Deciding that has not come round for so long hangs."""
_START_AGAIN_S = 3.0
_ANSWER_BYTES = 64


class Guard:
    """Keeps the connection; tells changes in a thread of its own."""

    def __init__(
        self,
        folder: Path,
        last_round_ns: Callable[[], int],
        on_change: Callable[[bool], None],
        *,
        start_one: bool = False,
    ) -> None:
        """`start_one`: where no watchdog answers, start one; else it has its own unit."""
        self._folder = folder
        self._last_round_ns = last_round_ns
        self._on_change = on_change
        self._start_one = start_one
        self._started_s = -_START_AGAIN_S
        self._connection: socket.socket | None = None
        self._answered_s = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.present = False
        """Whether a watchdog answers."""

    def start(self) -> None:
        """Connect, and go on trying."""
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the connection; the watchdog then lets go whatever is still owed."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._turn()
            except Exception:  # noqa: BLE001, logged with its trace
                _log.exception("the connection to the watchdog failed; it is made again")
                self._lose()
            self._tell()
        self._lose()

    def _turn(self) -> None:
        if self._connection is None and not self._connect():
            self._stop.wait(BEAT_S)
            return
        assert self._connection is not None
        if time.monotonic_ns() - self._last_round_ns() < STUCK_S * 1e9:
            try:
                self._connection.send(watchdog.BEAT)
            except OSError:
                self._lose()
                return
        self._listen(time.monotonic() + BEAT_S)

    def _listen(self, until_s: float) -> None:
        """Hear answers, and the end of the connection at once."""
        while self._connection is not None and not self._stop.is_set():
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not readable([self._connection], left_s):
                return
            try:
                said = self._connection.recv(_ANSWER_BYTES)
            except OSError:
                said = b""
            if not said:
                self._lose()
                return
            self._answered_s = time.monotonic()
            self._tell()

    def _connect(self) -> bool:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.settimeout(BEAT_S)
            connection.connect(str(self._folder / watchdog.SOCKET_NAME))
        except OSError:
            connection.close()
            self._help()
            return False
        self._connection = connection
        self._answered_s = 0.0
        return True

    def _help(self) -> None:
        """Start a watchdog where that is ours to do."""
        now_s = time.monotonic()
        if not self._start_one or now_s - self._started_s < _START_AGAIN_S:
            return
        self._started_s = now_s
        try:
            watchdog.start(self._folder)
        except (OSError, subprocess.SubprocessError) as error:
            _log.warning("the watchdog could not be started (%s)", error)

    def _lose(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None
        self._answered_s = 0.0

    def _tell(self) -> None:
        present = self._connection is not None and time.monotonic() - self._answered_s < SILENT_S
        if present != self.present:
            self.present = present
            self._on_change(present)
