"""Eq. 1: how fast a tenant goes in company, with factors learned on line.

    T_eff(m; s, C) = T_solo(m, s_m) · Π_{k in C, k ≠ m} (1 − ρ_mk · φ(s_m, s_k))

`T_solo` comes from the tenant's own book of kernels. Here live ρ_mk, one number per ordered
pair, and φ, which says how much of it applies when compute units are divided. Both are learned
in the logarithm, where the product is a sum and recursive least squares applies:
log(slow-down) = Σ θ_mk · φ, and 1 − ρ_mk = exp(−θ_mk).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.ids import TenantId
from dure.domain.kernel import KernelClass
from dure.domain.plan import SmSet

ClassMix = tuple[float, float, float, float]
"""Share of a tenant's device time spent in kernels of each class."""

_PRIOR_RHO = {
    # victim: slow-down by an aggressor of class (compute, memory, small, long)
    KernelClass.COMPUTE: (0.50, 0.40, 0.15, 0.60),
    KernelClass.MEMORY: (0.40, 0.50, 0.15, 0.60),
    KernelClass.SMALL: (0.55, 0.50, 0.10, 0.75),
    KernelClass.LONG: (0.40, 0.40, 0.10, 0.50),
}
"""Before anything is measured. Two that fill the device each lose half of it to the other; a
small one loses more, since its short kernels wait for places; a small one takes little."""

_PRIOR_VARIANCE = 0.5
_PAIR_NOISE = 0.2
_FORGETTING = 0.995
"""Per observation; old company fades over a few hundred samples."""
_LEAST_VARIANCE = 1e-3
_MOST_THETA = 6.0
_ERROR_STEP = 0.05
_SPILL_STEP = 0.02


@dataclass(slots=True)
class _Pair:
    theta: float
    variance: float = _PRIOR_VARIANCE


@dataclass(slots=True)
class Interference:
    """Learned slow-down of every tenant by every other."""

    _pairs: dict[tuple[TenantId, TenantId], _Pair] = field(default_factory=dict)
    _class_theta: list[list[float]] = field(
        default_factory=lambda: [
            [-math.log(1.0 - rho) for rho in _PRIOR_RHO[victim]] for victim in KernelClass
        ]
    )
    _mixes: dict[TenantId, ClassMix] = field(default_factory=dict)
    spill: float = 0.15
    """What remains of ρ between disjoint sets of compute units: caches and bandwidth. Learned."""
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

    def phi(self, own: SmSet, other: SmSet) -> float:
        """How much of ρ applies: the part of the own set that is shared, plus what spills over."""
        shared = own.overlap(other) / own.count
        reach = min(1.0, other.count / max(own.count, 1))
        return shared + self.spill * (1.0 - shared) * reach

    def theta(self, victim: TenantId, aggressor: TenantId) -> float:
        """The learned logarithm of the slow-down, or the prior by class."""
        pair = self._pairs.get((victim, aggressor))
        return pair.theta if pair is not None else self._prior(victim, aggressor)

    def rho(self, victim: TenantId, aggressor: TenantId) -> float:
        """The paper's ρ_mk."""
        return 1.0 - math.exp(-self.theta(victim, aggressor))

    def factor(self, victim: TenantId, company: Iterable[tuple[TenantId, float]]) -> float:
        """The product of Eq. 1 for company given as (tenant, φ)."""
        return math.exp(-sum(self.theta(victim, other) * phi for other, phi in company))

    def observe(
        self, victim: TenantId, company: tuple[tuple[TenantId, float], ...], slowdown: float
    ) -> None:
        """Learn from one measured slow-down in company given as (tenant, φ)."""
        if not company or not slowdown > 0.0:
            return
        measured = math.log(min(max(slowdown, 0.5), 1e3))
        pairs = [self._pair(victim, other) for other, _ in company]
        expected = sum(
            pair.theta * phi for pair, (_, phi) in zip(pairs, company, strict=True)
        )
        miss = measured - expected
        self.observations += 1
        self.error += _ERROR_STEP * (abs(math.expm1(-miss)) - self.error)
        spread = _PAIR_NOISE + sum(
            pair.variance * phi * phi for pair, (_, phi) in zip(pairs, company, strict=True)
        )
        for pair, (_, phi) in zip(pairs, company, strict=True):
            gain = pair.variance * phi / spread
            pair.theta = min(max(pair.theta + gain * miss, 0.0), _MOST_THETA)
            pair.variance = max(
                _LEAST_VARIANCE, pair.variance * (1.0 - gain * phi) / _FORGETTING
            )
        self._learn_spill(company, pairs, miss)
        self._learn_classes(victim, company, measured)

    def class_rho(self, victim: KernelClass, aggressor: KernelClass) -> float:
        """The compatibility of two classes of kernels, as learned from all pairs."""
        return 1.0 - math.exp(-self._class_theta[victim][aggressor])

    def _learn_spill(
        self, company: tuple[tuple[TenantId, float], ...], pairs: list[_Pair], miss: float
    ) -> None:
        """A miss between disjoint sets says how much spills over."""
        for pair, (_, phi) in zip(pairs, company, strict=True):
            if phi <= self.spill + 1e-9 and pair.theta > 0.05:
                moved = self.spill + _SPILL_STEP * miss / pair.theta
                self.spill = min(max(moved, 0.0), 1.0)

    def _learn_classes(
        self, victim: TenantId, company: tuple[tuple[TenantId, float], ...], measured: float
    ) -> None:
        if len(company) != 1 or company[0][1] < 0.5:
            return
        own = self._mixes.get(victim)
        other = self._mixes.get(company[0][0])
        if own is None or other is None:
            return
        row = max(range(4), key=own.__getitem__)
        column = max(range(4), key=other.__getitem__)
        known = self._class_theta[row][column]
        self._class_theta[row][column] = max(0.0, known + _SPILL_STEP * (measured - known))

    def _pair(self, victim: TenantId, aggressor: TenantId) -> _Pair:
        key = (victim, aggressor)
        pair = self._pairs.get(key)
        if pair is None:
            pair = self._pairs[key] = _Pair(self._prior(victim, aggressor))
        return pair

    def _prior(self, victim: TenantId, aggressor: TenantId) -> float:
        own = self._mixes.get(victim)
        other = self._mixes.get(aggressor)
        if own is None or other is None:
            return self._class_theta[KernelClass.COMPUTE][KernelClass.COMPUTE]
        total = 0.0
        for row in range(4):
            if own[row] > 0.0:
                line = self._class_theta[row]
                total += own[row] * sum(line[column] * other[column] for column in range(4))
        return total
