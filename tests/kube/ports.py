"""Ports that no other test takes: locked for as long as this process lives.

A port from the system's own range could be given to somebody's outgoing connection between the look
and the use, so these lie below it.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

_FIRST, _LAST = 20_000, 32_000
"""Below Linux's default range of ephemeral ports, which begins at 32,768."""
_FOLDER = Path(tempfile.gettempdir()) / "dure-test-ports"

_held: list[int] = []
"""File descriptors with the locks; closed by the system when the process ends."""


def free_port() -> int:
    """A port of the loopback interface on which nobody listens and no other test will."""
    _FOLDER.mkdir(mode=0o777, exist_ok=True)
    for port in random.sample(range(_FIRST, _LAST), _LAST - _FIRST):
        if _locked(port):
            return port
    raise AssertionError(f"no port between {_FIRST} and {_LAST} is free")


def _locked(port: int) -> bool:
    lock = os.open(_FOLDER / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(lock)
        return False
    _held.append(lock)
    return True
