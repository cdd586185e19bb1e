"""Budgets of tenants and of the whole fleet: what is used, what is promised, what is left."""

from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.instructions import GlobalInstruction, Warn
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.tenancy import FleetTenant
from dure.domain.ids import TenantId
from dure.fleet.sites import Floats

_FLEET = TenantId("")


@dataclass(slots=True)
class BudgetBook:
    """Money and grams per tenant; rows are numbers that never change."""

    warning_share: float
    tenants: list[FleetTenant] = field(default_factory=list)
    rows: dict[TenantId, int] = field(default_factory=dict)
    money: Floats = field(default_factory=lambda: np.zeros(0))
    """Used, by tenant."""
    grams: Floats = field(default_factory=lambda: np.zeros(0))
    _told: set[tuple[str, str, str]] = field(default_factory=set)

    def set_tenant(self, tenant: FleetTenant) -> int:
        """Make a tenant known, or change its budget."""
        row = self.rows.get(tenant.id)
        if row is None:
            row = self.rows[tenant.id] = len(self.tenants)
            self.tenants.append(tenant)
            self.money = np.append(self.money, 0.0)
            self.grams = np.append(self.grams, 0.0)
        elif self.tenants[row].budget != tenant.budget:
            self._told = {each for each in self._told if each[0] != tenant.id}
        self.tenants[row] = tenant
        return row

    def spend(self, tenant: TenantId, money: float, grams: float) -> None:
        """A tenant has used so much more."""
        row = self.rows[tenant]
        self.money[row] += money
        self.grams[row] += grams

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
            grams[count] = policy.carbon_budget_g - self.grams.sum() - committed_g.sum()
        return np.maximum(money, 0.0), np.maximum(grams, 0.0)

    def warnings(self, policy: FleetPolicy, expected_g: float) -> list[GlobalInstruction]:
        """Budgets that near their end, are used up, or will not last; each is told once."""
        news: list[GlobalInstruction] = []
        for row, tenant in enumerate(self.tenants):
            budget = tenant.budget
            news += self._judge(tenant.id, "money", float(self.money[row]), budget.money)
            news += self._judge(tenant.id, "carbon", float(self.grams[row]), budget.carbon_g)
        limit = policy.carbon_budget_g
        news += self._judge(_FLEET, "carbon", float(self.grams.sum()), limit)
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
        self, tenant: TenantId, what: str, used: float, limit: float | None
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
            )
        return self._tell(
            tenant,
            what,
            "near",
            f"{used / limit:.0%} of the {what} budget is used ({used:.6g} of {limit:.6g})",
            "raise it, or expect work to wait",
        )

    def _tell(
        self, tenant: TenantId, what: str, stage: str, text: str, remedy: str
    ) -> list[GlobalInstruction]:
        key = (str(tenant), what, stage)
        if key in self._told:
            return []
        self._told.add(key)
        about = f"tenant '{tenant}'" if tenant else "the fleet"
        return [Warn(about, text, remedy)]
