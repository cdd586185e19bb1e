from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.fleet.policy import HOUR_NS, ClassPolicy, FleetPolicy
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import WorkloadId
from dure.fleet.migration import (
    KINDS,
    NEVER_NS,
    Offers,
    Running,
    Tenure,
    scan,
)

TRAINING, SERVING = KINDS.index(WorkloadKind.TRAINING), KINDS.index(WorkloadKind.SERVING)
POLICY = FleetPolicy()


def running(stay: list[float], kind: int = TRAINING, **columns: object) -> Running:
    count = len(stay)
    made = Running(
        workloads=tuple(WorkloadId(f"w{number}") for number in range(count)),
        kinds=np.full(count, kind, dtype=np.int8),
        sites=np.zeros(count, dtype=np.int64),
        stay=np.array(stay),
        left_ns=np.full(count, 10.0 * HOUR_NS),
        to_checkpoint_ns=np.zeros(count),
        done_share=np.zeros(count),
        moved_ns=np.full(count, NEVER_NS, dtype=np.int64),
        amounts=np.ones((count, 1)),
    )
    changed: dict[str, Any] = {name: np.array(value) for name, value in columns.items()}
    return replace(made, **changed)


def offers(there: list[list[float]], **terms: list[list[float]]) -> Offers:
    nothing = np.zeros((len(there), len(there[0])))
    made = Offers(np.array(there), nothing, nothing, nothing, np.ones_like(nothing))
    return replace(made, **{name: np.array(value) for name, value in terms.items()})


PLENTY = np.full((2, 1), 100.0)


def test_the_saving_is_net_of_every_cost_of_the_move() -> None:
    made = offers([[100.0, 40.0]], transfer=[[0.0, 5.0]], restart=[[0.0, 3.0]])
    (move,) = scan(running([100.0]), made, PLENTY, POLICY, 0, 0)
    assert (move.workload, move.source, move.target) == ("w0", 0, 1)
    assert move.saving == pytest.approx(52.0)
    assert move.stay - sum(value for _, value in move.terms) == pytest.approx(move.saving)


def test_until_its_checkpoint_a_job_pays_where_it_is() -> None:
    work = running([100.0], to_checkpoint_ns=[4.0 * HOUR_NS])
    (move,) = scan(work, offers([[100.0, 50.0]]), PLENTY, POLICY, 0, 0)
    assert [move.until_move, move.there, move.saving] == pytest.approx([40.0, 30.0, 30.0])


def test_a_job_that_saves_nothing_does_everything_again() -> None:
    work = running([100.0], to_checkpoint_ns=[np.inf], done_share=[0.5])
    made = offers([[100.0, 40.0]])
    (move,) = scan(work, made, PLENTY, POLICY, 0, 0)
    assert [move.redo, move.saving] == pytest.approx([40.0, 20.0])
    work = running([100.0], to_checkpoint_ns=[np.inf], done_share=[0.8])
    assert scan(work, made, PLENTY, POLICY, 0, 0) == []


def test_a_service_runs_twice_until_the_new_one_is_warm() -> None:
    work = running([100.0], SERVING)
    made = offers([[100.0, 60.0]], warm_ns=[[0.0, 1.0 * HOUR_NS]])
    (move,) = scan(work, made, PLENTY, POLICY, 0, 0)
    assert [move.double, move.saving] == pytest.approx([10.0, 30.0])


@pytest.mark.parametrize(
    ("threshold", "share", "moves"), [(19.9, 0.1, 1), (20.1, 0.1, 0), (1.0, 0.21, 0)]
)
def test_both_thresholds_hold(threshold: float, share: float, moves: int) -> None:
    rules = ClassPolicy(migration_threshold=threshold, migration_share=share)
    policy = FleetPolicy(training=rules)
    found = scan(running([100.0]), offers([[100.0, 80.0]]), PLENTY, policy, 0, 0)
    assert len(found) == moves


def test_work_cools_down_between_moves() -> None:
    work = running([100.0], moved_ns=[5 * HOUR_NS])
    made = offers([[100.0, 10.0]])
    assert scan(work, made, PLENTY, POLICY, 6 * HOUR_NS - 1, 0) == []
    assert len(scan(work, made, PLENTY, POLICY, 6 * HOUR_NS, 0)) == 1


def test_a_class_that_may_not_migrate_stays() -> None:
    policy = FleetPolicy(training=ClassPolicy(migrate=False))
    assert scan(running([100.0]), offers([[100.0, 1.0]]), PLENTY, policy, 0, 0) == []


def test_the_largest_savings_get_the_room_and_the_next_best_site_is_second_choice() -> None:
    work = running([100.0, 100.0])
    made = offers([[100.0, 40.0, 45.0], [100.0, 20.0, 60.0]])
    moves = scan(work, made, np.ones((3, 1)), POLICY, 0, 0)
    assert [(move.workload, move.target) for move in moves] == [("w1", 1), ("w0", 2)]


def test_what_is_needed_may_differ_by_site() -> None:
    work = running([100.0], amounts=np.array([[[1.0], [8.0], [2.0]]]))
    made = offers([[100.0, 20.0, 40.0]])
    (move,) = scan(work, made, np.full((3, 1), 4.0), POLICY, 0, 0)
    assert move.target == 2


def test_moves_in_flight_count_against_the_most() -> None:
    work = running([100.0] * 5)
    made = offers([[100.0, 10.0]] * 5)
    policy = replace(POLICY, most_moves=4)
    assert len(scan(work, made, PLENTY, policy, 0, 1)) == 3
    assert scan(work, made, PLENTY, policy, 0, 4) == []


def test_where_it_cannot_go_is_never_offered() -> None:
    work, made = running([100.0]), offers([[100.0, np.inf]])
    assert scan(work, made, PLENTY, POLICY, 0, 0) == []


money = st.floats(0.0, 500.0)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_nothing_under_the_threshold_or_beyond_capacity_is_ever_returned(
    data: st.DataObject,
) -> None:
    jobs, sites = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 4))

    def column(values: st.SearchStrategy[float]) -> list[float]:
        return data.draw(st.lists(values, min_size=jobs, max_size=jobs))

    def table(values: st.SearchStrategy[float]) -> list[list[float]]:
        rows = st.lists(values, min_size=sites, max_size=sites)
        return data.draw(st.lists(rows, min_size=jobs, max_size=jobs))

    work = running(
        column(money),
        kinds=np.array(column(st.integers(0, 2).map(float)), dtype=np.int8),
        left_ns=column(st.floats(1.0, 100.0 * HOUR_NS)),
        to_checkpoint_ns=column(st.floats(0.0, 10.0 * HOUR_NS) | st.just(np.inf)),
        done_share=column(st.floats(0.0, 1.0)),
        amounts=np.array(column(st.floats(0.0, 8.0)))[:, None],
    )
    made = offers(
        table(money | st.just(np.inf)),
        transfer=table(money),
        restart=table(money),
        warm_ns=table(st.floats(0.0, 10.0 * HOUR_NS)),
    )
    rules = ClassPolicy(
        migration_threshold=data.draw(st.floats(0.0, 50.0)),
        migration_share=data.draw(st.floats(0.0, 0.5)),
    )
    policy = FleetPolicy(training=rules, batch=rules, serving=rules)
    free = np.array(data.draw(st.lists(st.floats(0, 10), min_size=sites, max_size=sites)))
    moves = scan(work, made, free[:, None], policy, 0, 0)
    taken = np.zeros(sites)
    for move in moves:
        assert move.target != move.source
        assert move.saving >= rules.migration_threshold
        assert move.saving >= rules.migration_share * move.stay - 1e-9
        cost = sum(value for _, value in move.terms)
        assert move.saving == pytest.approx(move.stay - cost, abs=1e-6)
        taken[move.target] += work.amounts[move.row, 0]
    assert np.all(taken <= free + 1e-9)
    assert len({move.workload for move in moves}) == len(moves)


def test_a_move_is_credited_with_the_time_it_is_expected_to_last() -> None:
    made = offers([[100.0, 50.0]], transfer=[[0.0, 4.0]], lasts=[[1.0, 0.5]])
    (move,) = scan(running([100.0]), made, PLENTY, POLICY, 0, 0)
    assert [move.stay, move.there, move.saving] == pytest.approx([50.0, 25.0, 21.0])
    assert move.stay - sum(value for _, value in move.terms) == pytest.approx(move.saving)


def test_tenure_learns_how_long_work_stays_at_each_site() -> None:
    tenure = Tenure()
    before = tenure.lasts(np.full((1, 2), 100.0))
    for hour in range(200):
        tenure.pass_time(hour * HOUR_NS, np.array([10.0, 10.0]))
        for _ in range(2):
            tenure.leave(1)
    # At the second site each of ten leaves every five hours.
    assert tenure.per_hour(2)[1] == pytest.approx(0.2, rel=0.05)
    after = tenure.lasts(np.full((1, 2), 100.0))
    assert after[0, 1] == pytest.approx(0.05, rel=0.05)
    assert after[0, 1] < before[0, 1] == before[0, 0] < after[0, 0]
    assert tenure.lasts(np.full((1, 2), 1e-3))[0] == pytest.approx([1.0, 1.0], abs=1e-3)
