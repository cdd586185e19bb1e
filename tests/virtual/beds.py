"""A fleet of two clusters of processes, and a virtual cluster over them, all as processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dure.api.access import TokenRequest
from dure.api.clusters import ClusterKind, ClusterSpec, TariffSpec
from dure.api.tenancy import PoolSpec, TenantSpec
from dure.api.virtual import VirtualClusterSpec
from dure.client.fleet import FleetClient, calls
from dure.client.fleet.config import Context
from dure.domain.fleet.accounts import Role
from dure.domain.fleet.virtual import VirtualTier
from tests.e2e.beds import Fleet
from tests.e2e.conftest import DURE
from tests.kube.ports import free_port
from tests.kube.programs import kube_programs

NAME = "acme-own"
RESOURCE = "nvidia.com/gpu"
PROFILE = "a100-40gb"
LIMIT_S = 180.0
NODES = """
nodes:
  - {{name: {cluster}-a, group: gpu, profile: a100-40gb, devices: 2, cpu: 16, memory: 64GiB}}
"""


def job(name: str, line: str, **more: Any) -> dict[str, Any]:
    """A plain Job that asks for one GPU."""
    container = {
        "name": "main",
        "image": "dure.io/host",
        "command": ["/bin/sh", "-c", line],
        "resources": {"limits": {RESOURCE: "1"}},
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    spec = {"backoffLimit": 0, "template": {"spec": pod}} | more
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


class VirtualFleet(Fleet):
    """A centre, two clusters of processes of which one is cheaper, two tenants, a pool."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.kubeconfig = folder / "virtual" / "admin.kubeconfig"

    def start(self) -> None:
        kube_programs()
        super().start()
        self.kill("member")
        for tenant in ("globex",):
            self.client.do(calls.put_tenant(tenant, TenantSpec(), calls.CREATE))
        for cluster, price in (("cheap", 1.0), ("dear", 5.0)):
            self.add_priced(cluster, price)
        self.tokens = {
            tenant: self.client.do(
                calls.issue_token(TokenRequest(role=Role.TENANT, tenant=tenant))
            ).secret
            for tenant in ("acme", "globex")
        }
        for cluster in ("cheap", "dear"):
            self.until(f"devices of {cluster}", lambda c=cluster: self.devices(c) == 2)  # type: ignore[misc]

    def until(self, what: str, check: Callable[[], object]) -> None:
        end = time.monotonic() + LIMIT_S
        while not check():
            assert time.monotonic() < end, f"{what} did not happen\n{self.words()}"
            time.sleep(0.1)

    def add_priced(self, name: str, price: float) -> None:
        """Declare a cluster of processes and start its member."""
        (self.folder / "nodes.yaml").write_text(NODES.format(cluster=name), encoding="utf-8")
        tariff = TariffSpec(device_hour={PROFILE: price})
        spec = ClusterSpec(kind=ClusterKind.PROCESS, region="kr", tariff=tariff)
        self.client.do(calls.put_cluster(name, spec, calls.CREATE))
        secret = self.client.do(calls.issue_member_token(name)).secret
        (self.folder / f"{name}.token").write_text(secret, encoding="utf-8")
        self.start_member(name)
        self.until(f"{name} to join", lambda: self.devices(name) == 2)

    def devices(self, cluster: str) -> int:
        return self.client.do(calls.get_cluster(cluster)).devices

    def declare(self, guaranteed: int = 4, lendable: int = 2) -> None:
        """A pool over both clusters, and a virtual cluster of it."""
        pool = PoolSpec(
            tenant="acme",
            profile=PROFILE,
            clusters=["cheap", "dear"],
            guaranteed=guaranteed,
            lendable=lendable,
            maximum=guaranteed,
        )
        self.client.do(calls.put_pool("gpus", pool, calls.CREATE))
        spec = VirtualClusterSpec(tenant="acme", tier=VirtualTier.DEDICATED, pools=["gpus"])
        self.client.do(calls.put_virtual(NAME, spec, calls.CREATE))

    def start_virtual(self) -> None:
        """`dure vcluster run`, as the tenant."""
        at = ("--state", str(self.folder / "virtual"), "--listen", f"127.0.0.1:{self.port}")
        self._start("virtual", "vcluster", "run", NAME, *at, env=self.environment("acme"))

    def environment(self, tenant: str) -> dict[str, str]:
        """Of somebody's shell."""
        return {
            "DURE_SERVER": f"http://127.0.0.1:{self.rest}",
            "DURE_TOKEN": self.tokens[tenant],
        }

    def as_tenant(self, tenant: str) -> FleetClient:
        """A client of a tenant."""
        return FleetClient(Context((f"http://127.0.0.1:{self.rest}",), self.tokens[tenant]))

    def ready(self) -> None:
        """Wait until its node is."""
        self.until("the API server's kubeconfig", self.kubeconfig.exists)
        self.until("the node", lambda: self.allocatable() > 0)

    # What people do

    def run_kubectl(
        self, *words: str, stdin: str = "", conf: Path | None = None, env: Any = None
    ) -> subprocess.CompletedProcess[str]:
        """A person's kubectl, come to its end."""
        return subprocess.run(
            [
                str(kube_programs()["kubectl"]),
                "--kubeconfig",
                str(conf or self.kubeconfig),
                *words,
            ],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, **(env or {})},
        )

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """What it prints; it must succeed."""
        done = self.run_kubectl(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr + self.words()
        return done.stdout

    def get(self, *words: str) -> Any:
        """An object, or None where there is none now."""
        done = self.run_kubectl("get", *words, "-o", "json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def apply(self, thing: dict[str, Any]) -> None:
        """As a person does."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(thing))

    def allocatable(self) -> int:
        """GPUs that `kubectl get node` shows."""
        node = self.get("node", "gpus")
        if node is None:
            return -1
        conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        if conditions.get("Ready") != "True":
            return -1
        return int(node["status"]["allocatable"].get(RESOURCE, -1))

    def pods(self, name: str) -> list[Any]:
        """Pods of a Job."""
        found = self.get("pods", "-l", f"job-name={name}")
        return list(found["items"]) if found else []

    def jobs_at_centre(self) -> list[Any]:
        """All that the centre has."""
        return list(self.client.each(lambda cursor: calls.list_jobs(cursor=cursor)))

    def dure(self, tenant: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A tenant's `dure` command, come to its end."""
        return subprocess.run(
            [*DURE, *words],
            env={**os.environ, **self.environment(tenant)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


PATH_WITH_DURE = str(Path(sys.executable).parent)
