"""The global machine over time: prices of crowded sites, and moves that save."""

from dure.domain.fleet.events import (
    RoundDue,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import (
    GlobalInstruction,
    MoveWorkload,
    PublishPrices,
)
from dure.domain.fleet.policy import ClassPolicy, CongestionRules, FleetPolicy
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.workloads import Gang
from dure.domain.ids import WorkloadId
from dure.fleet.global_machine import GlobalMachine
from tests.fleet.factories import cluster, group, job
from tests.fleet.machines import machine, of_kind, orders, submit, tell


def crowded(rules: CongestionRules) -> tuple[GlobalMachine, list[GlobalInstruction]]:
    own, cloud = cluster("own", rent=None, groups=(group(nodes=1),)), cluster("cloud")
    made = machine(own, cloud, policy=FleetPolicy(congestion=rules))
    submit(made, *(job(f"job-{number}") for number in range(16)))
    return made, made.handle(RoundDue(0))


def test_crowding_raises_a_price_that_is_published_and_felt() -> None:
    made, said = crowded(CongestionRules())
    (news,) = of_kind(said, PublishPrices)
    assert isinstance(news, PublishPrices)
    assert dict(news.prices)["own/main"] > 0
    assert made.prices()["own/main"] > 0
    assert made.prices()["cloud/main"] == 0


def test_frozen_and_pinned_prices_stay() -> None:
    frozen, _ = crowded(CongestionRules(frozen=True))
    assert set(frozen.prices().values()) == {0.0}
    pinned, said = crowded(CongestionRules(pinned={"own": 100.0}))
    assert {order.site.cluster for order in orders(said).values()} == {"cloud"}
    assert pinned.prices()["own/main"] == 100.0


def running_long(policy: FleetPolicy) -> GlobalMachine:
    """A long job that rents while owned devices have become free."""
    own, cloud = cluster("own", rent=None, groups=(group(nodes=1),)), cluster("cloud")
    made = machine(own, cloud, policy=policy)
    tell(made, own, used=8)
    submit(made, job(hours=50.0, gang=Gang(checkpoint_s=600.0)))
    order = orders(made.handle(RoundDue(0)))["job"]
    assert order.site.cluster == "cloud"
    made.handle(WorkloadStarted(0, order.workload.id, order.attempt))
    tell(made, own, used=0, now_ns=HOUR_NS)
    return made


def test_running_work_moves_when_that_saves_enough() -> None:
    made = running_long(FleetPolicy())
    (move,) = of_kind(made.handle(RoundDue(2 * HOUR_NS)), MoveWorkload)
    assert isinstance(move, MoveWorkload)
    assert (move.source, move.order.site.cluster, move.order.attempt) == ("cloud", "own", 2)
    assert move.expected_saving > 10.0
    made.handle(WorkloadStarted(3 * HOUR_NS, WorkloadId("job"), 2))
    assert list(made.state.tracks[WorkloadId("job")].places) == [2]


def test_a_job_that_has_left_for_its_new_place_is_not_forgotten_however_long_it_takes() -> None:
    made = running_long(FleetPolicy())
    made.handle(RoundDue(2 * HOUR_NS))
    made.handle(WorkloadStopped(3 * HOUR_NS, WorkloadId("job"), 1, 0.1, "moved"))
    made.handle(RoundDue(30 * HOUR_NS))
    assert list(made.state.tracks[WorkloadId("job")].places) == [2]
    made.handle(WorkloadStarted(31 * HOUR_NS, WorkloadId("job"), 2))
    assert made.explain(WorkloadId("job")) is not None


def test_a_move_under_the_threshold_is_not_made() -> None:
    rules = ClassPolicy(migration_threshold=1e6)
    made = running_long(FleetPolicy(batch=rules, training=rules))
    assert of_kind(made.handle(RoundDue(2 * HOUR_NS)), MoveWorkload) == []


def test_a_dry_run_says_what_would_move_and_moves_nothing() -> None:
    made = running_long(FleetPolicy(dry_run=True))
    (move,) = of_kind(made.handle(RoundDue(2 * HOUR_NS)), MoveWorkload)
    assert isinstance(move, MoveWorkload)
    assert move.dry_run
    assert list(made.state.tracks[WorkloadId("job")].places) == [1]
