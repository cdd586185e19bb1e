"""`dure kueue`: the dispatcher that ranks clusters for MultiKueue."""

from pathlib import Path
from typing import Annotated

import typer

from dure.cli.centre import InContext, document, known_context

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
        "admissionChecks, nominees, widenAfter, review, patience, settle, fallbackAfter, "
        "profileNamespace, profileFeeds; all of them may be left out."
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

    centre = known_context(context)
    made = KueueSettings() if settings is None else document(settings, KueueSettings)
    run_kueue(KueueOptions(centre, kubeconfig, kube_context, made))
