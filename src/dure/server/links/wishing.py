"""Jobs that people declare in a cluster: through the same checks as all, stored once, withdrawn.

Cluster and UID of an object name its job for ever, so that a wish may be said any number of times.
One that was withdrawn leaves a row even where there was no job yet: what is still on its way then
finds it, and becomes none.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from dure.api.base import read_document
from dure.api.crds import NOT_SAID
from dure.api.jobs import JobSpec
from dure.domain.fleet.accounts import Role
from dure.domain.fleet.protocol.wishes import Standing, Wish, WishRefusal
from dure.server import specs
from dure.server.auth import Caller
from dure.server.edits import cancel, edit
from dure.server.rest.known import Catalogue, Known
from dure.server.rest.problems import RefusedError, misfit, wrong
from dure.server.rest.submitting import Owner, check, owner_of, submission_of
from dure.server.services import Services
from dure.server.virtual.specs import tenant_of_namespace
from dure.stores.errors import ConflictError, DuplicateError
from dure.stores.ids import new_id
from dure.stores.repos.origins import Wished
from dure.stores.rows import AuditEntry, Origin
from dure.stores.submissions import Submission
from dure.stores.transaction import Transaction

SUSPEND = "suspend"


class WishDesk:
    """Takes wishes of one cluster."""

    def __init__(self, services: Services, cluster: str, known: Known) -> None:
        self._services = services
        self._cluster = cluster
        self._known = known

    async def take(self, wishes: Iterable[Wish]) -> tuple[list[Standing], set[str]]:
        """Store what is new of wishes: answers that are final for now, and whose jobs exist."""
        latest = {wish.uid: wish for wish in wishes}
        async with self._services.state.reading() as tx:
            known = await tx.origins.wished(self._cluster, latest)
        answers = await asyncio.gather(
            *(self._take(wish, known.get(uid)) for uid, wish in latest.items())
        )
        told = [answer for answer in answers if answer is not None]
        return told, set(latest) - {answer.uid for answer in told}

    async def _take(self, wish: Wish, known: Wished | None) -> Standing | None:
        """An answer; None: there is a job, and how it stands is told."""
        if wish.withdrawn:
            try:
                await self._services.state.retrying(lambda tx: self._withdraw(tx, wish))
            except DuplicateError:  # It became a job just now: that one ends.
                await self._services.state.retrying(lambda tx: self._withdraw(tx, wish))
            return Standing(wish.uid, wish.generation, withdrawn=True)
        if known is not None:
            if known.withdrawn_ns is not None:
                return Standing(wish.uid, wish.generation, withdrawn=True)
            if wish.document and wish.generation > known.generation:
                with suppress(ConflictError):  # What is stored is newer, and told.
                    return await self._services.state.retrying(lambda tx: self._edit(tx, wish))
            return None
        if not wish.document:
            return Standing(wish.uid, 0)
        return await self._submit(wish)

    # New ones

    async def _submit(self, wish: Wish) -> Standing | None:
        now_ns = self._services.now_ns()
        try:
            submission = await self._submission(wish, now_ns)
        except RefusedError as error:
            return Standing(wish.uid, wish.generation, refusal=_refusal(error))
        # Where it was said twice at once, or withdrawn meanwhile, what is stored tells.
        with suppress(DuplicateError):
            await self._known.submit(submission)
        return None

    async def _submission(self, wish: Wish, now_ns: int) -> Submission:
        catalogue = await self._known.catalogue()
        try:
            spec, owner, caller = self._understood(wish, catalogue, now_ns)
        except RefusedError:
            # Refused only by what is read now.
            catalogue = await self._known.catalogue(fresh=True)
            spec, owner, caller = self._understood(wish, catalogue, now_ns)
        made = submission_of(spec, owner, caller, key=None, raw=b"", now_ns=now_ns)
        job = replace(made.jobs[0], suspended=bool(wish.document.get(SUSPEND, False)))
        origin = Origin(self._cluster, wish.uid, wish.namespace, wish.name, job.id, wish.generation)
        return replace(made, jobs=(job,), origin=origin)

    def _understood(
        self, wish: Wish, known: Catalogue, now_ns: int
    ) -> tuple[JobSpec, Owner, Caller]:
        tenant = tenant_bound(known, self._cluster, wish.namespace)
        spec = spec_of(wish, tenant)
        caller = Caller(self._actor(wish), Role.TENANT, tenant)
        owner = owner_of(spec, caller)
        check(spec, owner, known, now_ns)
        return spec, owner, caller

    def _actor(self, wish: Wish) -> str:
        return f"kubectl:{self._cluster}/{wish.namespace}/{wish.name}"

    # Known ones

    async def _edit(self, tx: Transaction, wish: Wish) -> Standing | None:
        """Take over what may be changed; the rest of an object cannot change."""
        origin = await tx.origins.find(self._cluster, wish.uid)
        if origin is None or origin.withdrawn_ns is not None or origin.job_id is None:
            return None
        job = await tx.jobs.get(origin.job_id)
        try:
            spec = spec_of(wish, job.tenant)
        except RefusedError as error:
            return Standing(wish.uid, wish.generation, job.id, _refusal(error))
        suspended = bool(wish.document.get(SUSPEND, False))
        event = await edit(tx, job, priority=spec.priority, suspended=suspended)
        if not await self._heard(tx, wish):
            raise ConflictError(f"object {wish.uid} changed meanwhile", "say it again")
        if event is not None:
            tx.events.add(event)
            await self._note(tx, wish, "job.edit", job.id, job.tenant)
        return None

    async def _heard(self, tx: Transaction, wish: Wish) -> bool:
        """Note a wish unless a newer one is; after the rows of clusters and job are locked, as all
        do who lock several."""
        held = await tx.origins.hold(self._cluster, wish.uid)
        if held is None or held.withdrawn_ns is not None:
            return False
        if held.generation >= wish.generation and not wish.withdrawn:
            return False
        await tx.origins.heard(self._cluster, wish.uid, wish.generation, withdrawn=wish.withdrawn)
        return True

    async def _withdraw(self, tx: Transaction, wish: Wish) -> None:
        """The object is gone: its job ends, or never begins."""
        origin = await tx.origins.find(self._cluster, wish.uid)
        if origin is None:
            gone = Origin(
                self._cluster,
                wish.uid,
                wish.namespace,
                wish.name,
                generation=wish.generation,
                withdrawn_ns=tx.now_ns,
            )
            await tx.origins.add(gone)
            return
        event = None
        if origin.withdrawn_ns is None and origin.job_id is not None:
            event = await cancel(tx, origin.job_id, self._actor(wish))
        if await self._heard(tx, wish) and event is not None:
            tx.events.add(event)
            await self._note(tx, wish, "job.cancel", event.subject, event.tenant)

    async def _note(
        self, tx: Transaction, wish: Wish, action: str, job_id: str, tenant: str | None
    ) -> None:
        entry = AuditEntry(new_id(), tx.now_ns, self._actor(wish), action, job_id, "done", tenant)
        await tx.audit.add(entry)


def tenant_bound(known: Catalogue, cluster: str, namespace: str) -> str:
    """Whose jobs come from a namespace; refused where that is nobody, or not one."""
    row = known.clusters.get(cluster)
    # Only what an administrator wrote down: whoever speaks for one cluster could otherwise submit
    # jobs of every tenant, whose namespace has a name of its own where none is written down.
    bound = {} if row is None else specs.cluster_spec(row).namespaces
    owners = sorted(
        each for each, space in bound.items() if space == namespace and each in known.tenants
    )
    if not owners and row is not None:
        tenant = tenant_of_namespace(known.virtual, row, namespace)
        owners = [tenant] if tenant else []
    if len(owners) == 1:
        return owners[0]
    whose = f"several tenants ({', '.join(owners)})" if owners else "no tenant"
    what = f"namespace '{namespace}' is bound to {whose}"
    remedy = (
        "an administrator binds it to one: "
        f"dure clusters set {cluster} --set namespaces.TENANT={namespace}, or makes it a virtual "
        "cluster's"
    )
    raise wrong("metadata.namespace", what, remedy, kind="namespace-not-bound")


def spec_of(wish: Wish, tenant: str) -> JobSpec:
    """The job that an object describes; refused with the field that is wrong."""
    for name in NOT_SAID:
        if name in wish.document:
            raise wrong(f"spec.{name}", "there is no such field", "leave it out")
    said: Mapping[str, Any] = {
        name: value for name, value in wish.document.items() if name != SUSPEND
    }
    raw = json.dumps({**said, "name": wish.name, "tenant": tenant})
    try:
        return read_document(JobSpec, raw)
    except ValidationError as error:
        raise misfit(error, JobSpec) from error


def _refusal(error: RefusedError) -> WishRefusal:
    first = error.fields[0] if error.fields else None
    return WishRefusal(
        reason="".join(word.capitalize() for word in error.kind.split("-")),
        field="" if first is None else first.field,
        what=error.detail if first is None else first.detail,
        remedy="" if first is None else first.remedy,
        # A document stays wrong; what it is checked against may change.
        final=isinstance(error.__cause__, ValidationError),
    )
