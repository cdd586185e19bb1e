"""Faults in a simulated fleet: what is lost, what goes on, what the centre hears."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dure.domain.errors import InputError
from dure.domain.fleet.events import (
    ClusterJoined,
    ClusterLost,
    WorkloadEnded,
    WorkloadStopped,
    WorkloadSubmitted,
)
from dure.domain.fleet.instructions import PlaceWorkload
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS
from dure.domain.fleet.workloads import Gang, WhenCutOff
from dure.domain.ids import ClusterId
from dure.sim.fleet.faults import (
    CentreFault,
    ClusterFault,
    ClusterFaultKind,
    Fault,
    NodeFault,
)
from dure.sim.fleet.run import run_world
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

C = ClusterId("c")
READY_S = BOOT_S + CONTAINER_S


def _at(minute: float) -> int:
    return START_NS + round(minute * MINUTE_NS)


def test_a_gang_that_loses_a_node_goes_on_from_its_checkpoint() -> None:
    gang = job("j", runs_s=6000.0, gang=Gang(workers=8, checkpoint_s=600.0))
    fault = NodeFault(_at(50.0), 5 * MINUTE_NS, C, 0)
    script = Script((0.0, PlaceWorkload(order(gang, "c"))))
    made = setting([cluster("c", [group(nodes=3)])], [gang], faults=(fault,))
    world = play(made, script)
    ran_s = 3000.0 - READY_S
    saved_s = ran_s // 600.0 * 600.0
    assert world.history.lost_device_s == pytest.approx(8 * (ran_s - saved_s))
    again_s = 3000.0 + READY_S  # the third node has to boot
    end_s = again_s + 6000.0 - saved_s
    assert at_s(world.jobs[gang.id].ended_ns) == pytest.approx(end_s, abs=60.0)


def test_a_job_elsewhere_does_not_notice_a_node_that_dies() -> None:
    alone = job("j")
    fault = NodeFault(_at(30.0), HOUR_NS, C, 1)
    script = Script((0.0, PlaceWorkload(order(alone, "c"))))
    world = play(setting([cluster("c")], [alone], faults=(fault,)), script)
    assert at_s(world.jobs[alone.id].ended_ns) == pytest.approx(READY_S + 3600.0)


def test_a_cluster_that_is_cut_off_works_on_and_tells_later() -> None:
    alone = job("j")
    fault = ClusterFault(_at(10.0), 3 * HOUR_NS, C)
    script = Script((0.0, PlaceWorkload(order(alone, "c"))))
    world = play(setting([cluster("c")], [alone], faults=(fault,)), script)
    (ended,) = script.all_of(WorkloadEnded)
    assert at_s(ended.now_ns) == pytest.approx(READY_S + 3600.0)
    heard = [type(event) for event in script.heard]
    assert heard.index(ClusterLost) < len(heard) - 1 - heard[::-1].index(ClusterJoined)
    assert heard.index(WorkloadEnded) > len(heard) - 1 - heard[::-1].index(ClusterJoined)
    assert world.jobs[alone.id].ended_ns == ended.now_ns


def test_a_job_that_was_replaced_runs_twice_until_the_centre_hears_that_it_ended() -> None:
    twin = job("j", when_cut_off=WhenCutOff.REPLACE)
    fault = ClusterFault(_at(10.0), 105 * MINUTE_NS, C)
    script = Script(
        (0.0, PlaceWorkload(order(twin, "c"))), (60.0, PlaceWorkload(order(twin, "d", 2)))
    )
    made = setting([cluster("c"), cluster("d")], [twin], faults=(fault,))
    world = play(made, script)
    assert at_s(world.jobs[twin.id].ended_ns) == pytest.approx(READY_S + 3600.0)
    assert [member.jobs_ended for member in world.members] == [1, 0]
    # The other went on until the cluster was back, after 115 minutes, and was then stopped.
    held_h = world.books.clusters[1].device_h
    assert held_h == pytest.approx((115.0 - 60.0) / 60.0)
    assert len(script.all_of(WorkloadEnded)) == 1


def test_orders_for_a_cluster_that_is_cut_off_arrive_when_it_is_back() -> None:
    late = job("j", at_s=1200.0)
    fault = ClusterFault(_at(10.0), HOUR_NS, C)
    script = Script((20.0, PlaceWorkload(order(late, "c"))))
    world = play(setting([cluster("c")], [late], faults=(fault,)), script)
    assert at_s(world.jobs[late.id].started_ns) == pytest.approx(4200.0 + READY_S)


def test_a_lost_cluster_starts_its_jobs_again_from_their_checkpoints() -> None:
    alone = job("j", runs_s=7200.0)
    fault = ClusterFault(_at(60.0), HOUR_NS, C, ClusterFaultKind.LOST)
    script = Script((0.0, PlaceWorkload(order(alone, "c"))))
    world = play(setting([cluster("c")], [alone], faults=(fault,)), script)
    saved_s = (3600.0 - READY_S) // 600.0 * 600.0
    stops = script.all_of(WorkloadStopped)
    if stops:  # it was given back, with what was saved
        assert stops[0].saved_share == pytest.approx(saved_s / 7200.0)
    else:
        end_s = 7200.0 + CONTAINER_S + 7200.0 - saved_s
        assert at_s(world.jobs[alone.id].ended_ns) == pytest.approx(end_s, abs=60.0)


def test_clusters_go_on_without_the_centre_and_it_hears_everything_afterwards() -> None:
    jobs = [job("running"), job("new", at_s=1800.0)]
    fault = CentreFault(_at(10.0), 2 * HOUR_NS)
    made = setting([cluster("c")], jobs, faults=(fault,))
    world, result = run_world(made, "first-fit")
    assert result.jobs.ended == 2
    assert at_s(world.jobs[jobs[0].id].ended_ns) == pytest.approx(READY_S + 3600.0)
    assert at_s(world.jobs[jobs[1].id].started_ns) == pytest.approx(7800.0 + READY_S)
    script = Script()
    play(made, script)
    submitted = [event.workload.id for event in script.all_of(WorkloadSubmitted)]
    assert submitted == ["running", "new"]


def test_a_service_loses_the_replicas_of_its_node_and_gets_others() -> None:
    steady = service("s", rate=2.0)
    fault = NodeFault(_at(30.0), HOUR_NS, C, 0)
    script = Script((0.0, PlaceWorkload(order(steady, "c", 1, 1))))
    world = play(setting([cluster("c")], [steady], hours=2.0, faults=(fault,)), script)
    assert world.counts["service_starts"] >= 2
    cold_minutes = -(-(READY_S + 30.0) // 60.0) + 1  # until warm, and for the backlog
    assert cold_minutes < world.services.violated_minutes[0] <= 2 * cold_minutes
    assert world.history.hours.service_within_target[-1] == 1.0


def test_faults_must_name_what_exists() -> None:
    for fault, why in (
        (NodeFault(_at(1.0), 1, ClusterId("x"), 0), "no cluster"),
        (NodeFault(_at(1.0), 1, C, 9), "node 9"),
        (ClusterFault(_at(1.0), 1, ClusterId("x")), "no cluster"),
    ):
        with pytest.raises(InputError, match=why):
            setting([cluster("c")], [], faults=(fault,))


_FAULTS = st.lists(
    st.one_of(
        st.builds(
            NodeFault,
            st.integers(0, 300).map(_at),
            st.integers(1, 120).map(lambda m: m * MINUTE_NS),
            st.sampled_from([ClusterId("a"), ClusterId("b")]),
            st.integers(0, 1),
        ),
        st.builds(
            ClusterFault,
            st.integers(0, 300).map(_at),
            st.integers(1, 120).map(lambda m: m * MINUTE_NS),
            st.sampled_from([ClusterId("a"), ClusterId("b")]),
            st.sampled_from(ClusterFaultKind),
        ),
        st.builds(
            CentreFault,
            st.integers(0, 300).map(_at),
            st.integers(1, 120).map(lambda m: m * MINUTE_NS),
        ),
    ),
    max_size=6,
)


@settings(max_examples=15, deadline=None)
@given(_FAULTS, st.sampled_from(["dure", "cheapest-first", "race"]))
@example([NodeFault(_at(181), MINUTE_NS, ClusterId("a"), 0)], "dure")
def test_whatever_fails_no_job_is_lost_or_ends_twice(faults: list[Fault], mode: str) -> None:
    jobs = [
        job(f"j{n}", at_s=900.0 * n, runs_s=900.0 * (n % 4 + 1), gang=Gang(workers=n % 3 * 2 + 1))
        for n in range(12)
    ]
    made = setting([cluster("a"), cluster("b", price=1.0)], [*jobs, service("s", rate=2.0)])
    made = replace(made, faults=tuple(faults), duration_ns=24 * HOUR_NS, round_ns=5 * MINUTE_NS)
    world, result = run_world(made, mode)
    assert result.jobs.ended == len(jobs)
    assert sum(member.jobs_ended for member in world.members) == len(jobs)
    assert sum(each.money.total for each in result.tenants) == pytest.approx(result.money.total)
