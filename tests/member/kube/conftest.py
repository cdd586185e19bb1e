"""Fixtures of carriers' tests on a real Kubernetes."""

from collections.abc import Iterator

import pytest

from tests.kube.cluster import KubeCluster
from tests.kube.fixtures import kube
from tests.member.kube.beds import KubeBed, make_bed

__all__ = ["bed", "kube"]


@pytest.fixture
def bed(kube: KubeCluster) -> Iterator[KubeBed]:
    """Two nodes of eight H100 and a tenant's namespace."""
    made = make_bed(kube)
    yield made
    made.close()
