"""Options and fixtures of runs of whole fleets."""

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet.beds import Bed
from tests.e2e.fleet.centre import Centre
from tests.e2e.fleet.fleet import Fleet
from tests.stores.fixtures import nats, postgres
from tests.stores.services import Nats, Postgres

__all__ = ["nats", "postgres"]

MakeFleet = Callable[..., Fleet]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of `make test-fleet`."""
    parser.addoption("--seed", type=int, help="of jobs and faults; random and printed without")
    parser.addoption("--summary", type=Path, help="file for what the runs of a fleet showed")
    parser.addoption("--keep", action="store_true", help="leave the folders of fleets as they are")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Of jobs and faults."""
    stated: int | None = request.config.getoption("--seed", default=None)
    return random.randrange(10**6) if stated is None else stated


@pytest.fixture
def summarise(request: pytest.FixtureRequest) -> Callable[[Any], None]:
    """Keeps what a run showed, by the test's name."""

    def keep(figures: Any) -> None:
        file: Path | None = request.config.getoption("--summary", default=None)
        if file is None:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        kept[request.node.name] = figures if isinstance(figures, dict) else asdict(figures)
        file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")

    return keep


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A fleet's own."""
    made = Path(tempfile.mkdtemp(prefix="dure-fleet-"))
    yield made
    if not request.config.getoption("--keep", default=False):
        shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def make_fleet(folder: Path, postgres: Postgres, nats: Nats) -> Iterator[MakeFleet]:
    """Makes a running fleet of clusters; it is ended after the test."""
    made: list[Fleet] = []

    def make(beds: list[Bed], **settings: float) -> Fleet:
        fleet = Fleet(folder, Centre(folder, postgres, nats, settings), beds)
        made.append(fleet)
        fleet.start()
        return fleet

    yield make
    for fleet in made:
        fleet.close()
    postgres.start()
    nats.start()
