"""Ending processes so that nobody else is harmed: off the GPU first, then asked, then killed."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from dure.agent.mps import MpsDaemon
from dure.client.schema import EndAnswer
from dure.kit.waiting import readable


def end_processes(pids: Sequence[int], daemon: MpsDaemon | None, grace_s: float) -> EndAnswer:
    """End these processes; those that do not go within the grace are killed."""
    handles: dict[int, int] = {}
    for pid in pids:
        with suppress(OSError):
            handles[pid] = os.pidfd_open(pid)
    try:
        for pid, handle in handles.items():
            if daemon is not None:
                daemon.terminate(pid)
            _send(handle, signal.SIGTERM)
        left = _wait(handles, grace_s)
        for pid in left:
            _send(handles[pid], signal.SIGKILL)
        return EndAnswer(asked=tuple(handles), killed=tuple(left))
    finally:
        for handle in handles.values():
            os.close(handle)


def _send(handle: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


def _wait(handles: dict[int, int], grace_s: float) -> list[int]:
    """Those still there after the grace."""
    by_handle = {handle: pid for pid, handle in handles.items()}
    until = time.monotonic() + grace_s
    while by_handle and (rest := until - time.monotonic()) > 0:
        for handle in readable(by_handle, rest):
            del by_handle[handle]
    return sorted(by_handle.values())
