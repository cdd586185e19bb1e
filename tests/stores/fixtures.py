"""Fixtures with databases and servers; the same test runs against each."""

from pathlib import Path

import pytest

from tests.stores.services import Nats, Postgres, shared_nats, shared_postgres

BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.services)]


def fresh_address(backend: str, folder: Path) -> str:
    """The address of a new, empty database."""
    if backend == "sqlite":
        return f"sqlite:///{folder / 'state.db'}"
    server = shared_postgres()
    server.start()
    return server.fresh()


@pytest.fixture(params=BACKENDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new, empty database of each kind."""
    return fresh_address(request.param, tmp_path)


@pytest.fixture
def postgres() -> Postgres:
    """A PostgreSQL that may be killed; running."""
    server = shared_postgres()
    server.start()
    return server


@pytest.fixture
def nats() -> Nats:
    """A NATS that may be killed; running."""
    server = shared_nats()
    server.start()
    return server
