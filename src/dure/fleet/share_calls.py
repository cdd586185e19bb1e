"""Gives tenants below their share back what others have borrowed of it.

Whoever asks for nothing lends its share. When it asks again and finds everything taken, it first
waits for room like anybody else; then it may displace work of tenants above their share, also of
its own priority. What keeps two tenants from taking turns: only tenants below their fair share
call, nobody is brought below the share that is its own at the moment, and who gave way is left
alone for a while.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.series import Floats
from dure.domain.ids import TenantId, WorkloadId
from dure.fleet import preemption
from dure.fleet.displacing import MOST_CONSIDERED, candidates_of
from dure.fleet.fairness import Amounts, Claim, ShareBook
from dure.fleet.global_state import GlobalState, all_amounts, amounts_of
from dure.fleet.preemption import Candidates, Victims
from dure.fleet.rounds import rooms
from dure.fleet.sites import Integers
from dure.fleet.tracks import Track

REST_NS = HOUR_NS
"""How long a workload that gave way for a share is not displaced for one again."""
_MOST_WOKEN = 64
"""Jobs that look for a place again in one round because their patience is over."""
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class ShareVictims:
    """Whom to displace for a tenant below its share, and by what right."""

    victims: Victims
    candidates: Candidates
    why: str


def is_due(state: GlobalState, track: Track) -> bool:
    """Whether a job that fits nowhere has waited long enough, or must not wait so long."""
    patience_ns = state.policy.reclaim_after_ns
    if patience_ns is None or not state.policy.of(track.workload.kind).preempt:
        return False
    if state.now_ns - track.pending_ns >= patience_ns:
        return True
    deadline_ns = track.workload.sla.deadline_ns
    if deadline_ns is None or not track.is_job:
        return False
    run_ns = float(track.runtime_h.min(initial=np.inf)) * (1.0 - track.saved_share) * HOUR_NS
    return state.now_ns + patience_ns + run_ns > deadline_ns


def wake_claimants(state: GlobalState) -> None:
    """Have jobs looked at again that have waited long enough, of tenants below their share."""
    patience_ns = state.policy.reclaim_after_ns
    if patience_ns is None or not _lent(state):
        return
    waiting = state.waiting.placeless()
    claims = _claims(waiting)
    if not claims:
        return
    fair = state.shares.fair_shares(claims)
    shares = state.shares.shares()
    woken, search = 0, _Search(state)
    for track in waiting:
        tenant = track.workload.tenant
        if woken == _MOST_WOKEN:
            return
        if shares[tenant] >= fair[tenant] - _SLACK or not is_due(state, track):
            continue
        if track.claimed_ns is not None and state.now_ns - track.claimed_ns < patience_ns:
            continue
        if not search.finds_room(track):
            track.claimed_ns = state.now_ns
            state.waiting.wake([track.id])
            woken += 1


def _lent(state: GlobalState) -> bool:
    """Whether anybody uses more than its weight's part: without that nobody can give back."""
    shares = state.shares.shares()
    weights = {tenant.id: tenant.weight for tenant in state.budgets.tenants}
    whole = sum(weights.values())
    return len(shares) > 1 and any(
        share > weights[tenant] / whole + _SLACK for tenant, share in shares.items()
    )


def _claims(waiting: Sequence[Track]) -> dict[TenantId, Claim]:
    """What each tenant waits for."""
    first: dict[TenantId, tuple[tuple[int, int, str], Track]] = {}
    counts: dict[tuple[TenantId, int, int], int] = {}
    kinds: dict[tuple[TenantId, int, int], Track] = {}
    # Thousands may wait, of a few shapes: what they take is worked out once for each shape.
    for track in waiting:
        workload = track.workload
        tenant = workload.tenant
        key = (tenant, id(track.needs), workload.gang.workers)
        count = counts.get(key, 0)
        counts[key] = count + 1
        if not count:
            kinds[key] = track
        order = (-track.priority, workload.submitted_ns, workload.id)
        before = first.get(tenant)
        if before is None or order < before[0]:
            first[tenant] = order, track
    sums: dict[TenantId, Floats] = {}
    for key, count in counts.items():
        sums[key[0]] = sums.get(key[0], 0.0) + count * _most(kinds[key])
    return {
        tenant: Claim(Amounts(*amounts), Amounts(*_most(first[tenant][1])))
        for tenant, amounts in sums.items()
    }


def _most(track: Track) -> Floats:
    """What a workload takes where it takes the most."""
    needs, instances = track.needs, track.instances
    known = needs.most.get(instances)
    if known is None:
        known = needs.most[instances] = all_amounts(needs.usage.max(axis=0) * instances)
    return known


class _Search:
    """Whether some site has room for work that waits: then it waits for another reason."""

    def __init__(self, state: GlobalState) -> None:
        self._state = state
        self._rooms: dict[int, Floats] = {}
        """By shape: instances that fit at each site."""
        self._most: dict[int, float] = {}
        """By shape: instances that fit where the most do."""

    def finds_room(self, track: Track) -> bool:
        """Whether all its instances fit at a site that it may use."""
        sites, needs = self._state.sites, track.needs
        most = self._most.get(id(needs))
        if most is None:
            room = np.where(sites.columns.up, rooms(needs, sites), -1.0)
            most = self._most[id(needs)] = float(room.max(initial=-1.0))
            self._rooms[id(needs)] = room
        names = track.workload.clusters
        if names is None or most < track.instances:
            return most >= track.instances
        open_sites = np.array([site.cluster in names for site in sites.names])
        return bool((self._rooms[id(needs)][open_sites] >= track.instances).any())


class ShareCall:
    """What tenants below their share may take back in one round."""

    def __init__(self, state: GlobalState) -> None:
        self._state = state
        claims = _claims(state.waiting.placeless())
        self._book = state.shares.after(
            (each.tenant, amounts_of(each.usage)) for each in state.leaving.values()
        )
        self._fair = self._book.fair_shares(claims)
        self._caps = self._book.caps(claims)
        self._over = {each.tenant for each in self._book.over_share(claims)}

    def find(self, track: Track, wanted: Floats, most: int) -> ShareVictims | None:
        """The cheapest borrowers whose place would do; None: there are none, or it has no right.

        `wanted` is [M, D]: what it needs at each site, infinite where it may not go.
        """
        state, tenant = self._state, track.workload.tenant
        if most <= 0 or not self._over or not is_due(state, track):
            return None
        if self._book.share(tenant) >= self._fair.get(tenant, 0.0) - _SLACK:
            return None
        wanted = self._within_cap(tenant, wanted)
        free = state.free_soon()
        open_sites = np.asarray(np.isfinite(wanted).all(axis=1))
        if not open_sites.any() or (open_sites & (wanted <= free + _SLACK).all(axis=1)).any():
            return None
        rows = self._givers(track, open_sites)
        if not len(rows):
            return None
        candidates = candidates_of(state, rows)
        kept = self._spared(candidates)
        found = preemption.choose_victims(kept, track.priority + 1, wanted, free, most)
        return None if found is None else ShareVictims(found, kept, self._why(track, kept, found))

    def took(self, track: Track, found: ShareVictims) -> None:
        """They were displaced, and it was placed: shares are as if all were done."""
        state, site = self._state, found.victims.site
        usage = track.needs.usage[state.sites.columns.kind[site]] * track.instances
        self._book.took(track.workload.tenant, amounts_of(usage))
        for row in found.victims.rows:
            victim = state.tracks[found.candidates.workloads[row]]
            victim.gave_way_ns = state.now_ns
            self._book.gave_back(victim.workload.tenant, amounts_of(found.candidates.amounts[row]))

    def _within_cap(self, tenant: TenantId, wanted: Floats) -> Floats:
        """Sites closed where the workload would bring its own tenant above what it may have."""
        used = np.array(self._book.used(tenant))
        totals = np.maximum(np.array(self._book.totals), 1e-9)
        finite = np.where(np.isfinite(wanted), wanted, 0.0)
        shares = ((used + all_amounts(finite)) / totals).max(axis=1)
        return np.where((shares > self._caps[tenant] + _SLACK)[:, None], np.inf, wanted)

    def _givers(self, track: Track, open_sites: NDArray[np.bool_]) -> Integers:
        """Rows of running work that may be displaced for a share."""
        state = self._state
        running = state.running
        rows = np.flatnonzero(
            running.used
            & running.preemptible
            & (running.priority <= track.priority)
            & open_sites[running.site]
        )
        return np.array(
            [row for row in rows.tolist() if self._gives(running.owner[row])][:MOST_CONSIDERED],
            dtype=np.int64,
        )

    def _gives(self, owner: WorkloadId | None) -> bool:
        state = self._state
        track = state.tracks.get(owner) if owner is not None else None
        if track is None or track.workload.tenant not in self._over:
            return False
        # Units of a pool are their owner's whatever its share; what moves is about to leave anyway.
        if track.workload.pool is not None or len(track.places) != 1:
            return False
        return track.gave_way_ns is None or state.now_ns - track.gave_way_ns >= REST_NS

    def _spared(self, candidates: Candidates) -> Candidates:
        """Those among the candidates of each site who may all go, least cost per device first.

        Whatever is chosen of them at one site, no tenant falls below its own share.
        """
        state = self._state
        old_enough = candidates.ran_ns >= candidates.minimum_ns
        per_device = candidates.costs / np.maximum(candidates.amounts[:, 0], 1e-9)
        order = np.lexsort((np.arange(len(per_device)), per_device, candidates.sites))
        books: dict[int, ShareBook] = {}
        chosen: list[int] = []
        for row in order.tolist():
            if not old_enough[row]:
                continue
            book = books.setdefault(int(candidates.sites[row]), self._book.after(()))
            tenant = state.tracks[candidates.workloads[row]].workload.tenant
            amounts = amounts_of(candidates.amounts[row])
            book.gave_back(tenant, amounts)
            if book.share(tenant) >= self._caps[tenant] - _SLACK:
                chosen.append(row)
            else:
                book.took(tenant, amounts)
        return candidates.only(np.array(sorted(chosen), dtype=np.int64))

    def _why(self, track: Track, candidates: Candidates, found: Victims) -> str:
        """Both sides with their shares."""
        tenant = track.workload.tenant
        givers = sorted(
            {self._state.tracks[candidates.workloads[row]].workload.tenant for row in found.rows}
        )
        have = ", ".join(
            f"'{each}' has {self._book.share(each):.1%} of the fleet, {self._caps[each]:.1%} is its"
            for each in givers
        )
        return (
            f"tenant {have}; '{tenant}' has {self._book.share(tenant):.1%}, "
            f"{self._fair[tenant]:.1%} is its"
        )
