"""Weighted dominant share: how much of the fleet each tenant uses, and how far it may go.

A tenant's *dominant share* is its largest share of anything scarce, over all clusters together
(Ghodsi et al., NSDI 2011). Shares are filled like water: everybody's rises in proportion to its
weight until a tenant has all it asks for or something it needs is used up. What a tenant does not
ask for, others borrow; as soon as it asks again their caps fall; `over_share` says who is above.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.domain.fleet.series import Floats
from dure.domain.ids import TenantId

Integers = NDArray[np.int64]

_UNLIMITED = 1.0
"""A share of everything: a cap that binds nobody."""
_TINY = 1e-12
_NOTHING = 1e-9
"""A share below which a tenant uses nothing: what sums of fractions leave behind."""


class Amounts(NamedTuple):
    """How much of everything that is scarce: a tenant's use, a claim, or the whole fleet."""

    compute_milli: float = 0.0
    """Of devices, in thousandths of one."""
    memory_bytes: float = 0.0
    """Of devices."""
    cpu_milli: float = 0.0
    host_memory_bytes: float = 0.0


_DIMENSIONS = len(Amounts._fields)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a tenant waits for."""

    amounts: Amounts
    """Of all its waiting workloads together."""
    first: Amounts | None = None
    """Of the one that is next in line. A tenant below its share may always have that one, even if
    it is a gang larger than the share: else it would wait for ever."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A tenant above its cap."""

    tenant: TenantId
    share: float
    """Dominant share it uses."""
    cap: float
    per_weight: float
    """How far above, by weight: who has the most gives back first."""


@dataclass(slots=True)
class ShareBook:
    """What every tenant uses of the whole fleet, kept up to date placement by placement."""

    totals: Amounts = field(default_factory=Amounts)
    """Of the fleet. A dimension with nothing in it is not scarce and counts for nobody."""
    _rows: dict[TenantId, int] = field(default_factory=dict)
    _weights: list[float] = field(default_factory=list)
    _used: Floats = field(default_factory=lambda: np.zeros((0, _DIMENSIONS)))

    def set_tenant(self, tenant: TenantId, weight: float = 1.0) -> None:
        """Make a tenant known, or change its weight."""
        if not weight > 0 or not np.isfinite(weight):
            raise InputError(f"tenant '{tenant}' has weight {weight:g}", "use a weight above 0")
        if tenant in self._rows:
            self._weights[self._rows[tenant]] = weight
            return
        self._rows[tenant] = len(self._weights)
        self._weights.append(weight)
        if len(self._weights) > len(self._used):
            grown = np.zeros((2 * len(self._weights), _DIMENSIONS))
            grown[: len(self._used)] = self._used
            self._used = grown

    def took(self, tenant: TenantId, amounts: Amounts) -> None:
        """A workload of the tenant was placed."""
        self._used[self._row(tenant)] += amounts

    def gave_back(self, tenant: TenantId, amounts: Amounts) -> None:
        """A workload of the tenant ended, stopped or shrank."""
        row = self._used[self._row(tenant)]
        row -= amounts
        np.maximum(row, 0.0, out=row)

    def after(self, gone: Iterable[tuple[TenantId, Amounts]]) -> "ShareBook":
        """The book as it will be when these amounts have been given back."""
        book = ShareBook(self.totals, dict(self._rows), list(self._weights), self._used.copy())
        for tenant, amounts in gone:
            book.gave_back(tenant, amounts)
        return book

    def used(self, tenant: TenantId) -> Amounts:
        """What the tenant has now."""
        return Amounts(*(float(value) for value in self._used[self._row(tenant)]))

    def share(self, tenant: TenantId) -> float:
        """The tenant's dominant share."""
        return float(self._shares()[self._row(tenant)])

    def shares(self) -> dict[TenantId, float]:
        """Every tenant's dominant share."""
        shares = self._shares()
        return {tenant: float(shares[row]) for tenant, row in self._rows.items()}

    def fair_shares(self, waiting: Mapping[TenantId, Claim]) -> dict[TenantId, float]:
        """Weight over the weights of all who use or want something; others have no part."""
        active, weights = self._active(waiting)
        whole = float(weights[active].sum())
        return {
            tenant: float(weights[row] / whole) if active[row] else 0.0
            for tenant, row in self._rows.items()
        }

    def caps(self, waiting: Mapping[TenantId, Claim]) -> dict[TenantId, float]:
        """How large each tenant's dominant share may become in this round.

        A tenant gets the level of the water, or at least what it asks for where that is less; never
        less than its fair share. While nobody waits, nobody is limited.
        """
        if not waiting or not self._rows:
            return dict.fromkeys(self._rows, _UNLIMITED)
        rows = np.array([self._row(tenant) for tenant in waiting])
        claims = list(waiting.values())
        first = [claim.first for claim in claims]
        nothing = Amounts(*(np.inf,) * _DIMENSIONS)
        caps = self.caps_of(
            rows,
            np.array([claim.amounts for claim in claims]),
            np.array([nothing if each is None else each for each in first]),
        )
        return {tenant: float(caps[row]) for tenant, row in self._rows.items()}

    def caps_of(self, rows: Integers, amounts: Floats, first: Floats) -> Floats:
        """The same for all tenants by row, where those of `rows` wait for `amounts` [rows, 4].

        `first` are the amounts of each one's next in line; infinite: it makes no claim of that.
        """
        used, weights = self._shares(), np.asarray(self._weights, dtype=np.float64)
        active = used > _NOTHING
        active[rows] = True
        wanted = self._used[: len(self._rows)].copy()
        wanted[rows] += amounts
        wanted = self._portion(wanted)
        shares = np.max(wanted, axis=1, initial=0.0)
        filled = fill(wanted, weights)
        whole = float(weights[active].sum())
        fair = np.where(active, weights / max(whole, _TINY), _UNLIMITED)
        caps = np.where(filled >= shares - _TINY, np.maximum(fair, shares), filled)
        next_share = self._portion(self._used[rows] + first).max(axis=1)
        below = (used[rows] < fair[rows]) & np.isfinite(next_share)
        caps[rows] = np.where(below, np.maximum(caps[rows], next_share), caps[rows])
        if active.sum() == 1:
            caps[active] = np.maximum(caps[active], _UNLIMITED)
        return np.asarray(caps)

    def row(self, tenant: TenantId) -> int:
        """The row of a tenant; it never changes."""
        return self._row(tenant)

    def shares_by_row(self) -> Floats:
        """Every tenant's dominant share."""
        return self._shares()

    def over_share(self, waiting: Mapping[TenantId, Claim]) -> list[Excess]:
        """Who uses more than its cap now that others wait, the furthest above (by weight) first."""
        caps = self.caps(waiting)
        shares = self._shares()
        above = [
            Excess(
                tenant,
                float(shares[row]),
                caps[tenant],
                (float(shares[row]) - caps[tenant]) / self._weights[row],
            )
            for tenant, row in self._rows.items()
            if shares[row] > caps[tenant] + _TINY
        ]
        return sorted(above, key=lambda excess: (-excess.per_weight, excess.tenant))

    def _row(self, tenant: TenantId) -> int:
        try:
            return self._rows[tenant]
        except KeyError:
            known = ", ".join(sorted(self._rows)) or "none"
            raise InputError(
                f"tenant '{tenant}' is unknown", f"declare it first; known are {known}"
            ) from None

    def _portion(self, amounts: Floats) -> Floats:
        """Amounts as shares of the fleet."""
        totals = np.asarray(self.totals, dtype=np.float64)
        return np.divide(amounts, totals, out=np.zeros_like(amounts), where=totals > 0)

    def _shares(self) -> Floats:
        portions = self._portion(self._used[: len(self._rows)])
        return np.asarray(portions.max(axis=1, initial=0.0))

    def _active(self, waiting: Mapping[TenantId, Claim]) -> tuple[NDArray[np.bool_], Floats]:
        active = np.asarray(self._shares() > _NOTHING)
        active[[self._row(tenant) for tenant in waiting]] = True
        return active, np.asarray(self._weights, dtype=np.float64)


def fill(wanted: Floats, weights: Floats) -> Floats:
    """Dominant shares by water-filling: [tenants, dimensions] of wanted shares in, [tenants] out.

    Every tenant's dominant share rises as level × weight, its other dimensions along with it in the
    proportions it asks for. It stops when it has all it wants or something it uses is used up.
    At most one pass per dimension.
    """
    shares = np.max(wanted, axis=1, initial=0.0)
    direction = wanted / np.maximum(shares, _TINY)[:, None]
    result = np.array(shares)
    if not np.any(wanted.sum(axis=0) > 1.0):
        return result
    rising = shares > 0
    room = np.ones(wanted.shape[1])
    while np.any(rising):
        level, dimension = _first_full(direction[rising], shares[rising], weights[rising], room)
        if dimension < 0:
            break
        stopped = rising & (direction[:, dimension] > 0)
        result[stopped] = np.minimum(shares[stopped], weights[stopped] * level)
        room -= result[stopped] @ direction[stopped]
        rising &= ~stopped
    return result


def _first_full(
    direction: Floats, wanted: Floats, weights: Floats, room: Floats
) -> tuple[float, int]:
    """The water level at which the first dimension is used up, and which; -1: none ever is."""
    order = np.argsort(wanted / weights, kind="stable")
    stops = (wanted / weights)[order]
    have = np.cumsum(wanted[order, None] * direction[order], axis=0)
    slope = weights[order, None] * direction[order]
    rising = slope.sum(axis=0) - np.cumsum(slope, axis=0)
    use_at_stop = have + stops[:, None] * rising
    best, where = np.inf, -1
    for dimension in range(direction.shape[1]):
        over = np.flatnonzero(use_at_stop[:, dimension] > room[dimension] + _TINY)
        if not len(over):
            continue
        first = int(over[0])
        before = have[first - 1, dimension] if first else 0.0
        steep = rising[first, dimension] + slope[first, dimension]
        level = max(0.0, float((room[dimension] - before) / steep))
        if level < best:
            best, where = level, dimension
    return best, where
