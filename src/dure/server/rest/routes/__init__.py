"""Routes of `/v1`, one file for each kind of resource."""

from dure.server.rest.routes import (
    accelerators,
    audit,
    bills,
    budgets,
    clusters,
    events,
    feeds,
    jobs,
    logs,
    partitions,
    policies,
    pools,
    system,
    tenants,
    tokens,
)

ROUTERS = (
    system.router,
    jobs.router,
    logs.router,
    tenants.router,
    pools.router,
    clusters.router,
    partitions.router,
    accelerators.router,
    budgets.router,
    bills.router,
    policies.router,
    feeds.router,
    events.router,
    tokens.router,
    audit.router,
)
