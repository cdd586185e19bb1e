"""Squads: who may run beside whom, found by predicted worth.

For every tenant the best *company* is sought: the others that may run while it has precedence,
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
from dure.kernel.interference import Interference
from dure.kernel.policies.base import Appraisal
from dure.kernel.resources import behind, front, whole
from dure.kernel.track import Track
from dure.kernel.worth import WorthTable

EXHAUSTIVE_TENANTS = 4
"""Up to this many tenants every set is tried; the bounded search beyond is measured against it."""
_MOST_COMPANY = 6
"""Members the bounded search adds at most."""
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
    exhaustive_tenants: int = EXHAUSTIVE_TENANTS
    _last: dict[TenantId, Company] = field(default_factory=dict)

    def copy(self) -> "SquadSearch":
        """A search that answers the same and leaves this one's memory alone."""
        return replace(self)

    def companies(
        self, tracks: dict[TenantId, Track], appraisal: Appraisal
    ) -> dict[TenantId, Company]:
        """The best company of every tenant; who has no work is in nobody's and has none."""
        found = {tenant: Company() for tenant in tracks}
        present = [tracks[tenant] for tenant in appraisal.order if tracks[tenant].present]
        if self.side_by_side and len(present) > 1:
            evaluation = Evaluation(self.profile, self.interference, present, appraisal)
            best = evaluation.best(exhaustive=len(present) <= self.exhaustive_tenants)
            for lead in range(len(present)):
                found[present[lead].id] = self._settle(evaluation, lead, best)
        self._last = found
        return found

    def _settle(self, evaluation: "Evaluation", lead: int, best: "_Best") -> Company:
        """Keep the present company unless the new one is clearly better."""
        tracks = evaluation.tracks
        members, layout = best.sets[lead], int(best.layouts[lead])
        scale = float(evaluation.table.value[members].max(initial=0.0))
        alone = float(evaluation.alone[lead])
        last = self._last.get(tracks[lead].id)
        if last is not None and last.members:
            kept = evaluation.rescore(lead, last)
            if kept is not None and kept > alone and best.scores[lead] < kept + _STICKY * scale:
                return last
        if best.scores[lead] <= alone + _LEAST_GAIN * scale:
            return Company()
        names = tuple(tracks[index].id for index in np.flatnonzero(members))
        if layout == 0:
            return Company(names)
        lead_sms, member_sms = evaluation.layouts[layout]
        return Company(names, lead_sms, member_sms)


@dataclass(frozen=True, slots=True)
class _Best:
    """The best set, layout and score of every lead."""

    sets: _Sets
    layouts: NDArray[np.int64]
    scores: _Floats


class Evaluation:
    """Worth of sets of tenants by Eq. 1 and Eq. 2, for all leads at once."""

    def __init__(
        self,
        profile: AcceleratorProfile,
        interference: Interference,
        tracks: Sequence[Track],
        appraisal: Appraisal,
    ) -> None:
        self.tracks = tracks
        self.table = WorthTable([appraisal.worth[track.id] for track in tracks], tracks)
        self._behind = _behind([track.id in appraisal.protected for track in tracks])
        self.layouts = _layouts(profile)
        self._odds = np.array(
            [
                [
                    interference.hopeful_odds(one.id, other.id) if one is not other else 0.0
                    for other in tracks
                ]
                for one in tracks
            ]
        )
        books = [track.book for track in tracks]
        sms = profile.sms
        self._lead_speed = np.array(
            [[book.speed(lead.count / sms) for lead, _ in self.layouts] for book in books]
        )
        self._member_speed = np.array(
            [[book.speed(part.count / sms) for _, part in self.layouts] for book in books]
        )
        contest = interference.contest
        self._contest_on_lead = np.array(
            [[contest(a, book.width_share * sms, b) for a, b in self.layouts] for book in books]
        )
        self._contest_on_member = np.array(
            [[contest(b, book.width_share * sms, a) for a, b in self.layouts] for book in books]
        )
        self._concerned = self._behind | np.eye(len(tracks), dtype=np.bool_)
        nobody = np.zeros((len(tracks), 1, len(tracks)), np.bool_)
        self.alone = self.scores(nobody)[:, 0]

    def scores(self, sets: _Sets, layout: int = 0) -> _Floats:
        """Worth of all concerned for each lead (first axis) and each of its sets (second axis).

        Concerned are the lead and those that may have to wait for it. They go at full speed while the lead is idle, members of the set at Eq. 1's speed
        while it is busy; a slowed lead is busy for longer.
        """
        count = len(self.tracks)
        leads = np.arange(count)
        masks = sets.astype(np.float64)
        by_lead = 1.0 + (self._odds.T * self._contest_on_member[:, layout])[:, None, :]
        crowded = masks / (1.0 + masks @ self._odds.T / by_lead)
        drag = np.einsum("lsm,lm->ls", crowded, self._odds)
        drag *= self._contest_on_lead[:, layout, None]
        speed = self._lead_speed[:, layout, None] / (1.0 + drag)
        busy = np.minimum(1.0, self.table.load[:, None] / speed)
        speeds = masks * self._member_speed[:, layout] / (by_lead + crowded @ self._odds.T)
        speeds *= busy[:, :, None]
        speeds += (1.0 - busy)[:, :, None]
        speeds[leads, :, leads] = speed
        return self.table.worth(speeds, self._concerned)

    def best(self, *, exhaustive: bool) -> _Best:
        """Every lead's best set, first on the undivided device, then divided."""
        if exhaustive:
            sets, scores = self._try_all()
        else:
            sets, scores = self._grow()
        layouts = np.zeros(len(scores), np.int64)
        tried = np.stack([sets, self._behind], axis=1)
        for layout in range(1, len(self.layouts)):
            rows = self.scores(tried, layout)
            which = rows.argmax(axis=1)
            for lead in np.flatnonzero(rows.max(axis=1) > scores):
                scores[lead] = rows[lead, which[lead]]
                sets[lead] = tried[lead, which[lead]]
                layouts[lead] = layout
        return _Best(sets, layouts, scores)

    def _try_all(self) -> tuple[_Sets, _Floats]:
        count = len(self.tracks)
        numbers = np.arange(1 << count)
        every = (numbers[:, None] >> np.arange(count) & 1).astype(np.bool_)
        sets = every[None, :, :] & self._behind[:, None, :]
        scores = self.scores(sets)
        which = scores.argmax(axis=1)
        leads = np.arange(count)
        return sets[leads, which].copy(), scores[leads, which]

    def _grow(self) -> tuple[_Sets, _Floats]:
        """Add the best further member to each lead's set while worth grows."""
        count = len(self.tracks)
        leads = np.arange(count)
        sets = np.zeros((count, count), np.bool_)
        scores = self.alone.copy()
        one_more = np.eye(count, dtype=np.bool_)[None, :, :]
        for _ in range(min(_MOST_COMPANY, count - 1)):
            candidates = sets[:, None, :] | one_more
            candidates &= self._behind[:, None, :]
            rows = self.scores(candidates)
            which = rows.argmax(axis=1)
            grown = rows[leads, which] > scores + 1e-9
            if not grown.any():
                break
            sets[grown] = candidates[leads, which][grown]
            scores = np.maximum(scores, rows[leads, which])
        return sets, scores

    def rescore(self, lead: int, company: Company) -> float | None:
        """Today's worth of an earlier company; None if a member has no work any more."""
        index_of = {track.id: index for index, track in enumerate(self.tracks)}
        if any(member not in index_of for member in company.members):
            return None
        sets = np.zeros((len(self.tracks), 1, len(self.tracks)), np.bool_)
        for member in company.members:
            sets[lead, 0, index_of[member]] = True
        layout = 0
        if company.member_sms is not None:
            layout = self.layouts.index(
                (company.lead_sms or self.layouts[0][0], company.member_sms)
            )
        return float(self.scores(sets, layout)[lead, 0])


def _behind(protected: list[bool]) -> _Sets:
    """Who may have to wait for whom: the protected only for those before them in order.

    Among the rest any may come first in some squad, since shares are kept for each.
    """
    count = len(protected)
    flags = np.array(protected)
    later = np.arange(count)[None, :] > np.arange(count)[:, None]
    behind_lead = ~flags[None, :] | (flags[:, None] & later)
    return behind_lead & ~np.eye(count, dtype=np.bool_)


def _layouts(profile: AcceleratorProfile) -> tuple[tuple[SmSet, SmSet], ...]:
    """Ways to divide the device between a lead and its company, the undivided one first."""
    everything = whole(profile)
    pairs = [(everything, everything)]
    for share in (0.5, 0.25):
        part = front(profile, share)
        pairs += [(everything, part), (behind(profile, part), part)]
    return tuple(pairs)
