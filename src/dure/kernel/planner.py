"""From a policy's judgement to a plan: the cycle of squads the data plane will carry out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.ids import PlanEpoch, TenantId
from dure.domain.kernel import KernelClass
from dure.domain.plan import UNBOUNDED, CorunMatrix, Plan, SmSet, Squad, SquadMember
from dure.domain.units import NS_PER_MS, NS_PER_US
from dure.kernel.interference import Interference
from dure.kernel.policies.base import Appraisal
from dure.kernel.resources import whole
from dure.kernel.squads import Company
from dure.kernel.track import Track

_CYCLE_NS = 20 * NS_PER_MS
_CYCLE_IN_TURNS_NS = 40 * NS_PER_MS
"""Longer where a change of tenant costs a context switch of over 0.1 ms."""
_LEAST_MAIN_SHARE = 0.05
_LEAST_TURN_NS = 1 * NS_PER_MS
_RESCUE_NS = 2 * NS_PER_MS
"""Turn of a tenant that got nothing for as long as its policy allows."""
_INFLIGHT_NS = (50 * NS_PER_US, 10 * NS_PER_MS)
"""Least and most work in flight of a tenant that must make room at once."""
_INFLIGHT_KERNELS = 2.2
"""Kernels in flight that keep the device from running dry between a completion and a launch."""
_BRIDGE_OF_TARGET = 0.1
"""Part of the tightest latency target that may go into keeping the device from running dry."""
_INFLIGHT_OF_PATIENCE = 1.0
"""Part of the least patience that may be in flight: who waits that long can wait for it."""
_INFLIGHT_OF_TARGET = 0.02
"""Part of the tightest latency target that may be spent waiting for work in flight."""
_INFLIGHT_FREE_NS = 10 * NS_PER_MS
"""Work in flight of a tenant that is held for nobody: never dry, and gone by the next plan."""
_LINGER_OF_GAP = 1.5
_MOST_LINGER_NS = 200 * NS_PER_US
_ROUND_INFLIGHT_NS = 50 * NS_PER_US
_ROUND_LINGER_NS = 20 * NS_PER_US
_ROUND_NS = 50 * NS_PER_US
"""Durations are rounded so that small changes of prediction do not make a new plan."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Builds plans for one device under one way of sharing."""

    profile: AcceleratorProfile
    interference: Interference
    side_by_side: bool

    def plan(
        self,
        tracks: Sequence[Track],
        appraisal: Appraisal,
        companies: dict[TenantId, Company],
        *,
        epoch: PlanEpoch,
        policy: str,
        now_ns: int,
    ) -> Plan:
        """The cycle: one squad in the policy's order, one for each share kept from it."""
        by_id = {track.id: track for track in tracks}
        draft = _Draft(self, by_id, appraisal, companies)
        squads = draft.squads(now_ns)
        return Plan(
            epoch=epoch,
            policy=policy,
            squads=squads,
            protected=appraisal.protected,
            corun=self._corun(appraisal.tolerance),
        )

    def _corun(self, tolerance: float) -> CorunMatrix:
        """Which classes of kernels may pass beside which, at this much tolerated slow-down."""
        if not self.side_by_side:
            tolerance = -1.0
        rho = self.interference.class_rho
        return tuple(
            tuple(
                asking is not KernelClass.LONG and rho(running, asking) <= tolerance
                for running in KernelClass
            )
            for asking in KernelClass
        )


class _Draft:
    """One plan in the making."""

    def __init__(
        self,
        planner: Planner,
        tracks: dict[TenantId, Track],
        appraisal: Appraisal,
        companies: dict[TenantId, Company],
    ) -> None:
        self._everything = whole(planner.profile)
        self._tracks = tracks
        self._appraisal = appraisal
        self._companies = companies
        self._cycle_ns = self._cycle(planner.side_by_side)
        self._least_target_ns = self._least_target()
        self._most_inflight_ns = self._most_inflight()
        self._not_held_for = self._free_of()
        self._divided = {t: c for t, c in companies.items() if c.member_sms is not None}
        self._inflight_ns = {tenant: self._inflight(tenant) for tenant in tracks}
        self._free_inflight_ns = UNBOUNDED if len(tracks) == 1 else _INFLIGHT_FREE_NS
        self._linger_ns = {tenant: self._linger(tenant) for tenant in tracks}

    def squads(self, now_ns: int) -> tuple[Squad, ...]:
        """Rescues first, then the policy's own squad, then the shares kept from it."""
        order = self._appraisal.order
        if not order:
            return ()
        floors = self._floors()
        main_share = 1.0 - sum(floors.values())
        squads = [self._rescue(tenant) for tenant in order if self._starving(tenant, now_ns)]
        if main_share >= _LEAST_MAIN_SHARE or not floors:
            duration = max(_LEAST_TURN_NS, _rounded(main_share * self._cycle_ns))
            squads.append(Squad(self._members(order), duration))
        for tenant, share in floors.items():
            promoted = (
                *(other for other in order if other in self._appraisal.patience),
                tenant,
                *(o for o in order if o not in self._appraisal.patience and o != tenant),
            )
            budget = max(_LEAST_TURN_NS, _rounded(share * self._cycle_ns))
            squads.append(Squad(self._members(promoted, {tenant: budget}), budget))
        return tuple(squads)

    def _floors(self) -> dict[TenantId, float]:
        """Shares kept from the policy's order, for those it could make wait; at most the whole."""
        floors = {}
        waiting = False
        jobs = [t for t in self._appraisal.order if t not in self._appraisal.patience]
        for tenant in jobs:
            if waiting and (share := self._appraisal.floors.get(tenant, 0.0)) > 0.0:
                floors[tenant] = share
            waiting = True
        total = sum(floors.values())
        if jobs and total > 0.0:
            own = self._appraisal.floors.get(jobs[0], 0.0)
            if total + own > 1.0 - _LEAST_MAIN_SHARE:
                floors = {jobs[0]: own, **floors} if own > 0.0 else floors
                total += own
        if total > 1.0:
            floors = {tenant: share / total for tenant, share in floors.items()}
        return floors

    def _starving(self, tenant: TenantId, now_ns: int) -> bool:
        since = self._tracks[tenant].hungry_since_ns
        bound = self._appraisal.starvation_ns
        return since is not None and bound > 0 and now_ns - since >= bound // 2

    def _rescue(self, tenant: TenantId) -> Squad:
        """A turn in which nothing holds a tenant that has waited too long."""
        others = tuple(other for other in self._appraisal.order if other != tenant)
        return Squad(self._members((tenant, *others), {tenant: _RESCUE_NS}), _RESCUE_NS)

    def _members(
        self, order: tuple[TenantId, ...], budgets: dict[TenantId, int] | None = None
    ) -> tuple[SquadMember, ...]:
        """Members in precedence; each is held for those before it whose company it is not in."""
        members = []
        patience = self._appraisal.patience
        for rank, tenant in enumerate(order):
            before = order[:rank]
            free = self._not_held_for[tenant]
            yields = tuple([o for o in before if o not in free]) if free else before
            sms, beside = self._place(tenant, before)
            members.append(
                SquadMember(
                    tenant=tenant,
                    sms=sms,
                    beside=beside,
                    budget_ns=budgets.get(tenant, UNBOUNDED) if budgets else UNBOUNDED,
                    inflight_ns=self._inflight_ns[tenant] if yields else self._free_inflight_ns,
                    yields_to=yields,
                    patience_ns=patience.get(tenant, 0),
                    linger_ns=self._linger_ns[tenant],
                )
            )
        return tuple(members)

    def _free_of(self) -> dict[TenantId, set[TenantId]]:
        """For each tenant those it is in the company of, and so is not held for."""
        free: dict[TenantId, set[TenantId]] = {tenant: set() for tenant in self._tracks}
        for lead, company in self._companies.items():
            if lead in self._appraisal.patience:
                continue
            for member in company.members:
                if member in free:
                    free[member].add(lead)
        return free

    def _place(
        self, tenant: TenantId, before: tuple[TenantId, ...]
    ) -> tuple[SmSet, tuple[TenantId, ...]]:
        """A set of compute units, and beside whom: the smallest any company it is in gives it.

        The first in order may have made room for its own company.
        """
        if not self._divided:
            return self._everything, ()
        if not before:
            company = self._divided.get(tenant)
            if company is None or company.lead_sms is None or company.lead_sms == self._everything:
                return self._everything, ()
            return company.lead_sms, company.members
        sets = [
            (company.member_sms.count, other, company.member_sms)
            for other, company in self._divided.items()
            if other in before and tenant in company.members and company.member_sms is not None
        ]
        if not sets:
            return self._everything, ()
        return min(sets)[2], tuple(other for _, other, _ in sets)

    def _cycle(self, side_by_side: bool) -> int:
        cycle = _CYCLE_NS if side_by_side else _CYCLE_IN_TURNS_NS
        holds = [
            track.tenant.slo.availability.max_hold_ns
            for track in self._tracks.values()
            if track.tenant.slo.availability is not None
        ]
        return max(_LEAST_TURN_NS * 2, min([cycle, *(hold // 2 for hold in holds)]))

    def _most_inflight(self) -> int:
        """Work in flight allowed to those who must make room, by target and patience."""
        least, most = _INFLIGHT_NS
        patience = min(self._appraisal.patience.values(), default=0)
        wanted = max(_INFLIGHT_OF_TARGET * self._least_target_ns, _INFLIGHT_OF_PATIENCE * patience)
        return int(min(max(least, wanted), most))

    def _least_target(self) -> float:
        """The tightest latency target of those others make room for, infinite without any."""
        slos = (self._tracks[tenant].tenant.slo for tenant in self._appraisal.patience)
        return min((slo.latency.target_ns for slo in slos if slo.latency), default=math.inf)

    def _inflight(self, tenant: TenantId) -> int:
        """Enough of its kernels to bridge a wake-up where the target allows, at least one."""
        kernel_ns = self._tracks[tenant].book.kernel_ns
        bridging = min(_INFLIGHT_KERNELS * kernel_ns, _BRIDGE_OF_TARGET * self._least_target_ns)
        wanted = max(self._most_inflight_ns, bridging, kernel_ns)
        steps = -(-wanted // _ROUND_INFLIGHT_NS)
        return int(steps) * _ROUND_INFLIGHT_NS

    def _linger(self, tenant: TenantId) -> int:
        """Bridge the gap between back-to-back requests of a tenant others are held for.

        Rounded up: in a gap that is not bridged others fill the device before the next request.
        """
        if tenant not in self._appraisal.patience:
            return 0
        gap = self._tracks[tenant].attainment.gap_ns * _LINGER_OF_GAP
        return math.ceil(min(gap, _MOST_LINGER_NS) / _ROUND_LINGER_NS) * _ROUND_LINGER_NS


def _rounded(duration_ns: float) -> int:
    return round(duration_ns / _ROUND_NS) * _ROUND_NS
