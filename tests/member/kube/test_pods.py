"""What a program becomes as a Pod, and what its fields can never change; no cluster needed."""

from dataclasses import replace
from typing import Any

import pytest

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId, Order, Site
from dure.domain.fleet.programs import Mount, Program, Thing
from dure.domain.fleet.protocol.desired import Desired
from dure.domain.fleet.workloads import Demand, Gang, Workload, WorkloadKind
from dure.domain.ids import ClusterId, TenantId, WorkloadId
from dure.kube.resources import Object
from dure.member.kube import names
from dure.member.kube.gangs import job_of
from dure.member.kube.notes import Note, read_note, write_note
from dure.member.kube.pods import CONTROL, CONTROL_FOLDER, Unit, pod_of
from dure.member.kube.settings import KubeSettings
from dure.member.kube.spots import NodeSpot

SETTINGS = KubeSettings(ClusterId("here"))


def unit(program: Program, *, index: int = 0, serving: bool = False, job: str = "job") -> Unit:
    workload = Workload(
        id=WorkloadId(job),
        tenant=TenantId("team"),
        kind=WorkloadKind.SERVING if serving else WorkloadKind.TRAINING,
        demand=Demand(cpu_milli=500, host_memory_bytes=1 << 30),
        gang=Gang(2),
    )
    wanted = Desired(Order(workload, Site(ClusterId("here"), "g"), 3, 2), program, "space")
    instance = InstanceId(workload.id, 3, index)
    spot = NodeSpot(f"node-{index}", (0, 1), (1, 1), "whole")
    return Unit(instance, wanted, spot, "nvidia.com/gpu", ("nvidia.com/gpu",))


def pod(program: Program, **more: Any) -> Object:
    return pod_of(unit(program, **more), SETTINGS)


def test_a_pod_has_its_node_its_devices_and_its_fencing_token() -> None:
    made = pod(Program(image="x", env={"A": "1", "DURE_ATTEMPT": "99"}))
    spec = made["spec"]
    (container,) = spec["containers"]
    env = {one["name"]: one["value"] for one in container["env"]}
    assert env == {
        "A": "1",
        "DURE_JOB": "job",
        "DURE_ATTEMPT": "3",
        "DURE_CLUSTER": "here",
        "DURE_SHARE": "1",
        "DURE_RANK": "0",
        "DURE_WORLD_SIZE": "1",
        "DURE_CONTROL": CONTROL_FOLDER,
    }
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": str(1 << 30)},
        "limits": {"nvidia.com/gpu": "2"},
    }
    term = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = term["nodeSelectorTerms"][0]["matchFields"]
    assert fields == [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]
    assert (spec["restartPolicy"], spec["automountServiceAccountToken"]) == ("Never", False)
    assert made["metadata"]["name"] == "dure-job-3-0"
    assert "ownerReferences" not in made["metadata"]
    assert "finalizers" not in made["metadata"]


def test_services_are_restarted_and_probed_where_they_answer() -> None:
    spec = pod(Program(image="x", port=8080, service_account="robot"), serving=True)["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["containers"][0]["readinessProbe"]["tcpSocket"] == {"port": 8080}
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("robot", True)


def test_things_become_variables_and_files() -> None:
    secret, files = Thing("secret", "key"), Thing("config-map", "files")
    program = Program(
        image="x",
        env_from=(secret, files),
        mounts=(Mount(files, "/a"), Mount(files, "/b"), Mount(Thing("volume", "v"), "/v", False)),
    )
    spec = pod(program)["spec"]
    (container,) = spec["containers"]
    assert container["envFrom"] == [
        {"secretRef": {"name": "key"}},
        {"configMapRef": {"name": "files"}},
    ]
    mounts = [one for one in container["volumeMounts"] if one["name"] != CONTROL]
    assert [one["mountPath"] for one in mounts] == ["/a", "/b", "/v"]
    assert [one["readOnly"] for one in mounts] == [True, True, False]
    assert len([one for one in spec["volumes"] if one["name"] != CONTROL]) == 2


def test_fields_of_users_are_taken_where_they_decide_nothing_of_ours() -> None:
    theirs = {
        "affinity": {"nodeAffinity": {}},
        "nodeName": "elsewhere",
        "nodeSelector": {"a": "b"},
        "restartPolicy": "OnFailure",
        "schedulingGates": [{"name": "x"}],
        "resourceClaims": [{"name": "x"}],
        "hostIPC": True,
        "securityContext": {"runAsUser": 7},
        "tolerations": [{"key": "theirs", "operator": "Exists"}],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        "containers": [
            {
                "name": "main",
                "resources": {"limits": {"nvidia.com/gpu": "8"}},
                "env": [{"name": "DURE_ATTEMPT", "value": "9"}, {"name": "B", "value": "2"}],
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
            },
            {"name": "side", "image": "y", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
        ],
    }
    own = pod(Program(image="x"))["spec"]
    program = Program(image="x", pod=theirs, labels={"dure.io/job": "other", "app": "a"})
    made = pod(program)
    spec = made["spec"]
    for field in ("affinity", "restartPolicy"):
        assert spec[field] == own[field]
    for field in ("nodeName", "nodeSelector", "schedulingGates", "resourceClaims"):
        assert field not in spec
    assert spec["hostIPC"]
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}, "runAsUser": 7}
    main, side = spec["containers"]
    assert main["resources"] == own["containers"][0]["resources"]
    assert "resources" not in side
    variables = {one["name"]: one["value"] for one in main["env"]}
    assert (variables["DURE_ATTEMPT"], variables["B"]) == ("3", "2")
    assert main["volumeMounts"][1:] == [{"name": "shm", "mountPath": "/dev/shm"}]
    assert {"key": "theirs", "operator": "Exists"} in spec["tolerations"]
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in spec["tolerations"]
    assert made["metadata"]["labels"][names.JOB] == "job"
    assert made["metadata"]["labels"]["app"] == "a"


def test_a_grace_period_is_never_zero() -> None:
    assert pod(Program(image="x", grace_s=0.0))["spec"]["terminationGracePeriodSeconds"] == 1


def test_a_gang_waits_suspended_and_gated_behind_its_barrier() -> None:
    units = [unit(Program(image="x"), index=index) for index in range(2)]
    job = job_of(units, SETTINGS)
    spec = job["spec"]
    assert (spec["suspend"], spec["completionMode"], spec["backoffLimit"]) == (True, "Indexed", 0)
    assert (spec["completions"], spec["parallelism"]) == (2, 2)
    inner = spec["template"]["spec"]
    assert inner["schedulingGates"] == [{"name": "dure.io/placed"}]
    assert "affinity" not in inner
    barrier = {"name": "dure-gang", "configMap": {"name": "dure-job-3-0"}}
    assert barrier in inner["volumes"], "and not optional: no container starts without it"
    note = read_note(job["metadata"]["annotations"][names.NOTE])
    assert note is not None
    assert note.instances == tuple(each.instance for each in units)
    assert note.spots == tuple(each.spot for each in units)


def test_a_note_says_all_that_a_member_must_know() -> None:
    one = unit(Program(image="x", env={"A": "ü" * 1000}, pod={"hostIPC": True}))
    note = Note(one.desired, (0,), (one.spot,), (("gpu-0",),))
    assert read_note(write_note(note)) == note


@pytest.mark.parametrize("text", ["", "x", "H4sIAAAAAAAA", "e30="])
def test_a_note_that_cannot_be_read_is_none(text: str) -> None:
    assert read_note(text) is None


def test_what_is_too_long_to_note_is_refused() -> None:
    import random

    noise = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=120_000))
    program = Program(image="x", env={"A": noise, "B": noise[::-1], "C": noise[1:]})
    with pytest.raises(DureError, match="more than fit"):
        pod(program)


def test_names_are_the_same_whenever_asked_and_differ_for_different_jobs() -> None:
    assert names.object_name(InstanceId(WorkloadId("01ab"), 2, 5)) == "dure-01ab-2-5"
    odd = [WorkloadId(name) for name in ("A_b", "a_b", "a-b", "a" * 60, "a" * 61)]
    made = [names.object_name(InstanceId(name, 1, 0)) for name in odd]
    assert len(set(made)) == len(odd)
    assert all(len(name) < 60 for name in made)
    assert pod(Program(image="x"), job="A_b/c")["metadata"]["labels"][names.JOB] != "A_b/c"
    assert replace(unit(Program(image="x"))).claim_name != unit(Program(image="x")).name
