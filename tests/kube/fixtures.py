"""Fixtures with a real Kubernetes; a test module imports those it uses, as with `docker_bed`.

All tests of one process share one cluster of each kind; what a test killed is started again for
the next.
"""

import atexit
import functools
import secrets
from collections.abc import Iterator

import pytest

from dure.member.core.warmup import warm_up as member_loops
from dure.server.planner.warmup import warm_up as planner_loops
from tests.kube.cluster import KubeCluster
from tests.kube.programs import wait_until


def _started(cluster: KubeCluster) -> KubeCluster:
    # Centres and members in the process of the tests must not begin to compile once they act.
    planner_loops()
    member_loops()
    atexit.register(cluster.close)
    cluster.start()
    return cluster


@functools.cache
def shared_cluster() -> KubeCluster:
    """The one simple cluster of this process, with two nodes on paper; gone when it ends."""
    cluster = _started(KubeCluster())
    cluster.add_nodes("paper-0", "paper-1")
    return cluster


@functools.cache
def shared_ha_cluster() -> KubeCluster:
    """The one cluster with three etcd members and two API servers behind haproxy."""
    cluster = _started(KubeCluster(etcd_members=3, api_servers=2))
    cluster.add_nodes("paper-0", "paper-1")
    return cluster


@pytest.fixture
def kube() -> KubeCluster:
    """A Kubernetes of one of each part, all of them running."""
    cluster = shared_cluster()
    cluster.start()
    return cluster


@pytest.fixture
def kube_ha() -> KubeCluster:
    """A Kubernetes that outlives one etcd member and one API server, all of them running."""
    cluster = shared_ha_cluster()
    cluster.start()
    return cluster


@pytest.fixture
def namespace(kube: KubeCluster) -> Iterator[str]:
    """A namespace of the simple cluster for one test."""
    name = f"test-{secrets.token_hex(4)}"
    kube.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until("Pods may be made there", lambda: kube.has(account))
    yield name
    kube.start()
    kube.request("DELETE", f"/api/v1/namespaces/{name}")
