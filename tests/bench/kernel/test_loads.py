import time

import pytest

from dure.bench.kernel import loads
from dure.bench.kernel.loads import Work, run
from dure.bench.kernel.orders import CLOSED, FINITE, POISSON, TRAIN, Answer, Order


def working(step_s: float) -> Work:
    return Work(lambda: time.sleep(step_s), lambda: None, lambda: None)


def soon() -> float:
    return time.monotonic() + 0.05


class Clock:
    """A clock that moves a little whenever it is read."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 1e-5
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_latency_runs_from_the_scheduled_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that takes 10 ms, asked 200 times a second, falls behind by more and more."""
    clock = Clock()
    monkeypatch.setattr(loads, "time", clock)
    work = Work(lambda: clock.sleep(0.01), lambda: None, lambda: None)
    answer = run(work, Order(POISSON, 1.0, 0.5, 0.0, per_s=200.0, seed=1))
    assert answer.latencies_ms[-1] > 10 * answer.latencies_ms[0]
    assert len(answer.unserved_ms) > 10
    assert all(0.0 <= wait <= 500.0 for wait in answer.unserved_ms)


def test_every_arrival_of_the_window_is_answered_or_counted_as_waiting() -> None:
    order = Order(POISSON, soon(), 0.5, 0.2, per_s=100.0, seed=2)
    idle, slow = run(working(0.0), order), run(working(0.02), Order.read({**_again(order)}))
    assert len(idle.latencies_ms) + len(idle.unserved_ms) == len(slow.latencies_ms) + len(
        slow.unserved_ms
    )


def _again(order: Order) -> dict[str, object]:
    return {**order.message(), "start_s": time.monotonic() + 0.25}


def test_training_counts_whole_groups_of_steps_within_the_window() -> None:
    answer = run(working(0.005), Order(TRAIN, soon(), 0.5, 0.02, sync_every=4))
    assert answer.done % 4 == 0
    assert answer.done > 0
    assert answer.per_s == pytest.approx(answer.done / (answer.last_s - answer.first_s))
    assert answer.per_s <= 200.0


def test_training_that_is_starved_has_done_nothing() -> None:
    answer = run(working(0.2), Order(TRAIN, soon(), 0.1, 0.0, sync_every=1))
    assert (answer.done, answer.per_s) == (0, 0.0)


def test_a_finite_job_does_all_its_steps_and_says_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    start_s = soon()
    order = Order(FINITE, start_s, 0.0, steps=10, sync_every=4)
    answer = run(working(0.002), order, lambda done, total: told.append((done, total)))
    assert told == [(0, 10), (4, 10), (8, 10), (10, 10)]
    assert answer.last_s - start_s >= 0.02
    assert answer.first_s == start_s


def test_closed_loop_latencies_follow_one_another() -> None:
    answer = run(working(0.002), Order(CLOSED, soon(), 0.3))
    spanned_s = sum(answer.latencies_ms) / 1e3
    assert answer.first_s + spanned_s <= answer.last_s
    assert min(answer.latencies_ms) >= 2.0


def test_an_unknown_load_is_refused() -> None:
    with pytest.raises(ValueError, match="no load"):
        run(working(0.0), Order("dance", soon(), 0.1))


def test_orders_and_answers_survive_the_journey() -> None:
    order = Order(POISSON, 1.0, 2.0, 0.5, 10.0, 3, 2, 8)
    assert Order.read(order.message()) == order
    answer = Answer(2, 1.0, (1.5, 2.5), (9.0,), 1.0, 3.0, {"x": 1.0})
    assert Answer.read(answer.data()) == answer
