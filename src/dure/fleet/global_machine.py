"""The global machine: events in, instructions out. Decides clusters; sees summaries, never devices.

Everything it knows came in an event, so a journal of events replays to the same instructions. News
of clusters is taken in by `global_clusters`, of workloads by `global_workloads`; `adopting` takes
over what an earlier centre had ordered; `global_rounds` decides.
"""

from collections.abc import Callable
from typing import Any

from dure.domain.fleet.decisions import Explanation
from dure.domain.fleet.events import (
    ArtefactSeen,
    ClusterClosed,
    ClusterJoined,
    ClusterLost,
    ClusterSummarised,
    GlobalEvent,
    MoveAsked,
    MovesHeld,
    OrderFound,
    OrderTurnedDown,
    PolicySet,
    RoundDue,
    SeriesExtended,
    ServiceObserved,
    SignalSeen,
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
from dure.domain.fleet.instructions import GlobalInstruction, Warn, WarnKind
from dure.domain.ids import TenantId, WorkloadId
from dure.fleet import asked_moves
from dure.fleet.adopting import order_found
from dure.fleet.bills import FLEET
from dure.fleet.global_clusters import ClusterNews
from dure.fleet.global_rounds import GlobalRounds
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.global_snapshot import check, snapshot
from dure.fleet.global_state import GlobalState
from dure.fleet.global_workloads import WorkloadNews


class GlobalMachine:
    """Decides for the whole fleet which site gets a workload, when, and why."""

    def __init__(self, settings: GlobalSettings) -> None:
        self.settings = settings
        self.state = GlobalState(settings)
        clusters, workloads = ClusterNews(self.state), WorkloadNews(self.state)
        self._handlers: dict[type, Callable[[Any], list[GlobalInstruction]]] = {
            ClusterJoined: clusters.joined,
            ClusterLost: clusters.lost,
            ClusterClosed: clusters.closed,
            ClusterSummarised: clusters.summarised,
            SeriesExtended: clusters.series_extended,
            WorkloadSubmitted: workloads.submitted,
            OrderFound: self._order_found,
            WorkloadWithdrawn: workloads.withdrawn,
            WorkloadStarted: workloads.started,
            WorkloadProgressed: workloads.progressed,
            WorkloadStopped: workloads.stopped,
            WorkloadEnded: workloads.ended,
            OrderTurnedDown: workloads.turned_down,
            ServiceObserved: workloads.service_observed,
            UsageObserved: workloads.usage_observed,
            TenantSet: self._tenant_set,
            SpendObserved: self._spend_observed,
            PolicySet: self._policy_set,
            ArtefactSeen: self._artefact_seen,
            MoveAsked: self._move_asked,
            MovesHeld: self._moves_held,
            SignalSeen: self._signal_seen,
            RoundDue: GlobalRounds(self.state).due,
        }

    def handle(self, event: GlobalEvent) -> list[GlobalInstruction]:
        """Take in one event; returns what is to be done about it."""
        state = self.state
        # News from a cluster that was cut off is older than what is known: the clock stays.
        state.now_ns = state.adaptation.now_ns = max(state.now_ns, event.now_ns)
        if state.start_ns is None:
            state.start_ns = state.policy.period_of(event.now_ns)
            state.adaptation.pacer.seen_ns = event.now_ns
        instructions = self._handlers[type(event)](event)
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
            if event.policy.period_start_ns is not None:
                self.state.start_ns = event.policy.period_of(self.state.now_ns)
            self.state.waiting.wake(list(self.state.waiting.waiting()))
        return []

    def _order_found(self, event: OrderFound) -> list[GlobalInstruction]:
        return order_found(self.state, event)

    def _move_asked(self, event: MoveAsked) -> list[GlobalInstruction]:
        return asked_moves.ask(self.state, event)

    def _moves_held(self, event: MovesHeld) -> list[GlobalInstruction]:
        self.state.held = event
        return []

    def _signal_seen(self, event: SignalSeen) -> list[GlobalInstruction]:
        """Weights follow what is seen coming; whoever listens is told why."""
        said = self.state.adaptation.signals.hear(event.now_ns, event.signal)
        if said is None:
            return []
        about = event.signal.about or "the fleet"
        return [Warn(about, said, kind=WarnKind.ADAPTED)]

    def _artefact_seen(self, event: ArtefactSeen) -> list[GlobalInstruction]:
        self.state.artefacts.see(event.artefact)
        return []

    # --- checks ----------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise `InvariantError` where the books contradict each other."""
        check(self.state)

    def snapshot(self) -> dict[str, Any]:
        """What is known now in plain values, for people and for comparing replays."""
        return snapshot(self.state)
