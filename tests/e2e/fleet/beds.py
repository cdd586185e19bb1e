"""Clusters of a fleet under test: their nodes, their killable parts, their member and its lines."""

import contextlib
import json
import os
import signal
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx

from dure.api.clusters import ClusterKind
from tests.e2e.fleet.lines import End, Lines
from tests.e2e.fleet.parts import Part, dure_part
from tests.e2e.fleet.sights import FolderWatch, PodWatch, Scene, Sight
from tests.kube.cluster import KubeCluster
from tests.kube.programs import Program, wait_until

TENANT = "acme"
NAMESPACE = f"dure-{TENANT}"
SYSTEM = "dure-system"
ACTS = "this member acts for cluster"
_GPUS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


class Watch(Protocol):
    """Sees what is there."""

    scene: Scene

    def now(self) -> tuple[Sight, ...] | None:
        """What is there now; None where that cannot be seen."""

    def close(self) -> None:
        """See no more."""


class Bed(Protocol):
    """One cluster."""

    name: str
    kind: ClusterKind
    member: Part
    lines: Lines
    watch: Watch

    def join(self, grpc_ports: Sequence[int], token: Path) -> None:
        """Make its member; not started."""

    @property
    def parts(self) -> Sequence[Part]:
        """What else of it may be killed."""

    def close(self) -> None:
        """End and remove everything."""


def _member(bed: Bed, folder: Path, grpc_ports: Sequence[int], words: Sequence[object]) -> Part:
    host = bed.lines.host(End.CENTRE)
    servers = [word for port in grpc_ports for word in ("--server", f"http://{host}:{port}")]
    kind = ("member", "--cluster", bed.name, "--kind", bed.kind.value)
    name = f"member-{bed.name}"
    part: Part

    def ready() -> bool:
        return ACTS in part.said()

    part = dure_part(name, folder, (*kind, *servers, *words), ready, bed.lines.prefix)
    return part


class ProcessBed:
    """A cluster of real programs of this machine."""

    kind = ClusterKind.PROCESS
    member: Part

    def __init__(self, name: str, folder: Path, *, nodes: int = 4, devices: int = 8) -> None:
        self.name = name
        self._folder = folder
        self.state = folder / f"state-{name}"
        self._nodes = folder / f"nodes-{name}.yaml"
        one = {"group": "gpu", "profile": "a100", "devices": devices, "cpu": 64, "memory": "256GiB"}
        listed = [{"name": f"{name}-{number}", **one} for number in range(nodes)]
        self._nodes.write_text(json.dumps({"nodes": listed}), encoding="utf-8")
        self.lines = Lines()
        self.watch: Watch = FolderWatch(name, self.state)

    def join(self, grpc_ports: Sequence[int], token: Path) -> None:
        """Make its member; not started."""
        words = ("--token-file", token, "--nodes", self._nodes, "--state", self.state)
        self.member = _member(self, self._folder, grpc_ports, words)

    @property
    def parts(self) -> Sequence[Part]:
        """It consists of its member alone."""
        return ()

    def close(self) -> None:
        """End its member and its programs."""
        if hasattr(self, "member"):
            self.member.kill()
        self.watch.close()
        for begun in (self.state / "instances").glob("*/begun"):
            with contextlib.suppress(ValueError, ProcessLookupError):
                os.killpg(int(begun.read_text().partition(" ")[0]), signal.SIGKILL)
        self.lines.close()


class KubernetesBed:
    """A real Kubernetes with nodes on paper."""

    kind = ClusterKind.KUBERNETES
    member: Part

    def __init__(self, name: str, folder: Path, cluster: KubeCluster) -> None:
        self.name = name
        self.cluster = cluster
        self._folder = folder
        self.node_names: list[str] = []
        self.lines = Lines()
        self._parts = [_killable(name, cluster, number) for number in range(len(_of(cluster)))]
        cluster.start()
        for part in self._parts:
            part.wanted = True

    def prepare(self, *, nodes: int = 4, devices: int = 8) -> None:
        """Nodes, namespaces, eyes; once it runs."""
        for space, labels in ((NAMESPACE, {"dure.io/tenant": TENANT}), (SYSTEM, {})):
            body = {"metadata": {"name": space, "labels": labels}}
            self.cluster.request("POST", "/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        wait_until("Pods may be made there", lambda: self.cluster.has(account))
        for number in range(nodes):
            self.add_node(f"{self.name}-{number}", {"nvidia.com/gpu": str(devices)})
        self.watch: Watch = PodWatch(self.name, self.cluster)

    def add_node(self, name: str, resources: Mapping[str, str]) -> None:
        """One more node on paper, of such GPUs."""
        self.cluster.add_nodes(name, resources=resources, labels=_GPUS)
        self.node_names.append(name)

    def join(self, grpc_ports: Sequence[int], token: Path) -> None:
        """Make its member; not started."""
        words = ("--token-file", token, "--kubeconfig", self._kubeconfig(), "--namespace", SYSTEM)
        self.member = _member(self, self._folder, grpc_ports, words)

    def _kubeconfig(self) -> Path:
        """The administrator's, by way of the member's line to its cluster."""
        found: dict[str, Any] = json.loads(self.cluster.kubeconfig.read_text(encoding="utf-8"))
        host = self.lines.host(End.CLUSTER)
        found["clusters"][0]["cluster"] = {
            "server": self.cluster.url.replace("127.0.0.1", host),
            "certificate-authority": str(self.cluster.ca_file),
            "tls-server-name": "localhost",
        }
        file = self._folder / f"{self.name}.conf"
        file.write_text(json.dumps(found), encoding="utf-8")
        return file

    def give_secret(self, name: str) -> None:
        """Let jobs of the tenant find a secret, as soon as the cluster answers."""
        body = {"metadata": {"name": name}, "stringData": {"key": "value"}}
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets"

        def made() -> bool:
            with contextlib.suppress(httpx.HTTPError, AssertionError):
                self.cluster.request("POST", path, body)
            return self.cluster.has(f"{path}/{name}")

        wait_until(f"secret {name} is there", made)

    @property
    def parts(self) -> Sequence[Part]:
        """etcd members and API servers."""
        return self._parts

    def close(self) -> None:
        """End everything."""
        if hasattr(self, "member"):
            self.member.kill()
        if hasattr(self, "watch"):
            self.watch.close()
        self.lines.close()
        self.cluster.close()


def _of(cluster: KubeCluster) -> list[tuple[Program, str]]:
    """etcd members and API servers with where they say that they are ready."""
    etcd = [
        (one, f"{url}/health") for one, url in zip(cluster.etcd, cluster.etcd_urls, strict=True)
    ]
    urls = cluster.server_urls
    return etcd + [
        (one, f"{url}/readyz") for one, url in zip(cluster.api_servers, urls, strict=True)
    ]


def _killable(name: str, cluster: KubeCluster, number: int) -> Part:
    program, url = _of(cluster)[number]
    headers = {"authorization": f"Bearer {cluster.token}"}
    trust = ssl.create_default_context(cafile=str(cluster.ca_file))

    def ready() -> bool:
        try:
            return httpx.get(url, headers=headers, verify=trust, timeout=5.0).is_success
        except httpx.HTTPError:
            return False

    return Part(program, ready, f"{name}/{program.name}")
