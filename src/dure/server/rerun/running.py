"""Carries re-runs out, one at a time, each in a process of its own that is given so long."""

import asyncio
import contextlib
import pickle
import sys
from dataclasses import dataclass

from dure.domain.errors import DureError
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.units import NS_PER_S
from dure.server.ports import State
from dure.server.rerun.case import Case, read_case
from dure.server.rerun.worker import Outcome, Task
from dure.sim.fleet.modes import MODES

PATIENCE_S = 120.0
"""The longest that a re-run may take."""
COMPARED_MODES = {
    name: MODES[name].about
    for name in ("cost-only", "carbon-only", "cheapest-first", "least-loaded", "first-fit")
}
"""Two extremes of our own, and rules that people know from other schedulers."""
_WORKER = "from dure.server.rerun.worker import main; main()"
"""By its name, so that both processes call its classes the same."""
_LAST_WORDS = 500
"""Characters of what a process that failed said."""


class BusyError(DureError):
    """Another re-run goes on."""


class RerunError(DureError):
    """A re-run did not come to an end."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is tried."""

    name: str
    policy: FleetPolicy | None = None
    """None: the one in force."""
    mode: str = "dure"


@dataclass(frozen=True, slots=True)
class Rerun:
    """The last stretch of time, twice."""

    case: Case
    in_force: Outcome
    candidate: Outcome
    took_s: float


class Reruns:
    """One for each application."""

    def __init__(self, state: State, patience_s: float = PATIENCE_S) -> None:
        self._state = state
        self._patience_s = patience_s
        self._running = asyncio.Lock()

    async def run(self, length_s: float, candidate: Candidate) -> Rerun:
        """Run the last seconds under the policy in force and under a candidate."""
        if self._running.locked():
            raise BusyError("another re-run goes on", "wait until it is over")
        async with self._running:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            async with self._state.reading() as tx:
                case = await read_case(tx, round(length_s * NS_PER_S))
            now = case.setting.policy
            tasks = [
                Task(case.setting, now),
                Task(case.setting, candidate.policy or now, candidate.mode),
            ]
            in_force, tried = await self._elsewhere(tasks)
            return Rerun(case, in_force, tried, loop.time() - began_s)

    async def _elsewhere(self, tasks: list[Task]) -> list[Outcome]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _WORKER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(self._patience_s):
                given = await asyncio.to_thread(pickle.dumps, tasks)
                out, said = await process.communicate(given)
        except TimeoutError as error:
            raise RerunError(
                f"the re-run takes longer than {self._patience_s:.0f} s", "take fewer minutes"
            ) from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode != 0 or not out:
            words = said.decode(errors="replace").strip()[-_LAST_WORDS:].splitlines()
            raise RerunError(
                f"the re-run failed ({words[-1] if words else 'without a word'})",
                "look into the log of the server",
            )
        outcomes: list[Outcome] = await asyncio.to_thread(pickle.loads, out)
        return outcomes
