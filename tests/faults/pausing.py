"""A small agent for the tests of thawing: pauses and resumes containers at random, by the journal.

`python -m tests.faults.pausing FOLDER URL WAYS ID...` thaws what is owed, connects to the
watchdog, says "ready", and then pauses and lets go until it is killed. WAYS: docker, cuda-lock, or
both with a comma between. With HOLD in the environment it pauses everything once, says "held", and
waits; with ASK, too, it does so only after a line on its standard input.
"""

import os
import random
import sys
import threading
import time
from pathlib import Path

from dure.agent.containers.guard import Guard
from dure.agent.containers.ports import Pauser
from dure.agent.containers.thawing import Thawer, thaw_at_start
from dure.domain.containers import Container, PauseWay
from dure.domain.errors import DureError
from dure.domain.ids import ContainerId
from dure.runtimes.cuda_driver import CudaDriver
from dure.runtimes.cuda_lock import CudaLockPauser
from dure.runtimes.docker import DockerPauser, DockerRuntime
from dure.runtimes.inspection import GpuNames
from dure.runtimes.journal import Journal

_LIMIT_S = 20.0


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


class Pausing:
    """Two threads that pause and let go."""

    def __init__(self, folder: Path, url: str, ways: list[PauseWay]) -> None:
        self.runtime = DockerRuntime(url, GpuNames(()))
        self.journal = Journal(folder, self.runtime.place, _LIMIT_S)
        self.started = thaw_at_start(self.journal, Thawer(), threading.Event())
        self.ways = ways
        self.pausers: dict[PauseWay, Pauser] = {
            PauseWay.DOCKER: DockerPauser(self.runtime),
            PauseWay.CUDA_LOCK: CudaLockPauser(self.runtime.place, CudaDriver(), lambda: False),
        }
        self.guarded = threading.Event()
        self.guard = Guard(folder, time.monotonic_ns, self._guard_changed)
        self.guard.start()
        self.deadline_s = float(os.environ.get("DEADLINE_S", "60"))

    def _guard_changed(self, present: bool) -> None:
        (self.guarded.set if present else self.guarded.clear)()

    def pause(self, container: Container) -> None:
        """Lock first, freeze then, where both are to be used."""
        by_ns = time.monotonic_ns() + int(self.deadline_s * 1e9)
        for way in sorted(self.ways, key=lambda way: way is PauseWay.DOCKER):
            self.journal.intend(container, way, by_ns)
            try:
                self.pausers[way].pause(container)
            except DureError:
                self.journal.forget(container.id, way)
            else:
                self.journal.done(container.id, way)

    def resume(self, container: Container) -> None:
        for way in sorted(self.ways, key=lambda way: way is not PauseWay.DOCKER):
            self.pausers[way].resume(container)
            self.journal.forget(container.id, way)

    def play(self, containers: list[Container]) -> None:
        chance = random.Random(os.getpid() + threading.get_ident())
        held: set[Container] = set()
        while True:
            container = chance.choice(containers)
            if container in held:
                self.resume(container)
            else:
                self.pause(container)
            held ^= {container}
            time.sleep(chance.uniform(0.0, 0.05))


def main() -> None:
    folder, url, ways, *ids = sys.argv[1:]
    pausing = Pausing(Path(folder), url, [PauseWay(way) for way in ways.split(",")])
    found = [pausing.runtime.inspect(ContainerId(each)) for each in ids]
    containers = [container for container in found if container is not None]
    if not pausing.guarded.wait(_LIMIT_S):
        sys.exit("no watchdog")
    say("ready")
    if "HOLD" in os.environ:
        if "ASK" in os.environ:
            sys.stdin.readline()
        for container in containers:
            pausing.pause(container)
        say("held")
        threading.Event().wait()
    half = max(1, len(containers) // 2)
    for part in (containers[:half], containers[half:]):
        if part:
            threading.Thread(target=pausing.play, args=(part,), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
