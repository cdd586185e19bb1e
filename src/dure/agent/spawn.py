"""Find the agent that serves this user, or start one in the background."""

import os
import subprocess
import sys
import time
from pathlib import Path

from dure.client.api import AgentClient, AgentSilentError, AgentUnreachableError, find_agent
from dure.client.places import Places, own_places
from dure.client.schema import Sharing
from dure.domain.errors import DureError

_START_S = 30.0
"""NVML and a first answer take about a second; a busy machine several."""
_LOOK_S = 0.05


def ensure_agent(
    run_dir: Path | None = None, *, sharing: Sharing = "isolated", wait_s: float = _START_S
) -> AgentClient:
    """A client of the agent that serves this user; starts one where there is none.

    An agent that was started so lives on after the program that wanted it. Raises a `DureError`
    with the agent's own words where it does not come up.
    """
    try:
        return find_agent(run_dir)
    except AgentSilentError:
        raise  # it has the folder, so another could not start
    except AgentUnreachableError:
        places = own_places(run_dir)
    pid = _start(places, sharing)
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        try:
            return find_agent(places.run_dir)
        except AgentUnreachableError:
            if not _alive(pid) and not places.pid_file.exists():
                break
        time.sleep(_LOOK_S)
    raise DureError(
        f"the agent does not start ({_last_words(places)})",
        f"look into {places.log_file}, or start `dure agent` by hand",
    )


def _start(places: Places, sharing: Sharing) -> int:
    """An agent in a session of its own, without our standard streams and without any shim."""
    command = [
        *(sys.executable, "-m", "dure.agent", "--background"),
        *("--run-dir", str(places.run_dir.absolute()), "--sharing", sharing),
        *("--log-file", str(places.log_file.absolute())),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        places.run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with places.log_file.open("ab") as log:
            started = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd="/",
                timeout=_START_S,
                check=True,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise DureError(
            f"the agent does not start ({error})", "start `dure agent` by hand"
        ) from error
    return int(started.stdout)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _last_words(places: Places) -> str:
    try:
        text = places.log_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "it left no log"
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join(lines[-1:]) if lines else "it said nothing"
