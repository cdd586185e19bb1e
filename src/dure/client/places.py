"""Where an agent lives: its runtime folder and what is in it, by one rule for all of Dure."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RUN_DIR_VARIABLE = "DURE_RUN_DIR"
SOCKET_VARIABLE = "DURE_SOCKET"
TENANT_VARIABLE = "DURE_TENANT"

_ROOT_DIR = Path("/run/dure")


@dataclass(frozen=True, slots=True)
class Places:
    """The runtime folder of one agent."""

    run_dir: Path

    @property
    def shim_socket(self) -> Path:
        """Where tenant programs register."""
        return self.run_dir / "shim.sock"

    @property
    def api_socket(self) -> Path:
        """Where people and programs talk HTTP to the agent."""
        return self.run_dir / "api.sock"

    @property
    def state_file(self) -> Path:
        """What survives a restart: tenants, policies, history."""
        return self.run_dir / "state.json"

    @property
    def pid_file(self) -> Path:
        """The agent's process id; locked for as long as it runs."""
        return self.run_dir / "agent.pid"

    @property
    def log_file(self) -> Path:
        return self.run_dir / "agent.log"

    @property
    def series_file(self) -> Path:
        """What was measured, where it is kept in no server of its own."""
        return self.run_dir / "series.db"

    @property
    def containers_dir(self) -> Path:
        """Journal of pauses and the watchdog's socket."""
        return self.run_dir / "containers"

    @property
    def mps_dir(self) -> Path:
        """Pipes and logs of the MPS daemon this agent supervises."""
        return self.run_dir / "mps"


def run_dir_of(environment: Mapping[str, str], uid: int) -> Path:
    """The runtime folder of a user's agent: as stated, else by rank."""
    stated = environment.get(RUN_DIR_VARIABLE)
    if stated:
        return Path(stated)
    if uid == 0:
        return _ROOT_DIR
    runtime = environment.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "dure" if runtime else Path(f"/tmp/dure-{uid}")


def own_places(run_dir: Path | None = None) -> Places:
    """The folder of the agent this process would start."""
    return Places(run_dir or run_dir_of(os.environ, os.getuid()))


def candidate_places(run_dir: Path | None = None) -> list[Places]:
    """Where an agent for this user may be found, first choice first: a stated folder alone;
    else the user's own agent, then root's, which serves everybody."""
    if run_dir is not None or os.environ.get(RUN_DIR_VARIABLE):
        return [own_places(run_dir)]
    own = own_places()
    root = Places(_ROOT_DIR)
    return [own] if own == root else [own, root]
