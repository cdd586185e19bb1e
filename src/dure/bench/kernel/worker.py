"""A tenant's process: builds its workload once, then answers orders until the bench lets go.

    python -m dure.bench.kernel.worker SOCKET NAME WORKLOAD

An unmodified program as far as Dure is concerned: it knows nothing of who shares the GPU.
"""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dure.bench.kernel.channel import Channel, ChannelError
from dure.bench.kernel.loads import Work, run
from dure.bench.kernel.orders import Order

TOLD_ENVIRONMENT = ("CUDA_MPS_PIPE_DIRECTORY", "LD_PRELOAD", "DURE_TENANT")
"""Variables a worker tells the bench, which cannot know what `dure run` set."""

STEPS_AFTER_TUNING = 4


def _warm_work(name: str) -> tuple[Work, dict[str, Any]]:
    """The workload, warmed up, and the machine as it sees it."""
    import torch  # noqa: PLC0415, seconds of import that only this process should pay

    from dure.bench.workloads.catalogue import WORKLOADS  # noqa: PLC0415
    from dure.bench.workloads.machine import machine  # noqa: PLC0415
    from dure.bench.workloads.steps import ready, wait_for_gpu  # noqa: PLC0415

    workload = WORKLOADS[name]
    step = ready(workload.build, workload.graph)
    torch.cuda.empty_cache()  # what tuning took is wanted by the tenants to come
    for _ in range(STEPS_AFTER_TUNING):
        step()
    torch.cuda.synchronize()

    def synchronize() -> None:
        torch.cuda.current_stream().synchronize()

    return Work(step, wait_for_gpu, synchronize), machine()


def _progress(order: dict[str, Any]) -> Any:
    """Report progress to Dure where the order asks for it."""
    if not order.pop("report", False):
        return None
    from dure.client import report_progress  # noqa: PLC0415

    return report_progress


def _answer(work: Work, message: dict[str, Any]) -> dict[str, Any]:
    report = _progress(message)
    order = Order.read(message)
    found = run(work, order) if report is None else run(work, order, report)
    return {"ok": True, **found.data()}


def serve(channel: Channel, warm: Callable[[], tuple[Work, dict[str, Any]]]) -> None:
    """Answer until told to end or left alone; `warm` readies the work."""
    work: Work | None = None
    while True:
        try:
            message = channel.receive()
        except ChannelError:
            return
        try:
            match message["do"]:
                case "warm up":
                    work, seen = warm()
                    channel.send({"ok": True, **seen})
                case "measure" if work is not None:
                    channel.send(_answer(work, message))
                case _:
                    return
        except Exception as error:  # noqa: BLE001, the bench decides what a failure means
            traceback.print_exc()
            channel.send({"ok": False, "error": f"{type(error).__name__}: {error}"})


def introduce() -> tuple[Channel, str]:
    """Say who this is to the bench that started it; the channel to it, and the workload."""
    path, name, workload = sys.argv[1:4]
    channel = Channel.connect(Path(path), "the bench")
    told = {key: os.environ[key] for key in TOLD_ENVIRONMENT if key in os.environ}
    channel.send({"name": name, "pid": os.getpid(), "environment": told})
    return channel, workload


def main() -> None:
    """The command line."""
    channel, workload = introduce()
    import torch  # noqa: F401, PLC0415, while others do the same; warming up comes one by one

    serve(channel, lambda: _warm_work(workload))


if __name__ == "__main__":
    main()
