"""Dure's own kinds in a cluster, and whether those that are installed are the ones known here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dure.api.crds import GROUP, KINDS, VERSION, Kind, fields_of, schema
from dure.kube.client import KubeClient
from dure.kube.errors import KubeForbiddenError, KubeNotFoundError
from dure.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Object, Resource


def _resource(kind: Kind) -> Resource:
    return Resource(GROUP, VERSION, kind.name, kind.plural, kind.namespaced)


RESOURCES = {kind.name: _resource(kind) for kind in KINDS}
JOBS = RESOURCES["AcceleratorJob"]
PLACEMENTS = RESOURCES["Placement"]
PROFILES = RESOURCES["AcceleratorProfile"]
POOLS = RESOURCES["VNodePool"]
VIRTUAL_CLUSTERS = RESOURCES["VirtualCluster"]

FINALIZER = f"{GROUP}/withdraw"
"""Keeps a deleted job's object until its end is written down."""
_REMEDY = "apply the ones of this version (deploy/crds, with kubectl apply)"


@dataclass(frozen=True, slots=True)
class Installed:
    """Whether the door can be opened."""

    open: bool
    why: str = ""
    """Why not; empty: nobody installed it."""


async def look(client: KubeClient) -> Installed:
    """Compare what is installed with what this version needs."""
    found: dict[str, Object] = {}
    try:
        for kind in KINDS:
            try:
                found[kind.name] = await definition_of(client, kind.plural)
            except KubeNotFoundError:
                continue
    except KubeForbiddenError:
        return Installed(
            False,
            "the member may not see whether Dure's kinds are installed; where people shall submit "
            "with kubectl, apply deploy/crds and deploy/kubernetes/door-rights.yaml",
        )
    if not found:
        return Installed(False)
    missing = [kind.name for kind in KINDS if kind.name not in found]
    if missing:
        return Installed(False, f"{', '.join(missing)} of {GROUP} is not installed; {_REMEDY}")
    whys = [why for kind in KINDS if (why := mismatch(kind, found[kind.name]))]
    return Installed(not whys, "; ".join(whys[:1]))


async def definition_of(client: KubeClient, plural: str) -> Object:
    """The definition of a kind, as it is installed."""
    return await client.get(CUSTOM_RESOURCE_DEFINITIONS, f"{plural}.{GROUP}")


def mismatch(kind: Kind, installed: Mapping[str, Any]) -> str:
    """What the installed definition of a kind lacks; empty: nothing.

    One that has more is a newer one, whose new fields the centre judges job by job.
    """
    if "deletionTimestamp" in installed["metadata"]:
        return f"{kind.name} of {GROUP} is being removed"
    versions = {each["name"]: each for each in installed["spec"]["versions"] if each["served"]}
    if VERSION not in versions:
        served = ", ".join(sorted(versions)) or "nothing"
        return f"{kind.name} is served as {served}, not as {VERSION}; {_REMEDY}"
    there = versions[VERSION]
    if "status" not in (there.get("subresources") or {}):
        return f"{kind.name} has no status of its own; {_REMEDY}"
    has = set(fields_of((there.get("schema") or {}).get("openAPIV3Schema") or {}))
    lacks = [name for name in fields_of(schema(kind)) if name not in has]
    if lacks:
        more = f" and {len(lacks) - 1} fields more" if len(lacks) > 1 else ""
        return f"{kind.name} is of another version: it lacks {lacks[0]}{more}; {_REMEDY}"
    return ""
