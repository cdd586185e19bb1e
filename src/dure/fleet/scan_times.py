"""When to look for work that is worth moving: now and then, and when prices or carbon moved."""

from dataclasses import dataclass, field

import numpy as np

from dure.domain.ids import ClusterId
from dure.fleet.global_state import GlobalState

_LEAST = 1e-9
"""What a rate is compared with that was nothing before."""
_Rate = tuple[ClusterId, str]


@dataclass(slots=True)
class ScanTimes:
    """Remembers the last look, and what was paid then."""

    _next_ns: int = 0
    _compare_ns: int = 0
    """When rates are compared next: they move with the hour, whether anything is told or not."""
    _rates: dict[_Rate, float] = field(default_factory=dict)

    def due(self, state: GlobalState) -> bool:
        """Whether it is time; the next time is counted from now."""
        if state.now_ns < self._next_ns and not self._moved(state):
            return False
        self._next_ns = state.now_ns + state.settings.scan_ns
        self._compare_ns = state.now_ns + state.settings.scan_least_ns
        self._rates = _rates(state)
        return True

    def _moved(self, state: GlobalState) -> bool:
        """Whether some cluster became so much dearer, cheaper, dirtier or cleaner since."""
        if state.now_ns < self._compare_ns:
            return False
        self._compare_ns = state.now_ns + state.settings.scan_least_ns
        return any(
            _change(self._rates.get(what, rate), rate) > state.settings.scan_change
            for what, rate in _rates(state).items()
        )


def _rates(state: GlobalState) -> dict[_Rate, float]:
    """Usual rent of each kind of device, and electricity and carbon of the moment, by cluster."""
    found: dict[_Rate, float] = {}
    for name, cluster in state.sites.clusters.items():
        if name in state.sites.lost:
            continue
        usual = float(np.mean(cluster.tariff.calendar))
        for profile, price in cluster.tariff.device_hour.items():
            rent = state.sites.fleet.rates.to_base(price * usual, cluster.tariff.currency)
            found[name, profile] = rent
        found[name, "electricity"] = cluster.electricity_per_mwh.at(state.now_ns)
        found[name, "carbon"] = cluster.carbon_g_per_kwh.at(state.now_ns)
    return found


def _change(before: float, now: float) -> float:
    return abs(now - before) / max(abs(before), _LEAST)
