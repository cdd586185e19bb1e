"""Waits on the device: for whom a stream may wait there, and that none is for ever."""

import pytest

from dure.devices import layout
from dure.devices.plane_library import Launch, plane_library
from tests.native.planes import MemoryPlane

MS = 1_000_000
T0 = 1_000 * MS
PASS, BUDGET, IN_ORDER, PROMISE, IN_FLIGHT = range(5)
COMPUTE, MEMORY, SMALL, LONG = range(4)
SERVER, TRAINER, OTHER = 0, 1, 2
SHORT = Launch(COMPUTE, 10_000)
RUN_AHEAD_NS = 8 * MS
LONGEST_HOLD_NS = 2_000 * MS


def world_of(
    plan: layout.PlanBuffer, owners: tuple[int, ...] = (SERVER, TRAINER), side_by_side: int = 1
) -> MemoryPlane:
    world = MemoryPlane(owners)
    world.control.side_by_side = side_by_side
    world.beat(T0)
    world.publish(plan)
    world.turn_over(T0)
    return world


def plan_of(server: dict[str, int] | None = None, **trainer: int) -> layout.PlanBuffer:
    plan = layout.PlanBuffer(epoch=1, squads=1, promised=1 << SERVER)
    orders = plan.orders[0]
    orders[SERVER].member = orders[TRAINER].member = 1
    orders[TRAINER].yields = 1 << SERVER
    for order, words in ((orders[SERVER], server or {}), (orders[TRAINER], trainer)):
        for name, value in words.items():
            setattr(order, name, value)
    return plan


def test_a_launch_waits_for_the_clients_of_who_it_yields_to() -> None:
    world = world_of(plan_of(), (SERVER, TRAINER, SERVER))
    assert world.waits(TRAINER, SHORT, T0) == [0, 2]
    assert world.waits(SERVER, SHORT, T0) is None, "it yields to nobody"


@pytest.mark.parametrize(
    "server",
    [{"yields": 1 << OTHER}, {"budget_ns": MS}, {"member": 0}],
    ids=["held for another", "held by a budget", "not always there"],
)
def test_nobody_waits_there_for_who_may_be_held_itself(server: dict[str, int]) -> None:
    assert world_of(plan_of(server)).waits(TRAINER, SHORT, T0) is None


def test_only_where_kernels_of_processes_overlap() -> None:
    assert world_of(plan_of(), side_by_side=0).waits(TRAINER, SHORT, T0) is None


def test_not_for_more_clients_than_a_launch_can_wait_for() -> None:
    assert world_of(plan_of(), (0, 1, 0, 0, 0)).waits(TRAINER, SHORT, T0) == [0, 2, 3, 4]
    assert world_of(plan_of(), (0, 1, 0, 0, 0, 0)).waits(TRAINER, SHORT, T0) is None


def test_not_for_classes_that_pass_beside_one_another() -> None:
    plan = plan_of()
    plan.corun[SMALL][MEMORY] = 1
    world = world_of(plan)
    world.launched(SERVER, Launch(MEMORY, MS), T0)
    assert world.waits(TRAINER, Launch(SMALL, 10), T0) == []
    assert world.waits(TRAINER, SHORT, T0) == [SERVER]


def test_what_waits_there_is_not_held_but_does_not_run_ahead_without_bound() -> None:
    world = world_of(plan_of(inflight_ns=100_000))
    world.launched(SERVER, Launch(COMPUTE, MS), T0)
    assert world.ask(TRAINER, SHORT, T0)[0] == PROMISE
    waits = Launch(COMPUTE, RUN_AHEAD_NS // 4, waits_on_device=True)
    for _ in range(4):
        assert world.ask(TRAINER, waits, T0)[0] == PASS
        world.launched(TRAINER, waits, T0)
    assert world.ask(TRAINER, waits, T0)[0] == IN_FLIGHT


def test_who_has_no_part_in_a_squad_does_not_wait_there_but_is_held() -> None:
    world = world_of(plan_of(member=0))
    world.launched(SERVER, Launch(COMPUTE, MS), T0)
    assert world.waits(TRAINER, SHORT, T0) is None
    assert world.ask(TRAINER, Launch(COMPUTE, MS, waits_on_device=True), T0)[0] == BUDGET


def test_a_word_is_closed_for_as_long_as_the_burst_goes_on() -> None:
    world = world_of(plan_of())
    closed = world.rotation.closed
    assert closed[SERVER] == 0
    assert world.ask(SERVER, SHORT, T0)[0] == PASS
    assert closed[SERVER] != 0, "before the launch is submitted"
    world.launched(SERVER, SHORT, T0)
    world.drained(SERVER, T0 + MS)
    assert closed[SERVER] == 0
    assert world_of(plan_of(), side_by_side=0).rotation.closed[SERVER] == 0


def test_the_word_of_who_is_busy_stays_closed_and_that_of_who_is_not_is_opened() -> None:
    world = world_of(plan_of())
    closed = world.rotation.closed
    assert not world.check_waits(TRAINER, T0), "nothing waits yet"
    world.launched(SERVER, Launch(COMPUTE, MS), T0)
    world.waits(TRAINER, SHORT, T0)
    assert world.check_waits(TRAINER, T0 + 50 * MS)
    assert closed[SERVER] != 0
    assert world.check_waits(TRAINER, T0 + 105 * MS), "nothing was heard of it for too long"
    assert closed[SERVER] == 0
    world.launched(SERVER, SHORT, T0 + 106 * MS)
    assert closed[SERVER] != 0, "it was only slow"


def test_a_patient_tenants_word_is_closed_by_who_waits_for_it_once_its_patience_is_over() -> None:
    world = world_of(plan_of({"patience_ns": 3 * MS}))
    closed = world.rotation.closed
    assert world.waits(TRAINER, SHORT, T0) == [SERVER]
    assert world.check_waits(TRAINER, T0) == 3 * MS, "it may begin any moment"
    world.launched(SERVER, Launch(COMPUTE, MS), T0 + MS)
    assert closed[SERVER] == 0
    assert world.check_waits(TRAINER, T0 + 2 * MS) == 2 * MS
    assert closed[SERVER] == 0
    assert 0 < world.check_waits(TRAINER, T0 + 4 * MS) < MS, "it may have ended just then"
    assert closed[SERVER] != 0
    world.drained(SERVER, T0 + 5 * MS)
    assert closed[SERVER] == 0


def test_a_patient_tenant_that_launches_late_closes_its_word_itself() -> None:
    world = world_of(plan_of({"patience_ns": 3 * MS}))
    world.launched(SERVER, SHORT, T0)
    world.launched(SERVER, SHORT, T0 + 2 * MS)
    assert world.rotation.closed[SERVER] == 0
    world.launched(SERVER, SHORT, T0 + 3 * MS)
    assert world.rotation.closed[SERVER] != 0


def test_a_word_closed_for_one_who_ended_meanwhile_is_opened_again() -> None:
    world = world_of(plan_of({"patience_ns": 3 * MS}))
    world.waits(TRAINER, SHORT, T0)
    world.rotation.closed[SERVER] = 77
    world.check_waits(TRAINER, T0)
    assert world.rotation.closed[SERVER] == 0


@pytest.mark.parametrize("end", ["the agent is gone", "nothing is gated", "its slot is free"])
def test_nobody_waits_for_words_that_mean_nothing_any_more(end: str) -> None:
    world = world_of(plan_of())
    world.launched(SERVER, Launch(COMPUTE, MS), T0)
    world.waits(TRAINER, SHORT, T0)
    if end == "the agent is gone":
        world.control.heartbeat_ns = T0 - 250 * MS
    elif end == "nothing is gated":
        world.control.gated = 0
    else:
        world.control.live_clients = 1 << TRAINER
    world.check_waits(TRAINER, T0)
    assert world.rotation.closed[SERVER] == 0
    if end != "its slot is free":
        world.launched(SERVER, Launch(COMPUTE, MS), T0)
        assert world.rotation.closed[SERVER] == 0, "the device needs time to see it open"


def test_nobody_waits_for_longer_than_the_longest_hold() -> None:
    world = world_of(plan_of())
    world.waits(TRAINER, SHORT, T0)
    for step in range(200):
        now_ns = T0 + step * 10 * MS
        world.launched(SERVER, SHORT, now_ns)
        world.check_waits(TRAINER, now_ns)
        assert world.rotation.closed[SERVER] != 0
    world.launched(SERVER, SHORT, T0 + LONGEST_HOLD_NS)
    world.check_waits(TRAINER, T0 + LONGEST_HOLD_NS)
    assert world.rotation.closed[SERVER] == 0
    assert world.slots[TRAINER].counters.passes_open == 1


def test_who_has_nothing_on_the_device_waits_for_nobody() -> None:
    world = world_of(plan_of())
    world.waits(TRAINER, SHORT, T0)
    world.launched(TRAINER, SHORT, T0)
    world.drained(TRAINER, T0 + MS)
    assert not world.check_waits(TRAINER, T0 + MS)


def test_time_waited_on_the_device_is_counted_for_who_was_waited_for() -> None:
    world = world_of(plan_of())
    plane_library().dure_waited_on_device(world.planes[TRAINER], 1 << SERVER, 5 * MS)
    counters = world.slots[TRAINER].counters
    assert counters.gated_ns == counters.gated_by_ns[PROMISE] == 5 * MS
    assert counters.held_for[SERVER] == counters.longest_hold_ns == 5 * MS


def test_graphs_are_no_long_kernels() -> None:
    world = world_of(plan_of())
    world.launched(TRAINER, Launch(COMPUTE, 30 * MS, graph=True), T0)
    world.launched(TRAINER, Launch(COMPUTE, 2 * MS), T0)
    counters = world.slots[TRAINER].counters
    assert counters.longest_kernel_ns == 2 * MS
    assert (counters.launches, counters.graph_launches) == (2, 1)
