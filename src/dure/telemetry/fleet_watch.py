"""Watches the fleet: what the centre hears goes in, signals for its weights come out. No clock.

Three things are followed. Services: the time in which their promises were broken, over a short and
a long memory, of which both must be bad (a burn rate), and a line through their requests. Clusters:
a line through the share of free devices, to see them full before they are. Submissions: how many
want weights or data that others wanted lately. A signal is told when its strength has moved.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.events import (
    ClusterSummarised,
    GlobalEvent,
    ServiceObserved,
    SignalSeen,
    WorkloadSubmitted,
)
from dure.domain.fleet.signals import FleetSignal, FleetSignalKind
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.ids import ArtefactId, ClusterId
from dure.telemetry.lines import Line, fit_line

_WINDOW = 12
"""Observations a line is fitted to."""
_AHEAD = 6.0
"""How many observations ahead is looked."""
_FULL = 0.02
"""Share of free devices below which a cluster counts as full."""
_SURE_SLOPE = 3.0
_LEAST_VARIANCE = 1e-6
_SHORT, _LONG = 0.3, 0.05
"""Part of a new observation in the two memories of broken promises."""
_BROKEN = 0.05
"""Share of broken time from which on both say that promises fail."""
_VERY_BROKEN = 0.2
"""The same for a signal of full strength."""
_FULL_GROWTH = 0.5
"""Growth of requests within the look ahead for a signal of full strength."""
_REMEMBERED = 50
"""Submissions among which reuse is counted."""
_REUSED = (0.5, 0.9)
"""Share of them that reuse something, for a signal that begins to count and for a full one."""
_TOLD = 0.1
"""A strength that moved by less is not told again."""
_REPEAT_NS = 1800 * 10**9
"""What goes on is told again after so long."""


@dataclass(slots=True)
class _Trend:
    """A short series at about equal steps."""

    values: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def add(self, value: float) -> Line | None:
        """The line through the window, in steps, once it is full and surely moves."""
        self.values.append(value)
        if len(self.values) < _WINDOW:
            return None
        seen = np.array(self.values)
        rough = fit_line(seen, 1.0, 1.0)
        steps = np.arange(_WINDOW) - (_WINDOW - 1)
        errors = seen - (rough.level + rough.slope_per_s * steps)
        variance = max(float(errors @ errors) / (_WINDOW - 2), _LEAST_VARIANCE)
        line = fit_line(seen, 1.0, variance)
        return line if abs(line.slope_score) >= _SURE_SLOPE else None


@dataclass(slots=True)
class _Told:
    strength: float
    at_ns: int


@dataclass(slots=True)
class FleetWatch:
    """All clusters and services of a fleet."""

    _free: dict[ClusterId, _Trend] = field(default_factory=dict)
    _requests: dict[str, _Trend] = field(default_factory=dict)
    _short: float = 0.0
    _long: float = 0.0
    _wanted: deque[frozenset[ArtefactId]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _reused: deque[bool] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _told: dict[tuple[FleetSignalKind, str], _Told] = field(default_factory=dict)

    def observe(self, event: GlobalEvent) -> list[SignalSeen]:
        """Take in what the centre heard; what it should know besides."""
        match event:
            case ClusterSummarised():
                signals = self._summarised(event)
            case ServiceObserved():
                signals = [self._served(event)]
            case WorkloadSubmitted():
                signals = self._submitted(event.workload)
            case _:
                return []
        return [SignalSeen(event.now_ns, each) for each in self._news(event.now_ns, signals)]

    def _summarised(self, event: ClusterSummarised) -> list[FleetSignal]:
        devices: dict[ClusterId, tuple[int, int]] = {}
        for each in event.sites:
            free, total = devices.get(each.site.cluster, (0, 0))
            devices[each.site.cluster] = (free + each.free_devices, total + each.devices)
        found = []
        for cluster, (free, total) in devices.items():
            share = free / total if total else 1.0
            line = self._free.setdefault(cluster, _Trend()).add(share)
            found.append(_filling(cluster, share, line))
        return found

    def _served(self, event: ServiceObserved) -> FleetSignal:
        self._short += _SHORT * (event.violated_share - self._short)
        self._long += _LONG * (event.violated_share - self._long)
        broken = min(self._short, 2.0 * self._long)
        strength = 0.0
        if broken >= _BROKEN:
            strength = min(1.0, 0.5 + 0.5 * (broken - _BROKEN) / (_VERY_BROKEN - _BROKEN))
        reason = f"promises of services were broken {self._short:.1%} of the time lately"
        key = f"{event.workload}@{event.cluster}"
        line = self._requests.setdefault(key, _Trend()).add(event.requests_per_s)
        if line is not None and line.slope_per_s > 0.0 and line.level > 0.0:
            growth = line.slope_per_s * _AHEAD / line.level
            if growth / _FULL_GROWTH > max(strength, 0.5):
                strength = min(1.0, growth / _FULL_GROWTH)
                reason = (
                    f"requests of '{event.workload}' will have grown by {growth:.0%} from "
                    f"{line.level:.3g} a second in {_AHEAD:g} looks"
                )
        return FleetSignal(FleetSignalKind.LATENCY, WorkloadKind.SERVING.value, strength, reason)

    def _submitted(self, workload: Workload) -> list[FleetSignal]:
        wanted = frozenset((*workload.data, *((workload.weights,) if workload.weights else ())))
        if wanted:
            self._reused.append(any(wanted & other for other in self._wanted))
            self._wanted.append(wanted)
        if len(self._reused) < _WINDOW:
            return []
        share = sum(self._reused) / len(self._reused)
        least, most = _REUSED
        strength = 0.0 if share < least else min(1.0, 0.5 + 0.5 * (share - least) / (most - least))
        reason = f"{share:.0%} of the last {len(self._reused)} submissions want what others wanted"
        return [FleetSignal(FleetSignalKind.LOCALITY, "", strength, reason)]

    def _news(self, now_ns: int, signals: Iterable[FleetSignal]) -> list[FleetSignal]:
        """Those that moved, and what goes on now and then."""
        found = []
        for signal in signals:
            key = (signal.kind, signal.about)
            known = self._told.get(key)
            before = known.strength if known is not None else 0.0
            moved = abs(signal.strength - before) >= _TOLD or (signal.strength == 0.0) != (
                before == 0.0
            )
            repeat = (
                signal.strength > 0.0 and known is not None and now_ns - known.at_ns >= _REPEAT_NS
            )
            if moved or repeat:
                self._told[key] = _Told(signal.strength, now_ns)
                found.append(signal)
        return found


def _filling(cluster: ClusterId, share: float, line: Line | None) -> FleetSignal:
    """Whether a cluster that has devices left will have none soon."""
    strength, reason = 0.0, f"{share:.0%} of its devices are free"
    if line is not None and line.slope_per_s < 0.0 and share > _FULL:
        strength = 1.0 - line.above(_FULL, _AHEAD)
        reason += f" and fewer each time; it will be full in {_AHEAD:g} looks"
    return FleetSignal(FleetSignalKind.CONGESTION, str(cluster), strength, reason)
