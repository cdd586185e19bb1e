"""What the shim's tests share: everything built once, and an agent per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shim.agents import StubAgent
from tests.shim.kit import Kit, build_kit


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    """The shim as it is installed, with a small driver."""
    return build_kit(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[StubAgent]:
    """An agent that lets everybody in and gates nobody."""
    agent = StubAgent(tmp_path / "shim.sock")
    yield agent
    agent.close()
