"""Jobs in the simulated world: starts, speeds, checkpoints, moves; nothing lost, nothing twice."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.errors import InvariantError
from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.events import (
    LocalEvent,
    OrderGiven,
    SeriesExtended,
    WorkloadEnded,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import (
    LocalInstruction,
    MoveWorkload,
    PlaceWorkload,
    PreemptWorkload,
    StartInstance,
)
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import Demand, Gang
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.domain.units import GIB
from dure.sim.fleet.billing import Books, ClusterMeter
from dure.sim.fleet.hardware import Hardware
from dure.sim.fleet.modes import MODES
from dure.sim.fleet.run import run_world
from dure.sim.fleet.world import World
from tests.sim.fleet.worlds import (
    BOOT_S,
    CONTAINER_S,
    START_NS,
    Script,
    at_s,
    cluster,
    group,
    job,
    order,
    play,
    service,
    setting,
)

READY_S = BOOT_S + CONTAINER_S


def test_a_gang_starts_when_all_its_workers_are_warm_and_ends_to_the_second() -> None:
    gang = job("j", gang=Gang(workers=6))
    world = play(setting([cluster("c")], [gang]), Script((0.0, PlaceWorkload(order(gang, "c")))))
    done = world.jobs[gang.id]
    assert at_s(done.started_ns) == pytest.approx(READY_S)
    assert at_s(done.ended_ns) == pytest.approx(READY_S + 3600.0)


def test_a_second_job_on_a_running_node_waits_for_its_container_alone() -> None:
    jobs = [job("a"), job("b", at_s=1800.0)]
    script = Script(
        (0.0, PlaceWorkload(order(jobs[0], "c"))), (30.0, PlaceWorkload(order(jobs[1], "c")))
    )
    world = play(setting([cluster("c", [group(nodes=1)])], jobs), script)
    assert at_s(world.jobs[jobs[1].id].started_ns) == pytest.approx(1800.0 + CONTAINER_S)


def test_a_displaced_job_keeps_what_its_last_checkpoint_saved() -> None:
    long = job("j", runs_s=6000.0)
    first, second = order(long, "c"), replace(order(long, "c", attempt=2), resume_share=0.3)
    stop = PreemptWorkload(long.id, ClusterId("c"), 1, WorkloadId("vip"), 0.0)
    script = Script((0.0, PlaceWorkload(first)), (40.0, stop), (50.0, PlaceWorkload(second)))
    world = play(setting([cluster("c")], [long]), script)
    ran_s = 2400.0 - READY_S
    saved = ran_s // 600.0 * 600.0 / 6000.0
    (stopped,) = script.all_of(WorkloadStopped)
    assert stopped.saved_share == pytest.approx(saved)
    assert world.history.lost_device_s == pytest.approx(ran_s - saved * 6000.0)
    again_s = 3000.0 + CONTAINER_S
    assert at_s(world.jobs[long.id].ended_ns) == pytest.approx(again_s + 0.7 * 6000.0, abs=BOOT_S)


def test_a_job_moves_at_its_next_checkpoint_and_goes_on_where_it_was() -> None:
    long = job("j", runs_s=6000.0, gang=Gang(checkpoint_s=600.0, checkpoint_bytes=50 * 10**9))
    move = MoveWorkload(long.id, ClusterId("a"), order(long, "b", attempt=2), 5.0)
    script = Script((0.0, PlaceWorkload(order(long, "a"))), (20.0, move))
    world = play(setting([cluster("a"), cluster("b", price=1.0)], [long]), script)
    checkpoint_s = READY_S + 1200.0
    (stopped,) = script.all_of(WorkloadStopped)
    assert (at_s(stopped.now_ns), stopped.saved_share) == pytest.approx((checkpoint_s, 0.2))
    arrives_s = checkpoint_s + 50e9 / 1.25e9
    round_s = -(-arrives_s // 60.0) * 60.0
    assert at_s(world.jobs[long.id].ended_ns) == pytest.approx(round_s + READY_S + 4800.0)
    assert world.history.lost_device_s == 0.0
    assert world.counts["moves"] == 1
    # Alone on a node of four: a fifth of the work cost 8 an hour there, the rest 4 an hour here.
    there = (READY_S + 1200.0) / 3600.0 * 8.0 * 4
    here = (READY_S + 4800.0) / 3600.0 * 4.0
    assert world.savings.realised == pytest.approx(there - here)
    assert world.savings.expected == 5.0


def test_a_move_that_its_job_overtakes_is_abandoned() -> None:
    short = job("j", runs_s=300.0)
    move = MoveWorkload(short.id, ClusterId("a"), order(short, "b", attempt=2), 5.0)
    script = Script((0.0, PlaceWorkload(order(short, "a"))), (3.0, move))
    world = play(setting([cluster("a"), cluster("b")], [short], hours=2.0), script)
    assert len(script.all_of(WorkloadEnded)) == 1
    assert (world.counts["moves"], world.counts["moves_abandoned"]) == (0, 1)


def test_a_service_is_warm_at_its_new_place_before_the_old_one_ends() -> None:
    there = service("s", rate=2.0)
    move = MoveWorkload(there.id, ClusterId("a"), order(there, "b", 2, 1), 5.0)
    script = Script((0.0, PlaceWorkload(order(there, "a", 1, 1))), (60.0, move))
    world = play(setting([cluster("a"), cluster("b")], [there], hours=2.0), script)
    started = {event.attempt: event.now_ns for event in script.all_of(WorkloadStarted)}
    (stopped,) = script.all_of(WorkloadStopped)
    assert stopped.attempt == 1
    assert stopped.now_ns == started[2]
    first_warm_s = READY_S + 30.0  # its load time; requests count by the minute
    backlog_minutes = 1  # those who came before are answered late
    assert world.services.violated_minutes[0] == -(-first_warm_s // 60.0) + backlog_minutes


def test_an_elastic_gang_speeds_up_while_devices_are_idle() -> None:
    elastic = job("j", runs_s=7200.0, gang=Gang(workers=1, most_workers=3, growth=0.5))
    script = Script((0.0, PlaceWorkload(order(elastic, "c"))))
    made = setting([cluster("c")], [elastic])
    world = play(made, script, MODES["dure"])
    stiff = play(made, Script((0.0, PlaceWorkload(order(elastic, "c")))), MODES["first-fit"])
    assert world.counts["grown"] > 0
    assert world.jobs[elastic.id].ended_ns < stiff.jobs[elastic.id].ended_ns


def test_those_that_take_turns_run_slower_when_more_is_given_out_than_there_is() -> None:
    queue = cluster("c", [group(nodes=1, devices=1, mode=ShareMode.QUEUE)])
    hardware = Hardware(0, queue, setting([queue], []).fleet, _meter())
    half = Placement(0, (0,), (), "queue of the test", 500)
    for expected in (1.0, 1.0, 1.5):
        hardware.take(half, Demand(memory_bytes=GIB), START_NS)
        assert hardware.slowdown(half) == expected
    hardware.release(half, Demand(memory_bytes=GIB))
    assert hardware.slowdown(half) == 1.0


class _Crowd:
    """A local stage that puts two jobs on one device, the second half an hour later."""

    awaited: frozenset[WorkloadId] = frozenset()

    def handle(self, event: LocalEvent) -> list[LocalInstruction]:
        if not isinstance(event, OrderGiven):
            return []
        name = InstanceId(event.order.workload.id, event.order.attempt, 0)
        return [StartInstance(name, event.order, Placement(0, (0,), (), "queue of the test", 1000))]


def test_a_job_that_gets_company_on_its_device_is_slowed_down_from_then_on() -> None:
    queue = cluster("c", [group(nodes=1, devices=1, mode=ShareMode.QUEUE)])
    jobs = [job("a"), job("b", at_s=1800.0)]
    lines = ((30.0 * n, PlaceWorkload(order(each, "c"))) for n, each in enumerate(jobs))
    made = setting([queue], jobs, hours=3.0)
    world = World(made, Script(*lines), lambda _: _Crowd())
    for minute in range(180):
        world.round(START_NS + minute * 60 * 10**9)
    alone_s = 1800.0 - READY_S  # until the second takes its place
    a_s = 1800.0 + 2.0 * (3600.0 - alone_s)
    assert at_s(world.jobs[jobs[0].id].ended_ns) == pytest.approx(a_s)
    shared_s = a_s - (1800.0 + CONTAINER_S)
    assert at_s(world.jobs[jobs[1].id].ended_ns) == pytest.approx(a_s + 3600.0 - shared_s / 2.0)


def _meter() -> ClusterMeter:
    return Books(setting([cluster("c")], []).fleet, START_NS).clusters[0]


def _hardware(mode: ShareMode = ShareMode.WHOLE) -> Hardware:
    plain = cluster("c", [group(nodes=2, devices=2, mode=mode)])
    return Hardware(0, plain, setting([plain], []).fleet, _meter())


@pytest.mark.parametrize(
    ("mode", "placements", "why"),
    [
        (ShareMode.WHOLE, [Placement(0, (0,)), Placement(0, (0,))], "beyond its compute"),
        (ShareMode.WHOLE, [Placement(0, (2,))], "another node"),
        (
            ShareMode.MIG,
            [
                Placement(0, (0,), (0b11,), "2g.20gb", 285),
                Placement(0, (0,), (0b10,), "1g.10gb", 142),
            ],
            "slots",
        ),
        (
            ShareMode.TIME_SLICE,
            [Placement(0, (0,), (), "ts.2", 500)] * 3,
            "beyond its memory",
        ),
    ],
)
def test_the_world_refuses_to_give_a_device_out_twice(
    mode: ShareMode, placements: list[Placement], why: str
) -> None:
    hardware = _hardware(mode)
    *taken, last = placements
    for placement in taken:
        hardware.take(placement, Demand(memory_bytes=GIB), START_NS)
    with pytest.raises(InvariantError, match=why):
        hardware.take(last, Demand(memory_bytes=GIB), START_NS)


def test_a_node_in_use_cannot_be_powered_down_nor_take_more_than_it_has() -> None:
    hardware = _hardware()
    hardware.take(Placement(0, (0,)), Demand(cpu_milli=64_000), START_NS)
    hardware.power(0, True, START_NS)
    with pytest.raises(InvariantError, match="in use"):
        hardware.power(0, False, START_NS)
    with pytest.raises(InvariantError, match="CPU"):
        hardware.take(Placement(0, (1,)), Demand(cpu_milli=1), START_NS)


def test_only_published_hours_of_carbon_and_prices_reach_the_centre() -> None:
    hourly = [float(value) for value in range(100)]
    script = Script()
    play(setting([cluster("c", carbon=hourly, electricity=hourly)], [], hours=3.0), script)
    for event in script.all_of(SeriesExtended):
        hours = round(at_s(event.now_ns) / 3600.0)
        assert len(event.carbon_g_per_kwh.values) == hours + 1
        assert len(event.electricity_per_mwh.values) == hours + 25


_JOBS = st.lists(
    st.tuples(
        st.integers(0, 7200),  # submitted
        st.integers(60, 9000),  # runs
        st.integers(1, 9),  # workers
        st.integers(0, 2),  # priority
        st.booleans(),  # elastic
    ),
    min_size=1,
    max_size=14,
)


@settings(max_examples=15, deadline=None)
@given(_JOBS, st.sampled_from(["cheapest-first", "least-loaded", "first-fit", "race", "dure"]))
def test_every_job_ends_once_or_is_left_and_every_device_second_is_paid(
    shapes: list[tuple[int, int, int, int, bool]], mode: str
) -> None:
    jobs = [
        job(
            f"j{number}",
            at_s=submitted,
            runs_s=runs,
            priority=priority,
            tenant=TenantId(f"t{number % 2}"),
            gang=Gang(workers=workers, most_workers=2 * workers if elastic else None),
        )
        for number, (submitted, runs, workers, priority, elastic) in enumerate(shapes)
    ]
    made = setting([cluster("a"), cluster("b", price=None), cluster("c", price=5.0)], jobs)
    world, result = run_world(made, mode)
    figures = result.jobs
    assert figures.ended + figures.unfinished + figures.refused == len(jobs)
    assert figures.refused == sum(each.gang.workers > 8 for each in jobs)
    assert sum(member.jobs_ended for member in world.members) == figures.ended
    for record in world.jobs.values():
        assert len(record.live) <= 1 or record.ended_ns < 0
        assert not record.live or record.ended_ns < 0
        if record.ended_ns >= 0:
            assert record.workload.submitted_ns <= record.started_ns < record.ended_ns
    assert sum(each.money.total for each in result.tenants) == pytest.approx(result.money.total)
    held = sum(each.device_h for each in result.clusters)
    worked = sum(
        each.workload.gang.workers * each.workload.work.reference_s / 3600.0
        for each in world.jobs.values()
        if each.ended_ns >= 0 and each.workload.work is not None
    )
    assert held >= worked - 1e-6
    for member in world.members:
        assert sum(member.hardware.held_milli) == 1000 * sum(
            len(run.instances) for run in member.runs.values()
        )


def test_the_same_setting_gives_the_same_run() -> None:
    jobs = [job(f"j{n}", at_s=200.0 * n, runs_s=500.0 * (n % 7 + 1)) for n in range(30)]
    made = setting([cluster("a"), cluster("b", price=None)], [*jobs, service("s")])
    for mode in ("dure", "race"):
        first, second = (run_world(made, mode)[1] for _ in range(2))
        assert replace(first, speed=second.speed) == second
