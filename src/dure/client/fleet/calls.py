"""Every call of `/v1` as a value: what is asked, and the document that is answered."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from dure.api.accelerators import AcceleratorDocument
from dure.api.access import AuditDocument, IssuedToken, TokenDocument, TokenRequest, WhoAmI
from dure.api.base import Document
from dure.api.bills import BillDocument, CloseRequest, MonthDocument, MonthList
from dure.api.clusters import (
    ClusterDetails,
    ClusterDocument,
    ClusterSpec,
    PartitionDocument,
    PartitionRequest,
    PlanDocument,
    StateRequest,
)
from dure.api.endpoints import Endpoints
from dure.api.evaluations import EvaluationDocument, EvaluationRequest
from dure.api.history import EventList, Page
from dure.api.job_views import (
    DryRun,
    JobDocument,
    JobEdit,
    JobExplanation,
    JobSummary,
    Submitted,
)
from dure.api.jobs import JobSpec
from dure.api.loads import LoadReport, LoadTaken
from dure.api.measurements import FeedbackRequest, SeriesList, SeriesNames
from dure.api.migrations import (
    CheckpointDone,
    MigrationDocument,
    MigrationList,
    MigrationPreview,
    MigrationRequest,
)
from dure.api.money import (
    BudgetDocument,
    BudgetSpec,
    FeedDocument,
    FeedSpec,
    PointList,
    Points,
    PointsTaken,
)
from dure.api.policies import FleetDocument, FleetSpec, PolicyDocument, PolicySpec
from dure.api.tenancy import PoolDocument, PoolSpec, TenantDocument, TenantSpec
from dure.api.virtual import (
    IssuedAccess,
    KubeconfigRequest,
    VirtualClusterDocument,
    VirtualClusterSpec,
    VirtualNodes,
    VirtualStanding,
)
from dure.domain.fleet.lifecycle import ClusterState

AnswerT = TypeVar("AnswerT", bound=BaseModel)
CREATE = 0
"""As a revision: that nothing must be there yet."""


class Nothing(Document):
    """The answer to what answers nothing."""


@dataclass(frozen=True, slots=True)
class Ask(Generic[AnswerT]):
    """One call."""

    method: str
    path: str
    gives: type[AnswerT]
    body: Document | None = None
    params: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True
    """Whether it may be sent again when it is not known what became of it."""


def _get(path: str, gives: type[AnswerT], **params: Any) -> Ask[AnswerT]:
    given = {name: value for name, value in params.items() if value not in (None, "", [])}
    return Ask("GET", path, gives, params=given)


def _put(path: str, gives: type[AnswerT], body: Document, revision: int | None) -> Ask[AnswerT]:
    """`revision`: that was seen, or `CREATE`; None: create it, or leave it if it is as given."""
    if revision is None:
        return Ask("PUT", path, gives, body)
    headers = {"If-None-Match": "*"} if revision == CREATE else _seen(revision)
    return Ask("PUT", path, gives, body, headers=headers, repeatable=False)


def _delete(path: str, revision: int) -> Ask[Nothing]:
    return Ask("DELETE", path, Nothing, headers=_seen(revision), repeatable=False)


def _seen(revision: int) -> dict[str, str]:
    return {"If-Match": f'"{revision}"'}


def _part(name: str) -> str:
    # Dots alone would lead elsewhere, as in the paths of files.
    return "%2E" * len(name) if name in {".", ".."} else quote(name, safe="")


def _path(node: str) -> str:
    """A node of the tenants' tree as parts of a path."""
    return "/".join(_part(each) for each in node.split("/"))


# Jobs


def submit(spec: JobSpec, key: str | None = None) -> Ask[Submitted]:
    """Submit a job. Sent again under the same key it is stored once; a key is made if none is."""
    headers = {"Idempotency-Key": key or secrets.token_hex(16)}
    return Ask("POST", "/v1/jobs", Submitted, spec, headers=headers)


def check(spec: JobSpec) -> Ask[DryRun]:
    """What a submission would store."""
    return Ask("POST", "/v1/jobs", DryRun, spec, params={"dryRun": "true"})


def evaluate(question: EvaluationRequest) -> Ask[EvaluationDocument]:
    """Which clusters would take jobs now, in which order, at what cost; nothing is stored."""
    return Ask("POST", "/v1/evaluations", EvaluationDocument, question)


def list_jobs(**wanted: Any) -> Ask[Page[JobSummary]]:
    """Jobs by the fields of the interface: `tenant`, `phase`, `label`, `order`, `cursor`, …"""
    return _get("/v1/jobs", Page[JobSummary], **wanted)


def get_job(job: str) -> Ask[JobDocument]:
    """A job with its attempts."""
    return _get(f"/v1/jobs/{_part(job)}", JobDocument)


def edit_job(job: str, changes: JobEdit) -> Ask[JobDocument]:
    """Give a job another priority, suspend it or let it go on."""
    return Ask("PATCH", f"/v1/jobs/{_part(job)}", JobDocument, changes)


def migrate_job(job: str, wish: MigrationRequest) -> Ask[MigrationDocument]:
    """Bring a job to another cluster."""
    return Ask("POST", f"/v1/jobs/{_part(job)}/migration", MigrationDocument, wish)


def preview_migration(job: str, wish: MigrationRequest) -> Ask[MigrationPreview]:
    """What bringing a job to another cluster would come to; nothing is begun."""
    path = f"/v1/jobs/{_part(job)}/migration"
    return Ask("POST", path, MigrationPreview, wish, params={"dryRun": "true"})


def get_migration(job: str) -> Ask[MigrationDocument]:
    """The last migration of a job, under way or over."""
    return _get(f"/v1/jobs/{_part(job)}/migration", MigrationDocument)


def abort_migration(job: str) -> Ask[MigrationDocument]:
    """Call the migration of a job off: it stays where it is."""
    return Ask("DELETE", f"/v1/jobs/{_part(job)}/migration", MigrationDocument)


def checkpoint_done(job: str, number: int) -> Ask[MigrationDocument]:
    """Say, for the program of a job, that a checkpoint is saved."""
    path = f"/v1/jobs/{_part(job)}/checkpoint"
    return Ask("POST", path, MigrationDocument, CheckpointDone(number=number))


def list_migrations() -> Ask[MigrationList]:
    """Migrations that have not ended."""
    return _get("/v1/migrations", MigrationList)


def cancel_job(job: str) -> Ask[JobDocument]:
    """Let a job end."""
    return Ask("POST", f"/v1/jobs/{_part(job)}/cancel", JobDocument)


def wait_for_job(job: str, timeout_s: float) -> Ask[JobDocument]:
    """A job when it has ended, or after the timeout."""
    return _get(f"/v1/jobs/{_part(job)}/wait", JobDocument, timeout=timeout_s)


def get_endpoints(job: str) -> Ask[Endpoints]:
    """Where the instances of a service answer."""
    return _get(f"/v1/jobs/{_part(job)}/endpoints", Endpoints)


def report_load(job: str, report: LoadReport) -> Ask[LoadTaken]:
    """Say what is seen of a service's load; not said again where nobody answers."""
    return Ask("POST", f"/v1/jobs/{_part(job)}/load", LoadTaken, report, repeatable=False)


def explain_job(job: str) -> Ask[JobExplanation]:
    """Why a job is where it is, or waits."""
    return _get(f"/v1/jobs/{_part(job)}/explain", JobExplanation)


# What people name


def list_tenants(cursor: str = "") -> Ask[Page[TenantDocument]]:
    """Nodes of the tenants' tree."""
    return _get("/v1/tenants", Page[TenantDocument], cursor=cursor)


def get_tenant(path: str) -> Ask[TenantDocument]:
    """One node."""
    return _get(f"/v1/tenants/{_path(path)}", TenantDocument)


def put_tenant(path: str, spec: TenantSpec, revision: int | None = None) -> Ask[TenantDocument]:
    """Create or change a node."""
    return _put(f"/v1/tenants/{_path(path)}", TenantDocument, spec, revision)


def delete_tenant(path: str, revision: int) -> Ask[Nothing]:
    """Remove a node."""
    return _delete(f"/v1/tenants/{_path(path)}", revision)


def list_pools(cursor: str = "") -> Ask[Page[PoolDocument]]:
    """vNode pools."""
    return _get("/v1/pools", Page[PoolDocument], cursor=cursor)


def get_pool(name: str) -> Ask[PoolDocument]:
    """One pool."""
    return _get(f"/v1/pools/{_part(name)}", PoolDocument)


def put_pool(name: str, spec: PoolSpec, revision: int | None = None) -> Ask[PoolDocument]:
    """Create or change a pool."""
    return _put(f"/v1/pools/{_part(name)}", PoolDocument, spec, revision)


def delete_pool(name: str, revision: int) -> Ask[Nothing]:
    """Remove a pool."""
    return _delete(f"/v1/pools/{_part(name)}", revision)


def list_virtual(cursor: str = "") -> Ask[Page[VirtualClusterDocument]]:
    """Virtual clusters."""
    return _get("/v1/virtualclusters", Page[VirtualClusterDocument], cursor=cursor)


def get_virtual(name: str) -> Ask[VirtualClusterDocument]:
    """One virtual cluster."""
    return _get(f"/v1/virtualclusters/{_part(name)}", VirtualClusterDocument)


def put_virtual(
    name: str, spec: VirtualClusterSpec, revision: int | None = None
) -> Ask[VirtualClusterDocument]:
    """Create or change a virtual cluster."""
    return _put(f"/v1/virtualclusters/{_part(name)}", VirtualClusterDocument, spec, revision)


def delete_virtual(name: str, revision: int, *, force: bool = False) -> Ask[VirtualClusterDocument]:
    """Remove a virtual cluster."""
    path = f"/v1/virtualclusters/{_part(name)}"
    params = {"force": "true"} if force else {}
    headers = _seen(revision)
    return Ask(
        "DELETE", path, VirtualClusterDocument, params=params, headers=headers, repeatable=False
    )


def get_virtual_nodes(name: str) -> Ask[VirtualNodes]:
    """The nodes of a dedicated virtual cluster."""
    return _get(f"/v1/virtualclusters/{_part(name)}/nodes", VirtualNodes)


def say_virtual(name: str, standing: VirtualStanding) -> Ask[VirtualClusterDocument]:
    """How a dedicated virtual cluster is."""
    path = f"/v1/virtualclusters/{_part(name)}/standing"
    return Ask("PUT", path, VirtualClusterDocument, standing)


def issue_virtual_access(name: str, wanted: KubeconfigRequest) -> Ask[IssuedAccess]:
    """A token for the namespace of a scoped virtual cluster."""
    return Ask("POST", f"/v1/virtualclusters/{_part(name)}/access", IssuedAccess, wanted)


def list_clusters(cursor: str = "") -> Ask[Page[ClusterDocument]]:
    """Member clusters."""
    return _get("/v1/clusters", Page[ClusterDocument], cursor=cursor)


def get_cluster(name: str) -> Ask[ClusterDetails]:
    """One cluster."""
    return _get(f"/v1/clusters/{_part(name)}", ClusterDetails)


def put_cluster(name: str, spec: ClusterSpec, revision: int | None = None) -> Ask[ClusterDocument]:
    """Declare or change a cluster."""
    return _put(f"/v1/clusters/{_part(name)}", ClusterDocument, spec, revision)


def set_cluster_state(name: str, state: ClusterState) -> Ask[ClusterDocument]:
    """Cordon, drain, give up a cluster, or let it have work again."""
    path = f"/v1/clusters/{_part(name)}/state"
    return Ask("PUT", path, ClusterDocument, StateRequest(state=state))


def partition_node(
    cluster: str, node: str, layout: str, *, drain: bool = False
) -> Ask[PartitionDocument]:
    """Have a node's devices divided anew; `drain`: what uses them is moved elsewhere first."""
    path = f"/v1/clusters/{_part(cluster)}/nodes/{_part(node)}/partition"
    return Ask("POST", path, PartitionDocument, PartitionRequest(layout=layout, drain=drain))


def withdraw_partition(cluster: str, node: str) -> Ask[Nothing]:
    """Let a node be as it is."""
    path = f"/v1/clusters/{_part(cluster)}/nodes/{_part(node)}/partition"
    return Ask("DELETE", path, Nothing, repeatable=False)


def delete_cluster(name: str, revision: int) -> Ask[Nothing]:
    """Remove a cluster."""
    return _delete(f"/v1/clusters/{_part(name)}", revision)


def issue_member_token(name: str) -> Ask[IssuedToken]:
    """A token for a member of a cluster."""
    return Ask("POST", f"/v1/clusters/{_part(name)}/tokens", IssuedToken, repeatable=False)


def get_plan(name: str) -> Ask[PlanDocument]:
    """The desired set of a cluster."""
    return _get(f"/v1/clusters/{_part(name)}/plan", PlanDocument)


def list_accelerators(cursor: str = "") -> Ask[Page[AcceleratorDocument]]:
    """Accelerators known by name."""
    return _get("/v1/accelerators", Page[AcceleratorDocument], cursor=cursor)


# Money


def list_budgets(cursor: str = "") -> Ask[Page[BudgetDocument]]:
    """Budgets and what of them is spent."""
    return _get("/v1/budgets", Page[BudgetDocument], cursor=cursor)


def get_budget(tenant: str, name: str) -> Ask[BudgetDocument]:
    """One budget."""
    return _get(f"/v1/budgets/{_path(tenant)}/{_part(name)}", BudgetDocument)


def put_budget(
    tenant: str, name: str, spec: BudgetSpec, revision: int | None = None
) -> Ask[BudgetDocument]:
    """Create or change a budget."""
    return _put(f"/v1/budgets/{_path(tenant)}/{_part(name)}", BudgetDocument, spec, revision)


def delete_budget(tenant: str, name: str, revision: int) -> Ask[Nothing]:
    """Remove a budget."""
    return _delete(f"/v1/budgets/{_path(tenant)}/{_part(name)}", revision)


def get_series(name: str, labels: Mapping[str, str], **wanted: Any) -> Ask[SeriesList]:
    """What was measured at the centre; by the fields of the interface: `since`, `step`, `end`."""
    pairs = [f"{label}={value}" for label, value in labels.items()]
    return _get("/v1/series", SeriesList, name=name, label=pairs, **wanted)


def list_series_names() -> Ask[SeriesNames]:
    """What is measured at the centre."""
    return _get("/v1/series/names", SeriesNames)


def give_feedback(said: FeedbackRequest) -> Ask[Nothing]:
    """How somebody finds what runs for a tenant."""
    return Ask("POST", "/v1/feedback", Nothing, said, repeatable=False)


def get_bill(**wanted: Any) -> Ask[BillDocument]:
    """What work came to, by the fields of the interface: `month`, `tenant`, `by`, …"""
    return _get("/v1/bills", BillDocument, **wanted)


def list_months() -> Ask[MonthList]:
    """Months in which something is billed, open and closed."""
    return _get("/v1/bills/months", MonthList)


def close_month(month: str, expect: str | None = None) -> Ask[MonthDocument]:
    """Close a month; closed again, the answer is the same."""
    path = f"/v1/bills/months/{_part(month)}/close"
    return Ask("POST", path, MonthDocument, CloseRequest(expect=expect))


def list_feeds(cursor: str = "") -> Ask[Page[FeedDocument]]:
    """Feeds of prices and carbon."""
    return _get("/v1/feeds", Page[FeedDocument], cursor=cursor)


def get_feed(name: str) -> Ask[FeedDocument]:
    """One feed."""
    return _get(f"/v1/feeds/{_part(name)}", FeedDocument)


def put_feed(name: str, spec: FeedSpec, revision: int | None = None) -> Ask[FeedDocument]:
    """Create or change a feed."""
    return _put(f"/v1/feeds/{_part(name)}", FeedDocument, spec, revision)


def delete_feed(name: str, revision: int) -> Ask[Nothing]:
    """Remove a feed."""
    return _delete(f"/v1/feeds/{_part(name)}", revision)


def list_points(name: str, since: str, until: str) -> Ask[PointList]:
    """What a feed says."""
    return _get(f"/v1/feeds/{_part(name)}/points", PointList, since=since, until=until)


def add_points(name: str, points: Points) -> Ask[PointsTaken]:
    """Store points of a feed."""
    return Ask("POST", f"/v1/feeds/{_part(name)}/points", PointsTaken, points)


# Policies


def list_policies(cursor: str = "") -> Ask[Page[PolicyDocument]]:
    """Policies by name."""
    return _get("/v1/policies", Page[PolicyDocument], cursor=cursor)


def get_policy(name: str) -> Ask[PolicyDocument]:
    """One policy."""
    return _get(f"/v1/policies/{_part(name)}", PolicyDocument)


def put_policy(name: str, spec: PolicySpec, revision: int | None = None) -> Ask[PolicyDocument]:
    """Create or change a policy."""
    return _put(f"/v1/policies/{_part(name)}", PolicyDocument, spec, revision)


def delete_policy(name: str, revision: int) -> Ask[Nothing]:
    """Remove a policy."""
    return _delete(f"/v1/policies/{_part(name)}", revision)


def apply_policy(name: str) -> Ask[PolicyDocument]:
    """Put a policy in force."""
    return Ask("POST", f"/v1/policies/{_part(name)}/apply", PolicyDocument)


def get_fleet() -> Ask[FleetDocument]:
    """What holds for the fleet as a whole."""
    return _get("/v1/fleet", FleetDocument)


def put_fleet(spec: FleetSpec, revision: int | None = None) -> Ask[FleetDocument]:
    """Say what holds for the fleet as a whole."""
    return _put("/v1/fleet", FleetDocument, spec, revision)


# Who may, and what happened


def who_am_i() -> Ask[WhoAmI]:
    """Whom the server takes us for."""
    return _get("/v1/whoami", WhoAmI)


def list_tokens(cursor: str = "") -> Ask[Page[TokenDocument]]:
    """Tokens, without their secrets."""
    return _get("/v1/tokens", Page[TokenDocument], cursor=cursor)


def issue_token(wanted: TokenRequest) -> Ask[IssuedToken]:
    """A new token."""
    return Ask("POST", "/v1/tokens", IssuedToken, wanted, repeatable=False)


def revoke_token(token: str) -> Ask[Nothing]:
    """Make a token worthless."""
    return Ask("DELETE", f"/v1/tokens/{_part(token)}", Nothing)


def list_audit(**wanted: Any) -> Ask[Page[AuditDocument]]:
    """Entries of the audit log by the fields of the interface, the newest first."""
    return _get("/v1/audit", Page[AuditDocument], **wanted)


def list_events(**wanted: Any) -> Ask[EventList]:
    """Events after a number."""
    return _get("/v1/events", EventList, **wanted)
