"""The centre of deploy/compose/centre.yaml with its own command lines: real servers, PostgreSQL,
NATS with a password, TLS made as the guide says. Names and ports are this machine's."""

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.ports import free_port
from tests.kube.programs import LIMIT_S, ROOT, Program, wait_until
from tests.stores.services import Postgres, find_program

pytestmark = pytest.mark.services

COMPOSE = ROOT / "deploy" / "compose" / "centre.yaml"
DURE = [sys.executable, "-c", "from dure.cli.main import main; main()"]
JOB = """
name: hello
kind: batch
tenant: team
command: [sh, -c, 'echo "hello $DURE_ATTEMPT"']
resources: {memory: 1GiB}
work: 1m
"""


class Centre:
    """Both servers, what they stand on, one cluster of processes, and a person's commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compose: Any = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
        guide = (ROOT / "docs" / "guide" / "fleet-operating.md").read_text(encoding="utf-8")
        script = guide.partition("```sh\n")[2].partition("```")[0]
        self.sh(script)
        self.postgres = Postgres()
        self.nats_port = free_port()
        self.password = secrets.token_hex(16)
        words = self.compose["services"]["nats"]["command"]
        given = ["/data", "${NATS_PASSWORD:?make .env first}"]
        told = dict(zip(given, [str(folder / "nats"), self.password], strict=True))
        line = [told.get(word, word) for word in words]
        at = ["-a", "127.0.0.1", "-p", str(self.nats_port)]
        self.nats = Program("nats", [find_program("nats-server"), *line, *at], folder)
        self.ports = {name: (free_port(), free_port()) for name in ("server-1", "server-2")}
        self.postgres.start()
        self.database = self.postgres.fresh()
        self.nats.start()
        self.servers = {name: self.server(name) for name in self.ports}
        self.member: Program | None = None

    def server(self, name: str) -> Program:
        rest, grpc = self.ports[name]
        told = self.compose["services"][name]
        line = (
            told["command"]
            .replace("0.0.0.0:7600", f"127.0.0.1:{rest}")
            .replace("0.0.0.0:7601", f"127.0.0.1:{grpc}")
            .replace(f"https://{name}:7600", f"https://localhost:{rest}")
            .replace("/etc/dure/tls", str(self.folder))
        )
        env = self.environment(name)
        assert set(env) == set(told["environment"]) - {"NUMBA_CACHE_DIR"}
        stated = [f"{key}={value}" for key, value in env.items()]
        return Program(name, ["env", *stated, *DURE, *line.split()], self.folder)

    def environment(self, name: str) -> dict[str, str]:
        bus = f"nats://dure:{self.password}@127.0.0.1:{self.nats_port}"
        return {
            "DURE_DATABASE": self.database,
            "DURE_BUS": bus,
            "XDG_STATE_HOME": str(self.folder / name),
            "SSL_CERT_FILE": str(self.folder / "ca.crt"),
        }

    def urls(self) -> list[str]:
        return [f"https://localhost:{rest}" for rest, _ in self.ports.values()]

    def sh(self, script: str) -> None:
        subprocess.run(
            ["sh", "-euc", script],
            cwd=self.folder,
            check=True,
            capture_output=True,
            timeout=LIMIT_S,
        )

    def dure(self, *words: str, only: str = "", **env: str) -> str:
        """One command of a person; `only`: the server it asks."""
        own = {"XDG_CONFIG_HOME": str(self.folder / "config"), **env}
        if only:
            token = (self.folder / "admin").read_text(encoding="utf-8").strip()
            url = f"https://localhost:{self.ports[only][0]}"
            own |= {"DURE_SERVER": url, "DURE_TOKEN": token}
            own["DURE_CA"] = str(self.folder / "ca.crt")
        done = subprocess.run(
            [*DURE, *words],
            cwd=self.folder,
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}{self.words()}"
        return done.stdout

    def join(self) -> None:
        """Log in, and let a cluster of processes join."""
        self.dure("server", "migrate", **self.environment("server-1"))
        admin = self.dure("server", "token", "create", **self.environment("server-1"))
        (self.folder / "admin").write_text(admin, encoding="utf-8")
        for program in self.servers.values():
            program.start()
        for name in self.servers:
            wait_until(f"{name} answers", lambda name=name: self.answers(name))  # type: ignore[misc]
        self.dure("login", *self.urls(), "--ca", "ca.crt", "--token", admin.strip())
        (self.folder / "tenant.yaml").write_text("title: A team\n", encoding="utf-8")
        self.dure("fleet", "tenants", "set", "team", "tenant.yaml")
        token = self.dure("clusters", "add", "lab", "--kind", "process")
        (self.folder / "lab.token").write_text(token, encoding="utf-8")
        (self.folder / "job.yaml").write_text(JOB, encoding="utf-8")
        shutil.copy(ROOT / "examples" / "clusters" / "nodes.yaml", self.folder)
        doors = [f"--server=https://localhost:{grpc}" for _, grpc in self.ports.values()]
        files = ["--token-file=lab.token", "--nodes=nodes.yaml", "--state=lab", "--ca=ca.crt"]
        line = ["member", "--cluster=lab", "--kind=process", *doors, *files]
        self.member = Program("member", [*DURE, *line], self.folder)
        self.member.start()

    def answers(self, name: str) -> bool:
        self.servers[name].pid  # noqa: B018 - fails with its log where it has ended
        check = ["openssl", "s_client", "-connect", f"localhost:{self.ports[name][0]}"]
        trust = ["-CAfile", "ca.crt", "-verify_return_error", "-verify_hostname", "localhost"]
        done = subprocess.run(
            [*check, *trust],
            cwd=self.folder,
            input=b"",
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        return done.returncode == 0

    def words(self) -> str:
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-2000:]}"
            for file in sorted(self.folder.glob("*.log"))
        )

    def close(self) -> None:
        programs = [*self.servers.values(), self.nats]
        for program in [*programs, *([self.member] if self.member else [])]:
            program.kill()
        self.postgres.close()


@pytest.fixture
def centre() -> Iterator[Centre]:
    folder = Path(tempfile.mkdtemp(prefix="dure-centre-"))
    made = Centre(folder)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_two_servers_with_tls_answer_as_one_and_either_may_die(centre: Centre) -> None:
    centre.join()
    job = centre.dure("submit", "job.yaml").strip()
    centre.dure("wait", job, "--timeout", "2m")
    # One of the two has the link to the cluster, and the other asks it, over TLS.
    for name in centre.servers:
        assert centre.dure("logs", job, only=name) == "hello 1\n"
    actors = centre.dure("audit", "--json")
    assert "token.create" in actors

    centre.servers["server-1"].kill()
    centre.nats.kill()
    again = centre.dure("submit", "job.yaml").strip()
    centre.dure("wait", again, "--timeout", "2m")
    assert centre.dure("logs", again) == "hello 1\n"

    centre.dure("server", "backup", "centre.dump", **centre.environment("server-2"))
    centre.servers["server-2"].kill()
    centre.database = centre.postgres.fresh()
    restored = centre.dure("server", "restore", "centre.dump", **centre.environment("server-2"))
    assert re.match(r"[0-9]+ rows", restored)
    centre.servers["server-2"] = centre.server("server-2")
    centre.servers["server-2"].start()
    wait_until("the restored centre answers", lambda: centre.answers("server-2"))
    third = centre.dure("submit", "job.yaml", only="server-2").strip()
    centre.dure("wait", third, "--timeout", "2m", only="server-2")
    assert again in centre.dure("jobs", only="server-2")
