"""Squads: who may run beside whom, found by predicted worth, and the cycle made of them.

For every tenant the best *company* is sought: the others that may run while it has precedence,
and the part of the device they get. With up to four tenants all sets are tried, beyond that
sets grow one member at a time. A squad then is an order of precedence: a member is held for
those before it whose company it is not in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import exp

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.ids import TenantId
from dure.domain.plan import SmSet
from dure.kernel.interference import Interference
from dure.kernel.policies.base import Worth
from dure.kernel.resources import behind, front, whole
from dure.kernel.track import Track

EXHAUSTIVE_TENANTS = 4
"""Up to this many tenants every set is tried; the bounded search beyond is measured against it."""
_GROWTH_CANDIDATES = 6
"""How many others the bounded search looks at for each lead, most worth first."""
_MOST_COMPANY = 4
_STICKY = 0.03
"""A new company must add this much more than the present one: predictions are noisy."""
_LEAST_GAIN = 0.02
"""Company must add at least this much over the lead alone. Both in parts of the most
valuable member's worth at full speed."""


@dataclass(frozen=True, slots=True)
class Company:
    """Who may run beside a lead, and on which compute units."""

    members: tuple[TenantId, ...] = ()
    lead_sms: SmSet | None = None
    """None: the whole device."""
    member_sms: SmSet | None = None


@dataclass(frozen=True, slots=True)
class _Layout:
    """Compute units of the lead and of its company, with φ both ways."""

    lead: SmSet
    company: SmSet
    lead_share: float
    company_share: float
    phi_on_lead: float
    phi_on_company: float


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
        self, tracks: Sequence[Track], worth: dict[TenantId, Worth]
    ) -> dict[TenantId, Company]:
        """The best company of every tenant."""
        if not self.side_by_side or len(tracks) < 2:
            self._last = {track.id: Company() for track in tracks}
            return self._last
        evaluation = _Evaluation(self.profile, self.interference, tracks, worth)
        found = {}
        for lead in range(len(tracks)):
            company = self._best(evaluation, lead)
            found[tracks[lead].id] = company
        self._last = found
        return found

    def _best(self, evaluation: "_Evaluation", lead: int) -> Company:
        others = [index for index in range(len(evaluation.tracks)) if index != lead]
        layouts = evaluation.layouts
        if len(others) < self.exhaustive_tenants:
            sets = [
                subset for size in range(1, len(others) + 1)
                for subset in combinations(others, size)
            ]
            scored = [(evaluation.score(lead, s, layouts[0]), s, layouts[0]) for s in sets]
        else:
            scored = self._grow(evaluation, lead, others)
        best = max(scored, key=lambda row: row[0])
        tried = {best[1], tuple(others)} if len(others) <= _MOST_COMPANY else {best[1]}
        if scored:
            tried.add(scored[0][1])
        for subset in tried:
            for layout in layouts[1:]:
                row = (evaluation.score(lead, subset, layout), subset, layout)
                if row[0] > best[0]:
                    best = row
        return self._settle(evaluation, lead, best)

    def _grow(
        self, evaluation: "_Evaluation", lead: int, others: list[int]
    ) -> list[tuple[float, tuple[int, ...], _Layout]]:
        """Add one member at a time while worth grows."""
        whole_device = evaluation.layouts[0]
        pool = sorted(
            others, key=lambda index: -evaluation.score(lead, (index,), whole_device)
        )[:_GROWTH_CANDIDATES]
        chosen: tuple[int, ...] = (pool[0],)
        best = evaluation.score(lead, chosen, whole_device)
        rows = [(best, chosen, whole_device)]
        for index in pool[1:]:
            if len(chosen) == _MOST_COMPANY:
                break
            score = evaluation.score(lead, (*chosen, index), whole_device)
            if score > best:
                best, chosen = score, (*chosen, index)
                rows.append((best, chosen, whole_device))
        return rows

    def _settle(
        self, evaluation: "_Evaluation", lead: int, best: tuple[float, tuple[int, ...], _Layout]
    ) -> Company:
        """Keep the present company unless the new one is clearly better."""
        tracks = evaluation.tracks
        alone = evaluation.alone(lead)
        score, subset, layout = best
        scale = max(evaluation.alone(member) for member in subset)
        last = self._last.get(tracks[lead].id)
        if last is not None and last.members:
            kept = evaluation.rescore(lead, last)
            if kept is not None and kept > alone and score < kept + _STICKY * scale:
                return last
        if score < alone + _LEAST_GAIN * scale:
            return Company()
        if layout is evaluation.layouts[0]:
            return Company(tuple(tracks[i].id for i in subset))
        return Company(
            tuple(tracks[i].id for i in subset), layout.lead, layout.company
        )


class _Evaluation:
    """Worth of sets of tenants by Eq. 1 and Eq. 2, with everything looked up once."""

    def __init__(
        self,
        profile: AcceleratorProfile,
        interference: Interference,
        tracks: Sequence[Track],
        worth: dict[TenantId, Worth],
    ) -> None:
        self.tracks = tracks
        self._worth = [worth[track.id] for track in tracks]
        self._theta = [
            [interference.theta(one.id, other.id) if one is not other else 0.0 for other in tracks]
            for one in tracks
        ]
        self.layouts = _layouts(profile, interference)
        self._speed = [
            {layout.company_share: track.book.speed(layout.company_share)
             for layout in self.layouts}
            | {layout.lead_share: track.book.speed(layout.lead_share) for layout in self.layouts}
            for track in tracks
        ]

    def alone(self, lead: int) -> float:
        return self._worth[lead].at(1.0)

    def score(self, lead: int, subset: tuple[int, ...], layout: _Layout) -> float:
        """Worth per time of the lead with this company on this layout."""
        theta = self._theta
        on_lead = theta[lead]
        drag = 0.0
        for other in subset:
            drag += on_lead[other]
        speed = self._speed[lead][layout.lead_share] * exp(-drag * layout.phi_on_lead)
        total = self._worth[lead].at(speed)
        for member in subset:
            row = theta[member]
            drag = row[lead] * layout.phi_on_company
            for other in subset:
                drag += row[other]
            speed = self._speed[member][layout.company_share] * exp(-drag)
            total += self._worth[member].at(speed)
        return total

    def rescore(self, lead: int, company: Company) -> float | None:
        """Today's worth of an earlier company; None if a member is gone."""
        index_of = {track.id: index for index, track in enumerate(self.tracks)}
        try:
            subset = tuple(index_of[member] for member in company.members)
        except KeyError:
            return None
        for layout in self.layouts:
            if company.member_sms is None or layout.company == company.member_sms:
                if company.lead_sms is None or layout.lead == company.lead_sms:
                    return self.score(lead, subset, layout)
        return None


def _layouts(profile: AcceleratorProfile, interference: Interference) -> tuple[_Layout, ...]:
    """Ways to divide the device between a lead and its company, the undivided one first."""
    everything = whole(profile)
    pairs = [(everything, everything)]
    for share in (0.5, 0.25):
        part = front(profile, share)
        pairs += [(everything, part), (behind(profile, part), part)]
    return tuple(
        _Layout(
            lead,
            company,
            lead.count / profile.sms,
            company.count / profile.sms,
            interference.phi(lead, company),
            interference.phi(company, lead),
        )
        for lead, company in pairs
    )
