"""What a program may say of itself: latencies, progress, what users find. Never harms the program.

Inside a program that runs under Dure the shim is already loaded and takes a report without a system
call. Elsewhere it goes to the agent named by DURE_SOCKET. Progress of a job of the fleet also goes
to the file its cluster names in DURE_PROGRESS_FILE. Without any of them it goes nowhere.
"""

import ctypes
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from dure.client.places import SOCKET_VARIABLE, TENANT_VARIABLE, Places
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_S

PROGRESS_VARIABLE = "DURE_PROGRESS_FILE"
"""Names the file in which a job of the fleet says how far it is."""
_MOST_NOTE = 500
_TIMEOUT_S = 1.0
"""A report is not worth waiting longer for."""


def report(*, latency_s: float) -> bool:
    """One request took so long, from its arrival; whether anybody heard it."""
    if not latency_s >= 0.0:
        return False
    latency_ns = min(round(latency_s * NS_PER_S), 2**62)
    take = _shim_function("dure_report_latency_ns", ctypes.c_uint64)
    if take is not None:
        take(latency_ns)
        return True
    tenant = os.environ.get(TENANT_VARIABLE)
    return _over_api(lambda client: client.report_latencies(tenant or "", (latency_ns,)))


def report_progress(done: float, total: float, saved: float = 0.0) -> bool:
    """So much of so much is done, and so much of that a checkpoint has saved; whether anybody
    heard it."""
    if not (done >= 0.0 and total > 0.0 and saved >= 0.0):
        return False
    written = _to_file(done / total, saved / total)
    return _to_agent(done, total) or written


def report_feedback(*, good: bool, note: str = "") -> bool:
    """A user of this program finds it good, or bad; whether anybody heard it."""
    tenant = os.environ.get(TENANT_VARIABLE)
    verdict: Literal["good", "bad"] = "good" if good else "bad"
    return _over_api(lambda client: client.feedback(tenant or "", verdict, note[:_MOST_NOTE]))


def _to_file(done_share: float, saved_share: float) -> bool:
    """Replace what the file says: whoever reads it sees the old or the new, never a part."""
    name = os.environ.get(PROGRESS_VARIABLE)
    if not name:
        return False
    draft = Path(f"{name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps({"done": done_share, "saved": saved_share}), encoding="utf-8")
        draft.replace(name)
    except OSError:
        return False
    return True


def _to_agent(done: float, total: float) -> bool:
    take = _shim_function("dure_report_progress", ctypes.c_double, ctypes.c_double)
    if take is not None:
        take(done, total)
        return True
    tenant = os.environ.get(TENANT_VARIABLE)
    return _over_api(lambda client: client.report_progress(tenant or "", done, total))


def _shim_function(name: str, *arguments: type) -> Callable[..., object] | None:
    """A function of the shim, if it is loaded into this very process."""
    try:
        function = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    function.argtypes = arguments
    function.restype = None
    return function  # type: ignore[no-any-return]


def _over_api(send: Callable[..., None]) -> bool:
    socket = os.environ.get(SOCKET_VARIABLE)
    if not socket or not os.environ.get(TENANT_VARIABLE):
        return False
    from dure.client.api import AgentClient  # noqa: PLC0415, slow to load and seldom needed

    try:
        with AgentClient(Places(Path(socket).parent), _TIMEOUT_S) as client:
            send(client)
    except DureError:
        return False
    return True
