"""Gives places to jobs in one round, or says what they wait for."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.instructions import DeferWorkload, GlobalInstruction, PlaceWorkload
from dure.domain.ids import PoolId, TenantId
from dure.fleet import rounds
from dure.fleet.assignment.problem import Tenancy
from dure.fleet.costs import CostTable, cost_table
from dure.fleet.displacing import displace, find_victims
from dure.fleet.explain import Reasons
from dure.fleet.fairness import Amounts, Claim
from dure.fleet.global_state import GlobalState, Grant, amounts_of
from dure.fleet.rounds import Choice, Room
from dure.fleet.sites import DEVICES, Floats
from dure.fleet.tracks import HOUR_NS, Track
from dure.fleet.waiting import Wish

_MOST_WISHES = 4
"""Sites a waiting job is called for when they have room again; at its review it sees all."""
NO_ROOM = "no site it may use has room for it now"


class JobRound:
    """One round over the jobs that were called."""

    def __init__(self, state: GlobalState, tracks: Sequence[Track]) -> None:
        self.state = state
        self.unplaced: list[Track] = []
        """Those that want a place now and found no room, in the order they were called."""
        self._tracks = tracks
        self.table: CostTable | None = None
        self.choice: Choice | None = None
        self.tenancy: Tenancy | None = None
        self._ranked: tuple[NDArray[np.int64], Floats, Floats] | None = None

    def run(self) -> list[GlobalInstruction]:
        """Decide, give orders, put the rest to wait."""
        state = self.state
        for track in self._tracks:
            state.unplan(track)
        around = state.around()
        slots = self._slots()
        table = cost_table(self._tracks, around, slots)
        table = self._isolated(table)
        self.tenancy = self._tenancy(table)
        room = Room(
            capacity=rounds.capacity(around, slots),
            fits_now=rounds.fits_now(table, state.sites) | rounds.urgent(table, around)[:, None],
            tenancy=self.tenancy,
        )
        choice = rounds.decide(table, room, around, state.duals)
        self.table, self.choice = table, choice
        reasons = Reasons(table, choice, state.sites, state.now_ns)
        instructions: list[GlobalInstruction] = []
        for job, track in enumerate(self._tracks):
            site, slot = int(choice.site[job]), int(choice.slot[job])
            if site >= 0 and slot == 0:
                grant = self.grant(job, site, reasons)
                instructions.append(PlaceWorkload(state.place(track, grant)))
            elif site >= 0:
                instructions += self._defer(job, track, site, slot)
            else:
                self._wait(job, track)
        self._learn(choice)
        return instructions

    def make_room(self, most: int) -> list[GlobalInstruction]:
        """Displace work of lower priority for jobs that found no room, within bounds."""
        state, table, choice = self.state, self.table, self.choice
        assert table is not None
        assert choice is not None
        instructions: list[GlobalInstruction] = []
        reasons = Reasons(table, choice, state.sites, state.now_ns)
        numbers = {track.id: job for job, track in enumerate(self._tracks)}
        kind = state.sites.columns.kind
        displaced = 0
        for track in list(self.unplaced):
            if not state.policy.of(track.workload.kind).preempt:
                continue
            job = numbers[track.id]
            closed = ~np.isfinite(table.total[job, :, 0]) | ~self._affordable(job)
            wanted = np.where(closed[:, None], np.inf, table.usage[job, kind])
            found = find_victims(state, track, wanted, most - displaced)
            if found is None:
                continue
            victims, candidates = found
            names = [
                (candidates.workloads[row], float(candidates.costs[row])) for row in victims.rows
            ]
            displaced += len(names)
            instructions += displace(state, names, track.id)
            note = f"displaces {len(names)} of lower priority at a cost of {victims.cost:.4g}"
            grant = self.grant(job, victims.site, reasons, note)
            instructions.append(PlaceWorkload(state.place(track, grant)))
            self.unplaced.remove(track)
        return instructions

    def _affordable(self, job: int) -> NDArray[np.bool_]:
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
        last = table.spend.shape[2] - 1
        return Grant(
            site=site,
            instances=self._tracks[job].instances,
            delay_h=float(table.delay_h[job, site]),
            run_h=float(table.run_h[job, site]),
            money=float(table.spend[job, site, min(0, last)]),
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

    def _isolated(self, table: CostTable) -> CostTable:
        """Take out sites whose free devices belong to somebody else's pool."""
        state = self.state
        if not state.pool_owners:
            return table
        kind = state.sites.columns.kind
        total = table.total.copy()
        known: dict[tuple[TenantId, PoolId | None], Floats] = {}
        for job, track in enumerate(table.tracks):
            key = (track.workload.tenant, track.workload.pool)
            if key not in known:
                known[key] = state.pool_rooms(track.workload)
            rooms = known[key]
            total[job, rooms < table.usage[job, kind, DEVICES] - 1e-6, 0] = np.inf
            total[job, rooms <= 0.0] = np.inf
        return replace(table, total=total)

    def _tenancy(self, table: CostTable) -> Tenancy | None:
        """Caps on shares and what is left of budgets; None where nothing is limited."""
        state = self.state
        count = len(state.budgets.tenants)
        caps = self._caps(count)
        budgets = state.budgets.limited(state.policy)
        if caps is None and not budgets:
            return None
        slots = len(table.slots_h)
        money, grams = np.full(count + 1, np.inf), np.full(count + 1, np.inf)
        if budgets:
            committed = state.running.committed(state.now_ns, count)
            money, grams = state.budgets.left(state.policy, *committed)
        totals = np.maximum(np.array(state.shares.totals), 1e-9)
        uses = np.array([[amounts_of(row) for row in usage] for usage in table.usage])
        return Tenancy(
            tenant=np.array(
                [state.budgets.rows[track.workload.tenant] for track in self._tracks],
                dtype=np.int64,
            ),
            share=(uses / totals).max(axis=2),
            share_cap=np.repeat(
                (np.full(count, np.inf) if caps is None else caps)[:, None], slots, axis=1
            ),
            spend=table.spend,
            money_budget=money,
            grams=table.grams,
            carbon_budget=grams,
        )

    def _caps(self, count: int) -> Floats | None:
        """[K]: dominant share each tenant may still add; None where nobody is limited."""
        state = self.state
        if count < 2:
            return None
        waiting: dict[str, Floats] = {}
        first: dict[str, Floats] = {}
        for track in self._tracks:
            usage = np.array(amounts_of(track.needs.usage.max(axis=0) * track.instances))
            tenant = track.workload.tenant
            waiting[tenant] = waiting.get(tenant, 0.0) + usage
            first.setdefault(tenant, usage)
        claims = {
            track.workload.tenant: Claim(
                Amounts(*waiting[track.workload.tenant]), Amounts(*first[track.workload.tenant])
            )
            for track in self._tracks
        }
        caps = state.shares.caps(claims)
        used = state.shares.shares()
        left = np.array(
            [max(0.0, caps[tenant.id] - used[tenant.id]) for tenant in state.budgets.tenants]
        )
        asked = np.array(
            [
                (waiting[tenant.id] / np.maximum(np.array(state.shares.totals), 1e-9)).max()
                if tenant.id in waiting
                else 0.0
                for tenant in state.budgets.tenants
            ]
        )
        return None if (asked <= left + 1e-12).all() else left

    def _learn(self, choice: Choice) -> None:
        """Let congestion prices follow what was found scarce."""
        state = self.state
        state.duals = choice.duals
        if state.policy.congestion.enabled and choice.missed.any():
            book = state.adaptation.congestion
            columns = state.sites.columns
            idle = columns.free[:, DEVICES] / np.maximum(columns.total[:, DEVICES], 1e-9)
            book.raise_by(choice.missed, idle, state.worth(), state.policy.congestion)

    def _defer(self, job: int, track: Track, site: int, slot: int) -> list[GlobalInstruction]:
        """Plan it for later: it is called at that time, or when its site has room before."""
        state, table, choice = self.state, self.table, self.choice
        assert table is not None
        assert choice is not None
        start_ns = state.now_ns + table.slots_h[slot] * HOUR_NS
        now = float(choice.priced[job, :, 0].min())
        later = float(choice.priced[job, site, slot])
        name = state.sites.names[site]
        why = f"{name} from then costs {later:.4g}, the best place now {now:.4g}"
        if not np.isfinite(now):
            why = f"{name} is expected to have room then"
        wake_ns = min(start_ns, state.now_ns + state.settings.review_ns)
        state.waiting.wait(track, wake_ns, self._wishes(job))
        delay_ns = round(float(table.delay_h[job, site]) * HOUR_NS)
        run_ns = round(float(table.run_h[job, site]) * HOUR_NS)
        state.plan(track, site, (start_ns, start_ns + delay_ns + run_ns))
        moved = abs(start_ns - track.until_ns) > HOUR_NS or not track.until_ns
        track.until_ns, track.why = start_ns, why
        return [DeferWorkload(track.id, start_ns, why)] if moved else []

    def _wait(self, job: int, track: Track) -> None:
        state = self.state
        self.unplaced.append(track)
        track.why, track.until_ns = self._hindrance(job), 0
        state.waiting.wait(track, state.now_ns + state.settings.review_ns, self._wishes(job))

    def _hindrance(self, job: int) -> str:
        """What keeps a job without a place from having one."""
        table = self.table
        assert table is not None
        if not table.eligible[job].any():
            return "no site that can be reached could run it"
        if not np.isfinite(table.total[job]).any():
            return "the devices that could run it belong to pools it may not use"
        return NO_ROOM

    def _wishes(self, job: int) -> list[Wish]:
        """Its cheapest sites, and what having one of them saves per device-hour over the worst."""
        if self._ranked is None:
            self._ranked = self._rank()
        order, devices, saving = self._ranked
        return [
            Wish(int(site), float(devices[job, rank]), float(saving[job, rank]))
            for rank, site in enumerate(order[job])
            if site >= 0
        ]

    def _rank(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """[J, wishes] for all at once: sites, devices there, saving; -1 for no site."""
        table, choice = self.table, self.choice
        assert table is not None
        assert choice is not None
        costs = np.where(table.eligible, choice.priced.min(axis=2), np.inf)
        count = min(_MOST_WISHES, costs.shape[1])
        rows = np.arange(len(costs))[:, None]
        order = np.argpartition(costs, count - 1, axis=1)[:, :count]
        order = order[rows, np.argsort(costs[rows, order], axis=1, kind="stable")]
        chosen = costs[rows, order]
        worst = np.where(np.isfinite(costs), costs, -np.inf).max(axis=1)[:, None]
        kind = self.state.sites.columns.kind
        devices = table.usage[rows, kind[order], DEVICES]
        hours = table.run_h[rows, order]
        known = np.isfinite(chosen)
        saving = np.where(known, worst - np.where(known, chosen, 0.0), 0.0)
        saving = saving / np.maximum(devices * hours, 1e-6)
        return np.where(table.eligible[rows, order], order, -1), devices, saving
