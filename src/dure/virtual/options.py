"""How the process of a dedicated virtual cluster is started."""

from dataclasses import dataclass
from pathlib import Path

from dure.client.fleet.config import Context


@dataclass(frozen=True)
class ManagedPlane:
    """An API server of our own, started here."""

    host: str
    port: int
    """Where people find it."""
    names: tuple[str, ...] = ()
    """Further names and addresses by which people reach it, for its certificate."""
    programs: Path | None = None
    """Where etcd and Kubernetes' programs are; None: as they are found."""


@dataclass(frozen=True)
class GivenPlane:
    """Somebody's own API server."""

    kubeconfig: Path
    context: str = ""
    client_authority: Path | None = None
    """Who signs the certificate that the API server shows to kubelets; None: no logs are given."""


@dataclass(frozen=True)
class RunOptions:
    """What `dure vcluster run` was told."""

    centre: Context
    name: str
    state: Path
    """Keys, certificates and etcd's data; only its owner may read it."""
    plane: ManagedPlane | GivenPlane
    kubelet_host: str = "127.0.0.1"
    """Where the API server asks for logs."""
    kubelet_port: int = 0
    """0: any that is free."""
