"""Eq. 1: how fast a tenant goes in company, with factors learned on line.

    T_eff(m; s, C) = T_solo(m, s_m) · Π_{k in C, k ≠ m} (1 − ρ_mk · φ(s_m, s_k))

`T_solo` comes from the tenant's own book of kernels. Here live ρ_mk, one number per ordered
pair, and φ, which says how much of it applies. φ has two parts. *Contest*: the part of what m
would use that k may take from it, given their sets of compute units, plus a learned remainder
for caches and bandwidth. *Crowding*: company shares among itself what it takes from m, so that
slow-downs add up instead of multiplying (n equal tenants that fill the device run at 1/n, not
at 1/2^(n-1)), and a neighbour that is itself slowed by others presses less. With both, the
product telescopes to

    T_eff = T_solo / (1 + Σ_k odds_mk · contest_mk · pressure_k),      odds = ρ / (1 − ρ)

which is linear in the odds, and recursive least squares learns them from measured slow-downs.
Pairs never seen together start from a prior by kernel class, and are judged by the favourable
end of what is likely: trying company is how its cost is found out.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.ids import TenantId
from dure.domain.kernel import KernelClass
from dure.domain.plan import SmSet

ClassMix = tuple[float, float, float, float]
"""Share of a tenant's device time spent in kernels of each class."""

Company = tuple[tuple[TenantId, float], ...]
"""Others on the device, each with the part of its odds that applies: contest and pressure."""

_PRIOR_RHO = {
    # victim: slow-down by an aggressor of class (compute, memory, small, long)
    KernelClass.COMPUTE: (0.45, 0.40, 0.15, 0.50),
    KernelClass.MEMORY: (0.40, 0.45, 0.15, 0.50),
    KernelClass.SMALL: (0.50, 0.45, 0.10, 0.70),
    KernelClass.LONG: (0.35, 0.35, 0.10, 0.45),
}
"""Before anything is measured. Two that fill the device each lose about half of it to the
other; a small one loses more, since its short kernels wait for places, and takes little."""

_PRIOR_DOUBT = 0.7
"""Standard deviation of a prior, relative to the slow-down it stands for."""
_NOISE = 0.4
"""Standard deviation of one measured slow-down, relative to its size."""
_LEAST_DOUBT = 0.03
_DOUBT_PER_TICK = 1.004
"""How fast certainty about a pair that is not seen together fades."""
_OPTIMISM = 0.5
"""Standard deviations of doubt in favour of a pair."""
_MOST_ODDS = 200.0
_ERROR_STEP = 0.05
_SPILL_STEP = 0.02
_CLASS_STEP = 0.02


@dataclass(slots=True)
class _Pair:
    odds: float
    doubt: float
    """Standard deviation of `odds`."""


def _prior_doubt(odds: float) -> float:
    return _PRIOR_DOUBT * (0.3 + odds)


@dataclass(slots=True)
class Interference:
    """Learned slow-down of every tenant by every other."""

    _pairs: dict[tuple[TenantId, TenantId], _Pair] = field(default_factory=dict)
    _class_odds: list[list[float]] = field(
        default_factory=lambda: [
            [rho / (1.0 - rho) for rho in _PRIOR_RHO[victim]] for victim in KernelClass
        ]
    )
    _mixes: dict[TenantId, ClassMix] = field(default_factory=dict)
    spill: float = 0.15
    """What remains of a pair's odds between disjoint sets: caches and bandwidth. Learned."""
    error: float = 0.0
    """Mean relative error of predicted durations in company."""
    observations: int = 0

    def describe(self, tenant: TenantId, mix: ClassMix) -> None:
        """Say what kinds of kernels a tenant runs; the prior of its pairs follows from it."""
        self._mixes[tenant] = mix

    def forget(self, tenant: TenantId) -> None:
        """Drop a tenant that is gone."""
        self._mixes.pop(tenant, None)
        for pair in [pair for pair in self._pairs if tenant in pair]:
            del self._pairs[pair]

    def age(self) -> None:
        """A tick passed: what is not measured again becomes less certain."""
        for pair in self._pairs.values():
            pair.doubt = min(pair.doubt * _DOUBT_PER_TICK, _prior_doubt(pair.odds))

    def contest(self, own: SmSet, width_sms: float, other: SmSet) -> float:
        """The part of a tenant's `width_sms` on its own set that another may take from it."""
        used = min(width_sms, own.count)
        apart = own.count - own.overlap(other)
        contested = max(0.0, used - apart) / max(used, 1e-9)
        return contested + self.spill * (1.0 - contested)

    def company(self, victim: TenantId, contests: Company) -> Company:
        """Others with their contest, weakened by how much they slow one another."""
        parts = []
        for other, contest in contests:
            own = 1.0 + self.odds(other, victim)
            crowd = sum(self.odds(other, third) for third, _ in contests if third != other)
            parts.append((other, contest * own / (own + crowd)))
        return tuple(parts)

    def odds(self, victim: TenantId, aggressor: TenantId) -> float:
        """ρ / (1 − ρ): by how much the one slows the other, 1 meaning to half speed."""
        pair = self._pairs.get((victim, aggressor))
        return pair.odds if pair is not None else self._prior(victim, aggressor)

    def rho(self, victim: TenantId, aggressor: TenantId) -> float:
        """The paper's ρ_mk."""
        odds = self.odds(victim, aggressor)
        return odds / (1.0 + odds)

    def hopeful_odds(self, victim: TenantId, aggressor: TenantId) -> float:
        """The odds at the favourable end of what is likely."""
        pair = self._pairs.get((victim, aggressor))
        if pair is None:
            odds = self._prior(victim, aggressor)
            return max(0.0, odds - _OPTIMISM * _prior_doubt(odds))
        return max(0.0, pair.odds - _OPTIMISM * pair.doubt)

    def factor(self, victim: TenantId, company: Iterable[tuple[TenantId, float]]) -> float:
        """The product of Eq. 1 for a company."""
        return 1.0 / (1.0 + sum(self.odds(victim, other) * part for other, part in company))

    def observe(self, victim: TenantId, company: Company, slowdown: float) -> None:
        """Learn from one measured slow-down in company."""
        if not company or not slowdown > 0.0:
            return
        measured = min(max(slowdown, 1.0), _MOST_ODDS) - 1.0
        pairs = [self._pair(victim, other) for other, _ in company]
        expected = sum(pair.odds * part for pair, (_, part) in zip(pairs, company, strict=True))
        miss = measured - expected
        self.observations += 1
        self.error += _ERROR_STEP * (abs(miss) / (1.0 + measured) - self.error)
        noise = _NOISE * (1.0 + min(measured, expected))
        spread = noise**2 + sum(
            (pair.doubt * part) ** 2 for pair, (_, part) in zip(pairs, company, strict=True)
        )
        for pair, (_, part) in zip(pairs, company, strict=True):
            gain = pair.doubt**2 * part / spread
            pair.odds = min(max(pair.odds + gain * miss, 0.0), _MOST_ODDS)
            kept = math.sqrt(max(0.0, 1.0 - gain * part))
            pair.doubt = max(pair.doubt * kept, _LEAST_DOUBT * (0.3 + pair.odds))
        self._learn_spill(company, pairs, measured)
        self._learn_classes(victim, company, measured)

    def class_rho(self, victim: KernelClass, aggressor: KernelClass) -> float:
        """The compatibility of two classes of kernels, as learned from all pairs."""
        odds = self._class_odds[victim][aggressor]
        return odds / (1.0 + odds)

    def _learn_spill(self, company: Company, pairs: list[_Pair], measured: float) -> None:
        """One neighbour on units of its own: all of the slow-down is what spills over."""
        if len(company) == 1 and company[0][1] <= self.spill + 1e-9 and pairs[0].odds > 0.2:
            part = min(measured / pairs[0].odds, 1.0)
            self.spill += _SPILL_STEP * (part - self.spill)

    def _learn_classes(self, victim: TenantId, company: Company, measured: float) -> None:
        """With one neighbour on the same units, the classes of the two learn as well."""
        if len(company) != 1 or company[0][1] < 0.9:
            return
        own, other = self._mixes.get(victim), self._mixes.get(company[0][0])
        if own is None or other is None:
            return
        row = max(range(4), key=own.__getitem__)
        column = max(range(4), key=other.__getitem__)
        known = self._class_odds[row][column]
        miss = (measured - known) / (1.0 + measured)
        self._class_odds[row][column] = max(0.0, known + _CLASS_STEP * miss * (1.0 + known))

    def _pair(self, victim: TenantId, aggressor: TenantId) -> _Pair:
        key = (victim, aggressor)
        pair = self._pairs.get(key)
        if pair is None:
            odds = self._prior(victim, aggressor)
            pair = self._pairs[key] = _Pair(odds, _prior_doubt(odds))
        return pair

    def _prior(self, victim: TenantId, aggressor: TenantId) -> float:
        own = self._mixes.get(victim)
        other = self._mixes.get(aggressor)
        if own is None or other is None:
            return self._class_odds[KernelClass.COMPUTE][KernelClass.COMPUTE]
        total = 0.0
        for row in range(4):
            if own[row] > 0.0:
                line = self._class_odds[row]
                total += own[row] * (
                    line[0] * other[0]
                    + line[1] * other[1]
                    + line[2] * other[2]
                    + line[3] * other[3]
                )
        return total
