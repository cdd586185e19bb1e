"""The centre of a fleet under test: some servers on one database, and who asks them."""

import json
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import yaml
from psycopg.rows import dict_row

from dure.client.fleet import FleetClient
from dure.client.fleet.config import Context
from dure.client.fleet.patience import Patience
from tests.e2e.fleet.parts import DURE, WAIT_S, Part, dure_part, wait_for
from tests.kube.ports import free_port
from tests.stores.services import Nats, Postgres

_TOKEN_FILE = "admin-token"
_PATIENCE = Patience(within_s=WAIT_S, answer_s=15.0)
"""Faults last seconds; whoever asks goes on asking."""


class Centre:
    """Servers `server-0` …, PostgreSQL and NATS, each a process that can be killed."""

    def __init__(
        self, folder: Path, postgres: Postgres, nats: Nats, settings: dict[str, float]
    ) -> None:
        self.folder = folder
        self.postgres, self.nats = postgres, nats
        self.address = postgres.fresh()
        self.settings = settings
        self.servers: list[Part] = []
        self.rest_ports: list[int] = []
        self.grpc_ports: list[int] = []
        self._token = ""

    def add_server(self) -> Part:
        """One more; not started."""
        number = len(self.servers)
        rest, grpc = free_port(), free_port()
        config = self.folder / "settings.yaml"
        config.write_text(yaml.safe_dump(self.settings), encoding="utf-8")
        words = (
            *("server", "--data", self.folder / f"data-{number}", "--config", config),
            *("--database", self.address, "--bus", self.nats.address),
            *("--listen", f"127.0.0.1:{rest}", "--grpc", f"127.0.0.1:{grpc}"),
        )
        url = f"http://127.0.0.1:{rest}/readyz"
        part = dure_part(f"server-{number}", self.folder, words, lambda: _answers(url), [])
        self.servers.append(part)
        self.rest_ports.append(rest)
        self.grpc_ports.append(grpc)
        return part

    def start(self) -> None:
        """Start servers, the first alone: it makes the first token."""
        first, *rest = self.servers
        first.start()
        wait_for("the first server answers", lambda: first.is_ready)
        self._token = (self.folder / "data-0" / _TOKEN_FILE).read_text().strip()
        for part in rest:
            part.start()
        wait_for("all servers answer", lambda: all(part.is_ready for part in self.servers))

    # Whoever asks

    @property
    def urls(self) -> tuple[str, ...]:
        """Where people ask."""
        return tuple(f"http://127.0.0.1:{port}" for port in self.rest_ports)

    def client(self) -> FleetClient:
        """One for a thread, as the administrator; tries for as long as any fault lasts."""
        return FleetClient(Context(self.urls, self._token), _PATIENCE)

    def dure(self, *words: str, within_s: float = WAIT_S) -> str:
        """What a `dure` command of a person prints; tried again while no server answers."""
        environment = {**os.environ, "DURE_SERVER": ",".join(self.urls), "DURE_TOKEN": self._token}
        until_s = time.monotonic() + within_s
        while True:
            done = subprocess.run(
                [*DURE, *words], env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < until_s, done.stderr
            time.sleep(0.5)

    def submit_files(self, file: Path, key: str) -> list[str]:
        """Submit by the command line; told again under the same key, jobs are stored once."""
        ids: list[str] = json.loads(self.dure("submit", str(file), "--key", key, "--json"))["ids"]
        return ids

    # Whoever looks behind the interface

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """What the database says, as soon as it answers."""
        until_s = time.monotonic() + WAIT_S
        while True:
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(
                    self.address, autocommit=True, connect_timeout=5, row_factory=dict_row
                ) as connection,
            ):
                return connection.execute(query.encode(), values).fetchall()
            assert time.monotonic() < until_s, "the database does not answer"
            time.sleep(0.2)

    def leader(self) -> Part | None:
        """The server whose lease it is."""
        found = self.rows("SELECT holder FROM leases WHERE name = 'leader'")
        pid = int(found[0]["holder"].rpartition(":")[2]) if found and found[0]["holder"] else 0
        for part in self.servers:
            if part.program.runs and part.program.pid == pid:
                return part
        return None

    def close(self) -> None:
        """End them."""
        for part in self.servers:
            part.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5.0).is_success
    except httpx.HTTPError:
        return False
