import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.queueing import waiting_ns

shares = st.floats(0.0, 1.0)


@given(st.floats(0.0, 1e12), st.floats(0.0, 1e6), shares)
def test_predicted_waiting_is_finite_and_not_negative(
    service_ns: float, busy_share: float, share: float
) -> None:
    waiting = waiting_ns(service_ns, busy_share, share)
    assert math.isfinite(waiting)
    assert waiting >= 0.0


@given(st.floats(1.0, 1e9), shares, shares)
def test_a_busier_server_makes_nobody_wait_less(
    service_ns: float, one: float, other: float
) -> None:
    calm, busy = sorted((one, other))
    assert waiting_ns(service_ns, calm, 0.99) <= waiting_ns(service_ns, busy, 0.99)


@given(st.floats(1.0, 1e9), shares, shares, shares)
def test_a_larger_share_of_requests_waits_at_most_longer(
    service_ns: float, busy: float, one: float, other: float
) -> None:
    few, many = sorted((one, other))
    assert waiting_ns(service_ns, busy, few) <= waiting_ns(service_ns, busy, many)


def test_waiting_at_half_load_is_close_to_that_of_a_real_queue() -> None:
    """M/D/1 at half load: the 99th percentile of waiting is 3.3 services."""
    assert waiting_ns(1.0, 0.5, 0.99) == pytest.approx(3.3, rel=0.25)
