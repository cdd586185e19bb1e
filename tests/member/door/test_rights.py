"""With the rights of `deploy/kubernetes` alone a member opens its door, and people use it."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from tests.kube.programs import ROOT, wait_until
from tests.member.door.beds import declared, job, kubectl, run_kubectl
from tests.member.kube.beds import KubeBed
from tests.member.kube.test_rights import SYSTEM, Right, install, recording

pytestmark = pytest.mark.kube

RIGHTS = ROOT / "deploy" / "kubernetes" / "door-rights.yaml"


def granted() -> set[tuple[str, str]]:
    """Kinds and verbs of the member's role."""
    things = list(yaml.safe_load_all(RIGHTS.read_text(encoding="utf-8")))
    role = next(each for each in things if each["metadata"]["name"] == "dure-member-door")
    return {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def conf_of_member(bed: KubeBed, folder: Path) -> Path:
    """A kubeconfig of the member's own account."""
    token = install(bed.cluster, bed.namespace)
    kubectl(bed.cluster, "apply", "-f", str(RIGHTS))
    found = json.loads(bed.cluster.kubeconfig.read_text(encoding="utf-8"))
    found["users"][0]["user"] = {"token": token}
    found["clusters"][0]["cluster"] = {
        "server": bed.cluster.url,
        "certificate-authority": str(bed.cluster.ca_file),
    }
    file = folder / "member.conf"
    file.write_text(json.dumps(found), encoding="utf-8")
    return file


def test_the_door_uses_the_rights_it_is_granted_and_no_others(bed: KubeBed, tmp_path: Path) -> None:
    conf = conf_of_member(bed, tmp_path)
    used: set[Right] = set()

    async def scenario() -> None:
        async with (
            declared(bed, tmp_path) as world,
            world.centre(),
            recording(bed, used),
            world.member(conf, SYSTEM),
        ):
            await world.apply("train")
            await world.phase("train", "Running")
            await world.until("a placement", lambda: world.items("placements"))
            await world.kubectl_async("delete", "ajob", "train", "-n", bed.namespace)

            async def gone() -> bool:
                return not await world.items("placements")

            await world.until("no placement", gone)

    asyncio.run(scenario())
    kinds = {resource for resource, _ in granted()}
    asked = {(right.resource, right.verb) for right in used if right.resource in kinds}
    assert asked <= granted()
    rare = {
        ("acceleratorjobs", "get"),  # after a conflict
        ("acceleratorprofiles", "delete"),
        ("placements", "create"),  # what an apply of something new needs
        ("acceleratorprofiles", "create"),
        *(("vnodepools", verb) for verb in ("create", "patch", "delete")),
        ("vnodepools/status", "patch"),
        *(("virtualclusters", verb) for verb in ("create", "patch", "delete")),
        ("virtualclusters/status", "patch"),
    }
    assert granted() - asked <= rare


def test_whoever_may_edit_a_namespace_submits_jobs_there_and_changes_no_mirror(
    bed: KubeBed, tmp_path: Path
) -> None:
    conf_of_member(bed, tmp_path)
    kubectl(
        bed.cluster,
        *("create", "rolebinding", "jane", "--clusterrole=edit", "--user=jane"),
        *("-n", bed.namespace),
    )

    def may(*words: str) -> bool:
        asked = ("auth", "can-i", *words, "-n", bed.namespace, "--as=jane")
        return run_kubectl(bed.cluster, *asked).stdout.strip() == "yes"

    text = job("train", bed.namespace)
    wait_until("roles are summed up", lambda: may("create", "acceleratorjobs.dure.io"))
    kubectl(bed.cluster, "apply", "-f", "-", "--as=jane", stdin=text)
    assert may("get", "placements.dure.io")
    assert not may("patch", "placements.dure.io")
    assert not may("patch", "acceleratorjobs.dure.io", "--subresource=status")
    assert not may("list", "vnodepools.dure.io")
