import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.queueing import delayed_ns, late_share, waiting_ns

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


def _late(length_ns: float, service_ns: float, busy: float, at_ns: float) -> float:
    return (
        1.0 if length_ns > at_ns else late_share(service_ns, busy, at_ns - length_ns + service_ns)
    )


@given(
    st.lists(st.tuples(st.floats(1e3, 1e8), st.floats(0.1, 1e3)), min_size=1, max_size=12),
    st.floats(0.05, 0.95),
    st.sampled_from([0.9, 0.99, 0.999]),
)
def test_waiting_with_delays_is_exceeded_by_just_the_allowed_share(
    delays: list[tuple[float, float]], busy: float, share: float
) -> None:
    service_ns = 1e6
    counted = sorted(delays)
    found_ns = delayed_ns(service_ns, busy, counted, share)
    total = sum(count for _, count in counted)

    def beyond(at_ns: float) -> float:
        return sum(c * _late(each, service_ns, busy, at_ns) for each, c in counted) / total

    assert beyond(found_ns * (1.0 + 1e-6)) <= (1.0 - share) * (1.0 + 1e-6)
    if found_ns > 1.0:
        assert beyond(found_ns * (1.0 - 1e-6)) >= (1.0 - share) * (1.0 - 1e-3)


def test_without_delays_it_is_the_waiting_alone() -> None:
    assert delayed_ns(1e6, 0.5, [], 0.99) == waiting_ns(1e6, 0.5, 0.99)
    assert delayed_ns(1e6, 0.0, [(5e6, 1.0)], 0.99) == 5e6
