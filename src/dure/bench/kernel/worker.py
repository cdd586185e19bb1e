"""A tenant's process: builds its workload once, then answers orders until the bench lets go.

    python -m dure.bench.kernel.worker SOCKET NAME WORKLOAD

An unmodified program as far as Dure is concerned: it knows nothing of who shares the GPU.
"""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from dure.bench.kernel.channel import Channel, ChannelError
from dure.bench.kernel.loads import Work, run
from dure.bench.kernel.orders import Order

TOLD_ENVIRONMENT = ("CUDA_MPS_PIPE_DIRECTORY", "LD_PRELOAD", "DURE_TENANT")
"""Variables a worker tells the bench, which cannot know what `dure run` set."""

STEPS_AFTER_TUNING = 4


Seen = dict[str, Any]
"""The machine as a worker sees it."""


class Program(Protocol):
    """What a worker runs."""

    def build(self) -> None:
        """Ready all that does not need the GPU alone."""

    def warm(self, *, tune: bool) -> tuple[Work, Seen]:
        """Warm it up; `tune`: time algorithms and keep the best."""


class _TorchProgram:
    """A workload of the catalogue; seconds of imports that only this process should pay."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._step: Callable[[], None] | None = None

    def build(self) -> None:
        from dure.bench.workloads.catalogue import WORKLOADS  # noqa: PLC0415
        from dure.bench.workloads.steps import built  # noqa: PLC0415

        self._step = built(WORKLOADS[self._name].build)

    def warm(self, *, tune: bool) -> tuple[Work, Seen]:
        import torch  # noqa: PLC0415

        from dure.bench.workloads.catalogue import WORKLOADS  # noqa: PLC0415
        from dure.bench.workloads.machine import machine  # noqa: PLC0415
        from dure.bench.workloads.steps import wait_for_gpu, warmed  # noqa: PLC0415

        assert self._step is not None
        step = warmed(self._step, WORKLOADS[self._name].graph, tune=tune)
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


def serve(channel: Channel, program: Program) -> None:
    """Answer until told to end or left alone."""
    work: Work | None = None
    while True:
        try:
            message = channel.receive()
        except ChannelError:
            return
        try:
            match message["do"]:
                case "build":
                    program.build()
                    channel.send({"ok": True})
                case "warm up":
                    work, seen = program.warm(tune=message["tune"])
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
    serve(channel, _TorchProgram(workload))


if __name__ == "__main__":
    main()
