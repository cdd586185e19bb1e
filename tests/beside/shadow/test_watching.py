"""Shadow mode on a real cluster, with rights to read alone: every request is a list or a watch."""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dure.beside.shadow.log import ShadowLog
from dure.domain.errors import InputError
from tests.beside.audited import AuditedCluster
from tests.beside.kueue_bed import account_kubeconfig
from tests.kube.programs import LIMIT_S, wait_until

pytestmark = pytest.mark.kube

GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def cluster() -> Iterator[AuditedCluster]:
    made = AuditedCluster()
    try:
        made.start()
        made.add_nodes(
            "gpu-0",
            "gpu-1",
            resources={GPU: "8"},
            labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"},
        )
        made.add_nodes("plain")
        yield made
    finally:
        made.close()


def pod(name: str, gpus: int) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "pause:1", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def dure(*words: object, **more: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from dure.cli.main import main; main()"]
    return subprocess.Popen([*command, *map(str, words)], env={**os.environ}, **more)


def test_decisions_are_seen_and_nothing_is_ever_written(
    cluster: AuditedCluster, tmp_path: Path
) -> None:
    namespace = f"test-{secrets.token_hex(4)}"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_until("Pods may be made there", lambda: cluster.has(account))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    cluster.request("POST", pods, pod("before", 1))
    wait_until(
        "it is bound",
        lambda: bool(cluster.request("GET", f"{pods}/before")["spec"].get("nodeName")),
    )
    time.sleep(1.0)  # clusters tell moments in whole seconds
    rights = account_kubeconfig(cluster, "shadow-rights.yaml", "dure-shadow")
    log = tmp_path / "shadow.db"
    watching = dure("shadow", "watch", log, "--cluster", "home=it", "--kubeconfig", rights)
    try:
        wait_until("the first Pod is seen", lambda: _pods(log).keys() >= {"before"})
        for name, gpus in (("small", 1), ("large", 7), ("too-large", 9), ("plain", 0)):
            cluster.request("POST", pods, pod(name, gpus))
        bound = {"small", "large"}
        wait_until(
            "bindings are seen", lambda: {n for n, node in _pods(log).items() if node} >= bound
        )
        cluster.request("DELETE", f"{pods}/small")
        wait_until("an end is seen", lambda: "small" in _ended(log))
    finally:
        watching.terminate()
        assert watching.wait(LIMIT_S) == 0
    assert _pods(log).keys() == {"before", "small", "large", "too-large"}

    told = dure("shadow", "report", log, "--json", stdout=subprocess.PIPE)
    answer, _ = told.communicate(timeout=LIMIT_S)
    assert told.returncode == 0
    report = json.loads(answer)
    assert report["jobs"] == 3, "what ran before is taken as given"
    lines = {line["job"]: line for line in report["lines"]}
    assert lines["large"]["dureCluster"] == "home"
    assert lines["too-large"]["dureCluster"] == ""

    made = cluster.requests_of("dure-shadow")
    assert made, "the account made requests"
    assert {each["verb"] for each in made} <= {"list", "watch"}
    assert {each["objectRef"]["resource"] for each in made} == {"nodes", "pods", "workloads"}
    codes = {each["objectRef"]["resource"]: each["responseStatus"]["code"] for each in made}
    assert codes == {"nodes": 200, "pods": 200, "workloads": 404}, "there is no Kueue here"


def _pods(file: Path) -> dict[str, str]:
    """Nodes of Pods by name, as far as the log has them."""
    if not file.exists():
        return {}
    try:
        log = ShadowLog(file, new=False)
    except InputError:
        return {}  # it is being made
    with log:
        return {each.name: each.node for each in log.watched().pods}


def _ended(file: Path) -> set[str]:
    with ShadowLog(file, new=False) as log:
        return {each.name for each in log.watched().pods if each.ended_ns is not None}
