"""A database with many jobs, written in bulk: most of them ended, the others live."""

from dure.bench.centre import paper_member
from dure.domain.fleet.accounts import Role, TenantKind
from dure.domain.fleet.decisions import Order, Site
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.ids import ClusterId
from dure.server import specs
from dure.server.records import inventory_data, order_spec
from dure.stores import tables
from dure.stores.ids import new_id
from dure.stores.repos.access import Grant
from dure.stores.repos.base import values_of
from dure.stores.rows import Attempt, Cluster, Job, Tenant
from dure.stores.store import Store

CLUSTER, TENANT = "paper", "acme"
_BATCH = 1000
_SPEC = {
    "name": "train",
    "kind": "batch",
    "image": "registry.example/trainer:1",
    "env": {"NOTE": "x" * 300},
    "resources": {"memory": "20GiB"},
}


async def fill(address: str, jobs: int, live: int, nodes: int) -> str:
    """All live jobs run in one cluster of so many nodes; tells an administrator's secret."""
    async with Store.open(address) as store:
        await store.migrate()
        async with store.transaction() as tx:
            await tx.tenants.add(Tenant(TENANT, TenantKind.TENANT))
            await tx.clusters.add(Cluster(CLUSTER, paper_member.KIND))
            inventory = inventory_data(paper_member.inventory(nodes))
            await tx.news.said(CLUSTER, inventory=inventory)
            _, secret = await tx.tokens.issue(Grant(Role.ADMIN))
        for start in range(0, jobs, _BATCH):
            some = [
                _job(JobPhase.SUCCEEDED if number < jobs - live else JobPhase.RUNNING)
                for number in range(start, min(start + _BATCH, jobs))
            ]
            running = [values_of(_attempt(job)) for job in some if job.phase is JobPhase.RUNNING]
            async with store.transaction() as tx:
                await tx.jobs.add_all(some)
                if running:
                    await tx.link.execute(tables.attempts.insert(), "attempts", running)
    return secret


def _job(phase: JobPhase) -> Job:
    return Job(new_id(), TENANT, "train", _SPEC, phase=phase, attempt=1, cluster=CLUSTER)


def _attempt(job: Job) -> Attempt:
    site = Site(ClusterId(CLUSTER), paper_member.GROUP)
    order = Order(specs.job_terms(job).workload, site, 1, 1)
    return Attempt(
        *(job.id, 1, CLUSTER, 1, 1),
        state=AttemptState.RUNNING,
        spec=order_spec(order),
        sent_ns=1,
        committed_ns=1,
        running_ns=1,
    )
