"""Bills: every sum of money and gram of the fleet, charged to somebody, adding up to the total.

What a node costs is shared by those on it in proportion to the compute they hold, moment by moment,
and its idle part with it: their use keeps the node billed. A node that costs while nobody is on it
is charged to the fleet itself, so that all bills together are what was paid.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.series import Floats
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import TenantId, WorkloadId


class Term(Enum):
    """What money is paid for; the order of the columns."""

    RENT = "rent"
    ENERGY = "energy"
    TRANSFER = "transfer"
    PENALTY = "penalty"


TERMS = tuple(Term)
_COLUMN = {term: index for index, term in enumerate(TERMS)}
_GRAMS = len(TERMS)
_COLUMNS = len(TERMS) + 1

FLEET_ROW = 0
"""The account of what nobody's workload caused: powered nodes without instances."""
FLEET = TenantId("(fleet)")

Rows = NDArray[np.int64]


class Level(Enum):
    """How finely a bill is broken down."""

    TENANT = 1
    TEAM = 2
    SERVICE = 3
    WORKLOAD = 4


@dataclass(frozen=True, slots=True)
class BillLine:
    """One line of a bill. Money in the fleet's currency."""

    tenant: TenantId
    team: str
    service: str
    workload: str
    """Empty where the bill is not broken down so far."""
    rent: float
    energy: float
    transfer: float
    penalty: float
    g_co2: float

    @property
    def money(self) -> float:
        """All terms."""
        return self.rent + self.energy + self.transfer + self.penalty


@dataclass(frozen=True, slots=True)
class Spend:
    """What a team of a tenant (or the fleet itself) spent since it was last asked."""

    tenant: TenantId
    money: float
    g_co2: float
    team: str = ""


class Ledger:
    """Accounts of workloads in columns, and the meters of nodes."""

    def __init__(self, nodes: int = 0) -> None:
        self._keys: list[tuple[TenantId, str, str, str]] = [(FLEET, "", "", "")]
        self._rows: dict[WorkloadId, int] = {}
        self._teams: dict[tuple[TenantId, str], int] = {(FLEET, ""): 0}
        self._team_of: Rows = np.zeros(1, dtype=np.int64)
        self._sums: Floats = np.zeros((1, _COLUMNS))
        self._by_team: Floats = np.zeros((1, 2))
        """Money and grams by team, as the accounts say."""
        self._told: Floats = np.zeros((1, 2))
        self._total: Floats = np.zeros(_COLUMNS)
        self._meters = _Meters(nodes)

    # --- accounts --------------------------------------------------------------------------

    def account(self, workload: Workload) -> int:
        """The row of a workload's account, opened on first use."""
        row = self._rows.get(workload.id)
        if row is not None:
            return row
        row = self._rows[workload.id] = len(self._keys)
        self._keys.append((workload.tenant, workload.team, workload.service_name, workload.id))
        if row >= len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros_like(self._sums)])
            self._team_of = np.concatenate([self._team_of, np.zeros_like(self._team_of)])
        team = self._teams.setdefault((workload.tenant, workload.team), len(self._teams))
        self._team_of[row] = team
        if team >= len(self._by_team):
            more = np.zeros_like(self._by_team)
            self._by_team = np.concatenate([self._by_team, more])
            self._told = np.concatenate([self._told, more])
        return row

    def charge(self, row: int, term: Term, money: float, g_co2: float = 0.0) -> None:
        """Charge one account."""
        self._sums[row, _COLUMN[term]] += money
        self._sums[row, _GRAMS] += g_co2
        team = self._team_of[row]
        self._by_team[team, 0] += money
        self._by_team[team, 1] += g_co2
        self._total[_COLUMN[term]] += money
        self._total[_GRAMS] += g_co2

    def charge_many(
        self, rows: Rows, term: Term, money: Floats, g_co2: Floats | None = None
    ) -> None:
        """Charge many accounts at once; a row may occur more than once."""
        teams = self._team_of[rows]
        np.add.at(self._sums[:, _COLUMN[term]], rows, money)
        np.add.at(self._by_team[:, 0], teams, money)
        self._total[_COLUMN[term]] += money.sum()
        if g_co2 is not None:
            np.add.at(self._sums[:, _GRAMS], rows, g_co2)
            np.add.at(self._by_team[:, 1], teams, g_co2)
            self._total[_GRAMS] += g_co2.sum()

    # --- nodes -----------------------------------------------------------------------------

    def accrue(self, nodes: Rows, term: Term, money: Floats, g_co2: Floats) -> None:
        """What nodes cost since last time, before anybody joins or leaves them; each node once."""
        fleet = np.zeros(_COLUMNS)
        self._meters.accrue(nodes, _COLUMN[term], money, g_co2, fleet)
        self._sums[FLEET_ROW] += fleet
        self._by_team[0] += (fleet[:_GRAMS].sum(), fleet[_GRAMS])
        self._total[_COLUMN[term]] += money.sum()
        self._total[_GRAMS] += g_co2.sum()

    def joined(self, node: int, row: int, compute_milli: int) -> None:
        """From now on the account has so much of a node's compute; called again: so much more."""
        self._settle(node, row)
        self._meters.hold(node, row, compute_milli)

    def left(self, node: int, row: int, compute_milli: int | None = None) -> None:
        """The account gave so much of a node's compute back; None: all it had there."""
        self._settle(node, row)
        self._meters.release(node, row, compute_milli)

    def settle(self) -> None:
        """Bring all accounts up to date with the meters."""
        accounts, due = self._meters.all_due()
        teams = self._team_of[accounts]
        for column in range(_COLUMNS):
            np.add.at(self._sums[:, column], accounts, due[:, column])
            np.add.at(self._by_team[:, int(column == _GRAMS)], teams, due[:, column])

    def _settle(self, node: int, row: int) -> None:
        due = self._meters.due(node, row)
        if due is not None:
            self._sums[row] += due
            team = self._by_team[self._team_of[row]]
            team[0] += due[:_GRAMS].sum()
            team[1] += due[_GRAMS]

    # --- what was spent --------------------------------------------------------------------

    @property
    def total(self) -> BillLine:
        """All that was ever charged, in one line."""
        return _line((FLEET, "", "", ""), self._total)

    def bill(self, level: Level = Level.TENANT) -> list[BillLine]:
        """All accounts, added up to the level asked for, in order of name."""
        self.settle()
        groups: dict[tuple[TenantId, str, str, str], int] = {}
        depth = level.value
        where = np.fromiter(
            (groups.setdefault(_cut(key, depth), len(groups)) for key in self._keys),
            dtype=np.int64,
            count=len(self._keys),
        )
        sums = np.zeros((len(groups), _COLUMNS))
        np.add.at(sums, where, self._sums[: len(self._keys)])
        lines = [_line(key, sums[index]) for key, index in groups.items() if sums[index].any()]
        return sorted(lines, key=lambda line: (line.tenant, line.team, line.service, line.workload))

    def close_period(self, level: Level = Level.SERVICE) -> list[BillLine]:
        """The bill of the period that ends now; accounts start again at nothing."""
        lines = self.bill(level)
        self._sums[:] = 0.0
        self._told[:] -= self._by_team
        self._by_team[:] = 0.0
        self._total[:] = 0.0
        return lines

    def spent(self) -> list[Spend]:
        """What each team spent since this was last asked; who spent nothing is left out."""
        self.settle()
        since = self._by_team - self._told
        self._told = self._by_team.copy()
        return [
            Spend(tenant, float(since[row, 0]), float(since[row, 1]), team)
            for (tenant, team), row in self._teams.items()
            if since[row].any()
        ]


class _Meters:
    """What a unit of each node's compute has cost since the node was first used.

    An account's part is the difference of two readings times its compute, so joining and leaving
    cost the same however many share the node.
    """

    def __init__(self, nodes: int) -> None:
        self._readings: Floats = np.zeros((max(nodes, 1), _COLUMNS))
        self._compute: Rows = np.zeros(max(nodes, 1), dtype=np.int64)
        self._parts: dict[tuple[int, int], int] = {}
        """Rows of the columns below, by node and account."""
        self._spare: list[int] = []
        self._node: Rows = np.zeros(1, dtype=np.int64)
        self._account: Rows = np.zeros(1, dtype=np.int64)
        self._held: Rows = np.zeros(1, dtype=np.int64)
        """Compute of each part; 0: the row is spare."""
        self._settled: Floats = np.zeros((1, _COLUMNS))
        """Reading of its node when the part was last settled."""

    def accrue(self, nodes: Rows, column: int, money: Floats, g_co2: Floats, fleet: Floats) -> None:
        """Turn the meters on; what nobody is on goes to the account of the fleet."""
        if len(nodes):
            self._grow(int(nodes.max()))
        compute = self._compute[nodes]
        used = compute > 0
        on = nodes[used]
        self._readings[on, column] += money[used] / compute[used]
        self._readings[on, _GRAMS] += g_co2[used] / compute[used]
        fleet[column] += money[~used].sum()
        fleet[_GRAMS] += g_co2[~used].sum()

    def due(self, node: int, account: int) -> Floats | None:
        """What an account owes for its part of a node, which is then settled; None: no part."""
        part = self._parts.get((node, account))
        if part is None:
            return None
        due = (self._readings[node] - self._settled[part]) * self._held[part]
        self._settled[part] = self._readings[node]
        return np.asarray(due)

    def all_due(self) -> tuple[Rows, Floats]:
        """Accounts and what they owe for each of their parts, which are then settled."""
        parts = np.flatnonzero(self._held)
        readings = self._readings[self._node[parts]]
        due = (readings - self._settled[parts]) * self._held[parts, None]
        self._settled[parts] = readings
        return self._account[parts], due

    def hold(self, node: int, account: int, compute: int) -> None:
        """An account holds so much more of a node, and is settled."""
        self._grow(node)
        part = self._parts.get((node, account))
        if part is None:
            part = self._spare.pop() if self._spare else len(self._parts)
            if part >= len(self._held):
                for name in ("_node", "_account", "_held", "_settled"):
                    column = getattr(self, name)
                    setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
            self._parts[node, account] = part
            self._node[part], self._account[part] = node, account
            self._settled[part] = self._readings[node]
        self._held[part] += compute
        self._compute[node] += compute

    def release(self, node: int, account: int, compute: int | None) -> None:
        """An account, settled, gives compute of a node back."""
        part = self._parts.get((node, account))
        if part is None:
            return
        held = int(self._held[part])
        back = held if compute is None else min(compute, held)
        self._compute[node] -= back
        self._held[part] = held - back
        if back == held:
            del self._parts[node, account]
            self._spare.append(part)

    def _grow(self, node: int) -> None:
        size = len(self._compute)
        if node >= size:
            more = max(node + 1 - size, size)
            self._readings = np.concatenate([self._readings, np.zeros((more, _COLUMNS))])
            self._compute = np.concatenate([self._compute, np.zeros(more, dtype=np.int64)])


def _cut(key: tuple[TenantId, str, str, str], depth: int) -> tuple[TenantId, str, str, str]:
    """A key with everything finer than the level left out."""
    tenant, team, service, workload = key
    return (
        tenant,
        team if depth >= Level.TEAM.value else "",
        service if depth >= Level.SERVICE.value else "",
        workload if depth >= Level.WORKLOAD.value else "",
    )


def _line(key: tuple[TenantId, str, str, str], sums: Floats) -> BillLine:
    rent, energy, transfer, penalty, grams = (float(value) for value in sums)
    return BillLine(*key, rent, energy, transfer, penalty, grams)
