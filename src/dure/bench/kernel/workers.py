"""Keeps one process per tenant and substrate, and has some of them measure at once."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dure.bench.kernel.channel import Channel, ChannelError
from dure.bench.kernel.orders import Answer, Order
from dure.domain.errors import DureError

START_LIMIT_S = 120.0
WARM_LIMIT_S = 120.0
SLACK_S = 45.0
"""How much longer than ordered a measurement may take."""
NOTICE_S = 0.15
"""For an order to reach every worker."""
CLOSE_LIMIT_S = 10.0

WORKER = (sys.executable, "-m", "dure.bench.kernel.worker")


class WorkerError(DureError):
    """A tenant's process failed."""


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    log: Path
    channel: Channel | None = None
    hello: dict[str, Any] = field(default_factory=dict)
    lost: bool = False
    """It did not answer in time, or is gone: a late answer is not to be taken for the next one."""


class Workers:
    """All workers of a shard, by name."""

    def __init__(self, folder: Path, command: Sequence[str] = WORKER) -> None:
        self._folder = folder
        self._command = tuple(command)
        self._workers: dict[str, _Worker] = {}
        self._socket_path = folder / "bench.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self._socket_path))
        self._listener.listen(64)

    def __contains__(self, name: str) -> bool:
        return name in self._workers

    def start(
        self,
        name: str,
        workload: str,
        environment: Mapping[str, str],
        prefix: Sequence[str] = (),
    ) -> None:
        """Start a process; it builds and warms up when told."""
        log = self._folder / f"{name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*prefix, *self._command, str(self._socket_path), name, workload],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        self._workers[name] = _Worker(process, log)

    def environment(self, name: str) -> dict[str, str]:
        """What a worker says it runs under; waits for it to start."""
        self._await(name)
        told: dict[str, str] = self._workers[name].hello["environment"]
        return told

    def pid(self, name: str) -> int:
        """The worker's own process, below whatever started it."""
        self._await(name)
        return int(self._workers[name].hello["pid"])

    def ask_to_build(self, names: Sequence[str]) -> None:
        """Have them import and build, all at once, up to what needs the GPU alone."""
        for name in names:
            with contextlib.suppress(WorkerError):  # `built` says why
                self._await(name)
                self.send(name, {"do": "build"})

    def built(self, names: Sequence[str]) -> dict[str, WorkerError]:
        """Wait for those that were asked to build; those that failed."""
        failed: dict[str, WorkerError] = {}
        for name in names:
            try:
                self.collect(name, WARM_LIMIT_S)
            except WorkerError as error:
                failed[name] = error
        return failed

    def warm_up(self, name: str, *, tune: bool = True) -> dict[str, Any]:
        """Warm the built workload; the machine as the worker sees it."""
        return self._ask(name, {"do": "warm up", "tune": tune}, WARM_LIMIT_S)

    def send(self, name: str, message: dict[str, Any]) -> None:
        """Send an order without waiting for the answer."""
        try:
            self._channel(name).send(message)
        except ChannelError as error:
            self._workers[name].lost = True
            raise WorkerError(error.what, self._advice(name)) from error

    def collect(self, name: str, limit_s: float) -> dict[str, Any]:
        """The answer to an order sent before."""
        answer = self._receive(name, limit_s)
        if not answer.pop("ok"):
            raise WorkerError(f"{name} failed ({answer['error']})", self._advice(name))
        return answer

    def measure(
        self, orders: Mapping[str, Order], further: Mapping[str, Any] | None = None
    ) -> dict[str, Answer]:
        """Run some workers at once; their clocks start together, `start_s` counts from now.

        Where one fails the others are heard out first: their work would be in the way of the next
        measurement, and their answers would be taken for its own.
        """
        now_s = time.monotonic() + NOTICE_S
        timed = {
            name: replace(order, start_s=now_s + order.ramp_s + order.start_s)
            for name, order in orders.items()
        }
        failed: list[DureError] = []
        asked, found = [], {}
        for name, order in timed.items():
            try:
                self.send(name, {**order.message(), **(further or {})})
                asked.append(name)
            except DureError as error:
                failed.append(error)
        for name in asked:
            limit_s = max(0.0, timed[name].end_s - time.monotonic()) + SLACK_S
            try:
                found[name] = Answer.read(self.collect(name, limit_s))
            except DureError as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return found

    def kill(self, name: str, signal_number: int) -> None:
        """Send a signal to the worker itself."""
        os.kill(self.pid(name), signal_number)

    def forget(self, name: str) -> int | None:
        """Wait for a worker that ends by itself; its exit code."""
        worker = self._workers.pop(name)
        if worker.channel is not None:
            worker.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(CLOSE_LIMIT_S)
        if worker.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, KeyError):
                os.kill(worker.hello["pid"], signal.SIGKILL)  # below whatever started it
            worker.process.kill()
        return worker.process.wait()

    def stop(self, name: str) -> None:
        """End one worker."""
        with contextlib.suppress(ChannelError):
            channel = self._workers[name].channel
            if channel is not None:
                channel.send({"do": "end"})
        self.forget(name)

    def close(self) -> None:
        """End all."""
        for worker in self._workers.values():
            with contextlib.suppress(ChannelError):
                if worker.channel is not None:
                    worker.channel.send({"do": "end"})
        for name in list(self._workers):
            self.forget(name)
        self._listener.close()

    def _channel(self, name: str) -> Channel:
        channel = self._workers[name].channel
        if channel is None or self._workers[name].lost:
            words = "has not started" if channel is None else "has failed before"
            raise WorkerError(f"{name} {words}", self._advice(name))
        return channel

    def _receive(self, name: str, limit_s: float) -> dict[str, Any]:
        try:
            return self._channel(name).receive(limit_s)
        except ChannelError as error:
            self._workers[name].lost = True
            raise WorkerError(error.what, self._advice(name)) from error

    def _ask(self, name: str, message: dict[str, Any], limit_s: float) -> dict[str, Any]:
        self.send(name, message)
        return self.collect(name, limit_s)

    def _await(self, name: str) -> None:
        """Take connections until the worker's own has come."""
        until_s = time.monotonic() + START_LIMIT_S
        self._listener.settimeout(0.5)
        while self._workers[name].channel is None:
            if self._workers[name].process.poll() is not None:
                raise WorkerError(f"{name} ended before it started", self._advice(name))
            if time.monotonic() > until_s:
                raise WorkerError(f"{name} did not start", self._advice(name))
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listener.accept()
                channel = Channel(connection, "a worker")
                hello = channel.receive(START_LIMIT_S)
                worker = self._workers[hello["name"]]
                channel.name = hello["name"]
                worker.channel, worker.hello = channel, hello

    def said_by_shim(self, name: str) -> list[str]:
        """What the shim logged in a worker so far."""
        lines = self._workers[name].log.read_text(errors="replace").splitlines()
        return [line for line in lines if line.startswith("dure")]

    def _advice(self, name: str) -> str:
        log = self._workers[name].log
        try:
            last = log.read_text(errors="replace").strip().splitlines()[-3:]
        except OSError:
            last = []
        return f"its log {log} ends with: {' / '.join(last) or 'nothing'}"
