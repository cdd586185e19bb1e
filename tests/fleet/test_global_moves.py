"""The global machine over time: prices of crowded sites, and moves that save."""

import numpy as np
import pytest

from dure.domain.fleet.events import (
    ClusterJoined,
    RoundDue,
    SeriesExtended,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import (
    GlobalInstruction,
    MoveWorkload,
    PublishPrices,
)
from dure.domain.fleet.policy import MINUTE_NS, ClassPolicy, CongestionRules, FleetPolicy
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.fleet.workloads import Gang
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet import moving
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_state import GlobalState
from tests.fleet.factories import cluster, group, job
from tests.fleet.machines import machine, of_kind, orders, submit, tell

_SEES_THE_MOMENT = FleetPolicy(forecast=False)


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


def between_two(policy: FleetPolicy | None = None) -> GlobalMachine:
    """A long job in the cheaper of two rented clusters, looked at for a move just now."""
    made = machine(cluster("here", rent=2.0), cluster("there", rent=2.5), policy=policy)
    submit(made, job(hours=50.0, gang=Gang(checkpoint_s=600.0)))
    order = orders(made.handle(RoundDue(0)))["job"]
    assert order.site.cluster == "here"
    made.handle(WorkloadStarted(0, order.workload.id, order.attempt))
    assert not moves(made, MINUTE_NS)
    return made


def moves(made: GlobalMachine, now_ns: int) -> list[GlobalInstruction]:
    return of_kind(made.handle(RoundDue(now_ns)), MoveWorkload)


def test_a_price_that_falls_is_followed_in_minutes_not_at_the_next_hourly_look() -> None:
    made = between_two()
    made.handle(ClusterJoined(2 * MINUTE_NS, cluster("there", rent=0.2)))
    assert not moves(made, 2 * MINUTE_NS)  # looks are five minutes apart, whatever moves
    (move,) = moves(made, 6 * MINUTE_NS)
    assert isinstance(move, MoveWorkload)
    assert move.order.site.cluster == "there"


def test_a_price_that_hardly_moves_waits_for_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    made = between_two()
    looks: list[int] = []
    scan = moving.scan

    def counted(state: GlobalState) -> list[GlobalInstruction]:
        looks.append(state.now_ns // MINUTE_NS)
        return scan(state)

    monkeypatch.setattr(moving, "scan", counted)
    for minute in range(10, 100, 10):
        rent = 2.5 + minute / 1000 if minute < 80 else 2.9
        made.handle(ClusterJoined(minute * MINUTE_NS, cluster("there", rent=rent)))
        made.handle(RoundDue(minute * MINUTE_NS))
    # Hundredths are left to the hourly look; what has moved by more than a tenth is not.
    assert looks == [60, 80]


def test_a_price_known_ahead_is_followed_when_its_hour_comes_and_nobody_says_anything() -> None:
    falls = Series(np.array([20_000.0, 20_000.0, *([100.0] * 48)]))
    here = cluster("here", rent=None, electricity=15_000.0)
    made = machine(here, cluster("there", rent=None, electricity=falls), policy=_SEES_THE_MOMENT)
    submit(made, job(hours=50.0, gang=Gang(checkpoint_s=600.0)))
    order = orders(made.handle(RoundDue(0)))["job"]
    assert order.site.cluster == "here"
    made.handle(WorkloadStarted(0, order.workload.id, order.attempt))
    for minute in (50, 110, 116, 119):
        assert not moves(made, minute * MINUTE_NS)
    (move,) = moves(made, 121 * MINUTE_NS)  # the last look was eleven minutes ago
    assert isinstance(move, MoveWorkload)
    assert move.order.site.cluster == "there"


def test_carbon_that_moves_is_followed_where_it_counts() -> None:
    dear = ClassPolicy(carbon_per_tonne=50_000.0)
    made = between_two(FleetPolicy(batch=dear, training=dear))
    dirty, clean = Series.constant(900.0), Series.constant(10.0)
    for name, carbon in (("here", dirty), ("there", clean)):
        made.handle(SeriesExtended(6 * MINUTE_NS, ClusterId(name), carbon, None))
    (move,) = moves(made, 6 * MINUTE_NS)
    assert isinstance(move, MoveWorkload)
    assert move.order.site.cluster == "there"
