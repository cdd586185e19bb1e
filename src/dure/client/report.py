"""What a program may say of itself: latencies, progress, load, what users find. Never harms it.

Inside a program that runs under Dure the shim is already loaded and takes a report without a system
call. Elsewhere it goes to the agent named by DURE_SOCKET. Progress of a job of the fleet also goes
to the file its cluster names in DURE_PROGRESS_FILE, and checkpoints are asked for and answered in
the folder DURE_CONTROL. Without any of them it goes nowhere.
"""

import ctypes
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from dure.client.places import SOCKET_VARIABLE, TENANT_VARIABLE, Places
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_S

PROGRESS_VARIABLE = "DURE_PROGRESS_FILE"
"""Names the file in which a job of the fleet says how far it is."""
CONTROL_VARIABLE = "DURE_CONTROL"
"""Names the folder in which a job of the fleet is asked for checkpoints, and answers."""
CHECKPOINT_FILE = "checkpoint"
"""There: the number of the checkpoint that is asked for; no file, or an empty one: none is."""
CHECKPOINT_DONE_FILE = "checkpoint-done"
"""There: the number of the last one that is saved, where the folder can be written."""
_MOST_NOTE = 500
JOB_VARIABLE = "DURE_JOB"
SERVER_VARIABLE = "DURE_SERVER"
_told: set[int] = set()
"""Checkpoints that the centre was told of itself."""
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
    written = _to_file({"done": done / total, "saved": saved / total})
    return _to_agent(done, total) or written


def checkpoint_requested() -> int:
    """Number of the checkpoint that this job is asked to save, because it is about to be moved; 0:
    none is asked for, or it is saved already. A look into a file: cheap enough for every step."""
    folder = os.environ.get(CONTROL_VARIABLE)
    if not folder:
        return 0
    wanted = _number_in(Path(folder, CHECKPOINT_FILE))
    saved = max((_number_in(Path(folder, CHECKPOINT_DONE_FILE)), *_told))
    return wanted if wanted > saved else 0


def checkpoint_done(number: int) -> bool:
    """What was asked for is saved; whether anybody heard it.

    The job may be ended from now on. What it does after this is done again elsewhere, so that it
    had best wait; it must not exit by itself, which would mean that all its work is done.
    """
    folder = os.environ.get(CONTROL_VARIABLE)
    if folder and _replaced(Path(folder, CHECKPOINT_DONE_FILE), f"{number}\n"):
        return True
    if not _to_centre(number):
        return False
    _told.add(number)
    return True


def report_load(*, requests_per_s: float, queue: float = 0.0, latency_s: float = 0.0) -> bool:
    """So much was asked of this instance of a service lately, so many wait, and answers took so
    long at the 95th percentile; whether anybody heard it."""
    figures = (requests_per_s, queue, latency_s)
    if not all(0.0 <= each < float("inf") for each in figures):
        return False
    said = {
        "requests_per_s": requests_per_s,
        "queue_length": queue,
        "latency_ms": latency_s * 1000.0,
    }
    return _to_file(said)


def report_feedback(*, good: bool, note: str = "") -> bool:
    """A user of this program finds it good, or bad; whether anybody heard it."""
    tenant = os.environ.get(TENANT_VARIABLE)
    verdict: Literal["good", "bad"] = "good" if good else "bad"
    return _over_api(lambda client: client.feedback(tenant or "", verdict, note[:_MOST_NOTE]))


def _to_file(said: Mapping[str, float]) -> bool:
    """Replace what the file says: whoever reads it sees the old or the new, never a part."""
    name = os.environ.get(PROGRESS_VARIABLE)
    if not name:
        return False
    return _replaced(Path(name), json.dumps(dict(said)))


def _replaced(file: Path, text: str) -> bool:
    draft = Path(f"{file}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(file)
    except OSError:
        return False
    return True


def _number_in(file: Path) -> int:
    try:
        return int(file.read_text(encoding="utf-8").strip() or 0)
    except (OSError, ValueError):
        return 0


def _to_centre(number: int) -> bool:
    """Where the folder cannot be written, as in a Pod: by the centre's own interface."""
    job = os.environ.get(JOB_VARIABLE)
    if not job or not os.environ.get(SERVER_VARIABLE):
        return False
    from dure.client.fleet import FleetClient, calls  # noqa: PLC0415, slow and seldom needed
    from dure.client.fleet.config import load_context  # noqa: PLC0415

    try:
        with FleetClient(load_context()) as client:
            client.do(calls.checkpoint_done(job, number))
    except DureError:
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
