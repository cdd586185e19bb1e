"""Mixed jobs with the end that each must come to, drawn from a seed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from dure.domain.fleet.lifecycle import JobPhase
from tests.e2e.fleet.beds import TENANT

MISSING_SECRET = "never-there"
LATE_SECRET = "comes-later"
_GRACE = "2s"


class Hand(Enum):
    """What somebody does to a job after its submission."""

    NOTHING = "nothing"
    CANCEL_QUEUED = "cancel it while it waits"
    CANCEL_RUNNING = "cancel it as soon as it runs"
    CANCEL_AT_END = "cancel it when all faults are over"


@dataclass(frozen=True)
class Entry:
    """One submission."""

    name: str
    spec: dict[str, Any]
    end: JobPhase
    hand: Hand = Hand.NOTHING
    failures: int | None = None
    """How often its program fails; None: that is not counted."""
    attempts: int | None = None
    """How many attempts there are at most; None: any number."""
    count: int = 1

    @property
    def exclusive(self) -> bool:
        """Whether two attempts must never run at once."""
        return bool(self.spec["kind"] != "serving")


@dataclass(frozen=True)
class Places:
    """Names of clusters by what they can run."""

    images: Sequence[str]
    commands: Sequence[str]


@dataclass
class _Maker:
    """Makes entries."""

    rng: random.Random
    places: Places
    journal: str
    """File that programs write their deeds to."""
    made: list[Entry] = field(default_factory=list)

    def add(self, kind: str, spec: dict[str, Any], end: JobPhase, **more: Any) -> None:
        """One more entry."""
        name = f"{kind}-{len(self.made):03d}"
        whole = {
            "name": name,
            "tenant": TENANT,
            "kind": "batch",
            "resources": {"memory": "1GiB"},
            "grace": _GRACE,
            **spec,
        }
        if whole["kind"] != "serving":
            whole.setdefault("work", "1m")
        self.made.append(Entry(name, whole, end, **more))

    def image(self, runs_s: float | None, exit_code: int = 0, **more: Any) -> dict[str, Any]:
        """A container on paper that ends after so long; None: not by itself."""
        notes = {"paper.dure.test/exit-code": str(exit_code)}
        if runs_s is not None:
            notes["paper.dure.test/runs-for"] = f"{round(runs_s * 1000)}ms"
        return {"image": "paper", "annotations": notes, **more}

    def command(self, line: str, **more: Any) -> dict[str, Any]:
        """A program of the host that writes when it begins and when it is done."""
        said = f'"$DURE_JOB $DURE_ATTEMPT $DURE_RANK {{}}" >> {self.journal}'
        text = f"echo {said.format('begins')}; {line}; echo {said.format('done')}"
        return {"command": ["/bin/sh", "-ec", text], "clusters": list(self.places.commands), **more}

    def run_s(self) -> float:
        """How long a job takes."""
        return round(self.rng.uniform(0.5, 6.0), 1)

    def times(self, share: float, make: Callable[[], None]) -> None:
        """Make so many."""
        for _ in range(round(share)):
            make()


SERVICE = {
    "requestsPerSecond": 1.0,
    "replicaRequestsPerSecond": 100.0,
    "latency": "1s",
    "serviceTime": "10ms",
    "warm": 1,
    "most": 2,
    "loadTime": "1s",
}
_IMAGE_UNITS, _COMMAND_UNITS = 58, 42
"""Jobs of either sort, where a manifest of both has a hundred."""
_DONE, _FAILED, _CANCELLED = JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED


def make_manifest(seed: int, jobs: int, places: Places, journal: str) -> list[Entry]:
    """About so many jobs in a random order; the parts of every kind are fixed."""
    maker = _Maker(random.Random(seed), places, journal)
    of_images = _IMAGE_UNITS if places.images else 0
    of_commands = _COMMAND_UNITS if places.commands else 0
    unit = jobs / (of_images + of_commands)
    if of_images:
        _add_images(maker, unit)
    if of_commands:
        _add_commands(maker, unit)
    maker.rng.shuffle(maker.made)
    return maker.made


def _add_images(maker: _Maker, unit: float) -> None:
    """`_IMAGE_UNITS` of them."""
    add, image, run_s, rng = maker.add, maker.image, maker.run_s, maker.rng
    maker.times(18 * unit, lambda: add("batch", image(run_s()), _DONE, failures=0))
    maker.times(6 * unit, lambda: add("train", image(run_s(), kind="training"), _DONE, failures=0))
    maker.times(
        2 * unit,
        lambda: add(
            "pinned", image(run_s(), clusters=[rng.choice(maker.places.images)]), _DONE, failures=0
        ),
    )
    maker.times(
        3 * unit,
        lambda: add("gang", image(run_s(), kind="training", gang=rng.randint(2, 4)), _DONE),
    )
    maker.times(unit, lambda: add("array", image(run_s(), array=10), _DONE, count=10, failures=0))
    maker.times(3 * unit, lambda: add("fails", image(run_s(), 3), _FAILED, failures=1))
    maker.times(2 * unit, lambda: add("retries", image(1.0, 4, retries=2), _FAILED, failures=3))
    maker.times(2 * unit, lambda: _add_too_big(maker, image(1.0)))
    secret: dict[str, Any] = {"envFrom": [{"secret": MISSING_SECRET}]}
    maker.times(
        2 * unit, lambda: add("queued", image(1.0, **secret), _CANCELLED, hand=Hand.CANCEL_QUEUED)
    )
    late: dict[str, Any] = {"envFrom": [{"secret": LATE_SECRET}]}
    maker.times(2 * unit, lambda: add("late", image(run_s(), **late), _DONE, failures=0))
    fence: dict[str, Any] = {"onClusterLost": {"fenceAfter": "12s"}}
    maker.times(2 * unit, lambda: add("fenced", image(run_s(), **fence), _DONE, failures=0))
    _add_endless(maker, unit, lambda **more: image(None, **more))


def _add_commands(maker: _Maker, unit: float) -> None:
    """`_COMMAND_UNITS` of them."""
    add, command, run_s, rng = maker.add, maker.command, maker.run_s, maker.rng
    maker.times(14 * unit, lambda: add("run", command(f"sleep {run_s()}"), _DONE, failures=0))
    maker.times(
        2 * unit,
        lambda: add(
            "ranks",
            command(f"sleep {run_s()}", kind="training", gang=rng.randint(2, 4)),
            _DONE,
            failures=0,
        ),
    )
    maker.times(
        unit,
        lambda: add("many", command(f"sleep {run_s()}", array=10), _DONE, count=10, failures=0),
    )
    maker.times(3 * unit, lambda: add("exits", command("exit 3"), _FAILED, failures=1))
    maker.times(
        3 * unit,
        lambda: add("second", command("test $DURE_ATTEMPT -gt 1", retries=9), _DONE),
    )
    maker.times(2 * unit, lambda: _add_too_big(maker, command("true")))
    fence: dict[str, Any] = {"onClusterLost": {"fenceAfter": "12s"}}
    maker.times(
        2 * unit, lambda: add("fence", command(f"sleep {run_s()}", **fence), _DONE, failures=0)
    )
    _add_endless(maker, unit, lambda **more: command("exec sleep 3600", **more))


def _add_too_big(maker: _Maker, spec: dict[str, Any]) -> None:
    spec["resources"] = {"memory": "1GiB", "devices": 64}
    maker.add("big", spec, _FAILED, attempts=0)


def _add_endless(maker: _Maker, unit: float, make: Callable[..., dict[str, Any]]) -> None:
    """Services and jobs that run until somebody cancels them."""

    def endless(hand: Hand) -> None:
        maker.add("endless", make(kind="training"), _CANCELLED, hand=hand)

    def service(hand: Hand) -> None:
        maker.add("service", make(kind="serving", service=SERVICE), _CANCELLED, hand=hand)

    for hand in (Hand.CANCEL_RUNNING, Hand.CANCEL_AT_END):
        maker.times(2 * unit, partial(endless, hand))
        maker.times(unit, partial(service, hand))
