"""What people and fronts outside the cluster say of a service's load: parts of it that expire."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S

MOST_SOURCES = 64
"""Of one service; beyond, the one that was heard longest ago is forgotten."""
LONGEST_NS = 120 * NS_PER_S
"""No signal counts longer than this after it was measured, whatever it says."""
_AHEAD_NS = 10 * NS_PER_S
"""How far the clock of the centre may be ahead of this one."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What all sources of a service say together; None: none of them knows."""

    requests_per_s: float | None
    queue_length: float | None
    latency_ms: float | None


@dataclass(slots=True)
class SignalBook:
    """The last word of each source, by service."""

    _known: dict[WorkloadId, dict[str, LoadSignal]] = field(default_factory=dict)

    def hear(self, signal: LoadSignal, now_ns: int) -> bool:
        """Take a signal in; False where it is over, from the future, or older than what is known
        of its source."""
        if self._is_over(signal, now_ns) or signal.at_ns > now_ns + _AHEAD_NS:
            return False
        sources = self._known.setdefault(signal.workload, {})
        known = sources.get(signal.source)
        if known is not None and known.at_ns > signal.at_ns:
            return False
        sources[signal.source] = signal
        if len(sources) > MOST_SOURCES:
            del sources[min(sources, key=lambda each: (sources[each].at_ns, each))]
        return True

    def parts(self, workload: WorkloadId, now_ns: int) -> Parts | None:
        """What holds now; None: nobody says anything."""
        sources = self._known.get(workload, {})
        for source in [each for each in sources if self._is_over(sources[each], now_ns)]:
            del sources[source]
        if not sources:
            self._known.pop(workload, None)
            return None
        told = list(sources.values())
        return Parts(
            _total(each.requests_per_s for each in told),
            _total(each.queue_length for each in told),
            _worst(each.latency_ms for each in told),
        )

    def keep_only(self, workloads: Iterable[WorkloadId]) -> None:
        """Services that are not here any more are forgotten."""
        here = set(workloads)
        self._known = {name: each for name, each in self._known.items() if name in here}

    @staticmethod
    def _is_over(signal: LoadSignal, now_ns: int) -> bool:
        return now_ns >= min(signal.until_ns, signal.at_ns + LONGEST_NS)


def _total(parts: Iterable[float | None]) -> float | None:
    known = [each for each in parts if each is not None]
    return sum(known) if known else None


def _worst(parts: Iterable[float | None]) -> float | None:
    return max((each for each in parts if each is not None), default=None)
