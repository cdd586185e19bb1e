"""Containers that use the emulated GPU, for tests of pausing: real Docker, real broker outside."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.docker_bed import LIMIT_S, Bed
from tests.emulator.driving import Emulator, build, machine

_LOOP = (
    "n=0; while {tenant} train --seconds 0.1 --work-us 200 > /dev/null;"
    " do n=$((n+1)); echo $n > /ticks/gpu; done & "
    "m=0; while true; do m=$((m+1)); echo $m > /ticks/cpu; sleep 0.05; done"
)
"""GPU programs one after another, so that later processes come, too; beside them a program that
does without, as a health check would."""


class GpuTicker:
    """A container whose GPU work and other work are seen from outside."""

    def __init__(self, container: Any, folder: Path) -> None:
        self.container = container
        self.folder = folder

    @property
    def id(self) -> str:
        return str(self.container.id)

    def count(self, what: str) -> int:
        """How far it has counted; "gpu" or "cpu"."""
        try:
            return int((self.folder / what).read_text(encoding="utf-8") or 0)
        except (FileNotFoundError, ValueError):
            return 0

    def moves(self, what: str, limit_s: float = LIMIT_S) -> bool:
        """Whether it counts on within the limit."""
        before, until = self.count(what), time.monotonic() + limit_s
        while time.monotonic() < until:
            if self.count(what) not in (0, before):
                return True
            time.sleep(0.01)
        return False

    def stands_still(self, what: str, for_s: float = 1.0) -> bool:
        """Whether it does not count for so long; what was under way may still end."""
        time.sleep(0.1)
        before = self.count(what)
        time.sleep(for_s)
        return self.count(what) == before


def start_gpu_ticker(bed: Bed, emulator: Emulator, **more: Any) -> GpuTicker:
    """A container that works on the emulated GPU already."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-", dir=bed.folder))
    command = _LOOP.format(tenant=emulator.lib / "dure-tenant")
    container = bed.run(
        "sh", "-c", command, emulator=emulator.folder, binds=[f"{folder}:/ticks"], **more
    )
    ticker = GpuTicker(container, folder)
    assert ticker.moves("gpu"), container.logs()
    return ticker


@contextmanager
def emulated() -> Iterator[Emulator]:
    """An emulated GPU with its broker outside of any container, so that it sees the host's PIDs."""
    with (
        tempfile.TemporaryDirectory(prefix="dure-emu-", ignore_cleanup_errors=True) as folder,
        machine(build(), Path(folder)) as made,
    ):
        code, said = made.tenant("idle", "--seconds", 0)
        assert code == 0, said
        yield made
