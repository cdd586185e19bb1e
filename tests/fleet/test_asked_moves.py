"""Moves that people ask for, hours in which nothing moves, moves that come to nothing."""

from dataclasses import replace
from typing import Any

import pytest

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.events import (
    ClusterClosed,
    MoveAsked,
    MovesHeld,
    OrderTurnedDown,
    RoundDue,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import GlobalInstruction, MoveWorkload, RefuseMove
from dure.domain.fleet.migrations import MoveKind, kind_of
from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.workloads import Gang, Workload, WorkloadKind
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.fleet.asked_moves import Weighed, weigh
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.tracks import Phase
from tests.fleet.factories import cluster, fleet, group, job, service
from tests.fleet.machines import machine, of_kind, orders, submit, tell

JOB = WorkloadId("job")
DEAR, CHEAP = ClusterId("dear"), ClusterId("cheap")
EGRESS = 0.08
STAYS = FleetPolicy(migrate=False)


def member(name: str, rent: float) -> Cluster:
    """One node of eight devices."""
    return cluster(name, rent=rent, groups=(group(nodes=1),))


def running(workload: Workload, policy: FleetPolicy = STAYS) -> GlobalMachine:
    """A workload that runs in the dear cluster, since the cheap one was full."""
    dear, cheap = member("dear", 5.0), member("cheap", 1.0)
    world = replace(fleet(dear, cheap), egress_default_per_gb=EGRESS)
    made = machine(dear, cheap, policy=policy, world=world)
    tell(made, cheap, used=8)
    submit(made, workload)
    order = orders(made.handle(RoundDue(0)))[workload.id]
    assert order.site.cluster == "dear"
    made.handle(WorkloadStarted(0, workload.id, order.attempt))
    tell(made, cheap, used=0, now_ns=HOUR_NS)
    return made


def training(**rest: Any) -> Workload:
    gang = Gang(checkpoint_s=600.0, checkpoint_bytes=100 * 10**9)
    return job(hours=50.0, gang=gang, kind=WorkloadKind.TRAINING, **rest)


def ask(made: GlobalMachine, to: ClusterId | None = CHEAP) -> GlobalInstruction:
    (said,) = made.handle(MoveAsked(2 * HOUR_NS, JOB, to))
    return said


def test_a_job_goes_where_somebody_says_and_the_sum_is_told() -> None:
    made = running(training())
    made.handle(RoundDue(2 * HOUR_NS))
    before = made.snapshot()
    weighed = weigh(made.state, JOB, CHEAP)
    assert isinstance(weighed, Weighed)
    assert made.snapshot() == before
    move = ask(made)
    assert isinstance(move, MoveWorkload)
    assert (move.source, move.order.site.cluster, move.order.attempt) == ("dear", "cheap", 2)
    assert move.expected_saving == pytest.approx(weighed.candidate.saving)
    assert move.egress == pytest.approx(100 * EGRESS)
    assert dict(move.order.explanation.terms)["transfer"] == pytest.approx(100 * EGRESS)
    assert weighed.pause_h >= 100e9 / 1.25e9 / 3600
    assert sorted(made.state.tracks[JOB].places) == [1, 2]


def test_what_is_billed_of_a_move_is_weighted_as_in_any_explanation() -> None:
    made = running(training(), replace(STAYS, training=ClassPolicy(cost_weight=0.5)))
    move = ask(made)
    assert isinstance(move, MoveWorkload)
    assert dict(move.order.explanation.terms)["transfer"] == pytest.approx(50 * EGRESS)


def test_without_a_place_named_the_cheapest_is_taken_whether_it_pays_or_not() -> None:
    made = running(training())
    made.handle(MoveAsked(2 * HOUR_NS, JOB, None))
    made.handle(WorkloadStarted(3 * HOUR_NS, JOB, 2))
    (back,) = made.handle(MoveAsked(4 * HOUR_NS, JOB, None))
    assert isinstance(back, MoveWorkload)
    assert back.order.site.cluster == "dear"
    assert back.expected_saving < 0


def test_a_service_goes_too_and_keeps_its_place_until_then() -> None:
    made = running(service("job"))
    move = ask(made)
    assert isinstance(move, MoveWorkload)
    assert kind_of(move.order.workload) is MoveKind.WARM
    assert sorted(made.state.tracks[JOB].places) == [1, 2]


@pytest.mark.parametrize(
    ("to", "why"),
    [
        (DEAR, "it is in cluster dear already"),
        (ClusterId("moon"), "cluster moon is not known"),
    ],
)
def test_what_cannot_be_is_refused_with_why(to: ClusterId, why: str) -> None:
    said = ask(running(training()), to)
    assert isinstance(said, RefuseMove)
    assert why in said.why


def test_a_full_or_closed_cluster_and_an_owner_who_forbids_it_are_reasons() -> None:
    full = running(training())
    tell(full, member("cheap", 1.0), used=8, now_ns=HOUR_NS)
    said = ask(full)
    assert isinstance(said, RefuseMove)
    assert said.why == "cluster cheap has no room now"
    nowhere = ask(full, None)
    assert isinstance(nowhere, RefuseMove)
    assert nowhere.why == "no other cluster has room now"
    closed = running(training())
    closed.handle(ClusterClosed(HOUR_NS, CHEAP))
    said = ask(closed)
    assert isinstance(said, RefuseMove)
    assert "takes nothing new" in said.why
    bound = running(training(clusters=frozenset({DEAR})))
    said = ask(bound)
    assert isinstance(said, RefuseMove)
    assert "its owner does not let it run" in said.why


def test_what_is_on_its_way_or_has_no_place_is_not_moved() -> None:
    made = running(training())
    ask(made)
    again = ask(made)
    assert isinstance(again, RefuseMove)
    assert again.why == "it is on its way elsewhere already"
    (unknown,) = made.handle(MoveAsked(2 * HOUR_NS, WorkloadId("none"), None))
    assert isinstance(unknown, RefuseMove)
    assert unknown.why == "it has no place to be moved from"


@pytest.mark.parametrize("workload", [training(), service("job")])
def test_a_move_that_comes_to_nothing_leaves_the_workload_as_it_was(workload: Workload) -> None:
    made = running(workload)
    ask(made)
    made.handle(WorkloadStopped(3 * HOUR_NS, JOB, 2, 0.0, "called off"))
    track = made.state.tracks[JOB]
    assert (track.phase, list(track.places)) == (Phase.RUNNING, [1])
    assert JOB not in made.state.moving
    made.handle(RoundDue(30 * HOUR_NS))
    assert list(track.places) == [1]
    (again,) = made.handle(MoveAsked(31 * HOUR_NS, JOB, CHEAP))
    assert isinstance(again, MoveWorkload)
    assert again.order.attempt == 3
    made.handle(OrderTurnedDown(32 * HOUR_NS, JOB, 3, "no room"))
    assert list(track.places) == [1]


@pytest.mark.parametrize(
    "held",
    [
        MovesHeld(0, workloads=frozenset({JOB})),
        MovesHeld(0, tenants=frozenset({TenantId("ann")})),
        MovesHeld(0, clusters=frozenset({DEAR})),
        MovesHeld(0, clusters=frozenset({CHEAP})),
    ],
)
def test_what_is_held_is_not_moved_by_itself_until_it_is_so_no_more(held: MovesHeld) -> None:
    made = running(training(tenant=TenantId("ann")), FleetPolicy())
    made.handle(held)
    assert of_kind(made.handle(RoundDue(5 * HOUR_NS)), MoveWorkload) == []
    made.handle(MovesHeld(6 * HOUR_NS))
    (move,) = of_kind(made.handle(RoundDue(7 * HOUR_NS)), MoveWorkload)
    assert isinstance(move, MoveWorkload)
    assert move.order.site.cluster == "cheap"
