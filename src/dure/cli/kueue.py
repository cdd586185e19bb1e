"""`dure kueue`: the dispatcher that ranks clusters for MultiKueue."""

from pathlib import Path
from typing import Annotated

import typer

from dure.cli.centre import InContext, document
from dure.domain.errors import InputError

_Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Of MultiKueue's manager cluster; else as kubectl finds it, else the Pod's."),
]
_KubeContext = Annotated[
    str, typer.Option("--kube-context", help="Of the kubeconfig; else its current one.")
]
_Settings = Annotated[
    Path | None,
    typer.Option(
        help="YAML file: queues (whose they are), clusters (Dure's names), priorities, "
        "admissionChecks, nominees, widenAfter, review, patience, settle, fallbackAfter, profiles; "
        "all of them may be left out."
    ),
]


def kueue(
    kubeconfig: _Kubeconfig = None,
    kube_context: _KubeContext = "",
    settings: _Settings = None,
    context: InContext = "",
) -> None:
    """Nominate clusters for Workloads of MultiKueue, until told to end (SIGTERM or Ctrl-C).

    Kueue's configuration must name a dispatcher that is not its own, such as dure.io/kueue, as
    `multiKueue.dispatcherName`.
    """
    from dure.beside.main import KueueOptions, run_kueue
    from dure.beside.settings import KueueSettings
    from dure.client.fleet import load_context

    centre = load_context(context)
    if not centre.token:
        raise InputError(
            f"no token is known for {centre.servers[0]}",
            "run `dure login URL`, or set DURE_SERVER and DURE_TOKEN; a viewer's will do",
        )
    made = KueueSettings() if settings is None else document(settings, KueueSettings)
    run_kueue(KueueOptions(centre, kubeconfig, kube_context, made))
