"""Tokens: issued, listed, revoked. Their secrets are told once and stored nowhere."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from dure.api.access import IssuedToken, TokenDocument, TokenRequest
from dure.api.base import Id, maybe_moment, moment_ns, moment_text
from dure.api.history import Page
from dure.domain.fleet.accounts import Role
from dure.server.rest.desk import Change
from dure.server.rest.door import Call, Reader, Speaks, Writer, answer, route
from dure.server.rest.named import Part, part_of
from dure.server.rest.problems import not_found, wrong
from dure.stores.repos.access import Grant
from dure.stores.rows import Token

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


@route(router, "GET", "", Speaks(gives=Page[TokenDocument]))
async def list_tokens(call: Reader, query: Part) -> Response:
    """List the tokens that are bound to what the asker may see, without their secrets."""
    async with call.desk.services.state.reading() as tx:
        rows = [row for row in await tx.tokens.all() if _visible(call, row)]
    part, more = part_of(rows, lambda row: row.id, query)
    return answer(Page[TokenDocument](items=[_document(row) for row in part], cursor=more))


@route(router, "POST", "", Speaks(TokenRequest, IssuedToken, status=201))
async def issue_token(call: Writer) -> Response:
    """Issue a token; a tenant may issue those for itself and below."""
    wanted = await call.document(TokenRequest)
    expires_ns = None if wanted.expires is None else moment_ns(wanted.expires)
    if expires_ns is not None and expires_ns <= call.desk.services.now_ns():
        raise wrong("expires", f"'{wanted.expires}' is past", "give a later moment")
    _may_grant(call, wanted)
    grant = Grant(wanted.role, wanted.name, wanted.tenant, wanted.cluster, expires_ns)
    async with call.desk.changing() as change:
        if wanted.tenant is not None and await change.tx.tenants.find(wanted.tenant) is None:
            raise wrong("tenant", f"there is no tenant '{wanted.tenant}'", "create it first")
        if wanted.cluster is not None and await change.tx.clusters.find(wanted.cluster) is None:
            raise wrong("cluster", f"there is no cluster '{wanted.cluster}'", "declare it first")
        issued = await issue(call, change, grant)
    return answer(issued, 201)


@route(router, "DELETE", "/{id}", Speaks(status=204))
async def revoke_token(
    call: Writer,
    id: Annotated[Id, Path(description="Of the token.")],  # noqa: A002 - the interface's word
) -> Response:
    """Make a token worthless: here at once, at other servers within seconds."""
    async with call.desk.changing() as change:
        row = await change.tx.tokens.find(id)
        if row is None or not _visible(call, row):
            raise not_found("token", id)
        await change.tx.tokens.revoke(id)
        await change.note(call.caller, None, "token.revoke", id)
    call.desk.gate.tokens.forget(id)
    return Response(status_code=204)


async def issue(call: Call, change: Change, grant: Grant) -> IssuedToken:
    """A new token in a transaction, with its entry in the audit log."""
    row, secret = await change.tx.tokens.issue(grant)
    await change.note(
        call.caller,
        None,
        "token.issue",
        row.id,
        role=grant.role.value,
        tenant=grant.tenant,
        cluster=grant.cluster,
    )
    return IssuedToken(token=_document(row), secret=secret)


def _may_grant(call: Call, wanted: TokenRequest) -> None:
    caller = call.caller
    if caller.role is Role.ADMIN:
        return
    own = wanted.tenant is not None and caller.sees(wanted.tenant)
    if wanted.role not in {Role.TENANT, Role.VIEWER} or not own:
        raise wrong(
            "role" if own else "tenant",
            f"a token for '{caller.tenant}' may only issue tokens of the roles tenant and viewer "
            "for itself and below",
            "ask an administrator",
            status=403,
            kind="forbidden",
        )


def _visible(call: Call, row: Token) -> bool:
    if call.caller.tenant is None:
        return True
    return row.tenant is not None and call.caller.sees(row.tenant)


def _document(row: Token) -> TokenDocument:
    return TokenDocument(
        id=row.id,
        role=row.role,
        name=row.name,
        tenant=row.tenant,
        cluster=row.cluster,
        created_at=moment_text(row.created_ns),
        expires_at=maybe_moment(row.expires_ns),
        revoked_at=maybe_moment(row.revoked_ns),
    )
