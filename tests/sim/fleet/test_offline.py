import numpy as np
import pytest

from dure.sim.fleet.offline import OfflineCase, offline_bound

NEVER = 1e9


def case(
    price: list[list[float]],
    capacity: list[float],
    jobs: list[list[float]],
    *,
    steps: list[tuple[int, list[float], float]] | None = None,
) -> OfflineCase:
    """Jobs as (release, work, rate, earliest end, deadline, penalty per hour, cap)."""
    rows = steps or []
    sites = len(capacity)
    return OfflineCase(
        price=np.array(price),
        capacity=np.array(capacity),
        slowness=np.ones((1, sites)),
        job_class=np.zeros(len(jobs), np.int64),
        jobs=np.array(jobs).reshape(len(jobs), 7),
        step_hour=np.array([row[0] for row in rows], np.int64),
        step_need=np.array([row[1] for row in rows]).reshape(len(rows), sites),
        step_penalty=np.array([row[2] for row in rows]),
        unfinished_price=np.array([100.0]),
    )


def test_with_room_for_all_the_bound_is_what_the_cheapest_hours_cost() -> None:
    found = offline_bound(
        case([[3.0, 1.0, 2.0, 5.0]], [4.0], [[0, 2.0, 1.0, 2.0, NEVER, 0.0, 0.0]])
    )
    assert found.value == pytest.approx(1.0 + 2.0)


def test_a_deadline_is_kept_when_lateness_costs_more_than_dear_hours() -> None:
    job = [0, 1.0, 1.0, 1.0, 1.0, 50.0, 1000.0]
    found = offline_bound(case([[9.0, 8.0, 1.0, 1.0]], [1.0], [job]))
    assert found.value == pytest.approx(8.0)


def test_scarce_hours_are_priced_until_the_bound_is_that_of_the_best_schedule() -> None:
    # Two jobs of an hour, one device: the cheap hour serves one, the other pays 5.
    job = [0, 1.0, 1.0, 1.0, NEVER, 0.0, 0.0]
    found = offline_bound(case([[1.0, 5.0]], [1.0], [job, job]), hour_steps=400)
    assert found.value == pytest.approx(6.0, rel=0.02)
    assert found.value <= 6.0 + 1e-9


def test_a_service_pays_where_serving_is_dearer() -> None:
    rows = [(0, [2.0], 100.0), (1, [2.0], 3.0)]
    found = offline_bound(case([[4.0, 4.0]], [10.0], [], steps=rows))
    assert found.value == pytest.approx(8.0 + 3.0)


def test_what_does_not_fit_before_the_end_is_billed_as_unfinished() -> None:
    job = [1, 5.0, 1.0, 6.0, NEVER, 0.0, 0.0]
    found = offline_bound(case([[1.0, 1.0]], [1.0], [job]))
    assert found.value == pytest.approx(1.0 + 4 * 100.0)


def test_work_that_costs_more_than_leaving_it_is_left() -> None:
    job = [0, 2.0, 1.0, 2.0, NEVER, 0.0, 0.0]
    found = offline_bound(case([[300.0, 40.0]], [1.0], [job]))
    assert found.value == pytest.approx(40.0 + 100.0)
