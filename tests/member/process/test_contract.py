"""The carrier of local processes keeps the contract of carriers."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dure.domain.fleet.programs import Program
from dure.member.process.carrier import ProcessCarrier
from tests.contracts.carriers import CarrierContract
from tests.member.core.factories import CLUSTER
from tests.member.process.beds import end_all, nodes_in, shell


@dataclass
class ProcessBed:
    """A folder."""

    folder: Path
    namespace: str = "team"
    nodes: tuple[str, ...] = ("a", "b")

    @asynccontextmanager
    async def carrier(self) -> AsyncIterator[ProcessCarrier]:
        made = ProcessCarrier(CLUSTER, nodes_in(self.folder), self.folder / "state")
        try:
            yield made
        finally:
            await made.close()

    def program(self, runs_for_s: float | None = None, exit_code: int = 0) -> Program:
        line = f"sleep {600 if runs_for_s is None else runs_for_s}; exit {exit_code}"
        return Program(command=shell(line), grace_s=1.0)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[ProcessBed]:
    yield ProcessBed(tmp_path)
    end_all(tmp_path)


class TestProcessCarrier(CarrierContract):
    """All rules."""
