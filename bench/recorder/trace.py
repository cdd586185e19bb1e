"""Profiles a step and gives the GPU events of each iteration."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from dure.bench.workloads.steps import Step, wait_for_gpu

PROFILED_STEPS = 5
SKIPPED_STEPS = 3  # the first profiled steps pay for the profiler's own start
MARKER = "spin_kernel"  # torch.cuda._sleep, launched before each profiled step to find its start
GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")


def profiled_events(step: Step, sync_every: int) -> list[list[dict[str, Any]]]:
    """GPU events of each profiled iteration in order of their start, the marker first."""
    iterations: list[list[dict[str, Any]]] = []
    events = [e for e in trace_of(step, sync_every) if e.get("cat") in GPU_CATEGORIES]
    for event in sorted(events, key=lambda e: float(e["ts"])):
        if MARKER in event["name"]:
            iterations.append([])
        if iterations:
            iterations[-1].append(event)
    return iterations[SKIPPED_STEPS:]


def trace_of(step: Step, sync_every: int) -> list[dict[str, Any]]:
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True
    ) as profiler:
        for i in range(SKIPPED_STEPS + PROFILED_STEPS):
            torch.cuda._sleep(1)
            step()
            if (i + 1) % sync_every == 0:
                wait_for_gpu()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace: list[dict[str, Any]] = json.loads(path.read_text(errors="replace"))["traceEvents"]
    return trace
