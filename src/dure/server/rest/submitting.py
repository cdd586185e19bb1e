"""Submissions: whether a job may be submitted, and the rows that it becomes."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from dure.api.base import stored
from dure.api.job_views import Submitted
from dure.api.jobs import JobSpec
from dure.domain.fleet.catalogue import CATALOGUE
from dure.kit.words import nearest
from dure.server.auth import Caller, path_of
from dure.server.rest.known import Catalogue
from dure.server.rest.problems import wrong
from dure.server.specs import budget_spec, program_of
from dure.stores.ids import new_id
from dure.stores.rows import AuditEntry, Job, NewEvent
from dure.stores.submissions import Submission
from dure.wire import codec
from dure.wire.kinds import WireError


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a job is."""

    tenant: str
    team: str = ""
    service: str = ""

    @property
    def path(self) -> str:
        """As a node of the tenants' tree."""
        return path_of(self.tenant, self.team, self.service)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Itself and what is above, the tenant first."""
        parts = self.path.split("/")
        return tuple("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def owner_of(spec: JobSpec, caller: Caller) -> Owner:
    """Whose a job shall be; what it does not say, the asker's token does."""
    bound = [*(caller.tenant or "").split("/"), "", ""]
    tenant = spec.tenant or bound[0]
    if not tenant:
        raise wrong("tenant", "is missing", "name the tenant whose job it is")
    team = spec.team or (bound[1] if tenant == bound[0] else "")
    service = spec.service_name or (bound[2] if team == bound[1] else "")
    owner = Owner(tenant, team or "", service or "")
    if not caller.sees(owner.path):
        field = "tenant" if tenant != bound[0] else "team"
        raise wrong(
            field,
            f"'{owner.path}' is not yours: the token is for '{caller.tenant}'",
            "submit as your own tenant, or use another token",
            status=403,
            kind="forbidden",
        )
    return owner


def check(spec: JobSpec, owner: Owner, known: Catalogue, now_ns: int) -> None:
    """Raise what speaks against a job."""
    check_meaning(spec, owner, known)
    _check_sendable(spec)
    count = spec.array.count if spec.array else 1
    limit = known.quotas.get(owner.tenant)
    if limit is not None and known.live[owner.tenant] + count > limit:
        raise wrong(
            "tenant",
            f"'{owner.tenant}' has {known.live[owner.tenant]} jobs that have not ended, and its "
            f"quota is {limit}",
            "wait until some have ended, or ask for a larger quota",
            status=409,
            kind="quota",
        )
    for budget in known.budgets:
        present = budget.period_start_ns <= now_ns < budget.period_end_ns
        spent = budget.spent_amount >= budget.limit_amount
        if budget.tenant in owner.nodes and present and spent and budget_spec(budget).refuse:
            raise wrong(
                "tenant",
                f"the budget '{budget.name}' of '{budget.tenant}' is spent: "
                f"{budget.spent_amount:.2f} of {budget.limit_amount:.2f} {budget.unit}",
                "wait for the next period, or ask for a larger budget",
                status=409,
                kind="budget",
            )


def check_meaning(spec: JobSpec, owner: Owner, known: Catalogue) -> None:
    """Raise where a job names what there is not."""
    _check_owner(owner, known)
    _check_names(spec, owner, known)
    _check_profiles(spec)


def _check_owner(owner: Owner, known: Catalogue) -> None:
    for field, node in zip(("tenant", "team", "serviceName"), owner.nodes, strict=False):
        if node not in known.tenants:
            raise wrong(field, f"there is no {field} '{node}'", "ask an administrator to create it")


def _check_names(spec: JobSpec, owner: Owner, known: Catalogue) -> None:
    for number, name in enumerate(spec.clusters or ()):
        if name not in known.clusters:
            raise wrong(
                f"clusters[{number}]",
                f"there is no cluster '{name}'",
                nearest(name, known.clusters),
            )
    if spec.pool is not None:
        own = [each.name for each in known.pools.values() if each.tenant in {None, owner.tenant}]
        if spec.pool not in own:
            raise wrong("pool", f"there is no pool '{spec.pool}'", nearest(spec.pool, own))
    uses = [("weights", spec.weights), *((f"data[{n}]", use) for n, use in enumerate(spec.data))]
    for field, use in uses:
        if use is not None and use.size is None and use.name not in known.artefacts:
            raise wrong(
                f"{field}.name",
                f"no cluster has '{use.name}', so its size is not known",
                "add its size, or correct the name",
            )


def _check_profiles(spec: JobSpec) -> None:
    named = [(f"resources.profiles[{n}]", p) for n, p in enumerate(spec.resources.profiles or ())]
    if spec.work is not None:
        named.append(("work.reference", spec.work.reference))
    if spec.service is not None:
        named.append(("service.reference", spec.service.reference))
    for field, profile in named:
        if profile.lower() not in CATALOGUE:
            raise wrong(
                field,
                f"'{profile}' is not a known accelerator",
                nearest(profile, CATALOGUE),
            )


def _check_sendable(spec: JobSpec) -> None:
    """Refuse what no member could read: it would hold up the whole plan of a cluster."""
    try:
        codec.check(program_of(spec))
    except WireError as error:
        raise wrong(error.field, error.what, "simplify it") from error


def submission_of(
    spec: JobSpec, owner: Owner, caller: Caller, *, key: str | None, raw: bytes, now_ns: int
) -> Submission:
    """What is stored of a job, or of an array."""
    count = spec.array.count if spec.array else 1
    array_id = new_id() if spec.array else None
    plain = stored(spec)
    jobs = tuple(
        Job(
            id=new_id(),
            tenant=owner.tenant,
            name=spec.name,
            spec=plain,
            team=owner.team,
            service=owner.service,
            array_id=array_id,
            array_index=None if array_id is None else number,
            labels=spec.labels,
            priority=spec.priority,
            pinned=spec.pinned,
        )
        for number in range(count)
    )
    answer = Submitted(ids=[job.id for job in jobs], array_id=array_id)
    return Submission(
        jobs,
        answer.model_dump(mode="json"),
        tuple(_submitted(jobs)),
        key,
        _hash(owner, raw) if key is not None else "",
        (
            AuditEntry(
                new_id(),
                now_ns,
                caller.actor,
                "job.submit",
                array_id or jobs[0].id,
                "done",
                owner.tenant,
                {"name": spec.name, "count": count},
            ),
        ),
    )


def _hash(owner: Owner, raw: bytes) -> str:
    """Of a body and of whose it is, which a body may leave to the token."""
    return hashlib.sha256(owner.path.encode() + b"\0" + raw).hexdigest()


def _submitted(jobs: Iterable[Job]) -> Iterable[NewEvent]:
    return (NewEvent("job.submitted", job.id, job.tenant) for job in jobs)
