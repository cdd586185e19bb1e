"""Settings of a Kubernetes member's hands and eyes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dure.domain.ids import ClusterId, TenantId

TENANT_PREFIX = "dure-"
"""A tenant's namespace where none is named for it: `dure-<tenant>`."""


@dataclass(frozen=True)
class KubeSettings:
    """How plans are carried out in one cluster."""

    cluster: ClusterId
    namespace: str = "dure-system"
    """The member's own; nobody's work runs there."""
    namespaces: Mapping[TenantId, str] = field(default_factory=dict)
    """Of tenants whose namespace is called otherwise than `dure-<tenant>`."""
    bind_within_s: float = 60.0
    """How long Pods may wait for their nodes before all of them are taken back."""
    start_within_s: float = 900.0
    """How long a bound Pod may fail to start (no image, no volume) before it counts as failed."""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    """Of taints that Dure's Pods stand beside those of accelerators; such nodes are used."""
    device_class: str = "dure"
    """DeviceClass that claims name: one without selectors of its own, see `deploy/kubernetes`."""
    partitioner: str = ""
    """Who divides devices anew: a name of `PARTITIONERS`; empty: nobody does."""
    api_url: str = ""
    """Where people find the API server; empty: where the member does."""
    routes: bool = False
    """Whether services are found under names of this cluster, wherever they are."""
    gateway: str = ""
    """NAMESPACE/NAME of a Gateway that their routes belong to as well; empty: of none."""
    concurrency: int = 16
    """Requests for one call at a time."""
