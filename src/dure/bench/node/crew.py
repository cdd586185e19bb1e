"""The containers of a set: created, started and removed together; they stand at one barrier."""

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dure.bench.node.barrier import Barrier, BarrierError
from dure.bench.node.bed import Bed, tenant_program
from dure.bench.node.sets import Member
from dure.domain.errors import DureError

NAME_PREFIX = "dure-bench-"
_AT_ONCE = 8
"""Containers created or removed at the same time; Docker takes some 0.3 s for each."""
_READY_LIMIT_S = 120.0
_LOOK_EVERY_S = 1.0
_LAST_LINES = 3


class CrewError(DureError):
    """A container did not start, or ended."""


@dataclass(slots=True)
class Crew:
    """Containers that run, by the index they have at the barrier."""

    members: tuple[Member, ...]
    barrier: Barrier
    containers: list[Any]
    _looked_s: float = field(default_factory=time.monotonic)

    def await_ready(self, indices: range) -> None:
        """Until these stand at the barrier."""
        self.barrier.await_ready(indices, _READY_LIMIT_S, self.look)

    def look(self) -> None:
        """Refuse to wait for a container that has ended; looks now and then only."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for member, container in zip(self.members, self.containers, strict=True):
            container.reload()
            if container.status not in ("running", "paused", "created"):
                said = container.logs(tail=_LAST_LINES).decode(errors="replace").strip()
                raise CrewError(
                    f"the container of {member.name} has ended ({said or 'it said nothing'})",
                    "look at `docker logs`",
                )


@contextlib.contextmanager
def crew(
    client: Any,
    image: str,
    bed: Bed,
    members: tuple[Member, ...],
    extra: Mapping[str, Mapping[str, Any]],
) -> Iterator[Crew]:
    """Start a set's containers; all are gone afterwards. `extra`: more options, by member."""
    with tempfile.TemporaryDirectory(prefix="dure-barrier-") as folder:
        Path(folder).chmod(0o777)
        containers: list[Any] = []
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            containers += [
                client.containers.create(image, **_options(bed, Path(folder), index, member, extra))
                for index, member in enumerate(members)
            ]
            list(pool.map(lambda container: container.start(), containers))
            barrier = Barrier(Path(folder))
            made = Crew(members, barrier, containers)
            try:
                made.await_ready(range(len(members)))
                yield made
            finally:
                barrier.quit()
        except BarrierError:
            _thaw(containers)
            raise
        finally:
            list(pool.map(_remove, containers))
            pool.shutdown()


def _options(
    bed: Bed,
    folder: Path,
    index: int,
    member: Member,
    extra: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    words = [tenant_program(), *member.program, "--json"]
    words += ["--barrier", str(folder), "--index", str(index)]
    options = bed.options(folder)
    more = dict(extra.get(member.name, {}))
    options["environment"] = {**options["environment"], **more.get("environment", {})}
    options["volumes"] = [*options["volumes"], *more.get("volumes", [])]
    return {
        **options,
        "command": words,
        "name": f"{NAME_PREFIX}{folder.name[-8:]}-{member.name}".replace("_", "x"),
        "labels": dict(member.labels),
    }


def _thaw(containers: list[Any]) -> None:
    for container in containers:
        with contextlib.suppress(Exception):
            container.unpause()


def _remove(container: Any) -> None:
    with contextlib.suppress(Exception):
        container.remove(force=True)
