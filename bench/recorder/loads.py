"""Runs a tenant of a shared GPU, training or inference, for one measurement."""

import random
import time
from dataclasses import dataclass
from statistics import fmean

import torch

from recorder.sequence import percentile
from recorder.steps import Step, wait_for_gpu

RAMP_S = 0.5  # every tenant runs this long before anything counts
STEPS_PER_SYNC = 4  # of training
SEED = 7


@dataclass(frozen=True)
class Order:
    """One measurement: count what happens from `start_s` (monotonic clock) on, for `measure_s`."""

    start_s: float
    measure_s: float
    poisson_per_s: float | None = None  # None: closed loop

    @property
    def end_s(self) -> float:
        return self.start_s + self.measure_s


def spin_until(when_s: float) -> None:
    while time.monotonic() < when_s:
        pass


def train(step: Step, order: Order) -> dict[str, float]:
    spin_until(order.start_s - RAMP_S)
    steps, first_s, now_s = 0, 0.0, time.monotonic()
    while now_s < order.end_s:
        for _ in range(STEPS_PER_SYNC):
            step()
        torch.cuda.current_stream().synchronize()
        now_s = time.monotonic()
        if first_s:
            steps += STEPS_PER_SYNC
        elif now_s >= order.start_s:
            first_s = now_s
    return {"be_per_s": round(steps / (now_s - first_s), 2)}


def infer(step: Step, order: Order) -> dict[str, float]:
    """Latency runs from the scheduled arrival; in a closed loop from the request before it."""
    rng = random.Random(SEED)
    arrival_s = order.start_s - RAMP_S
    latencies_ms: list[float] = []
    while True:
        spin_until(arrival_s)
        step()
        wait_for_gpu()
        now_s = time.monotonic()
        if now_s >= order.end_s:
            break
        if arrival_s >= order.start_s:
            latencies_ms.append((now_s - arrival_s) * 1e3)
        arrival_s = (
            arrival_s + rng.expovariate(order.poisson_per_s) if order.poisson_per_s else now_s
        )
    late = 0
    while order.poisson_per_s and arrival_s < order.end_s:
        late, arrival_s = late + 1, arrival_s + rng.expovariate(order.poisson_per_s)
    return {
        "hp_per_s": round(len(latencies_ms) / order.measure_s, 2),
        "mean_ms": round(fmean(latencies_ms), 3),
        **{f"p{p}_ms": round(percentile(latencies_ms, p), 3) for p in (50, 95, 99)},
        "unserved": late,  # arrived in the window, not answered when it closed
    }
