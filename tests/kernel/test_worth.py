import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.kernel.policies.base import Measure, Worth

speeds = st.floats(0.001, 1.0)
worths = st.builds(
    Worth,
    st.floats(0.0, 1e3),
    st.sampled_from(Measure),
    load=st.floats(0.01, 1.0),
    request=st.floats(0.001, 0.8),
)


@given(worths, speeds, speeds)
def test_going_faster_is_never_worth_less(worth: Worth, one: float, other: float) -> None:
    slow, fast = sorted((one, other))
    assert worth.at(slow) <= worth.at(fast) + 1e-9 * worth.value


@given(speeds)
def test_progress_is_worth_its_speed(speed: float) -> None:
    assert Worth(3.0).at(speed) == pytest.approx(3.0 * speed)


def test_a_promise_with_much_room_gains_next_to_nothing_from_more_speed() -> None:
    promise = Worth(2.0, Measure.PROMISE, load=0.2, request=0.05)
    assert 0.98 * promise.at(1.0) < promise.at(0.7) <= promise.at(1.0) <= 2.0


def test_a_promise_too_slow_to_be_kept_is_worth_little() -> None:
    promise = Worth(2.0, Measure.PROMISE, load=0.3, request=0.4)
    assert promise.at(0.4) < 0.1 * promise.at(1.0)


def test_a_queue_close_to_overflow_costs_far_more_than_one_with_room() -> None:
    queue = Worth(1.0, Measure.QUEUE, load=0.5)
    assert queue.at(0.51) < 5 * queue.at(1.0) < 0.0


@given(worths, speeds)
def test_the_share_of_busy_time_is_a_share(worth: Worth, speed: float) -> None:
    assert 0.0 <= worth.busy(speed) <= 1.0
