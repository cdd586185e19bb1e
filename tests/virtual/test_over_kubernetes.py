"""A dedicated virtual cluster over two real Kubernetes clusters, and who sees nothing of it."""

import base64
import contextlib
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dure.api.jobs import JobSpec, Resources, Work
from dure.api.virtual import VirtualClusterSpec
from dure.client.fleet import calls
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.virtual import VirtualTier
from dure.domain.fleet.workloads import WorkloadKind
from tests.e2e.beds import running
from tests.virtual.beds import PROFILE
from tests.virtual.kube_beds import KubernetesFleet, paper_job
from tests.virtual.privacy import sees_nothing
from tests.virtual.test_dedicated import (
    FOLLOW_S,
    live_of,
    running_of,
    running_pods,
    wait_for_pods,
    within,
)

pytestmark = [pytest.mark.kube, pytest.mark.timeout(900)]

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
KINDS = (
    *("pods", "pods/log", "events", "events.events.k8s.io", "secrets", "configmaps"),
    *("jobs.batch", "acceleratorjobs.dure.io", "placements.dure.io"),
)
OF_CLUSTERS = ("nodes", "namespaces", "virtualclusters.dure.io", "vnodepools.dure.io")


@pytest.fixture(scope="module")
def fleet() -> Iterator[KubernetesFleet]:
    with running(KubernetesFleet) as made:
        made.declare()
        made.start_virtual()
        made.ready()
        yield made


def borrow(fleet: KubernetesFleet) -> str:
    """A job of another tenant that takes what is lent; its id."""
    spec = JobSpec(
        name="borrower",
        kind=WorkloadKind.BATCH,
        tenant="globex",
        image="registry.example/borrow:1",
        grace="1s",
        work=Work(time="10h"),
        resources=Resources(whole=True, profiles=[PROFILE]),
    )
    return fleet.client.do(calls.submit(spec)).ids[0]


def remove(fleet: KubernetesFleet, name: str) -> None:
    """Delete a Job, and wait until nothing is left of it."""
    fleet.kubectl("delete", "job", name)
    fleet.until("the jobs of deleted Pods to end", lambda: not live_of(fleet, "acme"))
    fleet.until("the Pods to go", lambda: not fleet.pods(name))


def test_an_unmodified_job_runs_as_a_pod_of_the_cheaper_cluster(fleet: KubernetesFleet) -> None:
    fleet.apply(paper_job("hello", runs_for="3s"))
    wait_for_pods(fleet, "hello", "Running", 1)
    (carried,) = fleet.pods_in("cheap")
    assert carried["spec"]["containers"][0]["image"] == "registry.example/train:1"
    assert carried["spec"]["nodeName"] == "cheap-a"
    assert not fleet.pods_in("dear")
    assert fleet.kubectl("logs", "job/hello") == "hello from cheap\n"
    fleet.kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=110s")
    (pod,) = fleet.pods("hello")
    assert pod["spec"]["nodeName"] == "gpus"
    assert pod["metadata"]["annotations"]["dure.io/cluster"] == "cheap"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    (found,) = [each for each in fleet.jobs_at_centre() if each.name.startswith("hello")]
    assert (found.tenant, found.phase) == ("acme", JobPhase.SUCCEEDED)
    remove(fleet, "hello")


def test_nodes_follow_what_is_lent_and_called_back(fleet: KubernetesFleet) -> None:
    give_globex_a_namespace(fleet)
    within("the node is whole", lambda: fleet.allocatable() == 4, FOLLOW_S)
    borrowers = [borrow(fleet) for _ in range(3)]
    fleet.until("two borrowers to run", lambda: running_of(fleet, "globex") == 2)
    within("the node shows what is lent", lambda: fleet.allocatable() == 2, FOLLOW_S)
    fleet.apply(paper_job("many", parallelism=4, completions=4))

    def called_back() -> bool:
        return fleet.allocatable() == 4 and running_pods(fleet, "many") == 4

    within("the node shows what was called back, and all Pods run", called_back, FOLLOW_S)
    assert [len(fleet.pods_in(cluster)) for cluster in ("cheap", "dear")] == [2, 2]
    remove(fleet, "many")
    within("the node shows what is lent again", lambda: fleet.allocatable() == 2, FOLLOW_S)
    for each in borrowers:
        fleet.client.do(calls.cancel_job(each))
    fleet.until("the borrowers to end", lambda: not live_of(fleet, "globex"))
    within("the node is whole again", lambda: fleet.allocatable() == 4, FOLLOW_S)


def give_globex_a_namespace(fleet: KubernetesFleet) -> None:
    """A scoped virtual cluster: an identity of its own in both clusters."""
    spec = VirtualClusterSpec(tenant="globex", tier=VirtualTier.SCOPED, clusters=["cheap", "dear"])
    fleet.client.do(calls.put_virtual("globex-space", spec, calls.CREATE))

    def ready() -> bool:
        spaces = fleet.client.do(calls.get_virtual("globex-space")).spaces
        return [each.phase.value for each in spaces] == ["ready", "ready"]

    fleet.until("its namespaces", ready)


def test_a_second_tenant_sees_nothing_of_it_in_the_physical_clusters_verb_by_verb(
    fleet: KubernetesFleet,
) -> None:
    fleet.apply(paper_job("private"))
    wait_for_pods(fleet, "private", "Running", 1)
    (pod,) = fleet.pods_in("cheap")
    which = fleet.dure("globex", "vcluster", "kubeconfig", "globex-space")
    assert which.returncode == 2
    assert "name one: cheap, dear" in which.stderr
    for cluster in ("cheap", "dear"):
        conf = fleet.folder / f"globex-{cluster}.kubeconfig"
        made = fleet.dure(
            *("globex", "vcluster", "kubeconfig", "globex-space"),
            *("--cluster", cluster, "--hours", "1", "--out", str(conf)),
        )
        assert made.returncode == 0, made.stderr
        assert conf.stat().st_mode & 0o777 == 0o600
        at_home = fleet.run_kubectl("get", "pods", conf=conf)
        assert at_home.returncode == 0, at_home.stderr
        see_nothing(fleet, conf, pod["metadata"]["name"])
    # The owner of one tenant's namespace is no owner of another's.
    others = fleet.dure("acme", "vcluster", "kubeconfig", "globex-space", "--cluster", "cheap")
    assert others.returncode != 0
    assert "token" not in others.stdout
    remove(fleet, "private")


def see_nothing(fleet: KubernetesFleet, conf: Path, pod: str) -> None:
    """What globex may do with acme's things in one cluster: nothing."""
    there = ("-n", "dure-acme")
    asked = [(verb, kind, "dure-acme") for kind in KINDS for verb in VERBS]
    asked += [(verb, kind, "") for kind in OF_CLUSTERS for verb in VERBS]
    with contextlib.closing(Person(conf)) as globex:
        assert globex.may("list", "pods", "dure-globex")
        assert [each for each in asked if globex.may(*each)] == []
    where = {"name": "x", "namespace": "dure-acme"}
    thing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": where}
    for words in (
        ("get", "pods", *there),
        ("get", "pod", pod, *there),
        ("get", "pods", "--all-namespaces"),
        ("get", "pods", *there, "--watch"),
        ("logs", pod, *there),
        ("get", "events", *there),
        ("get", "acceleratorjobs", *there),
        ("get", "placements", *there),
        ("get", "virtualclusters"),
        ("delete", "pod", pod, *there),
        ("delete", "pods", "--all", *there),
        ("label", "pod", pod, "seen=yes", *there),
        ("create", "--validate=false", "-f", "-"),
    ):
        done = fleet.run_kubectl(*words, conf=conf, stdin=json.dumps(thing))
        assert done.returncode != 0, words
        assert "orbidden" in done.stderr, (words, done.stderr)
        assert pod not in done.stdout


class Person:
    """Somebody with a kubeconfig, who asks the API server what it lets them do."""

    def __init__(self, conf: Path) -> None:
        found = json.loads(conf.read_text(encoding="utf-8"))
        cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._url = f"{cluster['server']}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        self._http = httpx.Client(
            verify=ssl.create_default_context(cadata=authority),
            headers={"authorization": f"Bearer {user['token']}"},
        )

    def may(self, verb: str, kind: str, namespace: str = "") -> bool:
        """Whether it would be done."""
        resource, _, part = kind.partition("/")
        plural, _, group = resource.partition(".")
        asked = {"verb": verb, "resource": plural, "group": group, "subresource": part}
        if namespace:
            asked["namespace"] = namespace
        answer = self._http.post(self._url, json={"spec": {"resourceAttributes": asked}})
        assert answer.is_success, answer.text
        return bool(answer.json()["status"]["allowed"])

    def close(self) -> None:
        """Ask no more."""
        self._http.close()


def test_a_second_tenant_sees_nothing_of_it_in_its_own_api_server_and_at_the_centre(
    fleet: KubernetesFleet,
) -> None:
    fleet.apply(paper_job("private"))
    wait_for_pods(fleet, "private", "Running", 1)
    (mine,) = live_of(fleet, "acme")
    sees_nothing(fleet, mine.id)
    remove(fleet, "private")
