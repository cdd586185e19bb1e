"""Tenants: the tree tenant → team → service."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from dure.api.base import TenantPath, moment_text, stored
from dure.api.history import Page
from dure.api.tenancy import TenantDocument, TenantSpec
from dure.domain.fleet.accounts import TenantKind
from dure.server.rest.door import Admin, Reader, Speaks, answer, route
from dure.server.rest.named import Named, Part, part_of
from dure.server.rest.problems import not_found
from dure.server.rest.revisions import IF_MATCH, IF_NONE_MATCH, stamped
from dure.server.specs import tenant_spec
from dure.stores.rows import NewEvent, Tenant

router = APIRouter(prefix="/v1/tenants", tags=["tenants"])
_KINDS = (TenantKind.TENANT, TenantKind.TEAM, TenantKind.SERVICE)
At = Annotated[TenantPath, Path(description="tenant, tenant/team or tenant/team/service")]


@route(router, "GET", "", Speaks(gives=Page[TenantDocument]))
async def list_tenants(call: Reader, query: Part) -> Response:
    """List the nodes of the tree that the asker may see."""
    async with call.desk.services.state.reading() as tx:
        rows = [row for row in await tx.tenants.all() if call.caller.sees(row.path)]
    part, more = part_of(rows, lambda row: row.path, query)
    return answer(Page[TenantDocument](items=[_document(row) for row in part], cursor=more))


@route(router, "GET", "/{path:path}", Speaks(gives=TenantDocument))
async def get_tenant(call: Reader, path: At) -> Response:
    """Show one node of the tree."""
    async with call.desk.services.state.reading() as tx:
        row = await tx.tenants.find(path)
    if row is None or not call.caller.sees(path):
        raise not_found("tenant", path)
    return stamped(answer(_document(row)), row.revision)


@route(
    router,
    "PUT",
    "/{path:path}",
    Speaks(TenantSpec, TenantDocument, also=(201,), headers=(IF_MATCH, IF_NONE_MATCH)),
)
async def put_tenant(call: Admin, path: At) -> Response:
    """Create or change a node of the tree; what is above it must be there."""
    spec = stored(await call.document(TenantSpec))
    parent = path.rpartition("/")[0] or None

    def made(before: Tenant | None) -> Tenant:
        kind = _KINDS[path.count("/")]
        return Tenant(path, kind, parent, spec) if before is None else replace(before, spec=spec)

    async with call.desk.changing() as change:
        named = Named(change.tx.tenants, "tenant")
        row, new, changed = await named.put(call, (path,), made)
        if changed:
            event = NewEvent("tenant.changed", path, path.partition("/")[0])
            await change.note(call.caller, event, "tenant.put", path, spec=spec)
    return stamped(answer(_document(row), 201 if new else 200), row.revision)


@route(router, "DELETE", "/{path:path}", Speaks(status=204, headers=(IF_MATCH,)))
async def delete_tenant(call: Admin, path: At) -> Response:
    """Remove a node that nothing belongs to any more."""
    async with call.desk.changing() as change:
        await Named(change.tx.tenants, "tenant").remove(call, (path,))
        event = NewEvent("tenant.changed", path, path.partition("/")[0])
        await change.note(call.caller, event, "tenant.remove", path)
    return Response(status_code=204)


def _document(row: Tenant) -> TenantDocument:
    return TenantDocument(
        path=row.path,
        kind=row.kind,
        parent=row.parent,
        spec=tenant_spec(row),
        revision=row.revision,
        created_at=moment_text(row.created_ns),
    )
