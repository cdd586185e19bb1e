"""One round of the centre: prices and weights follow time, work is placed, news is published."""

import numpy as np

from dure.domain.fleet.events import RoundDue
from dure.domain.fleet.instructions import (
    GlobalInstruction,
    PreemptWorkload,
    PublishPrices,
    Warn,
    WarnKind,
)
from dure.domain.ids import ClusterId, PoolId
from dure.fleet import moving
from dure.fleet.first_replicas import from_kept_room, from_spare_replicas, warn_of_unserved
from dure.fleet.global_state import GlobalState
from dure.fleet.holding import carbon_outlook, hold_back, pace_carbon
from dure.fleet.job_round import JobRound
from dure.fleet.lending import lend_again, reclaim, told_leases, wake_owners
from dure.fleet.scan_times import ScanTimes
from dure.fleet.service_round import make_room_for_services, place_services
from dure.fleet.share_calls import wake_claimants
from dure.fleet.tracks import Track


class GlobalRounds:
    """Decides whenever a round is due."""

    def __init__(self, state: GlobalState) -> None:
        self._state = state
        self._scans = ScanTimes()
        self._unserved: set[str] = set()
        """Services of which somebody was told that they have no replica."""
        self._short: dict[PoolId, int] = {}
        """Units by which pools are short, as last told."""

    def due(self, event: RoundDue) -> list[GlobalInstruction]:
        """Everything that is decided in one round."""
        state = self._state
        instructions: list[GlobalInstruction] = []
        columns = state.sites.columns
        self._adapt()
        instructions += state.budgets.warnings(
            state.policy,
            state.adaptation.pacer.expected_g(),
        )
        wake_claimants(state)
        # Pools and capacity may have changed: nobody is placed on what an owner holds from now on.
        instructions += told_leases(state)
        instructions += lend_again(state)
        wake_owners(state)
        called = state.waiting.call(event.now_ns, columns, state.settings.most_candidates)
        if called and len(state.sites):
            services = [track for track in called if not track.is_job]
            jobs = [track for track in called if track.is_job]
            instructions += self._place_all(services, jobs)
        elif called:
            for track in called:
                state.waiting.admit(track)
        if self._scans.due(state):
            instructions += moving.scan(state)
            if state.pool_owners:
                state.pools.rebalance()
        instructions += self._publish()
        instructions += warn_of_unserved(state, self._unserved)
        instructions += [
            Warn(about or "the fleet", said, kind=WarnKind.ADAPTED)
            for about, said in state.adaptation.signals.expire(state.now_ns)
        ]
        return instructions

    def _place_all(self, services: list[Track], jobs: list[Track]) -> list[GlobalInstruction]:
        """Services first, then jobs, then room for those whose priority asks for it."""
        state = self._state
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
        stopped += reclaim(state, _placeless(unplaced), most - _preemptions(stopped))
        instructions += stopped
        if state.policy.carbon_budget_g is not None:
            pace_carbon(state, instructions)
        return instructions

    @property
    def _start_ns(self) -> int:
        return self._state.start_ns or 0

    def _adapt(self) -> None:
        """Let prices, weights and the carbon price follow time."""
        state = self._state
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
        book.surcharge = None
        if not state.policy.congestion.frozen:
            book.surcharge = state.adaptation.signals.surcharge(state.sites.sites_of, state.worth())
        periods = (state.now_ns - self._start_ns) // state.policy.period_ns
        if periods > 0:
            state.start_ns = self._start_ns + periods * state.policy.period_ns
            state.budgets.new_period()
            state.adaptation.pacer.new_period(state.now_ns)
        if state.policy.carbon_budget_g is not None:
            state.adaptation.pacer.step(
                state.now_ns, self._start_ns, state.policy, carbon_outlook(state)
            )

    def _publish(self) -> list[GlobalInstruction]:
        """Prices and leases that changed."""
        state = self._state
        instructions: list[GlobalInstruction] = []
        news = state.adaptation.congestion.changed(state.worth())
        if news:
            names = state.sites.names
            instructions.append(
                PublishPrices(tuple((str(names[site]), price) for site, price in news))
            )
        instructions += told_leases(state)
        if state.pool_owners or self._short:
            instructions += self._warn_of_short_pools()
        return instructions

    def _warn_of_short_pools(self) -> list[GlobalInstruction]:
        """Guarantees that no devices stand behind; again only when it is another number."""
        short = {each.pool: each.missing for each in self._state.pools.shortfalls()}
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


def _placeless(tracks: list[Track]) -> list[Track]:
    return [track for track in tracks if not track.places]


def _preemptions(instructions: list[GlobalInstruction]) -> int:
    return sum(isinstance(each, PreemptWorkload) for each in instructions)
