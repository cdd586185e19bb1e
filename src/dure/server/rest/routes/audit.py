"""The audit log: who asked for what, and how it ended."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field
from starlette.responses import Response

from dure.api.access import AuditDocument
from dure.api.base import Document, Line, LowerName, Moment, moment_ns, moment_text
from dure.api.history import Page
from dure.server.auth import ForbiddenError
from dure.server.rest.door import Reader, Speaks, answer, route
from dure.stores.repos.access import AuditFilter
from dure.stores.rows import AuditEntry

router = APIRouter(prefix="/v1/audit", tags=["audit"])


class AuditQuery(Document):
    """Which entries are wanted."""

    model_config = ConfigDict(strict=False)

    tenant: LowerName | None = None
    actor: Line | None = None
    action: Line | None = None
    subject: Line | None = None
    since: Moment | None = None
    until: Moment | None = None
    cursor: Annotated[str, Field(pattern=r"^[0-9a-z]{0,26}$")] = ""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


@route(router, "GET", "", Speaks(gives=Page[AuditDocument]))
async def list_audit(call: Reader, query: Annotated[AuditQuery, Query()]) -> Response:
    """List entries, the newest first: a tenant's own for a tenant, all for others."""
    caller = call.caller
    if not caller.whole_tenant:
        raise ForbiddenError(
            "the audit log is a tenant's as a whole", "use a token of the tenant itself"
        )
    if caller.root is not None and query.tenant not in {None, caller.root}:
        return answer(Page[AuditDocument](items=[]))
    wanted = AuditFilter(
        tenant=query.tenant or caller.root,
        actor=query.actor,
        subject=query.subject,
        action=query.action,
        from_ns=None if query.since is None else moment_ns(query.since),
        to_ns=None if query.until is None else moment_ns(query.until),
    )
    async with call.desk.services.state.reading() as tx:
        page = await tx.audit.page(wanted, cursor=query.cursor, limit=query.limit)
    documents = [_document(row) for row in page.rows]
    return answer(Page[AuditDocument](items=documents, cursor=page.cursor))


def _document(row: AuditEntry) -> AuditDocument:
    return AuditDocument(
        id=row.id,
        at=moment_text(row.at_ns),
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        outcome=row.outcome,
        tenant=row.tenant,
        data=dict(row.data),
    )
