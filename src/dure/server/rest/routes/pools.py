"""vNode pools."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from dure.api.base import Name, moment_text, stored
from dure.api.history import Page
from dure.api.tenancy import PoolDocument, PoolSpec
from dure.domain.fleet.catalogue import CATALOGUE
from dure.kit.words import nearest
from dure.server.rest.door import Admin, Call, Reader, Speaks, answer, route
from dure.server.rest.named import Named, Part, part_of
from dure.server.rest.problems import not_found, wrong
from dure.server.rest.revisions import IF_MATCH, IF_NONE_MATCH, stamped
from dure.server.specs import pool_spec
from dure.server.virtual.checking import check_pool_of_virtual
from dure.stores.rows import NewEvent, Pool
from dure.stores.transaction import Transaction

router = APIRouter(prefix="/v1/pools", tags=["pools"])
PoolName = Annotated[Name, Path()]


@route(router, "GET", "", Speaks(gives=Page[PoolDocument]))
async def list_pools(call: Reader, query: Part) -> Response:
    """List the pools of the tenants that the asker may see."""
    async with call.desk.services.state.reading() as tx:
        rows = [row for row in await tx.pools.all() if _visible(call, row)]
    part, more = part_of(rows, lambda row: row.name, query)
    return answer(Page[PoolDocument](items=[_document(row) for row in part], cursor=more))


@route(router, "GET", "/{name}", Speaks(gives=PoolDocument))
async def get_pool(call: Reader, name: PoolName) -> Response:
    """Show one pool."""
    async with call.desk.services.state.reading() as tx:
        row = await tx.pools.find(name)
    if row is None or not _visible(call, row):
        raise not_found("pool", name)
    return stamped(answer(_document(row)), row.revision)


@route(
    router,
    "PUT",
    "/{name}",
    Speaks(PoolSpec, PoolDocument, also=(201,), headers=(IF_MATCH, IF_NONE_MATCH)),
)
async def put_pool(call: Admin, name: PoolName) -> Response:
    """Create or change a pool."""
    document = await call.document(PoolSpec)
    spec = stored(document)
    tenant = str(spec.pop("tenant"))
    _check_profile(document)
    async with call.desk.changing() as change:
        await _check_names(change.tx, document)

        def made(before: Pool | None) -> Pool:
            new = Pool(name, tenant, spec)
            return new if before is None else replace(before, tenant=tenant, spec=spec)

        await check_pool_of_virtual(change.tx, name, Pool(name, tenant, spec))
        row, new, changed = await Named(change.tx.pools, "pool").put(call, (name,), made)
        if changed:
            event = NewEvent("pool.changed", name, tenant)
            await change.note(call.caller, event, "pool.put", name, spec=spec)
    return stamped(answer(_document(row), 201 if new else 200), row.revision)


@route(router, "DELETE", "/{name}", Speaks(status=204, headers=(IF_MATCH,)))
async def delete_pool(call: Admin, name: PoolName) -> Response:
    """Remove a pool; jobs that name it wait until it is there again."""
    async with call.desk.changing() as change:
        await check_pool_of_virtual(change.tx, name, None)
        row = await Named(change.tx.pools, "pool").remove(call, (name,))
        event = NewEvent("pool.changed", name, row.tenant)
        await change.note(call.caller, event, "pool.remove", name)
    return Response(status_code=204)


def _check_profile(spec: PoolSpec) -> None:
    profile = CATALOGUE.get(spec.profile.lower())
    if profile is None:
        raise wrong(
            "profile",
            f"'{spec.profile}' is not a known accelerator",
            nearest(spec.profile, CATALOGUE),
        )
    names = [template.name for template in profile.slices]
    if spec.slice is not None and spec.slice not in names:
        raise wrong(
            "slice", f"a {profile.name} has no slice '{spec.slice}'", nearest(spec.slice, names)
        )


async def _check_names(tx: Transaction, spec: PoolSpec) -> None:
    if await tx.tenants.find(spec.tenant) is None:
        raise wrong("tenant", f"there is no tenant '{spec.tenant}'", "create it first")
    for number, cluster in enumerate(spec.clusters or ()):
        if await tx.clusters.find(cluster) is None:
            raise wrong(
                f"clusters[{number}]", f"there is no cluster '{cluster}'", "let it join first"
            )


def _visible(call: Call, row: Pool) -> bool:
    return call.caller.root is None or row.tenant in {None, call.caller.root}


def _document(row: Pool) -> PoolDocument:
    return PoolDocument(
        name=row.name,
        spec=pool_spec(row),
        revision=row.revision,
        created_at=moment_text(row.created_ns),
    )
