"""A Dure agent of a bench's own: started in a private folder, spoken to, and ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dure.client.api import AgentClient, AgentUnreachableError
from dure.client.places import RUN_DIR_VARIABLE, Places
from dure.domain.errors import DureError

DURE = (sys.executable, "-c", "from dure.cli.main import main; main()")
"""The command line of this very installation, whatever `dure` is on the path."""
AGENT = (*DURE, "agent")
START_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0
_POLL_S = 0.05
_LOG = "bench-agent.log"


class AgentFailedError(DureError):
    """The agent of the bench did not start."""


class AgentProcess:
    """One agent; a context manager that ends it."""

    def __init__(
        self,
        run_dir: Path,
        environment: Mapping[str, str],
        arguments: tuple[str, ...],
        command: tuple[str, ...] = AGENT,
    ) -> None:
        self.run_dir = run_dir
        self.environment = environment
        """Of the agent and of what runs under it, over this process's own."""
        self._arguments = arguments
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._client: AgentClient | None = None

    def __enter__(self) -> Self:
        self.run_dir.mkdir(parents=True, exist_ok=True)
        with (self.run_dir / _LOG).open("wb") as stream:
            self._process = subprocess.Popen(
                [*self._command, *self._arguments],
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        try:
            self._await()
        except BaseException:
            self.__exit__(None, None, None)  # nobody else would end it
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            self._client.close()
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {**self.environment, RUN_DIR_VARIABLE: str(self.run_dir)}

    @property
    def client(self) -> AgentClient:
        if self._client is None:
            raise AgentFailedError("the agent has not started", "start it first")
        return self._client

    @property
    def pid(self) -> int:
        """Of the agent."""
        return self._process.pid if self._process is not None else 0

    def status(self) -> dict[str, Any]:
        """All it says, as plain data; what happened long ago left out."""
        found: dict[str, Any] = self.client.status().model_dump(mode="json", by_alias=True)
        found["events"] = found.get("events", [])[-20:]
        return found

    def said(self, lines: int) -> list[str]:
        """The last lines it wrote."""
        log = self.run_dir / _LOG
        return log.read_text(errors="replace").strip().splitlines()[-lines:]

    def _await(self) -> None:
        places = Places(self.run_dir)
        until_s = time.monotonic() + START_LIMIT_S
        while time.monotonic() < until_s:
            if self._process is not None and self._process.poll() is not None:
                break
            client = AgentClient(places)
            try:
                client.status()
            except AgentUnreachableError:
                client.close()
                time.sleep(_POLL_S)
            except BaseException:
                client.close()
                raise
            else:
                self._client = client
                return
        said = " / ".join(self.said(3)) or "silent"
        words = " ".join(self._arguments)
        raise AgentFailedError(
            f"`dure agent {words}` did not start ({said})", "run it by hand, or `dure doctor`"
        )
