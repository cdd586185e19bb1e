"""Runs the load of one tenant for one measurement: requests on a schedule, or steps without end.

Knows nothing of GPUs: a step submits work, `wait` returns when it is done.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from dure.bench.kernel.arrivals import poisson_s
from dure.bench.kernel.orders import CLOSED, FINITE, POISSON, TRAIN, Answer, Order

Tell = Callable[[int, int], None]
"""Told how many steps of how many are done."""


@dataclass(frozen=True, slots=True)
class Work:
    """A program as a load sees it."""

    step: Callable[[], None]
    spin: Callable[[], None]
    """Wait for the work, busily, as a client that cares for latency does."""
    sleep: Callable[[], None]
    """Wait for the work as training does."""


def _silent(_done: int, _total: int) -> None:
    """Nobody wants to know."""


def run(work: Work, order: Order, tell: Tell = _silent) -> Answer:
    """Do what was ordered."""
    if order.kind == TRAIN:
        return _train(work, order)
    if order.kind == FINITE:
        return _finite(work, order, tell)
    if order.kind == POISSON:
        return _poisson(work, order)
    if order.kind == CLOSED:
        return _closed(work, order)
    raise ValueError(f"no load is called {order.kind!r}")


def _spin_until(when_s: float) -> None:
    while time.monotonic() < when_s:
        pass


def _request(work: Work, order: Order) -> float:
    for _ in range(order.steps):
        work.step()
    work.spin()
    return time.monotonic()


def _train(work: Work, order: Order) -> Answer:
    """Steps between the first and the last sync within the window."""
    _spin_until(order.start_s - order.ramp_s)
    steps, first_s, last_s = 0, 0.0, 0.0
    while True:
        for _ in range(order.sync_every):
            work.step()
        work.sleep()
        now_s = time.monotonic()
        if now_s >= order.end_s:
            break
        if first_s:
            steps, last_s = steps + order.sync_every, now_s
        elif now_s >= order.start_s:
            first_s = last_s = now_s
    if last_s <= first_s:  # so few that the window held at most one sync
        return Answer(0, 0.0, first_s=order.start_s, last_s=order.end_s)
    return Answer(steps, steps / (last_s - first_s), first_s=first_s, last_s=last_s)


def _finite(work: Work, order: Order, tell: Tell) -> Answer:
    _spin_until(order.start_s)
    done = 0
    tell(0, order.steps)
    while done < order.steps:
        batch = min(order.sync_every, order.steps - done)
        for _ in range(batch):
            work.step()
        work.sleep()
        done += batch
        tell(done, order.steps)
    now_s = time.monotonic()
    return Answer(done, done / (now_s - order.start_s), first_s=order.start_s, last_s=now_s)


def _poisson(work: Work, order: Order) -> Answer:
    """Latency runs from the scheduled arrival, whoever was late."""
    began_s = order.start_s - order.ramp_s
    latencies_ms: list[float] = []
    unserved_ms: list[float] = []
    for after_s in poisson_s(order.per_s, order.seed):
        arrival_s = began_s + after_s
        if arrival_s >= order.end_s:
            break
        if time.monotonic() < order.end_s:
            _spin_until(arrival_s)
            now_s = _request(work, order)
            if arrival_s < order.start_s:
                continue
            if now_s <= order.end_s:
                latencies_ms.append((now_s - arrival_s) * 1e3)
                continue
        if arrival_s >= order.start_s:
            unserved_ms.append((order.end_s - arrival_s) * 1e3)
    return _answered(order, latencies_ms, unserved_ms)


def _closed(work: Work, order: Order) -> Answer:
    _spin_until(order.start_s - order.ramp_s)
    latencies_ms: list[float] = []
    before_s = time.monotonic()
    first_s = 0.0
    while (now_s := _request(work, order)) < order.end_s:
        if before_s >= order.start_s:
            latencies_ms.append((now_s - before_s) * 1e3)
            first_s = first_s or before_s
        before_s = now_s
    return replace(_answered(order, latencies_ms, []), first_s=first_s, last_s=now_s)


def _answered(order: Order, latencies_ms: list[float], unserved_ms: list[float]) -> Answer:
    return Answer(
        len(latencies_ms),
        len(latencies_ms) / order.measure_s,
        tuple(latencies_ms),
        tuple(unserved_ms),
        order.start_s,
        order.end_s,
    )
