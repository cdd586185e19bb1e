"""Times a step without a profiler: what an iteration takes, and what the host spends on it."""

import time
from statistics import median

import torch

from dure.bench.workloads.steps import Step, wait_for_gpu

WALL_S = 3.0
WALL_ITERATIONS = 100  # at least
ENQUEUED_STEPS = 20


def wall_ms(step: Step, sync_every: int) -> tuple[int, float]:
    """Iterations timed and milliseconds each."""
    done, start = 0, time.perf_counter()
    while done < WALL_ITERATIONS or time.perf_counter() - start < WALL_S:
        for _ in range(sync_every):
            step()
        wait_for_gpu()
        done += sync_every
    return done, (time.perf_counter() - start) * 1e3 / done


def enqueue_us(step: Step) -> float:
    """Host time to enqueue one iteration on an idle GPU."""
    times: list[float] = []
    for _ in range(ENQUEUED_STEPS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e6)
    torch.cuda.synchronize()
    return median(times)
