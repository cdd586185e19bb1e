"""The README's ten minutes, typed as they stand: real server, real members, a real Kubernetes."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kube.cluster import KubeCluster
from tests.kube.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 480
"""Generous: thirty seconds on an idle machine, ten times that on a very busy one."""
_SECTION = (ROOT / "README.md").read_text(encoding="utf-8").partition("in ten minutes\n")[2]
_BLOCKS = re.findall(r"```console\n(.*?)```", _SECTION, flags=re.DOTALL)
_VARIES = (
    (re.compile(r"[0-9a-hjkmnp-tv-z]{26}"), "ID"),
    (re.compile(r"stored as 'default' in \S+"), "stored"),
    (re.compile(r"\b\d+(s|m)\b"), "AGE"),
    (re.compile(r"\b\d+/\d+ *$", flags=re.MULTILINE), "PLAN"),
    (re.compile(r"─+"), "─"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True)
class Typed:
    """A command, and what the README says it prints."""

    command: str
    printed: str


def typed(block: str) -> list[Typed]:
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        command, _, printed = re.sub(r"\\\n *", "", part).partition("\n")
        found.append(Typed(command, printed))
    return found


def plain(text: str) -> str:
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


class Desk:
    """A person's shell in a home of its own, in the repository's root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = {"7600": str(free_port()), "7601": str(free_port())}
        for name in ("deploy", "examples"):
            (folder / name).symlink_to(ROOT / name)

    def run(self, commands: list[Typed], env: dict[str, str], hints: dict[str, str]) -> list[str]:
        """What each command printed. `hints`: a command that is waited for before another."""
        lines = ["trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"]
        for each in commands:
            lines += [hints[start] for start in hints if each.command.startswith(start)]
            lines += ["echo @@", each.command]
            if each.command.startswith("dure server"):
                lines[-1] = each.command.replace(
                    "dure server", "dure server --listen 127.0.0.1:7600 --grpc 127.0.0.1:7601"
                )
                listens = f"(exec 3<>/dev/tcp/127.0.0.1/{self._ports['7600']}) 2>/dev/null"
                lines.append(f"until {listens}; do sleep 0.2; done")
        script = "\n".join(lines)
        for port, own in self._ports.items():
            script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{own}")
        own_env = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        own_env |= {"HOME": str(self.folder), "COLUMNS": "100", **env}
        programs = [str(ROOT / ".venv" / "bin"), env.get("PATH", ""), os.environ["PATH"]]
        own_env["PATH"] = os.pathsep.join(filter(None, programs))
        done = subprocess.run(
            # Ends the whole group, servers and members with it.
            ["timeout", "--kill-after=10", str(LIMIT_S), "bash", "-eu", "-c", script],
            cwd=self.folder,
            env=own_env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + self.words()
        return done.stdout.split("@@\n")[1:]

    def words(self) -> str:
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-2000:]}"
            for file in sorted(self.folder.glob("*.log"))
        )


@pytest.fixture
def desk() -> Iterator[Desk]:
    folder = Path(tempfile.mkdtemp(prefix="dure-readme-"))
    yield Desk(folder)
    shutil.rmtree(folder, ignore_errors=True)


def compare(commands: list[Typed], printed: list[str]) -> None:
    assert len(printed) == len(commands)
    for each, real in zip(commands, printed, strict=True):
        assert plain(real) == plain(each.printed), each.command


@pytest.mark.slow
def test_a_job_runs_as_a_process_of_this_machine(desk: Desk) -> None:
    commands = typed(_BLOCKS[0])
    compare(commands, desk.run(commands, {}, {}))


@pytest.mark.kube
def test_a_job_runs_in_a_kubernetes_cluster(desk: Desk) -> None:
    commands = [each for block in _BLOCKS for each in typed(block)]
    cluster = KubeCluster()
    try:
        cluster.start()
        cluster.add_nodes(
            "gpu-0",
            "gpu-1",
            resources={"nvidia.com/gpu": "8"},
            labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        )
        programs = desk.folder / "programs"
        programs.mkdir()
        (programs / "kubectl").symlink_to(cluster._programs["kubectl"])
        env = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": str(programs)}
        runs = "until dure jobs | grep -q running; do sleep 0.2; done"
        bound = "until kubectl -n dure-team get pods | grep -q Running; do sleep 0.2; done"
        free = "until dure clusters | grep -q ' 15 '; do sleep 0.2; done"
        assert commands[-1].command == "dure clusters"
        last = Typed(f"{free}; dure clusters", commands[-1].printed)
        commands = [*commands[:-1], last]
        hints = {"dure jobs": runs, "kubectl -n": bound}
        compare(commands, desk.run(commands, env, hints))
    finally:
        cluster.close()
