"""PostgreSQL and NATS on loopback, the tests' own: found, started, killed, started again."""

import atexit
import functools
import itertools
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

from tests.kube.ports import free_port
from tests.kube.programs import Program, wait_until

REQUIRE_VARIABLE = "DURE_REQUIRE_SERVICES"
"""Set to 1 where a test must not be left out for want of programs, as in CI."""
_DEBIAN = Path("/usr/lib/postgresql")
LIMIT_S = 120.0
_databases = itertools.count()


def find_program(name: str) -> str:
    """The path of a program; skips the test, or fails it where the services are required."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *_debian_folders()])
    found = shutil.which(name, path=path)
    if found is not None:
        return str(Path(found).resolve())
    reason = f"the program {name} is missing; tools/ensure_services installs it on Debian"
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def _debian_folders() -> list[str]:
    versions = [folder for folder in _DEBIAN.glob("*") if folder.name.isdigit()]
    return [str(folder / "bin") for folder in sorted(versions, key=lambda f: -int(f.name))]


def _unprivileged() -> tuple[list[str], int | None]:
    """PostgreSQL refuses to run as root: how to be somebody else, and that one's id."""
    if os.geteuid() != 0:
        return [], None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    change = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    # Changing the user forgets who it is to die with.
    return [*change, "--pdeathsig", "KILL"], user.pw_uid


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Postgres:
    """One server with durable commits, and as many databases as are asked for."""

    def __init__(self) -> None:
        initdb, postgres = find_program("initdb"), find_program("postgres")
        self.folder = Path(tempfile.mkdtemp(prefix="dure-postgres-"))
        self.port = free_port()
        self._password = secrets.token_hex(16)
        become, user_id = _unprivileged()
        self._data = self.folder / "data"
        secret = self.folder / "password"
        secret.write_text(self._password, encoding="utf-8")
        if user_id is not None:
            for place in (self.folder, secret):
                os.chown(place, user_id, -1)
        made = subprocess.run(
            [
                *(*become, initdb, "--pgdata", str(self._data), "--username", "dure"),
                *("--auth", "scram-sha-256", "--pwfile", str(secret), "--encoding", "UTF8"),
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "on",
            "max_connections": 100,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        # The log must be made by whom started the test, the rest by PostgreSQL's user.
        self.program = Program(
            "postgres", [*become, postgres, "-D", self._data, *options], self.folder
        )

    def start(self) -> None:
        """Start it where it does not run, and wait until it takes connections."""
        until = time.monotonic() + LIMIT_S
        while not self.ready():
            assert time.monotonic() < until, self.program.log()[-3000:]
            # Right after a kill its old children may still hold the memory; it ends and tries anew.
            self.program.start()
            time.sleep(0.05)

    def kill(self) -> None:
        """End the server at once, in the middle of whatever it does."""
        self.program.kill()

    def close(self) -> None:
        """End it, and leave nothing behind."""
        self.program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, database: str) -> str:
        """Where a database is."""
        return f"postgresql://dure:{self._password}@127.0.0.1:{self.port}/{database}"

    def fresh(self) -> str:
        """The address of a new, empty database."""
        name = f"test_{os.getpid()}_{next(_databases)}"
        with self._admin() as admin:
            admin.execute(f"CREATE DATABASE {name}".encode())
        return self.address(name)

    def ready(self) -> bool:
        """Whether it takes connections."""
        if not self.program.runs:
            return False
        try:
            self._admin().close()
        except psycopg.OperationalError:
            return False
        return True

    def _admin(self) -> psycopg.Connection:
        return psycopg.connect(self.address("postgres"), autocommit=True, connect_timeout=5)


class Nats:
    """One server with JetStream, which keeps its streams in files."""

    def __init__(self) -> None:
        server = find_program("nats-server")
        self.folder = Path(tempfile.mkdtemp(prefix="dure-nats-"))
        self.port = free_port()
        self.program = Program(
            "nats",
            [server, "-js", "-sd", self.folder / "streams", "-a", "127.0.0.1", "-p", self.port],
            self.folder,
        )

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it where it does not run, and wait until it takes connections."""
        self.program.start()
        wait_until("NATS takes connections", self.ready, LIMIT_S)

    def ready(self) -> bool:
        """Whether it takes connections."""
        return _answers(self.port)

    def kill(self) -> None:
        """End it at once."""
        self.program.kill()

    def close(self) -> None:
        """End it, and leave nothing behind."""
        self.program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def shared_postgres() -> Postgres:
    """The one PostgreSQL of this process; gone when it ends."""
    server = Postgres()
    atexit.register(server.close)
    return server


@functools.cache
def shared_nats() -> Nats:
    """The one NATS of this process; gone when it ends."""
    server = Nats()
    atexit.register(server.close)
    return server
