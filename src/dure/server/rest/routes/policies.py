"""Policies by name, and what holds for the fleet as a whole, with the policy in force."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from dure.api.base import Document, Name, moment_text, stored
from dure.api.history import Page
from dure.api.policies import FleetDocument, FleetSpec, PolicyDocument, PolicySpec
from dure.server.rest.desk import Change
from dure.server.rest.door import Admin, Call, Reader, Speaks, answer, route
from dure.server.rest.named import Named, Part, part_of
from dure.server.rest.problems import RefusedError, not_found, wrong
from dure.server.rest.revisions import IF_MATCH, IF_NONE_MATCH, stamped
from dure.server.specs import FLEET_POLICY, cluster_spec, fleet_spec, policy_spec
from dure.stores.rows import NewEvent, Policy

router = APIRouter(prefix="/v1", tags=["policies"])
PolicyName = Annotated[Name, Path()]
CHANGED = "policy.changed"


@route(router, "GET", "/policies", Speaks(gives=Page[PolicyDocument]))
async def list_policies(call: Reader, query: Part) -> Response:
    """List the policies, and which is in force."""
    async with call.desk.services.state.reading() as tx:
        rows = await tx.policies.all()
    in_force = fleet_spec(rows).policy
    named = [row for row in rows if row.name != FLEET_POLICY]
    part, more = part_of(named, lambda row: row.name, query)
    documents = [_document(row, in_force) for row in part]
    return answer(Page[PolicyDocument](items=documents, cursor=more))


@route(router, "GET", "/policies/{name}", Speaks(gives=PolicyDocument))
async def get_policy(call: Reader, name: PolicyName) -> Response:
    """Show one policy."""
    async with call.desk.services.state.reading() as tx:
        rows = {row.name: row for row in await tx.policies.all()}
    if name == FLEET_POLICY or name not in rows:
        raise not_found("policy", name)
    shown = _document(rows[name], fleet_spec(rows.values()).policy)
    return stamped(answer(shown), shown.revision)


@route(
    router,
    "PUT",
    "/policies/{name}",
    Speaks(PolicySpec, PolicyDocument, also=(201,), headers=(IF_MATCH, IF_NONE_MATCH)),
)
async def put_policy(call: Admin, name: PolicyName) -> Response:
    """Create or change a policy; if it is in force, the planner follows it at once."""
    _refuse_reserved(name)
    spec = await call.document(PolicySpec)
    async with call.desk.changing() as change:
        row, new = await _put(call, change, name, spec)
        in_force = fleet_spec(await change.tx.policies.all()).policy
    return stamped(answer(_document(row, in_force), 201 if new else 200), row.revision)


@route(router, "DELETE", "/policies/{name}", Speaks(status=204, headers=(IF_MATCH,)))
async def delete_policy(call: Admin, name: PolicyName) -> Response:
    """Remove a policy that is not in force."""
    _refuse_reserved(name)
    async with call.desk.changing() as change:
        if fleet_spec(await change.tx.policies.all()).policy == name:
            raise RefusedError(
                409, "in-use", f"policy {name} is in force; put another in force first"
            )
        await Named(change.tx.policies, "policy").remove(call, (name,))
        await change.note(call.caller, NewEvent(CHANGED, name), "policy.remove", name)
    return Response(status_code=204)


@route(router, "POST", "/policies/{name}/apply", Speaks(gives=PolicyDocument))
async def apply_policy(call: Admin, name: PolicyName) -> Response:
    """Put a policy in force."""
    async with call.desk.changing() as change:
        rows = {row.name: row for row in await change.tx.policies.all()}
        if name == FLEET_POLICY or name not in rows:
            raise not_found("policy", name)
        spec = fleet_spec(rows.values())
        if spec.policy != name:
            plain = stored(spec.model_copy(update={"policy": name}))
            before = rows.get(FLEET_POLICY)
            if before is None:
                await change.tx.policies.add(Policy(FLEET_POLICY, plain))
            else:
                await change.tx.policies.put(replace(before, spec=plain))
            await change.note(call.caller, NewEvent(CHANGED, name), "policy.apply", name)
    return stamped(answer(_document(rows[name], name)), rows[name].revision)


@route(router, "GET", "/fleet", Speaks(gives=FleetDocument))
async def get_fleet(call: Reader) -> Response:
    """Show what holds for the fleet as a whole."""
    async with call.desk.services.state.reading() as tx:
        row = await tx.policies.find(FLEET_POLICY)
    spec = fleet_spec([row] if row else [])
    revision = row.revision if row else 0
    return stamped(answer(FleetDocument(spec=spec, revision=revision)), revision)


@route(
    router,
    "PUT",
    "/fleet",
    Speaks(FleetSpec, FleetDocument, also=(201,), headers=(IF_MATCH, IF_NONE_MATCH)),
)
async def put_fleet(call: Admin) -> Response:
    """Say what holds for the fleet: currency, rates, what lies between clusters, the policy."""
    spec = await call.document(FleetSpec)
    async with call.desk.changing() as change:
        if spec.policy is not None and await change.tx.policies.find(spec.policy) is None:
            raise wrong("policy", f"there is no policy '{spec.policy}'", "create it first")
        for cluster in await change.tx.clusters.all():
            currency = cluster_spec(cluster).tariff.currency
            if currency not in {spec.currency, *spec.rates}:
                raise wrong(
                    "rates",
                    f"cluster {cluster.name} has its prices in {currency}, which has no rate",
                    f"say what 1 {currency} is worth, or change its tariff first",
                )
        row, new = await _put(call, change, FLEET_POLICY, spec)
    shown = FleetDocument(spec=fleet_spec([row]), revision=row.revision)
    return stamped(answer(shown, 201 if new else 200), row.revision)


async def _put(call: Call, change: Change, name: str, spec: Document) -> tuple[Policy, bool]:
    plain = stored(spec)

    def made(before: Policy | None) -> Policy:
        return Policy(name, plain) if before is None else replace(before, spec=plain)

    row, new, changed = await Named(change.tx.policies, "policy").put(call, (name,), made)
    if changed:
        await change.note(call.caller, NewEvent(CHANGED, name), "policy.put", name, spec=plain)
    return row, new


def _refuse_reserved(name: str) -> None:
    if name == FLEET_POLICY:
        raise wrong("name", f"'{name}' is reserved", "choose another, or change /v1/fleet")


def _document(row: Policy, in_force: str | None) -> PolicyDocument:
    return PolicyDocument(
        name=row.name,
        spec=policy_spec(row),
        in_force=row.name == in_force,
        revision=row.revision,
        created_at=moment_text(row.created_ns),
    )
