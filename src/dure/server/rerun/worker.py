"""A process of its own for re-runs: however long they take, whoever plans is not kept waiting.

Reads what to run from its standard input and writes what came of it to its standard output; both
ends are this package.
"""

import os
import pickle
import sys
from contextlib import suppress
from dataclasses import dataclass, replace

from dure.domain.fleet.events import GlobalEvent
from dure.domain.fleet.instructions import GlobalInstruction, MoveWorkload, PlaceWorkload
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.ids import ClusterId, WorkloadId
from dure.domain.units import NS_PER_S
from dure.fleet.global_machine import GlobalMachine
from dure.sim.fleet.modes import mode_named
from dure.sim.fleet.results import FleetResult
from dure.sim.fleet.run import run_world
from dure.sim.fleet.setting import Setting
from dure.sim.fleet.world import GlobalStage

_NICENESS = 10


@dataclass(frozen=True, slots=True)
class Task:
    """One run."""

    setting: Setting
    policy: FleetPolicy
    mode: str = "dure"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job first went, and when it started."""

    cluster: str
    wait_s: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one run."""

    result: FleetResult
    places: dict[str, Place]


class _Heard:
    """The global stage, overheard: which cluster each job is sent to."""

    def __init__(self, stage: GlobalStage) -> None:
        self._stage = stage
        self.clusters: dict[WorkloadId, ClusterId] = {}

    def handle(self, event: GlobalEvent) -> list[GlobalInstruction]:
        """Take an event, answer with instructions."""
        said = self._stage.handle(event)
        for each in said:
            if isinstance(each, PlaceWorkload | MoveWorkload):
                self.clusters[each.order.workload.id] = each.order.site.cluster
        return said

    def why_waiting(self, workload: WorkloadId) -> str:
        """As the machine says; rules to compare with say nothing."""
        stage = self._stage
        return stage.why_waiting(workload) if isinstance(stage, GlobalMachine) else ""


def perform(task: Task) -> Outcome:
    """Run one."""
    mode, heard = mode_named(task.mode), list[_Heard]()

    def make(setting: Setting) -> GlobalStage:
        heard.append(_Heard(mode.make_centre(setting)))
        return heard[0]

    # What the fleet's budget had left is not known there: its period begins with the run.
    setting = replace(task.setting, policy=replace(task.policy, period_start_ns=None))
    world, result = run_world(setting, replace(mode, make_centre=make))
    places = {}
    for name, cluster in heard[0].clusters.items():
        job, wait_s = world.jobs.get(name), None
        if job is not None and job.started_ns >= 0:
            wait_s = (job.started_ns - job.workload.submitted_ns) / NS_PER_S
        places[str(name)] = Place(str(cluster), wait_s)
    return Outcome(result, places)


def main() -> None:
    """Run all that was asked for."""
    with suppress(OSError):
        os.nice(_NICENESS)
    tasks: list[Task] = pickle.load(sys.stdin.buffer)
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # nobody else writes there
    pickle.dump([perform(task) for task in tasks], out)
    out.flush()
