"""Settings shared by every test."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("dure", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("dure")

# What this process ignores, as under nohup or in the background, programs would inherit.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)

_PROCESSES = {"agent", "bench", "e2e", "emulator", "faults", "native", "shim"}
"""Folders whose tests run several processes against the clock of the machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where a starved machine can fail a test of processes, it gets two more tries."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in _PROCESSES:
            item.add_marker(pytest.mark.flaky(reruns=2))
