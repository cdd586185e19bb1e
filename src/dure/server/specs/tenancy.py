"""Stored tenants, budgets and pools."""

from collections.abc import Iterable, Sequence

from dure.api.base import moment_text
from dure.api.money import BudgetSpec, BudgetUnit
from dure.api.tenancy import PoolSpec, TenantSpec
from dure.domain.fleet.accounts import TenantKind
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import Budget, FleetTenant, Team, VNodePool
from dure.domain.fleet.windows import Window, windows_of
from dure.domain.ids import PoolId, TenantId
from dure.server.specs.reading import clusters_named, read_spec
from dure.stores import rows

_G_PER_KG = 1000.0


def tenant_of(
    tree: Sequence[rows.Tenant], budgets: Iterable[rows.Budget] = (), now_ns: int = 0
) -> FleetTenant:
    """A tenant, given with its teams and services, and the budgets whose period it is now."""
    root = next(row for row in tree if row.kind is TenantKind.TENANT)
    spec = tenant_spec(root)
    present = _present(budgets, now_ns)
    return FleetTenant(
        id=TenantId(root.path),
        weight=spec.weight,
        priority=spec.priority,
        budget=_budget(root.path, present),
        teams=tuple(
            Team(row.path.removeprefix(f"{root.path}/"), _budget(row.path, present))
            for row in tree
            if row.kind is TenantKind.TEAM and row.parent == root.path
        ),
    )


def tenants_of(
    tree: Iterable[rows.Tenant], budgets: Sequence[rows.Budget] = (), now_ns: int = 0
) -> tuple[FleetTenant, ...]:
    """All tenants."""
    by_root: dict[str, list[rows.Tenant]] = {}
    for row in tree:
        by_root.setdefault(row.path.partition("/")[0], []).append(row)
    return tuple(tenant_of(branch, budgets, now_ns) for branch in by_root.values())


def tenant_spec(row: rows.Tenant) -> TenantSpec:
    """What an operator said of a tenant."""
    return read_spec(TenantSpec, row.spec, f"tenant {row.path}")


def tenant_windows(tree: Iterable[rows.Tenant]) -> dict[TenantId, tuple[Window, ...]]:
    """When jobs may be moved by themselves, of tenants that say so."""
    said = {
        TenantId(row.path): windows_of(tenant_spec(row).windows)
        for row in tree
        if row.kind is TenantKind.TENANT
    }
    return {tenant: windows for tenant, windows in said.items() if windows}


def budget_spec(row: rows.Budget) -> BudgetSpec:
    """What an operator said of a budget."""
    plain = {
        "unit": row.unit,
        "limit": row.limit_amount,
        "periodStart": moment_text(row.period_start_ns),
        "periodEnd": moment_text(row.period_end_ns),
    }
    return read_spec(BudgetSpec, plain | dict(row.spec), f"budget {row.tenant}/{row.name}")


def _budget(path: str, budgets: Iterable[rows.Budget]) -> Budget:
    """The limits of a node's budgets that leave least."""
    limits = {unit: row.limit_amount for unit, row in _tightest(path, budgets).items()}
    return Budget(limits.get(BudgetUnit.MONEY.value), limits.get(BudgetUnit.CARBON.value))


def spent_of(budgets: Sequence[rows.Budget], now_ns: int = 0) -> dict[str, tuple[float, float]]:
    """Money and grams that are spent of the budgets whose limits count now, by node."""
    present = _present(budgets, now_ns)
    found = {}
    for path in sorted({row.tenant for row in present}):
        spent = {unit: row.spent_amount for unit, row in _tightest(path, present).items()}
        money, grams = (
            spent.get(unit.value, 0.0) for unit in (BudgetUnit.MONEY, BudgetUnit.CARBON)
        )
        found[path] = (money, grams)
    return found


def _present(budgets: Iterable[rows.Budget], now_ns: int) -> list[rows.Budget]:
    return [row for row in budgets if row.period_start_ns <= now_ns < row.period_end_ns]


def _tightest(path: str, budgets: Iterable[rows.Budget]) -> dict[str, rows.Budget]:
    """By unit, the budget of a node that leaves least: limit and what is spent are then of one
    period. All of a node are charged alike, so that it stays the one until some budget changes."""
    found: dict[str, rows.Budget] = {}
    for row in budgets:
        if row.tenant == path and (row.unit not in found or _left(row) < _left(found[row.unit])):
            found[row.unit] = row
    return found


def _left(row: rows.Budget) -> float:
    return row.limit_amount - row.spent_amount


def pool_spec(row: rows.Pool) -> PoolSpec:
    """What an operator said of a pool."""
    return read_spec(PoolSpec, dict(row.spec) | {"tenant": row.tenant}, f"pool {row.name}")


def pool_of(row: rows.Pool) -> VNodePool:
    """A pool."""
    spec = pool_spec(row)
    profile = device_profile(spec.profile)
    template = profile.slice(spec.slice or "whole")
    return VNodePool(
        id=PoolId(row.name),
        tenant=TenantId(spec.tenant),
        profile=profile.name,
        template="" if template.mode is ShareMode.WHOLE else template.name,
        mode=template.mode,
        clusters=clusters_named(spec.clusters),
        guaranteed=spec.guaranteed,
        lendable=spec.lendable,
        maximum=spec.maximum,
        dedicated=spec.dedicated,
    )
