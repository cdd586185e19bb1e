"""Stored documents as the fleet's values: jobs, clusters, tenants, pools, policies, feeds.

What is stored was checked when it came in; a document of a newer version may say what this one does
not know, and is then refused as `InputError`.
"""

from dure.server.specs.clusters import (
    FLEET_POLICY,
    artefacts_of,
    cluster_of,
    cluster_spec,
    cluster_windows,
    feed_spec,
    feeds_named,
    fleet_of,
    fleet_spec,
    namespace_of,
    series_of,
)
from dure.server.specs.jobs import (
    ARRAY_INDEX,
    UNSAID_WORK,
    JobTerms,
    job_spec,
    job_terms,
    move_kind,
    program_of,
)
from dure.server.specs.policies import policy_in_force, policy_of, policy_spec
from dure.server.specs.tenancy import (
    budget_spec,
    pool_of,
    pool_spec,
    spent_of,
    tenant_of,
    tenant_spec,
    tenant_windows,
    tenants_of,
)

__all__ = [
    "ARRAY_INDEX",
    "FLEET_POLICY",
    "UNSAID_WORK",
    "JobTerms",
    "artefacts_of",
    "budget_spec",
    "cluster_of",
    "cluster_spec",
    "cluster_windows",
    "feed_spec",
    "feeds_named",
    "fleet_of",
    "fleet_spec",
    "job_spec",
    "job_terms",
    "move_kind",
    "namespace_of",
    "policy_in_force",
    "policy_of",
    "policy_spec",
    "pool_of",
    "pool_spec",
    "program_of",
    "series_of",
    "spent_of",
    "tenant_of",
    "tenant_spec",
    "tenant_windows",
    "tenants_of",
]
