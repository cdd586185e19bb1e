"""The global machine when places are lost: orders turned down, jobs stopped, clusters cut off."""

import pytest

from dure.domain.fleet.events import (
    ClusterClosed,
    ClusterJoined,
    ClusterLost,
    OrderTurnedDown,
    RoundDue,
    WorkloadStarted,
    WorkloadStopped,
    WorkloadWithdrawn,
)
from dure.domain.fleet.instructions import (
    PreemptWorkload,
)
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.workloads import WhenCutOff
from dure.domain.ids import ClusterId, WorkloadId
from tests.fleet.factories import cluster, job
from tests.fleet.machines import machine, orders, submit

MINUTE_NS = HOUR_NS // 60


def test_a_site_that_turned_a_job_down_is_avoided_for_a_while() -> None:
    made = machine(cluster("own", rent=None), cluster("cloud"))
    submit(made, job())
    order = orders(made.handle(RoundDue(0)))["job"]
    made.handle(OrderTurnedDown(0, WorkloadId("job"), order.attempt, "no"))
    again = orders(made.handle(RoundDue(MINUTE_NS)))["job"]
    assert again.site.cluster == "cloud"
    assert again.attempt == 2


def test_a_stopped_job_is_placed_again_from_its_checkpoint() -> None:
    made = machine(cluster("own", rent=None))
    submit(made, job())
    order = orders(made.handle(RoundDue(0)))["job"]
    made.handle(WorkloadStarted(0, WorkloadId("job"), order.attempt))
    made.handle(WorkloadStopped(HOUR_NS, WorkloadId("job"), order.attempt, 0.5, "node died"))
    again = orders(made.handle(RoundDue(HOUR_NS)))["job"]
    assert again.resume_share == 0.5
    assert again.attempt == 2


def test_news_of_an_older_attempt_changes_nothing() -> None:
    made = machine(cluster("own", rent=None), cluster("cloud"))
    submit(made, job())
    made.handle(RoundDue(0))
    made.handle(OrderTurnedDown(0, WorkloadId("job"), 1, "no"))
    made.handle(RoundDue(0))
    made.handle(WorkloadStopped(0, WorkloadId("job"), 1, 0.0, "late news"))
    assert made.handle(RoundDue(MINUTE_NS)) == []


@pytest.mark.parametrize(
    ("choice", "minutes", "again"),
    [
        (WhenCutOff.WAIT, 60, False),
        (WhenCutOff.REPLACE, 1, True),
        (WhenCutOff.FENCE_AFTER, 1, False),
        (WhenCutOff.FENCE_AFTER, 11, True),
    ],
)
def test_a_lost_cluster_does_with_work_what_its_owner_chose(
    choice: WhenCutOff, minutes: int, again: bool
) -> None:
    made = machine(cluster("own", rent=None), cluster("cloud"))
    submit(made, job(when_cut_off=choice))
    made.handle(RoundDue(0))
    made.handle(ClusterLost(0, ClusterId("own")))
    placed = orders(made.handle(RoundDue(minutes * MINUTE_NS)))
    assert bool(placed) is again
    if again:
        assert placed["job"].site.cluster == "cloud"


def test_what_was_replaced_is_stopped_when_its_cluster_is_back() -> None:
    own = cluster("own", rent=None)
    made = machine(own, cluster("cloud"))
    submit(made, job(when_cut_off=WhenCutOff.REPLACE))
    made.handle(RoundDue(0))
    made.handle(ClusterLost(0, own.id))
    made.handle(RoundDue(MINUTE_NS))
    (stop,) = made.handle(ClusterJoined(2 * MINUTE_NS, own))
    assert isinstance(stop, PreemptWorkload)
    assert (stop.workload, stop.cluster, stop.attempt) == ("job", "own", 1)


def test_a_closed_cluster_keeps_what_it_has_and_gets_nothing_new_until_it_joins_again() -> None:
    own = cluster("own", rent=None)
    made = machine(own, cluster("cloud"))
    submit(made, job(when_cut_off=WhenCutOff.REPLACE))
    assert orders(made.handle(RoundDue(0)))["job"].site.cluster == "own"
    assert made.handle(ClusterClosed(0, own.id)) == []
    submit(made, job("second"))
    placed = orders(made.handle(RoundDue(MINUTE_NS)))
    assert {name: order.site.cluster for name, order in placed.items()} == {"second": "cloud"}
    assert made.handle(ClusterJoined(2 * MINUTE_NS, own)) == []
    submit(made, job("third"))
    assert orders(made.handle(RoundDue(3 * MINUTE_NS)))["third"].site.cluster == "own"


def test_a_withdrawn_job_is_stopped_and_forgotten() -> None:
    made = machine(cluster("own", rent=None))
    submit(made, job())
    made.handle(RoundDue(0))
    (stop,) = made.handle(WorkloadWithdrawn(0, WorkloadId("job")))
    assert isinstance(stop, PreemptWorkload)
    assert made.handle(RoundDue(HOUR_NS)) == []
