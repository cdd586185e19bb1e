"""Machines with an agent to be killed, as fixtures."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.faults.world import ROOT, World

MakeWorld = Callable[..., World]


@pytest.fixture(scope="session")
def built() -> None:
    """The C parts as their sources are now."""
    subprocess.run([sys.executable, str(ROOT / "native" / "build.py")], check=True)


@pytest.fixture
def make_world(built: None) -> Iterator[MakeWorld]:
    """Makes machines with the emulator's settings given."""
    with ExitStack() as ends:

        def make(**settings: object) -> World:
            folder = Path(tempfile.mkdtemp(prefix="dure-f-"))  # short: socket paths have a limit
            ends.callback(shutil.rmtree, folder, ignore_errors=True)
            return ends.enter_context(closing(World(folder, **settings)))

        yield make


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """A machine with one GPU whose tenants are kept apart."""
    return make_world()
