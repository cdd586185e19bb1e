"""What runs in the containers: products of three sizes, all alike or mixed with other work."""

from dataclasses import dataclass
from typing import Protocol

LARGE, MEDIUM, SMALL, MIXED = "19456", "13312", "8192", "mixed"
SIZES = {LARGE: 19_456, MEDIUM: 13_312, SMALL: 8_192}
KERNEL_S = {19_456: 2.93, 13_312: 0.94, 8_192: 0.22}
"""One kernel alone on one H200; what the emulator's kernels last, and what a run is planned by."""

SERVER, TRAINER, LOOPER = "server", "trainer", "looper"
_SERVER_S, _SERVER_RATE = 10.0, 20.0
"""Shorter than the others together, so that it never runs alone at the end."""
_SERVER_LEAD_S = 2.0
"""A service is up when jobs come."""
_REQUEST_KERNELS, _REQUEST_US = 10, 500
_STEPS, _STEP_KERNELS, _STEP_US = 150, 20, 1000
_LOOPS = 8
WAIT_LABEL_S = 60.0
"""What every container of the mixed set is labelled with as its longest wait."""


@dataclass(frozen=True, slots=True)
class Member:
    """One container: its program, its labels, how long it takes alone."""

    name: str
    program: tuple[str, ...]
    alone_s: float
    labels: tuple[tuple[str, str], ...] = ()
    serves: bool = False
    """Judged by its requests' latencies, not by when it ends."""
    lead_s: float = 0.0
    """Released so long before the others; such members come first."""


class Surroundings(Protocol):
    """Makes programs fit the GPU they run on: an emulated one takes less of everything."""

    @property
    def turns_per_us(self) -> int: ...

    def matmul(self, size: int) -> tuple[str, ...]:
        """A product's arguments."""

    def scaled(self, value: float) -> float:
        """Seconds, or a number of steps."""


@dataclass(frozen=True, slots=True)
class BenchSet:
    """Containers that start together."""

    name: str
    title: str
    most: int
    """Containers at its largest count."""
    fixed: bool = False
    """Runs whole or not at all, as its containers differ."""

    def members(self, where: Surroundings) -> tuple[Member, ...]:
        """All its containers, in the order in which they line up."""
        if self.fixed:
            return _mixed(where)
        size = SIZES[self.name]
        alone_s = where.scaled(KERNEL_S[size])
        program = where.matmul(size)
        return tuple(Member(f"m{index:02d}", program, alone_s) for index in range(self.most))

    def counts(self, wanted: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Numbers of containers to measure, the largest first."""
        if self.fixed:
            return (self.most,)
        return tuple(at for at in range(self.most, 0, -1) if not wanted or at in wanted)


SETS = {
    item.name: item
    for item in (
        BenchSet(LARGE, "products of 19,456 squared", 5),
        BenchSet(MEDIUM, "products of 13,312 squared", 10),
        BenchSet(SMALL, "products of 8,192 squared", 20),
        BenchSet(MIXED, "unlike containers", 6, fixed=True),
    )
}


def _mixed(where: Surroundings) -> tuple[Member, ...]:
    wait = (("dure.max-wait", f"{WAIT_LABEL_S:g}s"),)
    turns = ("--turns-per-us", str(where.turns_per_us))
    server_s = where.scaled(_SERVER_S)
    steps = max(4, round(where.scaled(_STEPS)))
    products = tuple(
        Member(
            f"m{size}",
            where.matmul(size),
            where.scaled(KERNEL_S[size]),
            wait,
        )
        for size in (19_456, 13_312, 8_192)
    )
    trainer = Member(
        TRAINER,
        (
            *("train", "--count", str(steps), "--kernels", str(_STEP_KERNELS)),
            *("--work-us", str(_STEP_US), "--sync-every", "1", *turns),
        ),
        steps * _STEP_KERNELS * _STEP_US / 1e6,
        wait,
    )
    looper = Member(
        LOOPER,
        (*where.matmul(8_192), "--count", str(_LOOPS)),
        _LOOPS * where.scaled(KERNEL_S[8_192]),
        wait,
    )
    server = Member(
        SERVER,
        (
            *("serve", "--seconds", f"{server_s:g}", "--rate", f"{_SERVER_RATE:g}"),
            *("--kernels", str(_REQUEST_KERNELS), "--work-us", str(_REQUEST_US), *turns),
        ),
        server_s,
        (("dure.priority", "high"), *wait),
        serves=True,
        lead_s=where.scaled(_SERVER_LEAD_S),
    )
    return (server, *products, trainer, looper)
