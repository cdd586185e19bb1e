"""Records one workload that has the GPU to itself."""

import multiprocessing
from pathlib import Path

from dure.bench.workloads.catalogue import WORKLOADS
from dure.bench.workloads.machine import machine
from dure.bench.workloads.steps import ready
from recorder.files import save
from recorder.sequence import sequence_of
from recorder.timing import enqueue_us, wall_ms
from recorder.trace import profiled_events

WORKLOAD_LIMIT_S = 120


def record_apart(name: str, out: Path) -> None:
    """In a process of its own: one failure spoils no other, the profiler slows no later timing.

    Forking saves importing torch again, and is safe while the calling process leaves CUDA alone.
    """
    process = multiprocessing.get_context("fork").Process(target=record, args=(name, out))
    process.start()
    process.join(WORKLOAD_LIMIT_S)
    if process.is_alive():
        process.kill()
        process.join()
    if process.exitcode != 0:
        print(f"{name} failed", flush=True)


def record(name: str, out: Path) -> None:
    workload = WORKLOADS[name]
    step = ready(workload.build, workload.graph)
    iterations, ms = wall_ms(step, workload.sync_every)
    host_us = enqueue_us(step)
    recorded = sequence_of(profiled_events(step, workload.sync_every))
    launches = 1 if workload.graph else recorded["summary"]["kernels"]
    result = {
        "workload": name,
        "description": workload.description,
        "dtype": workload.dtype,
        "batch": workload.batch,
        "graph": workload.graph,
        "sync_every": workload.sync_every,
        "machine": machine(),
        "wall_ms": round(ms, 4),
        "wall_iterations": iterations,
        "host_enqueue_us": round(host_us, 1),
        "host_us_per_launch": round(host_us / launches, 3),
        **recorded,
    }
    save(out / f"{name}.json", result)
    print(name, f"{ms:.3f} ms", f"host {host_us:.0f} us", recorded["summary"], flush=True)
