"""Budgets of tenants and teams, in money or grams, and how much of them is spent."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from dure.api.base import Name, TenantPath, moment_ns
from dure.api.history import Page
from dure.api.money import BudgetDocument, BudgetSpec
from dure.server.rest.door import Admin, Reader, Speaks, answer, route
from dure.server.rest.named import Named, Part, part_of
from dure.server.rest.problems import not_found, wrong
from dure.server.rest.revisions import IF_MATCH, IF_NONE_MATCH, stamped
from dure.server.specs import budget_spec
from dure.stores.rows import Budget, NewEvent

router = APIRouter(prefix="/v1/budgets", tags=["budgets"])
Of = Annotated[TenantPath, Path(description="tenant, tenant/team or tenant/team/service")]
BudgetName = Annotated[Name, Path()]


@route(router, "GET", "", Speaks(gives=Page[BudgetDocument]))
async def list_budgets(call: Reader, query: Part) -> Response:
    """List the budgets of those whom the asker may see."""
    async with call.desk.services.state.reading() as tx:
        rows = [row for row in await tx.budgets.all() if call.caller.sees(row.tenant)]
    part, more = part_of(rows, lambda row: f"{row.tenant}/{row.name}", query)
    return answer(Page[BudgetDocument](items=[_document(row) for row in part], cursor=more))


@route(router, "GET", "/{tenant:path}/{name}", Speaks(gives=BudgetDocument))
async def get_budget(call: Reader, tenant: Of, name: BudgetName) -> Response:
    """Show one budget."""
    async with call.desk.services.state.reading() as tx:
        row = await tx.budgets.find(tenant, name)
    if row is None or not call.caller.sees(tenant):
        raise not_found("budget", f"{tenant}/{name}")
    return stamped(answer(_document(row)), row.revision)


@route(
    router,
    "PUT",
    "/{tenant:path}/{name}",
    Speaks(BudgetSpec, BudgetDocument, also=(201,), headers=(IF_MATCH, IF_NONE_MATCH)),
)
async def put_budget(call: Admin, tenant: Of, name: BudgetName) -> Response:
    """Create or change a budget; what was spent stays spent."""
    spec = await call.document(BudgetSpec)

    def made(before: Budget | None) -> Budget:
        new = Budget(
            tenant,
            name,
            spec.unit.value,
            spec.limit,
            moment_ns(spec.period_start),
            moment_ns(spec.period_end),
            spec={"refuse": spec.refuse},
        )
        if before is None:
            return new
        return replace(new, spent_amount=before.spent_amount, revision=before.revision)

    async with call.desk.changing() as change:
        if await change.tx.tenants.find(tenant) is None:
            raise wrong("tenant", f"there is no tenant '{tenant}'", "create it first")
        named = Named(change.tx.budgets, "budget")
        row, new, changed = await named.put(call, (tenant, name), made)
        if changed:
            event = NewEvent("budget.changed", f"{tenant}/{name}", tenant.partition("/")[0])
            told = spec.model_dump(mode="json")
            await change.note(call.caller, event, "budget.put", f"{tenant}/{name}", spec=told)
    return stamped(answer(_document(row), 201 if new else 200), row.revision)


@route(router, "DELETE", "/{tenant:path}/{name}", Speaks(status=204, headers=(IF_MATCH,)))
async def delete_budget(call: Admin, tenant: Of, name: BudgetName) -> Response:
    """Remove a budget; what was spent is still in the bills."""
    async with call.desk.changing() as change:
        await Named(change.tx.budgets, "budget").remove(call, (tenant, name))
        event = NewEvent("budget.changed", f"{tenant}/{name}", tenant.partition("/")[0])
        await change.note(call.caller, event, "budget.remove", f"{tenant}/{name}")
    return Response(status_code=204)


def _document(row: Budget) -> BudgetDocument:
    return BudgetDocument(
        tenant=row.tenant,
        name=row.name,
        spec=budget_spec(row),
        spent=row.spent_amount,
        revision=row.revision,
    )
