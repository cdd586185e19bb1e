"""A fleet of two real Kubernetes clusters, and a virtual cluster over them, all as processes."""

import contextlib
from pathlib import Path
from typing import Any

from dure.api.clusters import ClusterKind, ClusterSpec, TariffSpec
from dure.client.fleet import calls
from tests.kube.cluster import KubeCluster
from tests.kube.programs import ROOT, wait_until
from tests.member.door.beds import install, kubectl
from tests.virtual.beds import PROFILE, RESOURCE, VirtualFleet, job

SYSTEM = "dure-system"
RUNS_FOR = "paper.dure.test/runs-for"
_GPUS = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"}
_RIGHTS = ROOT / "deploy" / "kubernetes" / "virtual-rights.yaml"
_LOG = "2026-01-01T00:00:00.000000000Z stdout F hello from {}\n"


def paper_job(name: str, runs_for: str = "", **more: Any) -> dict[str, Any]:
    """A plain Job that asks for one GPU, of a container on paper that ends after so long."""
    made = job(name, "train", **more)
    template = made["spec"]["template"]
    template["spec"]["containers"][0]["image"] = "registry.example/train:1"
    if runs_for:
        template["metadata"] = {"annotations": {RUNS_FOR: runs_for}}
    return made


class KubernetesFleet(VirtualFleet):
    """A centre, two Kubernetes clusters of which one is cheaper, two tenants, a pool."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clusters: dict[str, KubeCluster] = {}

    def add_priced(self, name: str, price: float) -> None:
        """Start a Kubernetes with a node of two GPUs, declare it, and start its member."""
        cluster = self.clusters[name] = KubeCluster()
        cluster.start()
        cluster.pod_log_file.write_text(_LOG.format(name), encoding="utf-8")
        cluster.add_nodes(f"{name}-a", resources={RESOURCE: "2"}, labels=_GPUS)
        install(cluster)
        for space, labels in ((SYSTEM, {}), ("dure-acme", {"dure.io/tenant": "acme"})):
            body = {"metadata": {"name": space, "labels": labels}}
            cluster.request("POST", "/api/v1/namespaces", body)
        kubectl(cluster, "apply", "-f", str(_RIGHTS))
        account = "/api/v1/namespaces/dure-acme/serviceaccounts/default"
        wait_until("Pods may be made there", lambda: cluster.has(account))
        tariff = TariffSpec(device_hour={PROFILE: price})
        spec = ClusterSpec(kind=ClusterKind.KUBERNETES, region="kr", tariff=tariff)
        self.client.do(calls.put_cluster(name, spec, calls.CREATE))
        secret = self.client.do(calls.issue_member_token(name)).secret
        token = self.folder / f"{name}.token"
        token.write_text(secret, encoding="utf-8")
        at = ("--cluster", name, "--server", f"http://127.0.0.1:{self.grpc}")
        of_kube = ("--kubeconfig", str(cluster.kubeconfig), "--namespace", SYSTEM)
        self._start(f"member-{name}", "member", *at, "--token-file", str(token), *of_kube)
        self.until(f"{name} to join", lambda: self.devices(name) == 2)

    def pods_in(self, cluster: str) -> list[Any]:
        """Pods of acme's namespace that run in a physical cluster."""
        found = self.clusters[cluster].request("GET", "/api/v1/namespaces/dure-acme/pods")
        return [each for each in found["items"] if each["status"].get("phase") == "Running"]

    def close(self) -> None:
        """End everything."""
        super().close()
        for cluster in self.clusters.values():
            with contextlib.suppress(OSError):
                cluster.close()
