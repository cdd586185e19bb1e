"""Which running work is worth moving: expected saving of a move, net of everything it costs.

All running workloads × all sites at once. Money in the fleet's currency over the time left to run
(a service: over the horizon its owner of the decision looks ahead). A job moves at its next
checkpoint, so until then it pays where it is; one that saves nothing starts anew. A service runs at
both places until the new one is warm.

A move is credited with the time that its workload will stay at the new place, not with the whole
rest of the run: a job that has moved once moves on when something better opens, or is displaced,
and the next move is credited with what comes then. `Tenure` learns how long work stays at a site.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.series import Floats
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import WorkloadId

KINDS = tuple(WorkloadKind)
"""Order of `Running.kinds`."""
NEVER_NS = -(2**62)
"""When something that never moved last moved."""

_HOUR_NS = 3600 * 10**9
_PRIOR_HOURS = 48.0
"""Workload-hours that stand behind the first guess of how long work stays."""
_PRIOR_LEFT = 1.0
"""Of which so many ended early: two days, before anything was seen."""
_MEMORY_NS = 72 * _HOUR_NS
"""Half of what was seen so long ago is forgotten: what opens and fills changes within days."""


@dataclass(slots=True)
class Tenure:
    """How long work stays at each site before it moves on, is displaced or loses its place."""

    hours: Floats = field(default_factory=lambda: np.zeros(0))
    """[M]: hours that work has stayed, of all together."""
    left: Floats = field(default_factory=lambda: np.zeros(0))
    """[M]: how often it left before it was done."""
    seen_ns: int | None = None

    def pass_time(self, now_ns: int, staying: Floats) -> None:
        """Time has passed; `staying` [M] is the number of workloads at each site."""
        self._grow(len(staying))
        passed_ns = 0 if self.seen_ns is None else max(0, now_ns - self.seen_ns)
        self.seen_ns = now_ns
        keep = 0.5 ** (passed_ns / _MEMORY_NS)
        self.hours = keep * self.hours + staying * (passed_ns / _HOUR_NS)
        self.left *= keep

    def leave(self, site: int) -> None:
        """A workload left a site although there was more for it to do."""
        self._grow(site + 1)
        self.left[site] += 1.0

    def per_hour(self, sites: int) -> Floats:
        """[M]: how often a workload leaves early, per hour that it is there."""
        self._grow(sites)
        rate = (self.left + _PRIOR_LEFT) / (self.hours + _PRIOR_HOURS)
        return np.asarray(rate[:sites])

    def lasts(self, left_h: Floats) -> Floats:
        """[workloads, sites]: part of the rest of a run that is expected to be spent there.

        `left_h` is [workloads, sites]. Ends are memoryless.
        """
        rate = self.per_hour(left_h.shape[1])[None, :] * np.maximum(left_h, 1e-6)
        return np.asarray(-np.expm1(-rate) / rate)

    def _grow(self, sites: int) -> None:
        if len(self.hours) < sites:
            more = np.zeros(sites - len(self.hours))
            self.hours, self.left = np.append(self.hours, more), np.append(self.left, more)


@dataclass(frozen=True, slots=True)
class Running:
    """Running workloads in columns; the same row is the same workload."""

    workloads: tuple[WorkloadId, ...]
    kinds: NDArray[np.int8]
    """Index in `KINDS`."""
    sites: NDArray[np.int64]
    """Where each is."""
    stay: Floats
    """What running to the end where it is costs from now on."""
    left_ns: Floats
    """Time to its end there; of a service, the horizon."""
    to_checkpoint_ns: Floats
    """Until its progress is next saved; 0 for services; infinite: it never is."""
    done_share: Floats
    """Part of all its work that is done; what is lost where nothing is saved."""
    moved_ns: NDArray[np.int64]
    """When it last moved; `NEVER_NS`: never."""
    amounts: Floats
    """[workloads, dimensions] it needs at the new site, or [workloads, sites, dimensions]."""


@dataclass(frozen=True, slots=True)
class Offers:
    """What every site would cost, [workloads, sites]; infinite where a workload cannot go."""

    there: Floats
    """Running to the end there, from the present state on."""
    transfer: Floats
    """Carrying checkpoint, weights and data there."""
    restart: Floats
    """Devices that are paid while it starts or warms there, and lateness that causes."""
    warm_ns: Floats
    """How long a service runs at both places; 0 for jobs."""
    lasts: Floats
    """Part of the time left that it is expected to stay there, 0 to 1."""


@dataclass(frozen=True, slots=True)
class MoveCandidate:
    """A move worth making, with the sum behind it."""

    row: int
    workload: WorkloadId
    source: int
    target: int
    saving: float
    """Expected, net of all costs of the move."""
    stay: float
    """Cost of staying, as long as the move makes a difference."""
    there: float
    """Cost at the target after the move, likewise."""
    until_move: float
    """Paid at the source until the next checkpoint."""
    transfer: float
    restart: float
    redo: float
    """Work done twice because nothing was saved."""
    double: float
    """Source and target at once, while a service warms."""

    @property
    def terms(self) -> tuple[tuple[str, float], ...]:
        """The sum of moving, term by term."""
        return (
            ("run at target", self.there),
            ("run until checkpoint", self.until_move),
            ("transfer", self.transfer),
            ("restart", self.restart),
            ("work lost", self.redo),
            ("double running", self.double),
        )


@dataclass(frozen=True, slots=True)
class _Sums:
    """Each term of moving, [workloads, sites]."""

    stay: Floats
    there: Floats
    until_move: Floats
    redo: Floats
    double: Floats
    saving: Floats


def _sums(running: Running, offers: Offers) -> _Sums:
    left_ns = np.maximum(running.left_ns, 1.0)
    saves = np.isfinite(running.to_checkpoint_ns)
    wait = np.where(saves, np.minimum(running.to_checkpoint_ns / left_ns, 1.0), 0.0)[:, None]
    # A place that cannot be reached has no price, and nothing can be moved away from it.
    held = ~np.isfinite(running.stay[:, None])
    whole = np.where(held, 0.0, running.stay[:, None])
    stay = whole * (wait + (1.0 - wait) * offers.lasts)
    closed = ~np.isfinite(offers.there + offers.transfer + offers.restart + offers.warm_ns) | held
    to_end = np.where(closed, 0.0, offers.there)
    there = to_end * (1.0 - wait) * offers.lasts
    until_move = np.broadcast_to(whole * wait, there.shape)
    # What was done must be done again there, at the price of the work that is left.
    to_do = np.maximum(1.0 - running.done_share, 1e-9)
    redo_share = np.where(saves, 0.0, running.done_share / to_do)[:, None]
    redo = to_end * redo_share
    double = whole * np.minimum(offers.warm_ns / left_ns[:, None], 1.0)
    move = there + until_move + offers.transfer + offers.restart + redo + double
    return _Sums(stay, there, until_move, redo, double, np.where(closed, -np.inf, stay - move))


def thresholds(running: Running, policy: FleetPolicy, stay: Floats) -> Floats:
    """[workloads, sites]: the least saving at which each may move; infinite where its class never
    does.

    Both rules of the class hold at once: an amount of money, and a share of what `stay` costs.
    """
    rules = [policy.of(kind) for kind in KINDS]
    amount = np.array([r.migration_threshold if r.migrate else np.inf for r in rules])
    share = np.array([rule.migration_share for rule in rules])
    kinds = running.kinds
    return np.asarray(np.maximum(amount[kinds][:, None], share[kinds][:, None] * stay))


def scan(
    running: Running, offers: Offers, free: Floats, policy: FleetPolicy, now_ns: int, in_flight: int
) -> list[MoveCandidate]:
    """Moves worth making now, largest saving first, at most `policy.most_moves` in flight.

    `free` is [sites, dimensions] of what is left at each site; every chosen move takes its part of
    the target, none is counted on to free the source.
    """
    count = policy.most_moves - in_flight
    if count <= 0 or not len(running.workloads):
        return []
    sums = _sums(running, offers)
    saving = sums.saving.copy()
    rows = np.arange(len(running.workloads))
    saving[rows, running.sites] = -np.inf
    cool_ns = np.array([policy.of(kind).cool_down_ns for kind in KINDS], dtype=np.int64)
    cooling = now_ns - running.moved_ns < cool_ns[running.kinds]
    saving[cooling] = -np.inf
    saving[saving < thresholds(running, policy, sums.stay)] = -np.inf
    left = free.copy()
    moves: list[MoveCandidate] = []
    pairs = np.flatnonzero(saving.ravel() > -np.inf)
    order = pairs[np.lexsort((pairs, -saving.ravel()[pairs]))]
    moved: set[int] = set()
    by_site = running.amounts.ndim == 3
    for pair in order:
        row, site = divmod(int(pair), saving.shape[1])
        needs = running.amounts[row, site] if by_site else running.amounts[row]
        if row in moved or np.any(needs > left[site]):
            continue
        moved.add(row)
        left[site] -= needs
        moves.append(_candidate(running, offers, sums, row, site))
        if len(moves) == count:
            break
    return moves


def candidate_at(running: Running, offers: Offers, row: int, site: int) -> MoveCandidate:
    """What moving one workload to one site would come to, whether or not it pays."""
    return _candidate(running, offers, _sums(running, offers), row, site)


def _candidate(running: Running, offers: Offers, sums: _Sums, row: int, site: int) -> MoveCandidate:
    return MoveCandidate(
        row=row,
        workload=running.workloads[row],
        source=int(running.sites[row]),
        target=site,
        saving=float(sums.saving[row, site]),
        stay=float(sums.stay[row, site]),
        there=float(sums.there[row, site]),
        until_move=float(sums.until_move[row, site]),
        transfer=float(offers.transfer[row, site]),
        restart=float(offers.restart[row, site]),
        redo=float(sums.redo[row, site]),
        double=float(sums.double[row, site]),
    )
