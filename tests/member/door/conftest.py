"""Fixtures of the door's tests on a real Kubernetes."""

from collections.abc import Iterator

import pytest

from tests.kube.cluster import KubeCluster
from tests.kube.fixtures import kube
from tests.member.door.beds import install, let_go, remove_kinds
from tests.member.kube.beds import KubeBed, make_bed

__all__ = ["bare", "bed", "kube"]


@pytest.fixture
def bare(kube: KubeCluster) -> Iterator[KubeBed]:
    """Two nodes of eight H100 and a tenant's namespace, none of Dure's kinds."""
    remove_kinds(kube)
    made = make_bed(kube)
    yield made
    let_go(kube)
    made.close()


@pytest.fixture
def bed(bare: KubeBed) -> KubeBed:
    """The same with Dure's kinds."""
    install(bare.cluster)
    return bare
