"""The custom resources of a member cluster, made from the documents of the centre's interface.

`tools/make_crds.py` writes them to `deploy/crds`; a member compares what is installed with them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dure.api.accelerators import AcceleratorDocument
from dure.api.cluster_views import (
    AcceleratorJobStatus,
    PlacementSpec,
    PlacementStatus,
    PoolStatus,
    ProfileStatus,
    VirtualClusterSpec,
    VirtualClusterStatus,
)
from dure.api.jobs import JobSpec
from dure.api.pod_fields import POD
from dure.api.structural import Schema, structural
from dure.api.tenancy import PoolSpec

GROUP, VERSION = "dure.io", "v1"
CHANGEABLE = frozenset({"priority", "suspend"})
"""What of a job's spec may change."""
NOT_SAID = ("name", "tenant", "array")
"""Fields of a job that an object in a cluster does not have: it is one job, called as the object
is, of the tenant that its namespace is bound to."""


@dataclass(frozen=True)
class Column:
    """What `kubectl get` shows."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Whether only `-o wide` shows it."""


@dataclass(frozen=True)
class Kind:
    """One custom resource."""

    name: str
    plural: str
    short: str
    namespaced: bool
    what: str
    spec: Callable[[], Schema]
    status: Callable[[], Schema]
    columns: tuple[Column, ...]
    rules: tuple[Schema, ...] = ()
    """Of the object as a whole."""


def rule(test: str, message: str, path: str = "") -> Schema:
    """A rule that the API server keeps."""
    made = {"rule": test, "message": message}
    return made | {"fieldPath": path} if path else made


def _exactly_one(*names: str) -> Schema:
    count = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    return rule(f"{count} == 1", f"give exactly one of {', '.join(names)}")


def _unchanged(name: str) -> Schema:
    same = f"has(self.{name}) == has(oldSelf.{name}) && "
    same += f"(!has(self.{name}) || self.{name} == oldSelf.{name})"
    return rule(same, "cannot be changed; delete the job and apply it anew", f".{name}")


_SERVES = "self.kind == 'serving'"
_JOB_RULES = (
    rule(
        "(has(self.image) && self.image != '') || (has(self.command) && size(self.command) > 0)",
        "there is nothing to run; give an image, a command or both",
    ),
    rule(f"({_SERVES}) == has(self.service)", "service belongs to kind serving, and it needs one"),
    rule(f"!({_SERVES}) || !has(self.work)", "work means nothing for serving; leave it out"),
    rule(
        f"!({_SERVES}) || !has(self.sla) || !has(self.sla.deadline)",
        "sla.deadline means nothing for serving, which never ends; leave it out",
    ),
    rule(
        "!has(self.serviceName) || has(self.team)",
        "serviceName is of a team; name the team too",
    ),
)


def _job_spec() -> Schema:
    made = structural(JobSpec, leave_out=NOT_SAID)
    fields = made["properties"]
    fields["pod"] = POD | {"description": fields["pod"]["description"]}
    fields["suspend"] = {
        "type": "boolean",
        "description": "Whether it shall have no place for now; what runs is stopped.",
    }
    fields["gang"]["x-kubernetes-validations"] = [
        rule(
            "!has(self.mostWorkers) || self.mostWorkers >= (has(self.workers) ? self.workers : 1)",
            "mostWorkers is less than workers; write at least as many",
        )
    ]
    fields["service"]["x-kubernetes-validations"] = [
        rule(
            "(has(self.warm) ? self.warm : 1) <= (has(self.most) ? self.most : 64)",
            "warm is more than the instances it may have; raise most",
        )
    ]
    fields["onClusterLost"]["x-kubernetes-validations"] = [_exactly_one("then", "fenceAfter")]
    named = {"envFrom": ("secret", "configMap"), "mounts": ("secret", "configMap", "volume")}
    for name, things in named.items():
        fields[name]["items"]["x-kubernetes-validations"] = [_exactly_one(*things)]
    fixed = [_unchanged(name) for name in fields if name not in CHANGEABLE]
    made["x-kubernetes-validations"] = [*_JOB_RULES, *fixed]
    return made


def _profile_spec() -> Schema:
    return structural(AcceleratorDocument, leave_out=("name",))


_COSTS = (
    Column("COST/H", ".status.costPerHour", "number"),
    Column("GCO2/H", ".status.gCO2PerHour", "number"),
)
_AGE = Column("AGE", ".metadata.creationTimestamp", "date")

KINDS = (
    Kind(
        "AcceleratorJob",
        "acceleratorjobs",
        "ajob",
        namespaced=True,
        what="A job for accelerators, placed by Dure in whichever cluster suits it best.",
        spec=_job_spec,
        status=lambda: structural(AcceleratorJobStatus),
        columns=(
            Column("KIND", ".spec.kind", wide=True),
            Column("CLUSTER", ".status.cluster"),
            Column("SLICE", ".status.slice"),
            *_COSTS,
            Column("PHASE", ".status.phase"),
            Column("JOB", ".status.jobId", wide=True),
            Column("MESSAGE", ".status.message", wide=True),
            _AGE,
        ),
        rules=(
            rule(
                "self.metadata.name.size() <= 63",
                "the name is longer than 63 characters; shorten it",
            ),
        ),
    ),
    Kind(
        "Placement",
        "placements",
        "placement",
        namespaced=True,
        what="One attempt of a job that is carried out here. Written by Dure, for readers.",
        spec=lambda: structural(PlacementSpec),
        status=lambda: structural(PlacementStatus),
        columns=(
            Column("JOB", ".spec.job"),
            Column("ATTEMPT", ".spec.attempt", "integer"),
            Column("CLUSTER", ".spec.cluster"),
            Column("NODE", ".status.node", wide=True),
            Column("SLICE", ".status.slice"),
            Column("DEVICE", ".status.device"),
            *_COSTS,
            Column("STATE", ".status.state"),
            _AGE,
        ),
    ),
    Kind(
        "AcceleratorProfile",
        "acceleratorprofiles",
        "aprofile",
        namespaced=False,
        what="An accelerator that this cluster has. Written by Dure, for readers.",
        spec=_profile_spec,
        status=lambda: structural(ProfileStatus),
        columns=(
            Column("VENDOR", ".spec.vendor"),
            Column("DEVICES", ".status.devices", "integer"),
            *_COSTS,
            _AGE,
        ),
    ),
    Kind(
        "VNodePool",
        "vnodepools",
        "vnp",
        namespaced=False,
        what="A tenant's pool of virtual nodes, and its lease here. Written by Dure, for readers.",
        spec=lambda: structural(PoolSpec),
        status=lambda: structural(PoolStatus),
        columns=(
            Column("TENANT", ".spec.tenant"),
            Column("PROFILE", ".spec.profile"),
            Column("SLICE", ".spec.slice"),
            Column("UNITS", ".status.units", "integer"),
            Column("LENT", ".status.lent", "integer"),
            _AGE,
        ),
    ),
    Kind(
        "VirtualCluster",
        "virtualclusters",
        "dvc",
        namespaced=False,
        what="A tenant's own cluster over shared hardware. Written by Dure, for readers.",
        spec=lambda: structural(VirtualClusterSpec),
        status=lambda: structural(VirtualClusterStatus),
        columns=(
            Column("TENANT", ".spec.tenant"),
            Column("TIER", ".spec.tier"),
            Column("PHASE", ".status.phase"),
            _AGE,
        ),
    ),
)


def definition(kind: Kind) -> Schema:
    """A kind as the object that installs it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [kind.short] if kind.short != kind.name.lower() else [],
                "categories": ["dure"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema(kind)},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(each) for each in kind.columns],
                }
            ],
        },
    }


def schema(kind: Kind) -> Schema:
    """What objects of a kind look like."""
    made: Schema = {
        "type": "object",
        "description": kind.what,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": kind.spec(),
            "status": kind.status(),
        },
        "required": ["spec"],
    }
    if kind.rules:
        made["x-kubernetes-validations"] = list(kind.rules)
    return made


def _column(column: Column) -> Schema:
    made: Schema = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return made | {"priority": 1} if column.wide else made


def fields_of(said: Mapping[str, Any], path: str = "") -> Iterable[str]:
    """All fields of a schema by their paths: `spec.gang.workers`."""
    for name, each in (said.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        yield from fields_of(each, here)
    if isinstance(said.get("items"), Mapping):
        yield from fields_of(said["items"], path)
