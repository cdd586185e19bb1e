import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.domain.latency import (
    BUCKET_COUNT,
    FIRST_BUCKET_NS,
    bucket_middle_ns,
    bucket_of,
    quantile_ns,
)

latencies = st.floats(FIRST_BUCKET_NS * 1.01, 1e11)


@given(latencies)
def test_the_middle_of_a_bucket_is_within_9_percent(latency_ns: float) -> None:
    middle = bucket_middle_ns(bucket_of(latency_ns))
    assert 1 / 1.09 <= middle / latency_ns <= 1.09


@given(latencies, latencies)
def test_a_longer_latency_is_never_in_a_lower_bucket(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert bucket_of(low) <= bucket_of(high)


@given(st.floats(0, 1e18))
def test_every_latency_has_a_bucket(latency_ns: float) -> None:
    assert 0 <= bucket_of(latency_ns) < BUCKET_COUNT


def test_no_requests_have_no_quantile() -> None:
    assert quantile_ns([], 0.99) == 0.0


@given(st.lists(latencies, min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_quantile_is_within_9_percent_of_the_exact_one(values: list[float], share: float) -> None:
    counts: dict[int, float] = {}
    for value in values:
        counts[bucket_of(value)] = counts.get(bucket_of(value), 0) + 1
    rank = next(i for i in range(len(values)) if i + 1 >= share * len(values))
    exact = sorted(values)[rank]
    assert quantile_ns(counts.items(), share) == pytest.approx(exact, rel=0.09)
