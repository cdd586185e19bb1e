"""`dure member`: the process in each cluster that carries the centre's plans out."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dure.cli.terminal import host_and_port
from dure.domain.errors import InputError
from dure.domain.ids import ClusterId

if TYPE_CHECKING:
    from dure.member.link.session import Centre

TOKEN_VARIABLE = "DURE_MEMBER_TOKEN"

_Cluster = Annotated[str, typer.Option(help="Its name, as the centre knows it.")]
_Servers = Annotated[
    list[str],
    typer.Option("--server", metavar="URL", help="A server's door for members; may be repeated."),
]
_TokenFile = Annotated[
    Path | None, typer.Option(help=f"File with the member's token; else {TOKEN_VARIABLE}.")
]
_Kind = Annotated[
    Literal["kubernetes", "process"],
    typer.Option(help="kubernetes: Pods of a cluster. process: programs of this host."),
]
_Ca = Annotated[
    Path | None, typer.Option(help="Whom to trust, in PEM; else the system's authorities.")
]
_Cert = Annotated[Path | None, typer.Option(help="A certificate to show, in PEM.")]
_Key = Annotated[Path | None, typer.Option(help="Its key, in PEM.")]
_Kubeconfig = Annotated[
    Path | None, typer.Option(help="As kubectl finds it, or the account of the Pod, otherwise.")
]
_Context = Annotated[str, typer.Option(help="Of the kubeconfig; else its current one.")]
_Namespace = Annotated[str, typer.Option(help="The member's own; else that of the context.")]
_Config = Annotated[
    Path | None,
    typer.Option(
        help="YAML file of how a Kubernetes cluster is used: namespaces (of tenants), "
        "bind_within_s, start_within_s, tolerations, device_class, partitioner (mig-manager, "
        "device-plugin, dra), concurrency; all of them may be left out."
    ),
]
_Nodes = Annotated[Path | None, typer.Option(help="YAML file of the nodes of a process cluster.")]
_Metrics = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Show measurements to Prometheus here.")
]
_State = Annotated[
    Path | None, typer.Option(help="Folder of a process cluster: memory, programs, their output.")
]


def member(
    cluster: _Cluster,
    server: _Servers,
    token_file: _TokenFile = None,
    kind: _Kind = "kubernetes",
    ca: _Ca = None,
    cert: _Cert = None,
    key: _Key = None,
    kubeconfig: _Kubeconfig = None,
    context: _Context = "",
    namespace: _Namespace = "",
    config: _Config = None,
    nodes: _Nodes = None,
    state: _State = None,
    metrics: _Metrics = "",
) -> None:
    """Carry the centre's plans out in one cluster, until it is told to end (SIGTERM or Ctrl-C).

    What runs in the cluster runs on when the member or the centre is gone.
    """
    from dure.member.link.servers import Trust, server_of
    from dure.member.link.session import Centre
    from dure.member.main import run
    from dure.member.options import KubernetesOptions, MemberOptions, ProcessOptions

    of_process = {"--nodes": nodes, "--state": state}
    of_kubernetes = {
        "--kubeconfig": kubeconfig,
        "--context": context,
        "--namespace": namespace,
        "--config": config,
    }
    _refuse(kind, of_kubernetes if kind == "process" else of_process)
    trust = Trust(ca, cert, key)
    servers = [server_of(each, trust) for each in server]
    centre = Centre(servers, os.environ.get(TOKEN_VARIABLE, ""), token_file)
    _check_token(centre)
    if kind == "kubernetes":
        made: KubernetesOptions | ProcessOptions = KubernetesOptions(
            kubeconfig, context, namespace, config
        )
    elif nodes is None or state is None:
        raise InputError(
            "a cluster of processes needs nodes and a folder", "give --nodes and --state"
        )
    else:
        made = ProcessOptions(nodes, state)
    shown = host_and_port(metrics, "--metrics") if metrics else None
    run(MemberOptions(ClusterId(cluster), centre, made, shown))


def _refuse(kind: str, others: Mapping[str, object]) -> None:
    for option, value in others.items():
        if value:
            raise InputError(f"{option} is not about clusters of kind '{kind}'", "leave it out")


def _check_token(centre: "Centre") -> None:
    if not centre.bearer():
        raise InputError(
            "there is no token", f"give --token-file or {TOKEN_VARIABLE}", field="--token-file"
        )
