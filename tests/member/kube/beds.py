"""A Kubernetes cluster for tests of carriers: nodes with GPUs on paper, a tenant's namespace."""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from dure.domain.fleet.programs import Program
from dure.domain.ids import ClusterId
from dure.kube.access import Access, load_access
from dure.kube.client import KubeClient
from dure.kube.transport import Patience
from dure.member.kube.carrier import KubeCarrier
from dure.member.kube.settings import KubeSettings
from tests.contracts.carriers import TENANT, WAIT_S
from tests.kube.cluster import KubeCluster
from tests.kube.programs import wait_until

GPU_LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


@dataclass
class KubeBed:
    """Some nodes and a namespace of a cluster; gone when a test is over."""

    cluster: KubeCluster
    namespace: str
    nodes: tuple[str, ...]
    settings: KubeSettings
    access: Access
    made: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def carrier(self) -> AsyncIterator[KubeCarrier]:
        """A new carrier."""
        client = KubeClient(self.access, Patience(retry_for_s=WAIT_S))
        carrier = KubeCarrier(client, self.settings)
        try:
            yield carrier
        finally:
            await carrier.close()

    def program(self, runs_for_s: float | None = None, exit_code: int = 0) -> Program:
        """A container on paper."""
        noted = {"paper.dure.test/exit-code": str(exit_code)}
        if runs_for_s is not None:
            noted["paper.dure.test/runs-for"] = f"{round(runs_for_s * 1000)}ms"
        return Program(image="paper", annotations=noted, grace_s=1.0)

    def add_nodes(
        self, *names: str, resources: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> None:
        """More nodes."""
        self.made += names
        self.cluster.add_nodes(*names, resources=resources, labels=labels)

    def close(self) -> None:
        """Remove what was made."""
        self.cluster.start()
        self.cluster.request("DELETE", f"/api/v1/namespaces/{self.namespace}")
        for node in self.made:
            if self.cluster.has(f"/api/v1/nodes/{node}"):
                self.cluster.request("DELETE", f"/api/v1/nodes/{node}")


def make_bed(cluster: KubeCluster, *, gpus: int = 8, nodes: int = 2) -> KubeBed:
    """A bed with some nodes of so many H100 each."""
    tag = secrets.token_hex(4)
    namespace = f"team-{tag}"
    body = {"metadata": {"name": namespace, "labels": {"dure.io/tenant": TENANT}}}
    cluster.request("POST", "/api/v1/namespaces", body)
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_until("Pods may be made there", lambda: cluster.has(account))
    names = tuple(f"h100-{tag}-{number}" for number in range(nodes))
    access = load_access(cluster.kubeconfig)
    settings = KubeSettings(ClusterId("here"), namespaces={TENANT: namespace})
    bed = KubeBed(cluster, namespace, names, settings, replace(access, namespace=namespace))
    bed.add_nodes(*names, resources={"nvidia.com/gpu": str(gpus)}, labels=GPU_LABELS)
    return bed
