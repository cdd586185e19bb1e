"""Dure's kinds in a cluster: what the API server takes, and which of them a member works with."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dure.api.crds import KINDS, definition, fields_of, schema
from dure.api.jobs import POD_FIELDS
from dure.member.door.kinds import mismatch
from tests.member.door.beds import CRDS, declared, install, job, kubectl
from tests.member.kube.beds import KubeBed

JOBS = next(kind for kind in KINDS if kind.name == "AcceleratorJob")


def installed(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """A definition as somebody else has it."""
    made: dict[str, Any] = json.loads(json.dumps(definition(JOBS)))
    change(made["spec"]["versions"][0])
    return made


def spec_of(version: dict[str, Any]) -> dict[str, Any]:
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fields: dict[str, Any] = spec["properties"]
    return fields


def test_the_kinds_of_this_version_fit() -> None:
    assert not mismatch(JOBS, installed(lambda _: None))


def test_an_older_definition_is_told_by_the_field_it_lacks() -> None:
    why = mismatch(JOBS, installed(lambda version: spec_of(version).pop("retries")))
    assert why.startswith("AcceleratorJob is of another version: it lacks spec.retries;")
    assert "deploy/crds" in why


def test_a_definition_that_does_not_serve_the_version_is_told_by_what_it_serves() -> None:
    why = mismatch(JOBS, installed(lambda version: version.update(name="v1beta1")))
    assert "is served as v1beta1, not as v1" in why


def test_a_newer_definition_with_more_fields_will_do() -> None:
    more = {"type": "string"}
    assert not mismatch(JOBS, installed(lambda version: spec_of(version).update(colour=more)))


def test_a_job_by_kubectl_may_set_what_any_job_may_set_of_its_pods() -> None:
    fields = set(fields_of(schema(JOBS)))
    assert {f"spec.pod.{name}" for name in POD_FIELDS} <= fields
    assert not {"spec.tenant", "spec.name", "spec.array"} & fields


@pytest.mark.kube
def test_the_api_server_keeps_the_rules_of_jobs(bed: KubeBed) -> None:
    def refused(words: str, **spec: Any) -> None:
        text = job("wrong", bed.namespace, **spec)
        said = kubectl(bed.cluster, "apply", "-f", "-", stdin=text, good=False)
        assert words in said, said

    refused("nothing to run", image="")
    refused("spec.resources.memory", resources={"memory": "1 potato"})
    refused("exactly one of secret, configMap, volume", mounts=[{"path": "/a"}])
    refused("exactly one of then, fenceAfter", onClusterLost={"then": "wait", "fenceAfter": "9s"})
    refused("service belongs to kind serving", kind="serving")
    refused("mostWorkers is less", gang={"workers": 4, "mostWorkers": 2})
    refused("name the team", serviceName="ocr")
    refused('unknown field "spec.tenant"', tenant="other")
    refused('unknown field "spec.pod.hostNetwork"', pod={"hostNetwork": True})
    long = job("n" * 64, bed.namespace)
    said = kubectl(bed.cluster, "apply", "-f", "-", stdin=long, good=False)
    assert "longer than 63" in said


@pytest.mark.kube
def test_only_priority_and_suspend_of_a_job_can_be_changed(bed: KubeBed) -> None:
    spec = {"env": {"A": "b"}, "pod": {"nodeSelector": {"a": "b"}}, "clusters": ["here"]}
    kubectl(bed.cluster, "apply", "-f", "-", stdin=job("fixed", bed.namespace, **spec))
    where = ("patch", "ajob", "fixed", "-n", bed.namespace, "--type=merge", "-p")
    fields = schema(JOBS)["properties"]["spec"]["properties"]
    others: dict[str, Any] = {
        "kind": "training",
        "env": {"A": "c"},
        "pod": {"nodeSelector": {"a": "c"}},
        "clusters": None,
        "retries": 3,
        "resources": {"memory": "2GiB"},
    }
    assert others.keys() <= fields.keys()
    for name, value in others.items():
        change = json.dumps({"spec": {name: value}})
        said = kubectl(bed.cluster, *where, change, good=False)
        assert f"spec.{name}" in said
        assert "delete the job and apply it anew" in said
    kubectl(bed.cluster, *where, '{"spec":{"priority":5,"suspend":true}}')


@pytest.mark.kube
def test_a_member_with_older_kinds_keeps_its_door_closed_says_why_and_goes_on(
    bare: KubeBed, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    for file in CRDS.glob("*.yaml"):
        made = yaml.safe_load(file.read_text(encoding="utf-8"))
        if file.stem == "acceleratorjobs":
            fields = spec_of(made["spec"]["versions"][0])
            del fields["retries"]
            spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            spec["x-kubernetes-validations"] = []
        (old / file.name).write_text(yaml.safe_dump(made), encoding="utf-8")
    install(bare.cluster, old)

    async def scenario() -> None:
        async with declared(bare, tmp_path) as world, world.centre(), world.member():

            async def warned() -> list[str]:
                async with world.store.reading() as tx:
                    events = await tx.events.since(0, 1000)
                texts = [str(each.data.get("what")) for each in events if each.kind == "warning"]
                return [text for text in texts if "door for kubectl" in text]

            (why,) = await world.until("a warning", warned)
            assert "it lacks spec.retries" in why
            await world.apply("train")
            submitted = await world.submit()
            await world.until("a job by other ways", lambda: world.is_running(submitted))
            assert not (await world.shown("train")).get("status"), "nobody looks at it"
            await asyncio.to_thread(install, bare.cluster)
            await world.phase("train", "Running")

    asyncio.run(scenario())
