"""What signals do to the weights of the objective: bounded, with hysteresis, told with a reason.

A signal counts from half of its full strength on and until it falls below a quarter, or until
nobody has repeated it for a while: so a weight does not flutter with a signal near one limit. It
adds a bounded part to a weight, on top of what violations, uses and scarcity have taught it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.signals import FleetSignal, FleetSignalKind
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import ClusterId
from dure.fleet.sites import Floats

ON, OFF = 0.5, 0.25
"""Strengths from which on, and down to which, a signal counts."""
HEEDED_NS = 3600 * 10**9
"""How long a signal counts that nobody repeats."""
LATENCY_PART = 1.0
"""The most a signal adds to the weight of lateness, as a part of it."""
LOCALITY_PART = 0.5
"""The same of locality."""
CONGESTION_PART = 0.25
"""The most it adds to a site's congestion price, as a part of what a device-hour costs."""
_STEP = 0.25
"""Strengths count in steps of this, again so that nothing flutters."""

_Key = tuple[FleetSignalKind, str]


@dataclass(frozen=True, slots=True)
class _Heard:
    at_ns: int
    counted: float
    """As it counts: 0, or a step from `ON` to 1."""
    reason: str


@dataclass(slots=True)
class SignalWeights:
    """Which signals count now."""

    _heard: dict[_Key, _Heard] = field(default_factory=dict)

    def hear(self, now_ns: int, signal: FleetSignal) -> str | None:
        """Take in a signal; in a sentence what it changes, if it does."""
        key = (signal.kind, signal.about)
        before = self._heard[key].counted if key in self._heard else 0.0
        strength = min(1.0, max(0.0, signal.strength))
        counted = 0.0
        if strength >= (OFF if before > 0.0 else ON):
            counted = max(ON, round(strength / _STEP) * _STEP)
        if counted > 0.0:
            self._heard[key] = _Heard(now_ns, counted, signal.reason)
        else:
            self._heard.pop(key, None)
        return None if counted == before else _told(key, before, counted, signal.reason)

    def expire(self, now_ns: int) -> list[tuple[str, str]]:
        """Forget what nobody repeated; what it was about and what that changes."""
        old = [key for key, each in self._heard.items() if now_ns - each.at_ns >= HEEDED_NS]
        said = []
        for key in old:
            gone = self._heard.pop(key)
            said.append((key[1], _told(key, gone.counted, 0.0, "it was not seen again")))
        return said

    def latency(self, kind: WorkloadKind) -> float:
        """Factor on the weight of lateness of a class."""
        return 1.0 + LATENCY_PART * self._counted(FleetSignalKind.LATENCY, kind.value)

    def locality(self) -> float:
        """Factor on the weight of locality."""
        return 1.0 + LOCALITY_PART * self._counted(FleetSignalKind.LOCALITY, "")

    def surcharge(
        self, sites_of: Mapping[ClusterId, Sequence[int]], worth: Floats
    ) -> Floats | None:
        """[M]: what is added to congestion prices; None: nothing anywhere."""
        found: Floats | None = None
        for (kind, about), heard in self._heard.items():
            if kind is not FleetSignalKind.CONGESTION:
                continue
            if found is None:
                found = np.zeros(len(worth))
            for row in sites_of.get(ClusterId(about), ()):
                found[row] = CONGESTION_PART * heard.counted * worth[row]
        return found

    def _counted(self, kind: FleetSignalKind, about: str) -> float:
        heard = self._heard.get((kind, about))
        return heard.counted if heard is not None else 0.0


def _told(key: _Key, before: float, after: float, reason: str) -> str:
    kind, _ = key
    part = {
        FleetSignalKind.CONGESTION: CONGESTION_PART,
        FleetSignalKind.LATENCY: LATENCY_PART,
        FleetSignalKind.LOCALITY: LOCALITY_PART,
    }[kind]
    return (
        f"the {kind.value} weight goes from {1.0 + part * before:.3g} to {1.0 + part * after:.3g} "
        f"times what it is otherwise: {reason}"
    )
