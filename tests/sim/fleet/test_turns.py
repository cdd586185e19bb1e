"""Services on queue units: their requests wait for their turns, by what their neighbours do."""

from dataclasses import replace

import numpy as np
import pytest

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.instructions import PlaceWorkload
from dure.domain.fleet.slices import ShareMode, expected_wait_s, worst_wait_s
from dure.domain.fleet.workloads import Demand, Workload
from dure.domain.units import GIB
from dure.fleet.fit import footprint
from dure.sim.fleet.turns import TurnPlace, Turns
from dure.sim.fleet.world import World
from tests.sim.fleet.worlds import Script, cluster, group, job, order, play, service, setting

HALF = Demand(memory_bytes=2 * GIB, compute_tops=120.0, cpu_milli=1000, host_memory_bytes=GIB)
"""Half of an A100, as a queue unit and as a slice."""
ALONE_MS = 100.0


def placed(row_device: int, own: int, held: int, *, serving: bool = True) -> TurnPlace:
    return TurnPlace((0, row_device), own, held, serving)


def waits(turns: Turns, *use: float) -> list[float]:
    found = turns.waits_ms(np.full(len(use), ALONE_MS), np.array(use))
    return [float(each) for each in found]


def test_a_job_keeps_its_share_of_the_device_busy() -> None:
    turns = Turns()
    turns.set(0, [placed(0, own=400, held=1000)])
    expected_ms = 1000.0 * float(expected_wait_s(ALONE_MS / 1000.0, 0.6))
    bound_ms = 1000.0 * float(worst_wait_s(ALONE_MS / 1000.0, 0.04, 400))
    assert waits(turns, 0.1) == pytest.approx([min(expected_ms, bound_ms)])
    assert expected_ms < bound_ms


def test_weights_bound_the_wait_beside_a_greedy_neighbour() -> None:
    turns = Turns()
    turns.set(0, [placed(0, own=300, held=1000)])
    bound_ms = 1000.0 * float(worst_wait_s(ALONE_MS / 1000.0, 0.0, 300))
    assert waits(turns, 0.0) == pytest.approx([100.0 * 7 / 3])
    assert bound_ms == pytest.approx(100.0 * 7 / 3)
    turns.set(0, [placed(0, own=100, held=1050)])
    assert waits(turns, 0.0) == pytest.approx([900.0]), "not what a device beyond its end takes"


def test_a_service_is_in_the_way_as_far_as_it_has_requests() -> None:
    turns = Turns()
    turns.set(0, [placed(0, own=500, held=1000)])
    turns.set(1, [placed(0, own=500, held=1000)])
    idle, half, full = (waits(turns, 0.1, use)[0] for use in (0.0, 0.5, 1.0))
    assert idle == 0.0
    assert half == pytest.approx(1000.0 * float(expected_wait_s(0.1, 0.25)))
    assert full == pytest.approx(1000.0 * float(expected_wait_s(0.1, 0.5)))


def test_an_instance_that_takes_no_requests_yet_is_in_nobodys_way() -> None:
    turns = Turns()
    turns.set(0, [placed(0, own=500, held=1000)])
    turns.set(1, [placed(0, own=500, held=1000, serving=False)])
    assert waits(turns, 0.5, 1.0) == [0.0, 0.0]


def test_the_most_crowded_instance_counts_and_other_devices_do_not() -> None:
    turns = Turns()
    turns.set(0, [placed(0, own=200, held=200), placed(1, own=200, held=700)])
    turns.set(1, [placed(2, own=200, held=200)])
    assert waits(turns, 0.1, 1.0) == pytest.approx([100.0, 0.0])
    turns.set(0, ())
    assert waits(turns, 0.1, 1.0) == [0.0, 0.0]


def shared(mode: ShareMode, *beside: Workload, target_ms: float = 1000.0) -> World:
    """A service that is seldom asked and others on one device, two hours later."""
    one = cluster("c", [group(nodes=1, devices=1, mode=mode)])
    chat = service("s", rate=0.4, demand=HALF)
    assert chat.service is not None
    promise = replace(chat.service, most_replicas=1, load_s=0.0, target_latency_ms=target_ms)
    chat = replace(chat, service=promise)
    lines = [(0.0, PlaceWorkload(order(each, "c", 1, 1))) for each in (chat, *beside)]
    return play(setting([one], [chat, *beside], hours=2.0), Script(*lines))


def test_latency_at_a_queue_site_has_the_wait_for_turns_in_it() -> None:
    unit = footprint(HALF, device_profile("a100"), ShareMode.QUEUE)
    assert unit is not None
    assert unit.compute_milli == 500
    neighbour = job("j", runs_s=36_000.0, demand=HALF)
    turn_ms = 1000.0 * float(expected_wait_s(ALONE_MS / 1000.0, 0.5))
    found = {
        "alone": shared(ShareMode.QUEUE),
        "crowded": shared(ShareMode.QUEUE, neighbour),
        "slices": shared(ShareMode.MPS, neighbour),
    }
    latency_ms = {name: world.services.rows.latency_ms[0] for name, world in found.items()}
    expected_ms = {"alone": ALONE_MS, "crowded": ALONE_MS + turn_ms, "slices": ALONE_MS}
    assert latency_ms == pytest.approx(expected_ms)


def test_a_target_is_missed_as_long_as_a_neighbour_keeps_the_device_busy() -> None:
    neighbour = job("j", runs_s=3600.0, demand=HALF)
    alone = shared(ShareMode.QUEUE, target_ms=150.0)
    beside = shared(ShareMode.QUEUE, neighbour, target_ms=150.0)
    missed = beside.services.violated_minutes[0] - alone.services.violated_minutes[0]
    assert missed == pytest.approx(60.0, abs=2.0)
    assert not beside.services.service_slow[0]
