import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.fleet.queueing import least_replicas, least_replicas_each, wait_p95_s, waits_p95_s


def test_a_single_replica_waits_as_a_single_server_queue() -> None:
    # M/M/1 at load 0.8: a share of 0.8 waits, then exponentially at rate 2 per second.
    assert wait_p95_s(1, 8.0, 10.0) == pytest.approx(math.log(0.8 / 0.05) / 2.0)


def test_two_replicas_follow_erlangs_formula() -> None:
    # Offered load 1 on two servers: one third of the requests wait.
    assert wait_p95_s(2, 10.0, 10.0) == pytest.approx(math.log((1 / 3) / 0.05) / 10.0)


def test_nobody_waits_without_load_and_everybody_for_ever_in_overload() -> None:
    assert wait_p95_s(1, 0.0, 10.0) == 0.0
    assert math.isinf(wait_p95_s(3, 30.0, 10.0))


@given(
    rate=st.floats(0.1, 400.0),
    replica=st.floats(1.0, 50.0),
    wait_s=st.floats(0.0, 2.0),
)
def test_least_replicas_are_enough_and_one_fewer_is_not(
    rate: float, replica: float, wait_s: float
) -> None:
    found = least_replicas(rate, replica, wait_s, 10_000)
    assert wait_p95_s(found, rate, replica) <= wait_s
    assert found == 1 or wait_p95_s(found - 1, rate, replica) > wait_s


def test_columns_give_what_single_calls_give() -> None:
    rates, replica = np.array([0.0, 5.0, 95.0]), np.array([10.0, 10.0, 10.0])
    counts = least_replicas_each(rates, replica, np.full(3, 0.05), np.full(3, 64))
    assert counts.tolist() == [least_replicas(rate, 10.0, 0.05, 64) for rate in rates]
    waits = waits_p95_s(np.maximum(counts, 1), rates, replica)
    assert waits.tolist() == [
        wait_p95_s(max(count, 1), rate, 10.0) for count, rate in zip(counts, rates, strict=True)
    ]
