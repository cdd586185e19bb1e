"""Budgets of teams, tenants and the whole fleet: what is used, what is promised, what is left."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.instructions import GlobalInstruction, Warn
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.tenancy import Budget, FleetTenant
from dure.domain.ids import TenantId
from dure.fleet.sites import Floats

_FLEET = TenantId("")

TeamKey = tuple[TenantId, str]
"""A team, with its tenant."""


@dataclass(slots=True)
class BudgetBook:
    """Money and grams per tenant; rows are numbers that never change."""

    warning_share: float
    tenants: list[FleetTenant] = field(default_factory=list)
    rows: dict[TenantId, int] = field(default_factory=dict)
    money: Floats = field(default_factory=lambda: np.zeros(0))
    """Used, by tenant."""
    grams: Floats = field(default_factory=lambda: np.zeros(0))
    idle_g: float = 0.0
    """Grams of powered nodes that nobody used: no tenant's, but the fleet's."""
    reserved_g: float = 0.0
    """Grams that services and idle nodes will need to the end of the period, beside `committed`."""
    teams: dict[TeamKey, Budget] = field(default_factory=dict)
    """Teams that have a limit."""
    by_team: dict[TeamKey, tuple[float, float]] = field(default_factory=dict)
    """Money and grams used, of all teams."""
    kept_elsewhere: bool = False
    """Whether budgets of tenants and teams have periods that another keeps; else the fleet's."""
    before_g: float = 0.0
    """Of the grams of tenants, those that are not of the fleet's period."""
    _told: set[tuple[str, str, str]] = field(default_factory=set)

    def begin_with(
        self,
        tenants: Mapping[TenantId, tuple[float, float]],
        teams: Mapping[TeamKey, tuple[float, float]],
        fleet_g: float,
    ) -> None:
        """Money and grams used of each budget, said by one who keeps their periods: from now on
        they start again only when that is said anew. And grams of the fleet in its own period."""
        self.kept_elsewhere = True
        for row, tenant in enumerate(self.tenants):
            self.money[row], self.grams[row] = tenants.get(tenant.id, (0.0, 0.0))
        self.by_team = dict(teams)
        self.before_g = float(self.grams.sum()) + self.idle_g - fleet_g

    def set_tenant(self, tenant: FleetTenant) -> int:
        """Make a tenant known, or change its budget."""
        row = self.rows.get(tenant.id)
        if row is None:
            row = self.rows[tenant.id] = len(self.tenants)
            self.tenants.append(tenant)
            self.money = np.append(self.money, 0.0)
            self.grams = np.append(self.grams, 0.0)
        elif self.tenants[row] != tenant:
            self._told = {each for each in self._told if each[0] != tenant.id}
        self.tenants[row] = tenant
        self.teams = {key: budget for key, budget in self.teams.items() if key[0] != tenant.id}
        for team in tenant.teams:
            if team.budget != Budget():
                self.teams[tenant.id, team.name] = team.budget
        return row

    def spend(self, tenant: TenantId, money: float, grams: float, team: str = "") -> None:
        """A tenant (by one of its teams) has used so much more."""
        row = self.rows[tenant]
        self.money[row] += money
        self.grams[row] += grams
        if team:
            before = self.by_team.get((tenant, team), (0.0, 0.0))
            self.by_team[tenant, team] = (before[0] + money, before[1] + grams)

    def new_period(self) -> None:
        """All budgets start again; where another keeps those of tenants, the fleet's alone."""
        self.idle_g = 0.0
        if self.kept_elsewhere:
            self.before_g = float(self.grams.sum())
            self._told = {each for each in self._told if each[0] != _FLEET}
            return
        self.money[:] = 0.0
        self.grams[:] = 0.0
        self.by_team.clear()
        self._told.clear()

    @property
    def used_g(self) -> float:
        """Grams of the whole fleet in its period."""
        return float(self.grams.sum()) - self.before_g + self.idle_g

    def team_left(
        self, committed: Mapping[TeamKey, tuple[float, float]]
    ) -> dict[TeamKey, tuple[float, float]]:
        """Money and grams that new work of each limited team may still use.

        `committed` is what work that has a place is still expected to use.
        """
        left = {}
        for key, budget in self.teams.items():
            used, promised = self.by_team.get(key, (0.0, 0.0)), committed.get(key, (0.0, 0.0))
            left[key] = (
                np.inf if budget.money is None else budget.money - used[0] - promised[0],
                np.inf if budget.carbon_g is None else budget.carbon_g - used[1] - promised[1],
            )
        return left

    def limited(self, policy: FleetPolicy) -> bool:
        """Whether there is any budget at all."""
        return policy.carbon_budget_g is not None or any(
            tenant.budget.money is not None or tenant.budget.carbon_g is not None
            for tenant in self.tenants
        )

    def left(
        self, policy: FleetPolicy, committed_money: Floats, committed_g: Floats
    ) -> tuple[Floats, Floats]:
        """[K + 1] money and grams that new work may still use; last: all together."""
        count = len(self.tenants)
        money, grams = np.full(count + 1, np.inf), np.full(count + 1, np.inf)
        for row, tenant in enumerate(self.tenants):
            if tenant.budget.money is not None:
                money[row] = tenant.budget.money - self.money[row] - committed_money[row]
            if tenant.budget.carbon_g is not None:
                grams[row] = tenant.budget.carbon_g - self.grams[row] - committed_g[row]
        if policy.carbon_budget_g is not None:
            known_g = self.used_g + committed_g.sum() + self.reserved_g
            grams[count] = policy.carbon_budget_g - known_g
        return np.maximum(money, 0.0), np.maximum(grams, 0.0)

    def warnings(self, policy: FleetPolicy, expected_g: float) -> list[GlobalInstruction]:
        """Budgets that near their end, are used up, or will not last; each is told once."""
        news: list[GlobalInstruction] = []
        for row, tenant in enumerate(self.tenants):
            budget = tenant.budget
            news += self._judge(tenant.id, "money", float(self.money[row]), budget.money)
            news += self._judge(tenant.id, "carbon", float(self.grams[row]), budget.carbon_g)
        for (name, team), budget in self.teams.items():
            used = self.by_team.get((name, team), (0.0, 0.0))
            news += self._judge(name, "money", used[0], budget.money, team)
            news += self._judge(name, "carbon", used[1], budget.carbon_g, team)
        limit = policy.carbon_budget_g
        news += self._judge(_FLEET, "carbon", self.used_g, limit)
        if limit is not None and expected_g > 1.01 * limit:
            news += self._tell(
                _FLEET,
                "carbon",
                "forecast",
                f"at the present rate the period emits {expected_g / 1e6:.3g} t of "
                f"{limit / 1e6:.3g} t",
                "raise the budget, or expect work to wait",
            )
        return news

    def _judge(
        self, tenant: TenantId, what: str, used: float, limit: float | None, team: str = ""
    ) -> list[GlobalInstruction]:
        if limit is None or used < self.warning_share * limit:
            return []
        if used >= limit:
            return self._tell(
                tenant,
                what,
                "end",
                f"the {what} budget is used up ({used:.6g} of {limit:.6g})",
                "raise it; nothing new is placed, services go on",
                team,
            )
        return self._tell(
            tenant,
            what,
            "near",
            f"{used / limit:.0%} of the {what} budget is used ({used:.6g} of {limit:.6g})",
            "raise it, or expect work to wait",
            team,
        )

    def hold(self, policy: FleetPolicy) -> list[GlobalInstruction]:
        """Say (once) that patient work is held back so that the fleet's carbon budget lasts."""
        return self._tell(
            _FLEET,
            "carbon",
            "hold",
            f"what is left of {(policy.carbon_budget_g or 0.0) / 1e6:.3g} t is needed by work that "
            "cannot wait: work that can is held back",
            "raise the carbon budget, or expect deadlines to be missed",
        )

    def _tell(
        self, tenant: TenantId, what: str, stage: str, text: str, remedy: str, team: str = ""
    ) -> list[GlobalInstruction]:
        key = (str(tenant), f"{team} {what}", stage)
        if key in self._told:
            return []
        self._told.add(key)
        about = f"tenant '{tenant}'" if tenant else "the fleet"
        if team:
            about = f"team '{team}' of {about}"
        return [Warn(about, text, remedy)]
