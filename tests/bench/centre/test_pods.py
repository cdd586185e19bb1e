"""The part of `dure bench centre` that makes Pods, on a small scale in a real Kubernetes."""

import pytest

from dure.bench.centre.run import PODS, Wanted, bench_centre
from dure.sim.benches.report import silent
from tests.kube.cluster import KubeCluster
from tests.kube.fixtures import kube

__all__ = ["kube"]

pytestmark = pytest.mark.kube


def test_every_submission_gets_its_pod_and_ends(kube: KubeCluster) -> None:
    wanted = Wanted(
        parts=(PODS,),
        seconds=2.0,
        per_s=3.0,
        kubeconfig=kube.kubeconfig,
        processes={"etcd": kube.etcd[0].pid},
    )
    found = bench_centre(wanted, silent).figures[PODS]
    assert (found["submitted"], found["failed"], found["ended"]) == (6, 0, 6)
    assert found["pod_s"]["50"] > found["answer_s"]["50"] > 0
    assert {"server", "member", "etcd", "clients"} == set(found["cores"])
