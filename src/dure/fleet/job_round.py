"""Gives places to jobs in one round, or says what they wait for."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.instructions import DeferWorkload, GlobalInstruction, PlaceWorkload
from dure.domain.ids import PoolId, TenantId
from dure.fleet import rounds
from dure.fleet.assignment.problem import Tenancy
from dure.fleet.costs import CostTable, cost_table
from dure.fleet.displacing import displace, find_victims
from dure.fleet.explain import Reasons
from dure.fleet.global_state import GlobalState, Grant, all_amounts
from dure.fleet.holding import within_teams
from dure.fleet.round_loops import Wants, isolate, wishes
from dure.fleet.rounds import Choice, Room
from dure.fleet.share_calls import ShareCall, is_due
from dure.fleet.sites import DEVICES, Floats
from dure.fleet.tracks import HOUR_NS, Track, after_h
from dure.fleet.waiting import Wish

_MOST_WISHES = 4
"""Sites a waiting job is called for when they have room again; at its review it sees all."""
NO_ROOM = "no site it may use has room for it now"
_OTHERS = "the devices that could run it belong to pools it may not use"
_MAXIMUM = "its pool has too little left below its maximum"
_TEAM = "its team's budget has too little left for any place it may have"


class JobRound:
    """One round over the jobs that were called."""

    def __init__(self, state: GlobalState, tracks: Sequence[Track]) -> None:
        self.state = state
        self.unplaced: list[Track] = []
        """Those that want a place now and found no room, in the order they were called."""
        self._tracks = tracks
        rows = state.budgets.rows
        self._tenants = np.array([rows[track.workload.tenant] for track in tracks], dtype=np.int64)
        self.table: CostTable | None = None
        self.choice: Choice | None = None
        self.tenancy: Tenancy | None = None
        self._in_reach: NDArray[np.bool_] | None = None
        """[J]: jobs that pools leave a place to, whatever their team has left."""
        self._wished: tuple[list[Any], ...] | None = None
        self._best_now: list[float] | None = None

    def run(self) -> list[GlobalInstruction]:
        """Decide, give orders, put the rest to wait."""
        state = self.state
        for track in self._tracks:
            state.unplan(track)
        table, choice = self.weigh()
        reasons = Reasons(table, choice, state.sites, state.now_ns)
        instructions: list[GlobalInstruction] = []
        places = zip(choice.site.tolist(), choice.slot.tolist(), strict=True)
        for job, (track, (site, slot)) in enumerate(zip(self._tracks, places, strict=True)):
            if site >= 0 and slot == 0 and self.still_lent(job, track, site):
                grant = self.grant(job, site, reasons)
                instructions.append(PlaceWorkload(state.place(track, grant)))
            elif site >= 0 and slot > 0:
                instructions += self._defer(job, track, site, slot)
            else:
                self._wait(job, track)
        self._learn(choice)
        return instructions

    def weigh(self) -> tuple[CostTable, Choice]:
        """Find out what everything costs everywhere and choose; nobody gets a place by it."""
        state = self.state
        around = state.around()
        slots = self._slots()
        table = cost_table(self._tracks, around, slots)
        self._isolate(table)
        self._in_reach = np.asarray(np.isfinite(table.total).any(axis=(1, 2)))
        table = within_teams(state, table)
        self.tenancy = self._tenancy(table)
        room = Room(
            capacity=rounds.capacity(around, slots),
            fits_now=rounds.fits_now(table, state.sites) | rounds.urgent(table, around)[:, None],
            tenancy=self.tenancy,
        )
        choice = rounds.decide(table, room, around, state.duals)
        self.table, self.choice = table, choice
        return table, choice

    def make_room(self, most: int) -> list[GlobalInstruction]:
        """Displace work for jobs that found no room, within bounds: of lower priority, or of
        tenants above their share."""
        state, table, choice = self.state, self.table, self.choice
        assert table is not None
        assert choice is not None
        instructions: list[GlobalInstruction] = []
        reasons = Reasons(table, choice, state.sites, state.now_ns)
        numbers = {track.id: job for job, track in enumerate(self._tracks)}
        kind = state.sites.columns.kind
        displaced = 0
        shares: ShareCall | None = None
        for track in list(self.unplaced):
            if displaced >= most:
                break
            if not state.policy.of(track.workload.kind).preempt:
                continue
            job = numbers[track.id]
            closed = ~np.isfinite(table.total[job, :, 0]) | ~self.affordable(job)
            wanted = np.where(closed[:, None], np.inf, table.usage[job, kind])
            found = find_victims(state, track, wanted, most - displaced)
            why = "of lower priority" if found is not None else ""
            if found is None and is_due(state, track):
                shares = shares or ShareCall(state)
                called = shares.find(track, wanted, most - displaced)
                if called is not None:
                    shares.took(track, called)
                    found, why = (called.victims, called.candidates), called.why
            if found is None:
                continue
            victims, candidates = found
            names = [
                (candidates.workloads[row], float(candidates.costs[row])) for row in victims.rows
            ]
            displaced += len(names)
            instructions += displace(state, names, track.id, why)
            note = f"displaces {len(names)} at a cost of {victims.cost:.4g}: {why}"
            grant = self.grant(job, victims.site, reasons, note)
            instructions.append(PlaceWorkload(state.place(track, grant)))
            self.unplaced.remove(track)
        return instructions

    def affordable(self, job: int) -> NDArray[np.bool_]:
        """[M]: where a job stays within what is left of budgets and shares."""
        table, tenancy = self.table, self.tenancy
        assert table is not None
        if tenancy is None:
            return np.ones(table.total.shape[1], dtype=np.bool_)
        tenant, kind = int(tenancy.tenant[job]), self.state.sites.columns.kind
        fair = tenancy.share[job, kind] <= tenancy.share_cap[tenant, 0] + 1e-12
        money = np.minimum(tenancy.money_budget[tenant], tenancy.money_budget[-1])
        grams = np.minimum(tenancy.carbon_budget[tenant], tenancy.carbon_budget[-1])
        cheap = (table.spend[job, :, 0] <= money) & (table.grams[job, :, 0] <= grams)
        return np.asarray(fair & cheap)

    def grant(self, job: int, site: int, reasons: Reasons, note: str = "") -> Grant:
        """A place now, with what it is expected to cost."""
        table = self.table
        assert table is not None
        return Grant(
            site=site,
            instances=self._tracks[job].instances,
            delay_h=float(table.delay_h[job, site]),
            run_h=float(table.run_h[job, site]),
            money=float(table.spend[job, site, 0]),
            grams=float(table.grams[job, site, 0]),
            explanation=reasons.of(job, site, 0, note),
        )

    def _slots(self) -> tuple[int, ...]:
        """Later starts matter only where somebody may wait."""
        policy = self.state.policy
        later = policy.defer and any(
            track.workload.delay_tolerant and policy.of(track.workload.kind).defer
            for track in self._tracks
        )
        return self.state.settings.start_slots_h if later else (0,)

    def _isolate(self, table: CostTable) -> None:
        """Take out sites whose free devices belong to somebody else's pool."""
        state = self.state
        if not state.pool_owners:
            return
        rows: dict[tuple[TenantId, PoolId | None], int] = {}
        rooms: list[Floats] = []
        row = np.empty(len(table.tracks), dtype=np.int64)
        for job, track in enumerate(table.tracks):
            key = (track.workload.tenant, track.workload.pool)
            if key not in rows:
                rows[key] = len(rooms)
                rooms.append(state.pool_rooms(track.workload))
            row[job] = rows[key]
        devices = table.usage[:, :, DEVICES].copy()
        isolate(table.total, devices, state.sites.columns.kind, np.array(rooms), row)

    def still_lent(self, job: int, track: Track, site: int) -> bool:
        """Whether pools still leave a site to a job once those before it in this round are in."""
        state, table = self.state, self.table
        assert table is not None
        if not state.pool_owners:
            return True
        devices = table.usage[job, state.sites.columns.kind[site], DEVICES]
        return state.pools.may_use(track.workload, state.place_of(site), float(devices))

    def _tenancy(self, table: CostTable) -> Tenancy | None:
        """Caps on shares and what is left of budgets; None where nothing is limited."""
        state = self.state
        count = len(state.budgets.tenants)
        caps = self._caps(table, count)
        budgets = state.budgets.limited(state.policy)
        if caps is None and not budgets:
            return None
        slots = len(table.slots_h)
        money, grams = np.full(count + 1, np.inf), np.full(count + 1, np.inf)
        # Without budgets it does not matter what anything takes of them.
        spend = emitted = np.zeros((*table.run_h.shape, 1))
        if budgets:
            committed = state.running.committed(state.now_ns, count)
            money, grams = state.budgets.left(state.policy, *committed)
            spend, emitted = table.spend, table.grams
        totals = np.maximum(np.array(state.shares.totals), 1e-9)
        share = (all_amounts(table.usage) / totals).max(axis=2)
        # Units of a pool are their owner's whatever its share.
        share[self._at_home(table)] = 0.0
        return Tenancy(
            tenant=self._tenants,
            share=share,
            share_cap=np.repeat(
                (np.full(count, np.inf) if caps is None else caps)[:, None], slots, axis=1
            ),
            spend=spend,
            money_budget=money,
            grams=emitted,
            carbon_budget=grams,
        )

    def _at_home(self, table: CostTable) -> NDArray[np.bool_]:
        """[J]: jobs for which their pool has idle units of its own, one after the other."""
        pools, left = self.state.pools, {}
        found = np.zeros(len(table.tracks), dtype=np.bool_)
        for job, track in enumerate(table.tracks):
            pool = track.workload.pool
            if pool is None:
                continue
            if pool not in left:
                left[pool] = pools.idle(pool)
            devices = float(table.usage[job, :, DEVICES].max())
            if devices <= left[pool] + 1e-9:
                left[pool] -= devices
                found[job] = True
        return found

    def _caps(self, table: CostTable, count: int) -> Floats | None:
        """[K]: dominant share each tenant may still add; None where nobody is limited."""
        if count < 2:
            return None
        shares = self.state.shares
        most = all_amounts(table.usage.max(axis=1))
        waiting = np.zeros((count, most.shape[1]))
        np.add.at(waiting, self._tenants, most)
        who, first = np.unique(self._tenants, return_index=True)
        rows = np.array([shares.row(each.id) for each in self.state.budgets.tenants])
        caps = shares.caps_of(rows[who], waiting[who], most[first])
        left = np.maximum(caps - shares.shares_by_row(), 0.0)[rows]
        asked = (waiting / np.maximum(np.array(shares.totals), 1e-9)).max(axis=1)
        return None if (asked <= left + 1e-12).all() else left

    def _learn(self, choice: Choice) -> None:
        """Let congestion prices follow what was found scarce."""
        state = self.state
        state.duals = choice.duals
        if state.policy.congestion.enabled and choice.missed.devices.any():
            book = state.adaptation.congestion
            columns = state.sites.columns
            total = np.maximum(columns.total[:, DEVICES], 1e-9)
            idle = columns.free[:, DEVICES] / total
            short = choice.missed.devices / total
            book.raise_by(choice.missed.gain, short - idle, state.worth(), state.policy.congestion)

    def _defer(self, job: int, track: Track, site: int, slot: int) -> list[GlobalInstruction]:
        """Plan it for later: it is called at that time, or when its site has room before."""
        state, table = self.state, self.table
        assert table is not None
        start_ns = state.now_ns + table.slots_h[slot] * HOUR_NS
        wake_ns = min(start_ns, state.now_ns + state.settings.review_ns)
        state.waiting.wait(track, wake_ns, self._wishes(job), planned=True)
        whole_h = float(table.delay_h[job, site]) + float(table.run_h[job, site])
        state.plan(track, site, (start_ns, after_h(start_ns, whole_h)))
        if track.until_ns and abs(start_ns - track.until_ns) <= HOUR_NS:
            track.until_ns = start_ns
            return []
        track.until_ns, track.why = start_ns, self._why_later(job, site, slot)
        return [DeferWorkload(track.id, start_ns, track.why)]

    def _why_later(self, job: int, site: int, slot: int) -> str:
        choice = self.choice
        assert choice is not None
        name = self.state.sites.names[site]
        if self._best_now is None:
            self._best_now = choice.priced[:, :, 0].min(axis=1).tolist()
        now = self._best_now[job]
        if not math.isfinite(now):
            return f"{name} is expected to have room then"
        later = float(choice.priced[job, site, slot])
        return f"{name} from then costs {later:.4g}, the best place now {now:.4g}"

    def _wait(self, job: int, track: Track) -> None:
        state = self.state
        self.unplaced.append(track)
        track.why, track.until_ns = self.hindrance(job), 0
        state.waiting.wait(track, state.now_ns + state.settings.review_ns, self._wishes(job))

    def hindrance(self, job: int) -> str:
        """What keeps a job without a place from having one."""
        table = self.table
        assert table is not None
        if not table.eligible[job].any():
            return "no site that can be reached could run it"
        if not np.isfinite(table.total[job]).any():
            assert self._in_reach is not None
            if self._in_reach[job]:
                return _TEAM
            if self._at_maximum(job):
                return _MAXIMUM
            return NO_ROOM if self._taken_by_others(job) else _OTHERS
        return self._beyond_means(job) or NO_ROOM

    def _at_maximum(self, job: int) -> bool:
        """Whether its pool may not grow by what it needs, wherever it went."""
        state, table = self.state, self.table
        assert table is not None
        pool = self._tracks[job].workload.pool
        if pool is None:
            return False
        needed = table.usage[job, state.sites.columns.kind, DEVICES][table.eligible[job]]
        return bool(needed.min() > state.pools.below_maximum(pool) + 1e-9)

    def _taken_by_others(self, job: int) -> bool:
        """Whether pools would leave a site to a job, were it not in use."""
        state, table = self.state, self.table
        assert table is not None
        workload = self._tracks[job].workload
        reach = state.pool_columns_of(state.pools.reach(workload.tenant, workload.pool))
        needed = table.usage[job, state.sites.columns.kind, DEVICES]
        return bool((table.eligible[job] & (reach >= needed - 1e-9)).any())

    def _beyond_means(self, job: int) -> str:
        """What a job's tenant or the fleet has too little left of, wherever it went; or nothing."""
        table, tenancy = self.table, self.tenancy
        assert table is not None
        if tenancy is None:
            return ""
        tenant = int(tenancy.tenant[job])
        sites = np.isfinite(table.total[job]).any(axis=1)
        for what, needed, budget in (
            ("money", table.spend[job, sites, 0], tenancy.money_budget),
            ("carbon", table.grams[job, sites, 0], tenancy.carbon_budget),
        ):
            whose = "its tenant's" if budget[tenant] <= budget[-1] else "the fleet's"
            left = max(0.0, float(min(budget[tenant], budget[-1])))
            if needed.min() > left:
                unit = " g" if what == "carbon" else ""
                return (
                    f"{whose} {what} budget has {left:.4g}{unit} left, "
                    f"and it would take {needed.min():.4g}{unit}"
                )
        shares = tenancy.share[job, self.state.sites.columns.kind[sites]]
        if shares.min() > tenancy.share_cap[tenant, 0] + 1e-12:
            return "its tenant has its share of the fleet, and others want the rest"
        return ""

    def _wishes(self, job: int) -> list[Wish]:
        """Sites where it would rather be now than have what it was given, cheapest first."""
        if self._wished is None:
            self._wished = self._wish()
        site, devices, saving, shared = self._wished
        return [
            wish
            for wish in map(Wish, site[job], devices[job], saving[job], shared[job])
            if wish.site >= 0
        ]

    def _wish(self) -> tuple[list[Any], ...]:
        """The columns of `Wished` for all candidates at once, as plain lists."""
        table, choice = self.table, self.choice
        assert table is not None
        assert choice is not None
        columns = self.state.sites.columns
        jobs = np.arange(len(choice.site))
        got = np.where(choice.site >= 0, choice.priced[jobs, choice.site, choice.slot], np.inf)
        wants = Wants(choice.priced.reshape(len(jobs), -1), got, table.usage, choice.site)
        found = wishes(
            wants, table.sharing, columns.free_on_used, columns.kind, table.run_h, _MOST_WISHES
        )
        return tuple(column.tolist() for column in found)
