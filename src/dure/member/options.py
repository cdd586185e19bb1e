"""What `dure member` is started with."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dure.domain.ids import ClusterId
from dure.member.link.session import Centre

Kind = Literal["kubernetes", "process"]


@dataclass(frozen=True, slots=True)
class KubernetesOptions:
    """How a cluster of Kubernetes is reached."""

    kubeconfig: Path | None = None
    """None: as kubectl finds it, or the account of the Pod."""
    context: str = ""
    namespace: str = ""
    """The member's own; empty: that of the context or the Pod."""
    config: Path | None = None
    """A file of `KubeSettings`; None: as these are by themselves."""
    identity: str = ""
    """Of this one among several members; empty: host and process."""


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """How a cluster of local processes is made."""

    nodes: Path
    """The file that describes them."""
    state: Path
    """Folder of memory, instances and their output."""


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """One member."""

    cluster: ClusterId
    centre: Centre
    cluster_kind: KubernetesOptions | ProcessOptions
    metrics: tuple[str, int] | None = None
    """Host and port of `/metrics`; None: there is none."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
