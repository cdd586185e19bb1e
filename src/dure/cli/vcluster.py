"""`dure vcluster`: tenants' own clusters over shared hardware."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dure.cli.centre import (
    AsJson,
    InContext,
    Sets,
    centre,
    document,
    echo_json,
    echo_table,
    known_context,
)
from dure.cli.terminal import host_and_port
from dure.cli.things import SpecFile, changed, revision_of, seen
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.api.virtual import VirtualClusterDocument

app = typer.Typer(help="Tenants' own clusters over shared hardware.", no_args_is_help=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Of the virtual cluster.")]


@app.command("list")
def list_all(as_json: AsJson = False, context: InContext = "") -> None:
    """List every virtual cluster that you may see."""
    from dure.client.fleet import calls

    with centre(context) as client:
        found = list(client.each(calls.list_virtual))
    if as_json:
        echo_json({"virtualClusters": [each.model_dump(mode="json") for each in found]})
        return
    from dure.cli.fitting import Column

    columns: list[Column[VirtualClusterDocument]] = [
        Column("virtual cluster", lambda v: v.name, right=False),
        Column("tenant", lambda v: v.spec.tenant, right=False),
        Column("tier", lambda v: v.spec.tier.value, right=False),
        Column("state", _state, right=False),
        Column("where", _where, rank=1, right=False),
    ]
    echo_table(columns, found, "No virtual clusters. Make one: dure vcluster apply NAME FILE")


def _state(found: "VirtualClusterDocument") -> str:
    if found.deleting:
        return "leaving"
    if found.spec.tier.value == "scoped":
        ready = sum(each.phase.value == "ready" for each in found.spaces)
        return f"{ready}/{len(found.spaces)} ready"
    if found.standing is None:
        return "never ran"
    return found.standing.phase if found.alive else "silent"


def _where(found: "VirtualClusterDocument") -> str:
    if found.spec.tier.value == "scoped":
        return ", ".join(each.cluster for each in found.spaces)
    return found.standing.url if found.standing is not None else ""


@app.command("show")
def show(name: NameArgument, context: InContext = "") -> None:
    """Show one as JSON, with its nodes where it is dedicated."""
    from dure.client.fleet import calls

    with centre(context) as client:
        found = client.do(calls.get_virtual(name))
        shown: dict[str, Any] = found.model_dump(mode="json")
        if found.spec.tier.value == "dedicated" and not found.deleting:
            nodes = client.do(calls.get_virtual_nodes(name))
            shown["nodes"] = nodes.model_dump(mode="json")["nodes"]
    echo_json(shown)


@app.command("apply")
def apply(
    name: NameArgument,
    file: SpecFile = None,
    sets: Sets = [],  # noqa: B006 - typer copies it
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Create or change one, as a YAML file or --set say."""
    from dure.api.virtual import VirtualClusterSpec
    from dure.client.fleet import calls

    given = None if file is None else document(file, VirtualClusterSpec, sets)
    with centre(context) as client:
        before = seen(client, calls.get_virtual(name))
        revision = revision_of(before)
        spec = given or changed(VirtualClusterSpec, before, sets)
        stored = client.do(calls.put_virtual(name, spec, revision))
    if as_json:
        echo_json(stored)
    else:
        typer.echo(f"virtual cluster {name} is {'changed' if revision else 'created'}.")


@app.command("delete")
def delete(
    name: NameArgument,
    force: Annotated[
        bool, typer.Option("--force", help="End Pods and jobs that still run in it.")
    ] = False,
    context: InContext = "",
) -> None:
    """Remove one; refused while Pods run in it, unless forced."""
    from dure.client.fleet import calls

    with centre(context) as client:
        present = client.do(calls.get_virtual(name))
        client.do(calls.delete_virtual(name, present.revision, force=force))
        left = seen(client, calls.get_virtual(name))
    if left is None:
        typer.echo(f"virtual cluster {name} is removed.")
    else:
        waiting = ", ".join(each.cluster for each in left.spaces if each.phase.value != "gone")
        typer.echo(f"virtual cluster {name} leaves; it is gone when {waiting} say so.")


@app.command("kubeconfig")
def kubeconfig(
    name: NameArgument,
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="CLUSTER", help="Of a scoped one: which of its.")
    ] = "",
    hours: Annotated[
        int, typer.Option(min=1, max=168, help="Of a scoped one: how long its token holds.")
    ] = 12,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file for it; else it is printed.")
    ] = None,
    context: InContext = "",
) -> None:
    """Print a kubeconfig for it.

    Of a dedicated one it holds no secret: kubectl asks this command for your token of Dure.
    """
    import json

    with centre(context) as client:
        made = _kubeconfig(client, name, (cluster, hours), context)
    text = json.dumps(made, indent=2)
    if out is None:
        typer.echo(text)
        return
    _write_private(out, text + "\n")
    typer.echo(f"kubectl --kubeconfig {out} get pods", err=True)


def _kubeconfig(client: Any, name: str, scoped: tuple[str, int], context: str) -> dict[str, Any]:
    from dure.api.virtual import KubeconfigRequest
    from dure.client.fleet import calls
    from dure.virtual.plane import kubeconfig as made_of

    cluster, hours = scoped
    found = client.do(calls.get_virtual(name))
    if found.spec.tier.value == "scoped":
        if not cluster:
            names = ", ".join(each.cluster for each in found.spaces) or "none yet"
            raise InputError("it is in several clusters", f"name one: {names}", field="--cluster")
        wanted = KubeconfigRequest(cluster=cluster, hours=hours)
        access = client.do(calls.issue_virtual_access(name, wanted))
        user = {"token": access.token}
        trust = _trust(access.authority)
        return made_of(f"{name}-{cluster}", {"server": access.url, **trust}, user, access.namespace)
    if cluster:
        raise InputError("it is dedicated: it has one address", "leave it out", field="--cluster")
    if found.spec.api_server.value == "given":
        raise InputError(
            f"the API server of virtual cluster {name} is given, and knows no token of Dure",
            "use the kubeconfig of that API server",
        )
    if found.standing is None or not found.standing.url:
        raise InputError(f"virtual cluster {name} never ran", f"start it: dure vcluster run {name}")
    words = ["vcluster", "credential", *(["--context", context] if context else [])]
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "dure",
        "args": words,
        "interactiveMode": "Never",
    }
    trust = _trust(found.standing.authority)
    return made_of(name, {"server": found.standing.url, **trust}, {"exec": plugin})


def _trust(authority: str) -> dict[str, str]:
    import base64

    encoded = base64.b64encode(authority.encode()).decode()
    return {"certificate-authority-data": encoded} if authority else {}


def _write_private(path: Path, text: str) -> None:
    import os

    path.unlink(missing_ok=True)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror})", "name another") from error
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


@app.command("credential", hidden=True)
def credential(context: InContext = "") -> None:
    """Print your token of Dure as kubectl asks for it."""
    status = {"token": known_context(context).token}
    echo_json(
        {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
    )


@app.command("run")
def run(
    name: NameArgument,
    state: Annotated[
        Path | None,
        typer.Option(help="Folder for keys and etcd's data; else ./dure-vcluster-NAME."),
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where its API server is found.")
    ] = "127.0.0.1:6443",
    host: Annotated[
        list[str],
        typer.Option("--host", help="A further name or address people use for it; may repeat."),
    ] = [],  # noqa: B006 - typer copies it
    programs: Annotated[
        Path | None,
        typer.Option(help="Folder of etcd and Kubernetes' programs; else as they are found."),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Of an API server that is there already.")
    ] = None,
    kube_context: Annotated[
        str, typer.Option("--kube-context", help="Of that kubeconfig; else its current one.")
    ] = "",
    client_ca: Annotated[
        Path | None,
        typer.Option(
            "--client-ca",
            help="Who signs the certificate that such an API server shows to kubelets.",
        ),
    ] = None,
    kubelet: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the API server asks for logs; 0: any.")
    ] = "127.0.0.1:0",
    context: InContext = "",
) -> None:
    """Run a dedicated virtual cluster until told to end (SIGTERM or Ctrl-C).

    Starts etcd, API server, scheduler and controllers, or uses those of --kubeconfig; the tenant's
    pools appear as nodes, Pods on them run in the fleet. What runs there runs on when this ends.
    """
    from dure.virtual.main import run as run_virtual
    from dure.virtual.options import GivenPlane, ManagedPlane, RunOptions

    centre_of = known_context(context)
    plane: GivenPlane | ManagedPlane
    if kubeconfig is not None:
        plane = GivenPlane(kubeconfig, kube_context, client_ca)
    else:
        at, port = host_and_port(listen, "--listen")
        plane = ManagedPlane(at, port, tuple(host), programs)
    logs_host, logs_port = host_and_port(kubelet, "--kubelet")
    folder = (state or Path(f"dure-vcluster-{name}")).absolute()
    run_virtual(RunOptions(centre_of, name, folder, plane, logs_host, logs_port))
