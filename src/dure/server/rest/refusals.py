"""Writes refused attempts to change something to the audit log."""

import logging

from fastapi import Request

from dure.server.auth import Caller
from dure.server.rest.desk import Desk
from dure.server.rest.problems import RefusedError
from dure.stores.errors import StoreError
from dure.stores.ids import new_id
from dure.stores.rows import AuditEntry

_LOG = logging.getLogger(__name__)
_QUIET = frozenset({413, 429, 503})
"""Not decisions about who may what; those who flood shall not flood the log too."""
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
STRANGER = "unknown"


async def note_refusal(request: Request, told: RefusedError) -> None:
    """Note a refusal; that it cannot be noted does not keep the asker from hearing of it."""
    if request.method in _READS or told.status in _QUIET:
        return
    desk: Desk = request.app.state.desk
    caller: Caller | None = getattr(request.state, "caller", None)
    entry = AuditEntry(
        new_id(),
        desk.services.now_ns(),
        STRANGER if caller is None else caller.actor,
        f"{request.method} {request.scope['route'].path}",
        request.url.path[:256].replace("\x00", "?"),
        f"refused: {told.status} {told.kind}",
        None if caller is None else caller.root,
        {"detail": told.detail[:1000].replace("\x00", "?")},
    )
    try:
        async with desk.services.state.transaction() as tx:
            await tx.audit.add(entry)
    except StoreError as error:
        _LOG.warning("a refusal could not be noted: %s", error)
