"""The charts as helm renders them: equal to the manifests, and taken by a real API server."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from dure.kube.resources import Resource
from tests.deploy.helm import CHARTS, helm, rendered
from tests.kube.cluster import KubeCluster
from tests.kube.fixtures import kube, namespace
from tests.kube.programs import ROOT

__all__ = ["kube", "namespace"]

pytestmark = pytest.mark.kube

MANIFESTS = ROOT / "deploy" / "kubernetes"
RBAC = "rbac.authorization.k8s.io"
KINDS = {
    kind: Resource(group, "v1", kind, plural, namespaced)
    for group, kind, plural, namespaced in (
        ("", "ConfigMap", "configmaps", True),
        ("", "Namespace", "namespaces", False),
        ("", "Pod", "pods", True),
        ("", "Secret", "secrets", True),
        ("", "Service", "services", True),
        ("", "ServiceAccount", "serviceaccounts", True),
        ("apps", "Deployment", "deployments", True),
        ("apps", "StatefulSet", "statefulsets", True),
        ("networking.k8s.io", "NetworkPolicy", "networkpolicies", True),
        ("policy", "PodDisruptionBudget", "poddisruptionbudgets", True),
        (RBAC, "ClusterRole", "clusterroles", False),
        (RBAC, "ClusterRoleBinding", "clusterrolebindings", False),
        (RBAC, "Role", "roles", True),
        (RBAC, "RoleBinding", "rolebindings", True),
        ("resource.k8s.io", "DeviceClass", "deviceclasses", False),
    )
}
MEMBER: dict[str, Any] = {"cluster": "east", "servers": ["https://dure.example.com:7601"]}
EVERYTHING_OF_A_MEMBER: dict[str, Any] = {
    **MEMBER,
    "token": {"value": "dure_secret"},
    "ca": {"secret": "centre-ca"},
    "clientCertificate": {"secret": "member-tls"},
    "imagePullPolicy": "IfNotPresent",
    "imagePullSecrets": [{"name": "registry"}],
    "deviceClass": {"create": True},
    "partitioner": {"enabled": True},
    "routes": {"enabled": True},
    "virtual": {"enabled": True},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"operator": "Exists"}],
    "podAnnotations": {"example.com/team": "platform"},
    "networkPolicy": {"enabled": True, "egress": [{"ports": [{"port": 8080}]}]},
}
ONE_SERVER: dict[str, Any] = {"tls": {"secret": "dure-tls"}}
SERVERS: dict[str, Any] = {
    "replicas": 2,
    "database": {"secret": "postgres"},
    "bus": {"secret": "nats"},
    "tls": {"secret": "dure-tls", "trustKey": "ca.crt", "clientCaKey": "members.crt"},
    "settings": {"lost-after-s": 20, "rest": {"burst": 100}},
    "service": {"type": "LoadBalancer", "annotations": {"example.com/internal": "true"}},
    "networkPolicy": {"enabled": True, "from": [{"podSelector": {}}]},
}


def key(thing: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = thing["metadata"]
    return thing["kind"], metadata.get("namespace", ""), metadata["name"]


def manifests() -> dict[tuple[str, str, str], Any]:
    """All of deploy/kubernetes, which a chart can say, too."""
    found = {}
    for file in MANIFESTS.glob("*.yaml"):
        for thing in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if thing:
                found[key(thing)] = thing
    # `helm install --create-namespace` makes it.
    del found["Namespace", "", "dure-system"]
    return found


def test_the_members_chart_says_what_the_manifests_say() -> None:
    expected = manifests()
    words = expected["Deployment", "dure-system", "dure-member"]
    arguments = words["spec"]["template"]["spec"]["containers"][0]["args"]
    given = dict(word.removeprefix("--").split("=", 1) for word in arguments[1:])
    values = {
        "cluster": given["cluster"],
        "servers": [given["server"]],
        "tenants": [{"name": "team"}],
        "deviceClass": {"create": True},
        "partitioner": {"enabled": True},
        "routes": {"enabled": True},
        "virtual": {"enabled": True},
        "podDisruptionBudget": {"enabled": False},
    }
    made = {key(thing): thing for thing in rendered("dure-member", values)}
    tenant = made["Namespace", "", "dure-team"]
    assert tenant["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert made == expected


def test_a_tenants_namespace_and_the_pods_in_it_outlive_the_release() -> None:
    made = rendered("dure-member", {**MEMBER, "tenants": [{"name": "a"}, {"name": "b"}]})
    spaces = [thing for thing in made if thing["kind"] == "Namespace"]
    assert len(spaces) == 2
    for thing in spaces:
        assert thing["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        ("dure-member", MEMBER),
        ("dure-member", EVERYTHING_OF_A_MEMBER),
        ("dure-server", ONE_SERVER),
        ("dure-server", SERVERS),
        ("dure-server", {"insecure": True}),
    ],
)
def test_helm_finds_nothing_wrong_with_the_charts(chart: str, values: dict[str, Any]) -> None:
    done = helm("lint", CHARTS / chart, "--strict", values=values)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("chart", "values", "said"),
    [
        ("dure-member", {}, "servers"),
        ("dure-member", {**MEMBER, "cluster": "No Name"}, "/cluster"),
        ("dure-member", {**MEMBER, "servers": ["dure.example.com"]}, "/servers/0"),
        ("dure-member", {**MEMBER, "replcias": 3}, "replcias"),
        ("dure-server", {}, "name a TLS Secret in tls.secret"),
        ("dure-server", {**ONE_SERVER, "replicas": 2}, "database.secret"),
        ("dure-server", {"insecure": True, "tls": {"trustKey": "ca.crt"}}, "tls.secret"),
        ("dure-server", {**ONE_SERVER, "storage": {"size": "much"}}, "/storage/size"),
    ],
)
def test_wrong_values_are_refused_by_name(chart: str, values: dict[str, Any], said: str) -> None:
    done = helm("template", "dure", CHARTS / chart, values=values)
    assert done.returncode != 0
    assert said in done.stderr


def try_out(cluster: KubeCluster, thing: Mapping[str, Any]) -> Any:
    """Have the API server check an object by all its rules, and keep nothing."""
    resource, (_, space, name) = KINDS[thing["kind"]], key(thing)
    path = resource.path(space, name)
    query = "fieldManager=test&force=true&fieldValidation=Strict&dryRun=All"
    kind = {"content-type": "application/apply-patch+yaml"}
    return cluster.request("PATCH", f"{path}?{query}", thing, **kind)


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        ("dure-member", EVERYTHING_OF_A_MEMBER),
        ("dure-server", ONE_SERVER),
        ("dure-server", SERVERS),
    ],
)
def test_an_api_server_takes_all_of_a_release(
    kube: KubeCluster, namespace: str, chart: str, values: dict[str, Any]
) -> None:
    if chart == "dure-member":
        tenant = {"name": "team", "namespace": namespace, "create": False}
        values = {**values, "tenants": [tenant]}
    made = rendered(chart, values, namespace=namespace)
    assert made
    for thing in made:
        try_out(kube, thing)


@pytest.mark.parametrize(("chart", "values"), [("dure-member", MEMBER), ("dure-server", SERVERS)])
def test_pods_of_a_release_fit_the_restricted_standard(
    kube: KubeCluster, namespace: str, chart: str, values: dict[str, Any]
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    query = "?fieldManager=test&force=true"
    kube.request(
        "PATCH",
        KINDS["Namespace"].path("", namespace) + query,
        {**space, "metadata": {"name": namespace, "labels": label}},
        **{"content-type": "application/apply-patch+yaml"},
    )
    runs = [thing for thing in rendered(chart, values) if "template" in thing.get("spec", {})]
    assert len(runs) == 1
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "namespace": namespace},
        "spec": {**runs[0]["spec"]["template"]["spec"], "serviceAccountName": "default"},
    }
    assert try_out(kube, pod)["spec"]["securityContext"]["runAsNonRoot"]
    worse = {**pod, "spec": {**pod["spec"], "hostNetwork": True}}
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        try_out(kube, worse)
