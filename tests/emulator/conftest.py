"""Emulated machines, as fixtures."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.emulator.driving import Emulator, build, machine

MakeMachine = Callable[..., Emulator]


@pytest.fixture(scope="session")
def lib() -> Path:
    """The built emulator and tenants."""
    return build()


@pytest.fixture
def make_machine(lib: Path) -> Iterator[MakeMachine]:
    """Makes machines with the settings given; socket paths must be short, so not in tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="dure-emu-"))
    with ExitStack() as stack:

        def make(**settings: object) -> Emulator:
            defaults: dict[str, object] = {"idle_exit_s": 2, "memory_mib": 8192, "context_mib": 64}
            number = len(list(folder.iterdir()))
            where = folder / str(number)
            return stack.enter_context(machine(lib, where, **(defaults | settings)))

        yield make
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def emulator(make_machine: MakeMachine) -> Emulator:
    """A machine with one GPU that processes share in time slices."""
    return make_machine()


@pytest.fixture
def mps(make_machine: MakeMachine) -> Emulator:
    """A machine with one GPU on which processes run side by side."""
    return make_machine(mode="mps")
