"""A real Kueue for tests: a manager cluster and workers, each an API server with Kueue in it.

The admission webhooks of Kueue are left out: nothing of a cluster's network is there to reach
them by. What they would fill in, the objects here say themselves.
"""

import base64
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.beside.audited import AuditedCluster
from tests.kube.cluster import KubeCluster
from tests.kube.ports import free_port
from tests.kube.programs import (
    LIMIT_S,
    REQUIRE_VARIABLE,
    ROOT,
    Program,
    kube_programs,
    wait_until,
)

SYSTEM = "kueue-system"
DISPATCHER = "dure.io/kueue"
GPU = "nvidia.com/gpu"
_CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
"""Kinds whose CRD Kueue wants to give its certificate to."""
_KINDS = {
    "admissionchecks": "AdmissionCheck",
    "clusterprofiles": "ClusterProfile",
    "clusterqueues": "ClusterQueue",
    "localqueues": "LocalQueue",
    "multikueueclusters": "MultiKueueCluster",
    "multikueueconfigs": "MultiKueueConfig",
    "resourceflavors": "ResourceFlavor",
    "workloads": "Workload",
}
"""What objects of custom kinds must say they are."""
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


@cache
def kueue_folder() -> Path:
    """Where Kueue and its CRDs are; skips the test where it was not built, or fails it."""
    found = subprocess.run(
        [str(ROOT / "tools" / "build_kueue"), "--find"],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if found.returncode:
        reason = found.stderr.strip().splitlines()[-1]
        if os.environ.get(REQUIRE_VARIABLE) == "all":
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(found.stdout.strip())


class ApiCluster(AuditedCluster):
    """etcd and an API server alone: objects, and nobody who does anything about them."""

    def start(self) -> None:
        """Start them and wait until they answer."""
        self.launch()
        wait_until("the API server answers", lambda: self.has("/readyz"))

    def install(self, *names: str) -> None:
        """Give it the CRDs whose files begin so."""
        files = [
            str(file)
            for file in sorted((kueue_folder() / "crds").glob("*.yaml"))
            if file.name.startswith(names)
        ]
        words = [word for file in files for word in ("-f", file)]
        self.kubectl("apply", "--server-side", *words)
        wait_until("all kinds are served", self._established)

    def _established(self) -> bool:
        found = self.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        return all(
            any(
                each["type"] == "Established" and each["status"] == "True"
                for each in (crd.get("status") or {}).get("conditions") or ()
            )
            for crd in found["items"]
        )

    def kubectl(self, *words: str) -> str:
        """What kubectl says as the administrator."""
        done = subprocess.run(
            [str(kube_programs()["kubectl"]), f"--kubeconfig={self.kubeconfig}", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def put(self, path: str, *things: dict[str, Any]) -> None:
        """Create objects at a path."""
        parts = path.split("/")
        named = {}
        if parts[-1] in _KINDS:
            named = {"apiVersion": "/".join(parts[2:4]), "kind": _KINDS[parts[-1]]}
        for thing in things:
            self.request("POST", path, named | thing)

    def namespaces(self, *names: str, **labels: str) -> None:
        """Create namespaces."""
        self.put(
            "/api/v1/namespaces",
            *({"metadata": {"name": name, "labels": labels}} for name in names),
        )

    @property
    def portable_kubeconfig(self) -> str:
        """A kubeconfig of the administrator that names no files."""
        return kubeconfig_of(self, self.token)


def kubeconfig_of(cluster: KubeCluster, token: str) -> str:
    """A kubeconfig with a token; it names no files."""
    authority = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    there = {"server": cluster.url, "certificate-authority-data": authority}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": there}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
    )


def account_kubeconfig(cluster: KubeCluster, manifest: str, account: str) -> Path:
    """Install rights of `deploy/kubernetes/beside`; a kubeconfig that has these and no others."""
    subprocess.run(
        [
            str(kube_programs()["kubectl"]),
            f"--kubeconfig={cluster.kubeconfig}",
            "apply",
            f"--filename={ROOT / 'deploy' / 'kubernetes' / 'beside' / manifest}",
        ],
        check=True,
        capture_output=True,
        timeout=LIMIT_S,
    )
    path = f"/api/v1/namespaces/dure-system/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.request("POST", path, request)["status"]["token"]
    file = cluster.folder / f"{account}.conf"
    file.write_text(kubeconfig_of(cluster, token), encoding="utf-8")
    return file


class KueueCluster(ApiCluster):
    """An API server with the real controller manager of Kueue."""

    def __init__(self) -> None:
        super().__init__()
        self._probe_port = free_port()
        self.kueue = self._kueue()

    def start(self) -> None:
        """Start it with Kueue's CRDs; `run_kueue` starts Kueue."""
        super().start()
        self.install("kueue.x-k8s.io", "multicluster.x-k8s.io")
        self.namespaces(SYSTEM)
        self._let_certificates_in()

    def run_kueue(self) -> None:
        """Start Kueue and wait until it says that it is ready."""
        self.kueue.start()
        wait_until("Kueue has made its certificate", self._mount_certificate)
        url = f"http://127.0.0.1:{self._probe_port}/readyz"

        def ready() -> bool:
            return self.kueue.pid > 0 and self._answers(url)

        wait_until(f"Kueue is ready: {self.kueue.log_file}", ready)

    def _mount_certificate(self) -> bool:
        """Put Kueue's Secret where Kueue reads it, as a kubelet would; tells whether it could."""
        path = f"/api/v1/namespaces/{SYSTEM}/secrets/kueue-webhook-server-cert"
        data = self.request("GET", path).get("data") or {}
        for name, value in data.items():
            (self.folder / "webhook" / name).write_bytes(base64.b64decode(value))
        return "tls.key" in data

    def close(self) -> None:
        """End everything."""
        self.kueue.kill()
        super().close()

    def _let_certificates_in(self) -> None:
        """What Kueue puts its certificate into; nobody is sent there."""
        admission = "/apis/admissionregistration.k8s.io/v1"
        for kind in ("validating", "mutating"):
            named = {"metadata": {"name": f"kueue-{kind}-webhook-configuration"}, "webhooks": []}
            self.put(f"{admission}/{kind}webhookconfigurations", named)
        self.put(
            f"/api/v1/namespaces/{SYSTEM}/secrets",
            {"metadata": {"name": "kueue-webhook-server-cert"}},
        )
        nobody = {"url": "https://127.0.0.1:9/convert"}
        webhook = {"clientConfig": nobody, "conversionReviewVersions": ["v1"]}
        change = {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}
        for plural in _CONVERTED:
            self.kubectl(
                "patch", "crd", f"{plural}.kueue.x-k8s.io", "--type=merge", "-p", json.dumps(change)
            )

    def _kueue(self) -> Program:
        folder = self.folder / "webhook"
        folder.mkdir()
        config = self.folder / "kueue.yaml"
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
                    "kind": "Configuration",
                    "namespace": SYSTEM,
                    "health": {"healthProbeBindAddress": f"127.0.0.1:{self._probe_port}"},
                    "metrics": {"bindAddress": "0"},
                    "webhook": {
                        "port": free_port(),
                        "host": "127.0.0.1",
                        "certDir": str(folder),
                    },
                    "leaderElection": {"leaderElect": False},
                    "integrations": {"frameworks": ["batch/job"]},
                    "multiKueue": {"dispatcherName": DISPATCHER, "gcInterval": "0s"},
                    "featureGates": {"VisibilityOnDemand": False},
                }
            ),
            encoding="utf-8",
        )
        return Program(
            "kueue",
            (kueue_folder() / "kueue", f"--config={config}", f"--kubeconfig={self.kubeconfig}"),
            self.folder,
        )

    # Objects

    def queue(self, name: str, *, checks: Sequence[str] = (), namespaces: Iterable[str]) -> None:
        """A ClusterQueue with plenty of quota, and a LocalQueue of its name in each namespace."""
        if not self.has(f"{_KUEUE}/resourceflavors/plain"):
            self.put(f"{_KUEUE}/resourceflavors", {"metadata": {"name": "plain"}})
        amounts = {"cpu": "10000", "memory": "100Ti", GPU: "10000"}
        quota = [{"name": each, "nominalQuota": amount} for each, amount in amounts.items()]
        spec: dict[str, Any] = {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": list(amounts),
                    "flavors": [{"name": "plain", "resources": quota}],
                }
            ],
        }
        if checks:
            spec["admissionChecksStrategy"] = {
                "admissionChecks": [{"name": each} for each in checks]
            }
        self.put(f"{_KUEUE}/clusterqueues", {"metadata": {"name": name}, "spec": spec})
        for namespace in namespaces:
            self.put(
                f"{_KUEUE}/namespaces/{namespace}/localqueues",
                {"metadata": {"name": name}, "spec": {"clusterQueue": name}},
            )

    def workers(self, check: str, config: str, clusters: "dict[str, KueueCluster]") -> None:
        """Let an admission check of MultiKueue send work to other clusters."""
        for name, cluster in clusters.items():
            if self.has(f"{_KUEUE}/multikueueclusters/{name}"):
                continue
            self.put(
                f"/api/v1/namespaces/{SYSTEM}/secrets",
                {
                    "metadata": {"name": f"{name}-access"},
                    "stringData": {"kubeconfig": cluster.portable_kubeconfig},
                },
            )
            source = {"kubeConfig": {"location": f"{name}-access", "locationType": "Secret"}}
            self.put(
                f"{_KUEUE}/multikueueclusters",
                {"metadata": {"name": name}, "spec": {"clusterSource": source}},
            )
        self.put(
            f"{_KUEUE}/multikueueconfigs",
            {"metadata": {"name": config}, "spec": {"clusters": list(clusters)}},
        )
        self.check(check, "kueue.x-k8s.io/multikueue", config)

    def check(self, name: str, controller: str, config: str) -> None:
        """An admission check."""
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": config}
        self.put(
            f"{_KUEUE}/admissionchecks",
            {
                "metadata": {"name": name},
                "spec": {"controllerName": controller, "parameters": parameters},
            },
        )

    def workloads(self, namespace: str) -> dict[str, dict[str, Any]]:
        """Workloads by the name of the Job they are of."""
        found = self.request("GET", f"{_KUEUE}/namespaces/{namespace}/workloads")["items"]
        return {each["metadata"]["ownerReferences"][0]["name"]: each for each in found}


def job(name: str, queue: str, *, gpus: int = 1, pods: int = 1, **more: Any) -> dict[str, Any]:
    """A Job that MultiKueue may send elsewhere."""
    requests = {"cpu": "1", "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    container = {
        "name": "main",
        "image": "trainer:1",
        "resources": {"requests": requests, "limits": {GPU: str(gpus)} if gpus else {}},
    }
    annotations = more.pop("annotations", {})
    spec = {
        "suspend": True,
        "parallelism": pods,
        "completions": pods,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        },
    }
    return {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": spec | more,
    }


def reserved(workload: dict[str, Any]) -> bool:
    """Whether a Workload has its quota."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "QuotaReserved" and each["status"] == "True" for each in conditions)
