"""The global machine: events in, instructions out. Decides clusters; sees summaries, never devices.

Everything it knows came in an event, so a journal of events replays to the same instructions.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dure.domain.fleet.decisions import Explanation
from dure.domain.fleet.events import (
    ArtefactSeen,
    ClusterJoined,
    ClusterLost,
    ClusterSummarised,
    GlobalEvent,
    OrderTurnedDown,
    PolicySet,
    RoundDue,
    SeriesExtended,
    ServiceObserved,
    SpendObserved,
    TenantSet,
    UsageObserved,
    WorkloadEnded,
    WorkloadProgressed,
    WorkloadStarted,
    WorkloadStopped,
    WorkloadSubmitted,
    WorkloadWithdrawn,
)
from dure.domain.fleet.instructions import (
    GlobalInstruction,
    PreemptWorkload,
    PublishPrices,
    RefuseWorkload,
    SetAllotments,
    Warn,
)
from dure.domain.fleet.workloads import WhenCutOff
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from dure.fleet import moving
from dure.fleet.bills import FLEET
from dure.fleet.costs import possible
from dure.fleet.displacing import reclaim
from dure.fleet.first_replicas import from_kept_room, from_spare_replicas, warn_of_unserved
from dure.fleet.fit import never_fits
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.global_snapshot import check, snapshot
from dure.fleet.global_state import GlobalState
from dure.fleet.holding import carbon_outlook, hold_back, job_work, pace_carbon
from dure.fleet.job_round import JobRound
from dure.fleet.rightsizing import UseBook
from dure.fleet.service_round import (
    make_room_for_services,
    observe_load,
    place_services,
    wanted_parts,
)
from dure.fleet.share_calls import wake_claimants
from dure.fleet.tracks import HOUR_NS, Phase, Track


class GlobalMachine:
    """Decides for the whole fleet which site gets a workload, when, and why."""

    def __init__(self, settings: GlobalSettings) -> None:
        self.settings = settings
        self.state = GlobalState(settings)
        self._abandoned: dict[ClusterId, list[tuple[WorkloadId, int]]] = {}
        """Places given up while their cluster was cut off: to be stopped when it is back."""
        self._next_scan_ns = 0
        self._sizes = UseBook()
        self._unserved: set[str] = set()
        """Services of which somebody was told that they have no replica."""
        self._short: dict[PoolId, int] = {}
        """Units by which pools are short, as last told."""

    def handle(self, event: GlobalEvent) -> list[GlobalInstruction]:
        """Take in one event; returns what is to be done about it."""
        state = self.state
        # News from a cluster that was cut off is older than what is known: the clock stays.
        state.now_ns = state.adaptation.now_ns = max(state.now_ns, event.now_ns)
        if state.start_ns is None:
            state.start_ns = event.now_ns
        instructions: list[GlobalInstruction] = self._handlers[type(event)](self, event)
        if self.settings.validate:
            self.validate()
        return instructions

    # --- questions -------------------------------------------------------------------------

    def explain(self, workload: WorkloadId) -> Explanation | None:
        """Why a workload is where it is; None: it has no place, or is not known."""
        track = self.state.tracks.get(workload)
        return track.explanation if track is not None and track.active else None

    def why_waiting(self, workload: WorkloadId) -> str:
        """What a workload without a place waits for; empty: it has one, or is not known."""
        track = self.state.tracks.get(workload)
        if track is None or track.active:
            return ""
        return track.why or "it has not been looked at yet"

    def prices(self) -> dict[str, float]:
        """Congestion price per device-hour by site."""
        book = self.state.adaptation.congestion
        return {
            str(site): float(price)
            for site, price in zip(self.state.sites.names, book.now, strict=True)
        }

    # --- clusters --------------------------------------------------------------------------

    def _cluster_joined(self, event: ClusterJoined) -> list[GlobalInstruction]:
        state = self.state
        kinds = len(state.sites.kinds)
        back = event.cluster.id in state.sites.lost
        state.sites.join(event.cluster)
        state.see_series(event.cluster)
        state.pools.cluster_joined(event.cluster)
        self._resized()
        if len(state.sites.kinds) != kinds:
            state.refresh_needs()
        state.waiting.wake(list(state.waiting.waiting()))
        if not back:
            return []
        stale = [
            PreemptWorkload(
                workload=name,
                cluster=event.cluster.id,
                attempt=attempt,
                wanted_by=name,
                cost=0.0,
            )
            for name, attempt in self._abandoned.pop(event.cluster.id, ())
        ]
        return list(stale)

    def _cluster_lost(self, event: ClusterLost) -> list[GlobalInstruction]:
        """Nothing new goes there; what ran there does what its owner chose."""
        state = self.state
        state.sites.lose(event.cluster)
        state.pools.cluster_lost(event.cluster)
        self._resized()
        rows = set(state.sites.sites_of.get(event.cluster, ()))
        for track in list(state.tracks.values()):
            if not track.active or track.workload.when_cut_off is WhenCutOff.WAIT:
                continue
            there = [attempt for attempt, place in track.places.items() if place.site in rows]
            for attempt in there:
                state.release(track, attempt)
                self._abandoned.setdefault(event.cluster, []).append((track.id, attempt))
            if there:
                self._lost_place(track, fence=True)
        return []

    def _lost_place(self, track: Track, *, fence: bool = False) -> None:
        """A place of a workload is gone: what is missing is to be placed again."""
        state = self.state
        if track.is_job and track.places:
            track.phase = Phase.RUNNING
            return
        track.done_share = track.saved_share
        track.pending_ns = state.now_ns
        if fence and track.workload.when_cut_off is WhenCutOff.FENCE_AFTER:
            track.why = "its cluster was cut off and has not surely stopped it yet"
            state.waiting.wait(track, state.now_ns + state.settings.fence_ns, ())
        else:
            state.waiting.admit(track)

    def _resized(self) -> None:
        state = self.state
        state.count_totals()
        state.adaptation.congestion.resize(len(state.sites))
        state.duals = None

    def _summarised(self, event: ClusterSummarised) -> list[GlobalInstruction]:
        state = self.state
        for summary in event.sites:
            row = state.sites.rows.get(summary.site, -1)
            before = state.sites.columns.nodes[row] if row >= 0 else summary.nodes
            state.sites.summarise(summary)
            if before != summary.nodes and state.pool_owners:
                state.resize_place(row)
        return []

    def _series_extended(self, event: SeriesExtended) -> list[GlobalInstruction]:
        sites = self.state.sites
        cluster = sites.clusters.get(event.cluster)
        if cluster is not None:
            carbon, power = event.carbon_g_per_kwh, event.electricity_per_mwh
            sites.clusters[event.cluster] = replace(
                cluster,
                carbon_g_per_kwh=cluster.carbon_g_per_kwh if carbon is None else carbon,
                electricity_per_mwh=cluster.electricity_per_mwh if power is None else power,
            )
            self.state.see_series(sites.clusters[event.cluster])
        return []

    # --- tenants, policy, artefacts --------------------------------------------------------

    def _tenant_set(self, event: TenantSet) -> list[GlobalInstruction]:
        self.state.set_tenant(event.tenant)
        self.state.pools.set_pools(event.tenant.id, event.pools)
        if event.pools:
            self.state.pool_owners.add(event.tenant.id)
        else:
            self.state.pool_owners.discard(event.tenant.id)
        return []

    def _spend_observed(self, event: SpendObserved) -> list[GlobalInstruction]:
        state = self.state
        tenant = TenantId(event.tenant)
        if tenant == FLEET:
            state.budgets.idle_g += event.g_co2
        else:
            state.tenant_row(tenant)
            state.budgets.spend(tenant, event.money, event.g_co2, event.team)
        state.adaptation.pacer.observe(event.g_co2)
        return []

    def _policy_set(self, event: PolicySet) -> list[GlobalInstruction]:
        if event.policy != self.state.policy:
            self.state.policy = event.policy
            self.state.waiting.wake(list(self.state.waiting.waiting()))
        return []

    def _artefact_seen(self, event: ArtefactSeen) -> list[GlobalInstruction]:
        self.state.artefacts.see(event.artefact)
        return []

    # --- workloads -------------------------------------------------------------------------

    def _submitted(self, event: WorkloadSubmitted) -> list[GlobalInstruction]:
        state, workload = self.state, event.workload
        if workload.id in state.tracks:
            return [Warn(workload.id, "was submitted before and is known", "use another id")]
        track = state.track(workload)
        if len(state.sites) and not possible(track, state.sites).any():
            groups = [
                (name, group)
                for name, cluster in state.sites.clusters.items()
                for group in cluster.groups
            ]
            reason = never_fits(workload, groups)
            if reason is not None:
                del state.tracks[workload.id]
                return [RefuseWorkload(workload.id, *reason)]
        if state.policy.carbon_budget_g is not None:
            state.adaptation.pacer.arrived(state.now_ns, job_work(track)[0])
        state.waiting.admit(track)
        return []

    def _withdrawn(self, event: WorkloadWithdrawn) -> list[GlobalInstruction]:
        state = self.state
        track = state.tracks.get(event.workload)
        if track is None:
            return []
        stops: list[GlobalInstruction] = [
            PreemptWorkload(
                workload=track.id,
                cluster=state.sites.names[place.site].cluster,
                attempt=attempt,
                wanted_by=track.id,
                cost=0.0,
            )
            for attempt, place in track.places.items()
        ]
        state.forget(track)
        return stops

    def _started(self, event: WorkloadStarted) -> list[GlobalInstruction]:
        state = self.state
        track = state.tracks.get(event.workload)
        if track is None or event.attempt not in track.places:
            return []
        place = track.places[event.attempt]
        if place.started_ns is None:
            place.started_ns = event.now_ns
            state.adaptation.slipped(place.site, (event.now_ns - place.start_ns) / HOUR_NS)
        if track.is_job:
            length = state.running.end_ns[place.row] - state.running.start_ns[place.row]
            state.running.start_ns[place.row] = event.now_ns
            state.running.end_ns[place.row] = event.now_ns + length
            for other in [each for each in track.places if each < event.attempt]:
                state.release(track, other)
            if max(track.places) > event.attempt:
                return []  # A late word of the old place: the move goes on.
        track.phase = Phase.RUNNING
        return []

    def _progressed(self, event: WorkloadProgressed) -> list[GlobalInstruction]:
        state = self.state
        track = state.tracks.get(event.workload)
        if track is None or not track.places:
            return []
        track.done_share, track.saved_share = event.done_share, event.saved_share
        track.workers = event.workers
        if track.is_job:
            place = track.places[min(track.places)]
            kind = state.sites.columns.kind[place.site]
            speed = track.workload.gang.speed(max(event.workers, 1))
            state.set_extra(track, place, max(0, event.workers - place.instances))
            left_h = (1.0 - event.done_share) * float(track.runtime_h[kind]) / speed
            state.running.end_ns[place.row] = event.now_ns + round(left_h * HOUR_NS)
        return []

    def _stopped(self, event: WorkloadStopped) -> list[GlobalInstruction]:
        state = self.state
        track = state.tracks.get(event.workload)
        if track is None or event.attempt not in track.places:
            return []
        track.saved_share = max(track.saved_share, event.saved_share)
        if track.phase is not Phase.MOVING:
            moving.left_early(state, track, event.attempt)
        state.release(track, event.attempt)
        if track.places and track.is_job:
            return []
        service = track.workload.service
        if service is not None and len(track.places) >= wanted_parts(service, track, state):
            return []
        track.why = f"lost its place: {event.why}"
        self._lost_place(track)
        return []

    def _ended(self, event: WorkloadEnded) -> list[GlobalInstruction]:
        state = self.state
        track = state.tracks.get(event.workload)
        if track is None:
            return []
        deadline = track.workload.sla.deadline_ns
        if deadline is not None and event.now_ns > deadline:
            state.adaptation.violated(track.workload.kind, LATE_JOB_STRAIN)
        self._sizes.forget(track.workload)
        state.forget(track)
        return []

    def _turned_down(self, event: OrderTurnedDown) -> list[GlobalInstruction]:
        state = self.state
        track = state.tracks.get(event.workload)
        if track is None or event.attempt not in track.places:
            return []
        site = track.places[event.attempt].site
        state.release(track, event.attempt, undone=True)
        track.avoid[site] = event.now_ns + state.settings.avoid_ns
        track.why = f"{state.sites.names[site]} turned it down: {event.why}"
        self._lost_place(track)
        return []

    def _service_observed(self, event: ServiceObserved) -> list[GlobalInstruction]:
        state = self.state
        track = state.tracks.get(event.workload)
        if track is not None:
            track.violated += OBSERVED_SHARE * (event.violated_share - track.violated)
            if track.workload.service is not None:
                observe_load(state, track, track.workload.service, event)
            state.adaptation.violated(track.workload.kind, event.violated_share * SERVICE_STRAIN)
        return []

    def _usage_observed(self, event: UsageObserved) -> list[GlobalInstruction]:
        """Learn what a workload really uses; tell once when it should ask for something else."""
        track = self.state.tracks.get(event.workload)
        if track is None:
            return []
        self._sizes.observe(track.workload, event)
        better = self._sizes.advise(track.workload)
        return [better.warning()] if better is not None else []

    # --- rounds ----------------------------------------------------------------------------

    def _round_due(self, event: RoundDue) -> list[GlobalInstruction]:
        state = self.state
        instructions: list[GlobalInstruction] = []
        columns = state.sites.columns
        self._adapt()
        instructions += state.budgets.warnings(
            state.policy,
            state.adaptation.pacer.expected_g(),
        )
        wake_claimants(state)
        called = state.waiting.call(event.now_ns, columns, state.settings.most_candidates)
        if called and len(state.sites):
            services = [track for track in called if not track.is_job]
            jobs = [track for track in called if track.is_job]
            instructions += self._place_all(services, jobs)
        elif called:
            for track in called:
                state.waiting.admit(track)
        if event.now_ns >= self._next_scan_ns:
            self._next_scan_ns = event.now_ns + state.settings.scan_ns
            instructions += moving.scan(state)
            if state.pool_owners:
                state.pools.rebalance()
        instructions += self._publish()
        instructions += warn_of_unserved(state, self._unserved)
        return instructions

    def _place_all(self, services: list[Track], jobs: list[Track]) -> list[GlobalInstruction]:
        """Services first, then jobs, then room for those whose priority asks for it."""
        state = self.state
        services, _ = hold_back(state, services)
        jobs, held = hold_back(state, jobs)
        instructions, unserved = place_services(state, services)
        instructions += held
        most = state.policy.most_preemptions
        instructions += from_kept_room(state, unserved)
        stopped = make_room_for_services(state, _placeless(unserved), most)
        instructions += from_spare_replicas(state, _placeless(unserved))
        unplaced = _placeless(unserved)
        if jobs:
            job_round = JobRound(state, jobs)
            instructions += job_round.run()
            unplaced += job_round.unplaced
            stopped += job_round.make_room(most - _preemptions(stopped))
        stopped += reclaim(state, unplaced, most - _preemptions(stopped))
        instructions += stopped
        if state.policy.carbon_budget_g is not None:
            pace_carbon(state, instructions)
        return instructions

    @property
    def _start_ns(self) -> int:
        return self.state.start_ns or 0

    def _adapt(self) -> None:
        """Let prices, weights and the carbon price follow time."""
        state = self.state
        columns, book = state.sites.columns, state.adaptation.congestion
        idle = np.clip(columns.free[:, 0] / np.maximum(columns.total[:, 0], 1e-9), 0.0, 1.0)
        book.relax(state.now_ns, idle, state.policy.congestion)
        pins = {
            row: price
            for cluster, price in state.policy.congestion.pinned.items()
            for row in state.sites.sites_of.get(ClusterId(cluster), ())
        }
        if pins:
            book.pin(pins)
        if state.now_ns - self._start_ns >= state.policy.period_ns:
            state.start_ns = self._start_ns + state.policy.period_ns
            state.budgets.new_period()
            state.adaptation.pacer.new_period(state.now_ns)
        if state.policy.carbon_budget_g is not None:
            state.adaptation.pacer.step(
                state.now_ns, self._start_ns, state.policy, carbon_outlook(state)
            )

    def _publish(self) -> list[GlobalInstruction]:
        """Prices and leases that changed."""
        state = self.state
        instructions: list[GlobalInstruction] = []
        news = state.adaptation.congestion.changed(state.worth())
        if news:
            names = state.sites.names
            instructions.append(
                PublishPrices(tuple((str(names[site]), price) for site, price in news))
            )
        for cluster, allotments in state.pools.revise(state.now_ns).items():
            instructions.append(SetAllotments(cluster, allotments))
        if state.pool_owners or self._short:
            instructions += self._warn_of_short_pools()
        return instructions

    def _warn_of_short_pools(self) -> list[GlobalInstruction]:
        """Guarantees that no devices stand behind; again only when it is another number."""
        short = {each.pool: each.missing for each in self.state.pools.shortfalls()}
        news: list[GlobalInstruction] = [
            Warn(
                f"pool '{pool}'",
                f"{missing} of its guaranteed units have no devices behind them",
                "lower what pools are guaranteed, or add devices it may use",
            )
            for pool, missing in short.items()
            if self._short.get(pool) != missing
        ]
        self._short = short
        return news

    # --- checks ----------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise `InvariantError` where the books contradict each other."""
        check(self.state)

    def snapshot(self) -> dict[str, Any]:
        """What is known now in plain values, for people and for comparing replays."""
        return snapshot(self.state)

    _handlers: ClassVar[dict[type, Callable[[Any, Any], list[GlobalInstruction]]]] = {
        ClusterJoined: _cluster_joined,
        ClusterLost: _cluster_lost,
        ClusterSummarised: _summarised,
        TenantSet: _tenant_set,
        ArtefactSeen: _artefact_seen,
        WorkloadSubmitted: _submitted,
        WorkloadWithdrawn: _withdrawn,
        WorkloadStarted: _started,
        WorkloadProgressed: _progressed,
        WorkloadStopped: _stopped,
        WorkloadEnded: _ended,
        OrderTurnedDown: _turned_down,
        ServiceObserved: _service_observed,
        SpendObserved: _spend_observed,
        SeriesExtended: _series_extended,
        PolicySet: _policy_set,
        UsageObserved: _usage_observed,
        RoundDue: _round_due,
    }


def _placeless(tracks: list[Track]) -> list[Track]:
    return [track for track in tracks if not track.places]


def _preemptions(instructions: list[GlobalInstruction]) -> int:
    return sum(isinstance(each, PreemptWorkload) for each in instructions)


LATE_JOB_STRAIN = 0.1
"""How much one late job counts, of a class in full violation."""
SERVICE_STRAIN = 0.05
"""How much one observation of one service counts; there are many."""
OBSERVED_SHARE = 0.2
"""Weight of a new observation in a smoothed one."""

__all__ = ["GlobalMachine", "GlobalSettings"]
