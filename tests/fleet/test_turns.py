"""Queue units: a crowded one is no place for a tight latency target, and good enough for batch."""

from dataclasses import replace

import numpy as np
import pytest

from dure.domain.fleet.events import RoundDue
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand
from dure.domain.ids import WorkloadId
from dure.domain.units import GIB
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.turns import turn_wait_ms
from tests.fleet.factories import cluster, group, job, service
from tests.fleet.machines import machine, orders, submit, tell

PART = Demand(memory_bytes=2 * GIB, compute_tops=10.0, cpu_milli=1000)
QUEUE = cluster("queue", rent=1.0, groups=(group(nodes=4, profile="l4", mode=ShareMode.QUEUE),))
SLICES = cluster("slices", rent=4.0, groups=(group(nodes=4, profile="l4", mode=ShareMode.MPS),))


def fleet_with(used: int) -> GlobalMachine:
    """A cheap site of queue units, so many of its 32 devices in use, and a dear one of slices."""
    made = machine(QUEUE, SLICES)
    tell(made, QUEUE, used=used)
    tell(made, SLICES)
    return made


@pytest.mark.parametrize(
    ("used", "target_ms", "where"),
    [
        (24, 150.0, "slices"),
        (24, 5000.0, "queue"),
        (4, 150.0, "queue"),
    ],
)
def test_a_tight_target_avoids_a_crowded_queue(used: int, target_ms: float, where: str) -> None:
    made = fleet_with(used)
    submit(made, replace(service(rate=1.0, target_ms=target_ms), demand=PART))
    assert orders(made.handle(RoundDue(0)))["chat"].site.cluster == where


def test_a_batch_job_takes_the_crowded_queue_for_its_price() -> None:
    made = fleet_with(24)
    submit(made, replace(job(), demand=PART))
    assert orders(made.handle(RoundDue(0)))["job"].site.cluster == "queue"


def test_the_wait_grows_with_the_crowd_up_to_what_weights_allow_and_is_none_for_slices() -> None:
    waits = []
    for used in (0, 8, 24, 32):
        made = fleet_with(used)
        submit(made, replace(service(rate=1.0), demand=PART))
        track = made.state.tracks[WorkloadId("chat")]
        assert track.workload.service is not None
        wait = turn_wait_ms(made.state, track, track.workload.service, np.full(2, 1.0))
        waits.append(float(wait[0]))
        assert wait[1] == 0.0
    assert waits[0] == 0.0
    assert waits == sorted(waits)
    assert waits[1] < waits[2] < waits[3] < np.inf
