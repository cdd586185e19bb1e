"""One emulated GPU in a folder of its own, and the `dure` command as a person uses it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dure.client.api import AgentUnreachableError, find_agent
from dure.devices import library

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
"""Generous: the machine may be slow and busy."""
DURE = [sys.executable, "-c", "from dure.cli.main import main; main()"]


class Stage:
    """An emulated GPU, its agent (started by the first `dure run`) and the programs on it."""

    def __init__(self, folder: Path) -> None:
        self.run_dir = folder / "run"
        self.emulator = folder / "emulator"
        self.emulator.mkdir()
        self.environment = {
            **os.environ,
            "DURE_RUN_DIR": str(self.run_dir),
            "DURE_EMULATOR_DIR": str(self.emulator),
            "LD_LIBRARY_PATH": str(library.FOLDER / "emulator"),
        }
        self.environment.pop("LD_PRELOAD", None)
        self.program = str(library.path("dure-tenant"))
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A `dure` command that goes on."""
        process = subprocess.Popen(
            [*DURE, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def dure(self, *arguments: str) -> tuple[int, str, str]:
        """A `dure` command to its end."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def json(self, *arguments: str) -> Any:
        code, out, err = self.dure(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    def until(self, what: str, check: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The tenants by name as soon as they are as wanted."""
        end = time.monotonic() + LIMIT_S
        seen: dict[str, Any] = {}
        while time.monotonic() < end:
            with find_agent(self.run_dir) as client:
                listed = client.tenants()
            seen = {each.name: each.model_dump(by_alias=True) for each in listed}
            if check(seen):
                return seen
            time.sleep(0.1)
        raise AssertionError(f"{what} did not happen within {LIMIT_S:g} s; seen: {seen}")

    def until_answers(self) -> None:
        """Wait for the agent that a `dure run` starts."""
        end = time.monotonic() + LIMIT_S
        while self.agent_pid() is None:
            assert time.monotonic() < end, "the agent never answered"
            time.sleep(0.1)

    def json_findings(self) -> dict[str, str]:
        """What the doctor thinks of each subject."""
        _, out, _ = self.dure("doctor", "--json")
        return {each["subject"]: each["level"] for each in json.loads(out)["findings"]}

    def agent_pid(self) -> int | None:
        try:
            with find_agent(self.run_dir) as client:
                return client.status().agent.pid
        except AgentUnreachableError:
            return None

    def close(self) -> None:
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=LIMIT_S)
        pid = self.agent_pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + LIMIT_S
            while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
                time.sleep(0.05)


@pytest.fixture(scope="session")
def built() -> None:
    """The C parts as their sources are now."""
    subprocess.run([sys.executable, str(ROOT / "native" / "build.py")], check=True)


@pytest.fixture
def stage(built: None) -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="dure-e2e-"))  # short: socket paths have a limit
    made = Stage(folder)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
