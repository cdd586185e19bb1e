"""Risks foreseen for a host's GPUs, and what they mean for who waits.

A promise about to fail, a GPU that throttles and one that moves data instead of getting on are all
helped by a smaller crowd: nobody fills the gaps of another's turn, short bursts queue with the long
ones, and the shortest go first. Where memory is about to be full, newcomers wait for some. A risk
that is not raised again is heeded for a bounded time, so that no queue rests on a dead watcher.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.ids import GpuUuid
from dure.domain.risks import Risk, RiskKind
from dure.domain.units import NS_PER_S

HEEDED_NS = 120 * NS_PER_S
"""How long a risk is heeded that nobody raised again or cleared."""

CROWDING = frozenset({RiskKind.LOAD, RiskKind.BURN, RiskKind.THRASH, RiskKind.THROTTLE})
HEEDED = CROWDING | {RiskKind.MEMORY}

_Key = tuple[GpuUuid, str, RiskKind]


@dataclass(slots=True)
class Strains:
    """What is foreseen for each GPU now."""

    _known: dict[_Key, tuple[int, Risk]] = field(default_factory=dict)

    def raised(self, now_ns: int, gpu: GpuUuid, risk: Risk) -> str | None:
        """A risk was raised; what it changes, in a sentence, once."""
        if risk.kind not in HEEDED:
            return None
        key = (gpu, risk.series, risk.kind)
        fresh = not any(other[0] == gpu and _same(other[2], risk.kind) for other in self._known)
        self._known[key] = (now_ns, risk)
        if not fresh:
            return None
        return f"{_change(risk.kind)} on {gpu}: {risk.reason}"

    def cleared(self, gpu: GpuUuid, series: str, kind: RiskKind) -> str | None:
        """A risk is over; what that changes, once nothing of its kind is left."""
        if self._known.pop((gpu, series, kind), None) is None:
            return None
        return self._relief(gpu, kind)

    def expire(self, now_ns: int) -> list[str]:
        """Forget what nobody raised again; what that changes."""
        old = [key for key, (at_ns, _) in self._known.items() if now_ns - at_ns >= HEEDED_NS]
        for key in old:
            del self._known[key]
        said = (self._relief(gpu, kind) for gpu, _, kind in old)
        return [each for each in said if each is not None]

    def next_ns(self) -> int | None:
        """When something is forgotten next."""
        return min((at_ns + HEEDED_NS for at_ns, _ in self._known.values()), default=None)

    def crowded(self) -> dict[GpuUuid, str]:
        """GPUs that a smaller crowd helps, and why."""
        return self._where(CROWDING)

    def filling(self) -> dict[GpuUuid, str]:
        """GPUs whose memory is about to be full, and why."""
        return self._where((RiskKind.MEMORY,))

    def _where(self, kinds: Iterable[RiskKind]) -> dict[GpuUuid, str]:
        wanted = frozenset(kinds)
        return {
            gpu: risk.reason for (gpu, _, kind), (_, risk) in self._known.items() if kind in wanted
        }

    def _relief(self, gpu: GpuUuid, kind: RiskKind) -> str | None:
        if any(other[0] == gpu and _same(other[2], kind) for other in self._known):
            return None
        return f"the order of containers on {gpu} is the usual one again: the risk is over"


def _same(one: RiskKind, other: RiskKind) -> bool:
    return (one in CROWDING) == (other in CROWDING)


def _change(kind: RiskKind) -> str:
    if kind in CROWDING:
        return "fewer containers at a time and the shortest bursts first"
    return "newcomers wait for memory"
