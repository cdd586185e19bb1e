"""Squads: which jobs may run beside which, found by predicted worth.

For every job the best *company* is sought: the others that may run while it has precedence,
and the part of the device they get. With up to four tenants all sets are tried, beyond that
sets grow one member at a time. A squad then is an order of precedence: a member is held for
those before it whose company it is not in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.ids import TenantId
from dure.domain.plan import SmSet
from dure.domain.units import NS_PER_MS
from dure.kernel.interference import Interference
from dure.kernel.policies.base import Appraisal
from dure.kernel.resources import behind, front, whole
from dure.kernel.track import Track

EXHAUSTIVE_TENANTS = 4
"""Up to this many tenants every set is tried; the bounded search beyond is measured against it."""
SEARCH_EVERY_NS = 100 * NS_PER_MS
"""How old an answer may be: five ticks, in which learned odds move by a few per cent."""
_DIVIDED_SPEED = 0.85
"""Speed kept on a part of the device beyond what its size costs: the last blocks of a kernel
begun there stay there when the rest falls idle."""
_GROWTH_STEPS = 3
"""Members the bounded search adds one by one; the set of everybody is tried besides."""
_CLEARLY_BETTER = 1.3
"""Holding somebody must promise this much over everybody running: holding is sure to cost."""
_STICKY = 0.03
"""A new company must add this much more than the present one: predictions are noisy."""
_LEAST_GAIN = 0.01
"""Company must add at least this much over the lead alone. Both in parts of the most
valuable member's worth at full speed."""

_Floats = NDArray[np.float64]
_Sets = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Company:
    """Who may run beside a lead, and on which compute units."""

    members: tuple[TenantId, ...] = ()
    lead_sms: SmSet | None = None
    """None: the whole device."""
    member_sms: SmSet | None = None


@dataclass(slots=True)
class SquadSearch:
    """Finds each tenant's company; keeps the last answer for steadiness."""

    profile: AcceleratorProfile
    interference: Interference
    side_by_side: bool = True
    _last: dict[TenantId, Company] = field(default_factory=dict)
    _searched: tuple[TenantId, ...] = ()
    _searched_ns: int | None = None

    def anew(self) -> "SquadSearch":
        """A search that knows the last answer but will not rest on it."""
        return replace(self, _searched_ns=None)

    def companies(
        self, tracks: dict[TenantId, Track], appraisal: Appraisal, now_ns: int
    ) -> dict[TenantId, Company]:
        """The best company of every job; who has no work is in nobody's and has none.

        Searched anew when who is there changes, and every so often since what was learned
        moves on. Tenants with patience are not concerned: all may run beside them until it ends.
        """
        jobs = [tracks[tenant] for tenant in appraisal.order if tenant not in appraisal.patience]
        present = [track for track in jobs if track.present]
        question = (*sorted(track.id for track in present), *tracks)
        fresh = self._searched_ns is not None and now_ns - self._searched_ns < SEARCH_EVERY_NS
        if fresh and question == self._searched:
            return self._last
        self._searched, self._searched_ns = question, now_ns
        found = {tenant: Company() for tenant in tracks}
        if self.side_by_side and len(present) > 1:
            evaluation = Evaluation(self.profile, self.interference, present, appraisal)
            kept = evaluation.recall([self._last.get(track.id) for track in present])
            best = evaluation.best(kept.sets, exhaustive=len(present) <= EXHAUSTIVE_TENANTS)
            for lead, track in enumerate(present):
                found[track.id] = self._settle(evaluation, lead, best, kept)
        self._last = found
        return found

    def everybody_free(self, tracks: dict[TenantId, Track]) -> dict[TenantId, Company]:
        """Company without limits: all beside all on the whole device."""
        return {
            tenant: Company(tuple(other for other in tracks if other != tenant))
            for tenant in tracks
        }

    def _settle(
        self, evaluation: "Evaluation", lead: int, best: "Choice", kept: "Choice"
    ) -> Company:
        """Keep the present company unless the new one is clearly better."""
        members = best.sets[lead]
        scale = float(evaluation.value[members].max(initial=0.0))
        alone = float(evaluation.alone[lead])
        sticky = kept.scores[lead] > max(alone, float(evaluation.free[lead]))
        if sticky and best.scores[lead] < kept.scores[lead] + _STICKY * scale:
            return self._last[evaluation.tracks[lead].id]
        if best.scores[lead] < float(evaluation.free[lead]) * _CLEARLY_BETTER:
            return evaluation.company(evaluation.others[lead], 0)
        if best.scores[lead] <= alone + _LEAST_GAIN * scale:
            return Company()
        return evaluation.company(members, int(best.layouts[lead]))


@dataclass(frozen=True, slots=True)
class Choice:
    """A set of company and a layout for every lead, with what they are worth."""

    sets: _Sets
    layouts: NDArray[np.int64]
    scores: _Floats


class Evaluation:
    """Worth of sets of tenants by Eq. 1 and Eq. 2, for all leads and layouts at once.

    Axes, in this order: layout, lead, set, tenant.
    """

    def __init__(
        self,
        profile: AcceleratorProfile,
        interference: Interference,
        tracks: Sequence[Track],
        appraisal: Appraisal,
    ) -> None:
        self.tracks = tracks
        count = len(tracks)
        self.value = np.array(
            [appraisal.worth[track.id].value * max(track.demand, 0.01) for track in tracks]
        )
        self.layouts = _layouts(profile)
        ids = [track.id for track in tracks]
        self._odds = np.array([[interference.hopeful_odds(a, b) for b in ids] for a in ids])
        np.fill_diagonal(self._odds, 0.0)
        self._odds_on = np.ascontiguousarray(self._odds.T)
        self._may_join = ~np.eye(count, dtype=np.bool_)[:, None, :]
        self._leads = np.arange(count)
        sizes = _sizes(self.layouts)
        widths = np.array([track.book.width_share for track in tracks]) * profile.sms
        self._contest_on_lead = _contest(widths, sizes[0], sizes[2], interference.spill)[:, :, None]
        on_member = _contest(widths, sizes[1], sizes[2], interference.spill)
        self._by_lead = 1.0 + (self._odds_on * on_member[:, None, :])[:, :, None, :]
        speeds = np.array([track.book.speeds(sizes[:2] / profile.sms) for track in tracks])
        self._lead_speed = speeds[:, 0, :].T[:, :, None]
        divided = np.where(sizes[1] < profile.sms, _DIVIDED_SPEED, 1.0)
        self._member_speed = (speeds[:, 1, :].T * divided[:, None])[:, None, None, :]
        self.others = self._may_join[:, 0, :]
        self.free = self.scores(self._may_join, slice(0, 1))[0, :, 0]
        self.alone = self.scores(np.zeros((count, 1, count), np.bool_), slice(0, 1))[0, :, 0]

    def scores(self, sets: _Sets, layouts: slice) -> _Floats:
        """Worth of everybody by layout, lead and each of the lead's sets, speeds by Eq. 1."""
        by_lead = self._by_lead[layouts]
        pressing = sets / (1.0 + sets @ self._odds_on / by_lead)
        drag = np.einsum("klsm,lm->kls", pressing, self._odds) * self._contest_on_lead[layouts]
        lead = self._lead_speed[layouts] / (1.0 + drag) * self.value[None, :, None]
        speeds = sets * self._member_speed[layouts] / (by_lead + pressing @ self._odds_on)
        total: _Floats = lead + speeds @ self.value
        return total

    def best(self, kept: _Sets, *, exhaustive: bool) -> Choice:
        """Every lead's best set and layout; beyond `exhaustive` the sets are grown."""
        if exhaustive:
            return self._best_of(self._all_sets())
        grown = self._grow()
        everybody = self._may_join
        return self._best_of(np.concatenate([grown, everybody, kept[:, None, :]], axis=1))

    def recall(self, companies: Sequence[Company | None]) -> Choice:
        """Earlier companies as they are worth today; minus infinity where one is gone."""
        count = len(self.tracks)
        index_of = {track.id: index for index, track in enumerate(self.tracks)}
        sets = np.zeros((count, count), np.bool_)
        layouts = np.zeros(count, np.int64)
        known = np.zeros(count, np.bool_)
        for lead, company in enumerate(companies):
            if company is None or not company.members:
                continue
            if all(member in index_of for member in company.members):
                known[lead] = True
                sets[lead, [index_of[member] for member in company.members]] = True
                layouts[lead] = self._layout_of(company)
        sets &= self._may_join[:, 0, :]
        scores = np.full(count, -np.inf)
        if known.any():
            table = self.scores(sets[:, None, :], slice(None))
            scores = np.where(known, table[layouts, self._leads, 0], -np.inf)
        return Choice(sets, layouts, scores)

    def company(self, members: _Sets, layout: int) -> Company:
        """A set by name, on its part of the device."""
        names = tuple(self.tracks[int(index)].id for index in np.flatnonzero(members))
        if layout == 0:
            return Company(names)
        return Company(names, *self.layouts[layout])

    def _layout_of(self, company: Company) -> int:
        if company.lead_sms is None or company.member_sms is None:
            return 0
        return self.layouts.index((company.lead_sms, company.member_sms))

    def _best_of(self, sets: _Sets) -> Choice:
        """The best of these sets over all layouts, lead by lead."""
        table = self.scores(sets, slice(None))
        by_lead = np.moveaxis(table, 1, 0).reshape(len(self.tracks), -1)
        which = by_lead.argmax(axis=1)
        layouts, chosen = np.divmod(which, sets.shape[1])
        return Choice(sets[self._leads, chosen], layouts, by_lead[self._leads, which])

    def _all_sets(self) -> _Sets:
        count = len(self.tracks)
        every = np.arange(1 << count)[:, None] >> np.arange(count) & 1
        return every.astype(np.bool_)[None, :, :] & self._may_join

    def _grow(self) -> _Sets:
        """Sets of growing size: each adds the member that is worth most beside the others."""
        count = len(self.tracks)
        sets = np.zeros((count, count), np.bool_)
        scores = self.alone.copy()
        one_more = np.eye(count, dtype=np.bool_)[None, :, :]
        stages = []
        for _ in range(min(_GROWTH_STEPS, count - 1)):
            candidates = (sets[:, None, :] | one_more) & self._may_join
            rows = self.scores(candidates, slice(0, 1))[0]
            which = rows.argmax(axis=1)
            top = rows[self._leads, which]
            better = top > scores + 1e-9
            if not better.any():
                break
            sets = np.where(better[:, None], candidates[self._leads, which], sets)
            scores = np.maximum(scores, top)
            stages.append(sets)
        return np.stack(stages or [sets], axis=1)


def _sizes(layouts: tuple[tuple[SmSet, SmSet], ...]) -> _Floats:
    """By layout: units of the lead, of its company, and of both."""
    return np.array(
        [
            [lead.count for lead, _ in layouts],
            [company.count for _, company in layouts],
            [lead.overlap(company) for lead, company in layouts],
        ],
        dtype=np.float64,
    )


def _contest(widths: _Floats, own: _Floats, shared: _Floats, spill: float) -> _Floats:
    """`Interference.contest` for all layouts (first axis) and tenants (second axis)."""
    used = np.minimum(widths[None, :], own[:, None])
    contested = np.maximum(0.0, used - (own - shared)[:, None]) / np.maximum(used, 1e-9)
    return contested + spill * (1.0 - contested)


def _layouts(profile: AcceleratorProfile) -> tuple[tuple[SmSet, SmSet], ...]:
    """Ways to divide the device between a lead and its company, the undivided one first."""
    everything = whole(profile)
    pairs = [(everything, everything)]
    for share in (0.5, 0.25):
        part = front(profile, share)
        pairs += [(everything, part), (behind(profile, part), part)]
    return tuple(pairs)
