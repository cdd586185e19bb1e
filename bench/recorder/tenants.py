"""Keeps one process per tenant of the shared GPU, and has some of them measure at once."""

import contextlib
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from recorder.loads import RAMP_S, Order, infer, train
from recorder.machine import machine
from recorder.mps import environment
from recorder.steps import ready
from recorder.workloads import WORKLOADS

BEST_EFFORT = "resnet50-train"
HIGH_PRIORITY = {"a": "encoder-infer", "b": "resnet50-infer"}  # by the name of the pair

REPLY_LIMIT_S = 120.0
NOTICE_S = 0.2  # for an order to reach every tenant
CLOSE_LIMIT_S = 20


def serve_orders(orders: Connection, name: str) -> None:
    """A tenant process: say the machine once warm, then answer each order with its figures."""
    orders.recv()
    step = ready(WORKLOADS[name].build, WORKLOADS[name].graph)
    orders.send(machine())
    while (order := orders.recv()) is not None:
        orders.send(train(step, order) if name == BEST_EFFORT else infer(step, order))


class Tenants:
    """Warmed up one after another, so that none tunes beside another."""

    def __init__(self, best_effort_env: dict[str, str], measure_s: float) -> None:
        self.measure_s = measure_s
        self.pipes: dict[str, Connection] = {}
        self.processes: list[BaseProcess] = []
        context = multiprocessing.get_context("spawn")
        for name in (BEST_EFFORT, *HIGH_PRIORITY.values()):
            self.pipes[name], far = context.Pipe()
            with environment(best_effort_env if name == BEST_EFFORT else {}):
                process = context.Process(target=serve_orders, args=(far, name), daemon=True)
                process.start()
            self.processes.append(process)
            far.close()

    def warm_up(self) -> dict[str, Any]:
        """The machine, as the tenants see it."""
        seen: dict[str, Any] = {}
        for name, pipe in self.pipes.items():
            pipe.send("warm up")
            seen = self.answer(name)
        return seen

    def answer(self, name: str) -> dict[str, Any]:
        if not self.pipes[name].poll(REPLY_LIMIT_S):
            raise TimeoutError(f"{name} did not answer")
        answer: dict[str, Any] = self.pipes[name].recv()
        return answer

    def measure(self, names: Sequence[str], poisson_per_s: float | None = None) -> dict[str, Any]:
        """Run the named tenants at once, the others idle."""
        order = Order(time.monotonic() + RAMP_S + NOTICE_S, self.measure_s, poisson_per_s)
        for name in names:
            self.pipes[name].send(order)
        figures: dict[str, Any] = {}
        for name in names:
            figures |= self.answer(name)
        return figures

    def close(self) -> None:
        for pipe in self.pipes.values():
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self.processes:
            process.join(CLOSE_LIMIT_S)
            if process.is_alive():
                process.kill()
