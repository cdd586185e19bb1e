"""`dure clusters`: the members of the fleet, and what shall become of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dure.cli.centre import (
    AsJson,
    InContext,
    Sets,
    ago,
    centre,
    document,
    echo_json,
    echo_table,
    made_from,
    set_value,
)
from dure.cli.things import SpecFile, changed, revision_of, seen
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.api.clusters import ClusterDocument, ClusterSpec

app = typer.Typer(
    help="Clusters of the fleet; without a command: list them.", invoke_without_command=True
)
NameArgument = Annotated[str, typer.Argument(metavar="CLUSTER", help="Its name.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.callback()
def clusters(command: typer.Context, as_json: AsJson = False, context: InContext = "") -> None:
    """List the clusters of the fleet."""
    if command.invoked_subcommand is not None:
        return
    from dure.client.fleet import calls

    with centre(context) as client:
        found = list(client.each(calls.list_clusters))
    if as_json:
        echo_json({"clusters": [each.model_dump(mode="json") for each in found]})
    else:
        _print(found)


def _print(found: "list[ClusterDocument]") -> None:
    from dure.cli.fitting import Column

    columns: list[Column[ClusterDocument]] = [
        Column("cluster", lambda c: c.name, right=False),
        Column("kind", lambda c: c.spec.kind.value, rank=3, right=False),
        Column("region", lambda c: c.spec.region, rank=2, right=False),
        Column("state", lambda c: c.state.value, right=False),
        Column("member", lambda c: "here" if c.connected else "silent", right=False),
        Column("heard", lambda c: ago(c.last_contact_at), rank=1),
        Column("devices", lambda c: str(c.devices)),
        Column("free", lambda c: str(c.free_devices)),
        Column(
            "plan", lambda c: f"{c.accepted_revision}/{c.desired_revision}", rank=4, right=False
        ),
    ]
    echo_table(columns, found, "No clusters. Add one: dure clusters add NAME")


@app.command("show")
def show(name: NameArgument, context: InContext = "") -> None:
    """Show one cluster as JSON."""
    from dure.client.fleet import calls

    with centre(context) as client:
        echo_json(client.do(calls.get_cluster(name)))


@app.command("add")
def add(
    name: NameArgument,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="YAML: region, tariff, carbon, …; - is stdin."),
    ] = None,
    kind: Annotated[str, typer.Option(help="kubernetes or process.")] = "",
    region: Annotated[str, typer.Option(help="Where it is.")] = "",
    sets: Sets = [],  # noqa: B006 - typer copies it
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Declare a new cluster and print the token that its member joins with, this once."""
    from dure.client.fleet import calls
    from dure.client.fleet.calls import CREATE

    spec = _spec(file, kind, region, sets)
    with centre(context) as client:
        made = client.do(calls.put_cluster(name, spec, CREATE))
        issued = client.do(calls.issue_member_token(name))
    if as_json:
        echo_json({"cluster": made.model_dump(mode="json"), "token": issued.secret})
        return
    typer.echo(f"Cluster {name} is declared. Let its member join with this token:", err=True)
    typer.echo(issued.secret)


@app.command("set")
def change(
    name: NameArgument,
    file: SpecFile = None,
    sets: Sets = [],  # noqa: B006 - typer copies it
    context: InContext = "",
) -> None:
    """Change what is said of a cluster, as a YAML file or --set say."""
    from dure.api.clusters import ClusterSpec
    from dure.client.fleet import calls

    given = None if file is None else _spec(file, "", "", sets)
    with centre(context) as client:
        before = seen(client, calls.get_cluster(name))
        spec = given or changed(ClusterSpec, before, sets)
        echo_json(client.do(calls.put_cluster(name, spec, revision_of(before))))


def _spec(file: Path | None, kind: str, region: str, sets: list[str]) -> "ClusterSpec":
    from dure.api.clusters import ClusterSpec

    given = {"kind": kind, "region": region}
    words = [f"{name}={value}" for name, value in given.items() if value]
    if file is not None:
        return document(file, ClusterSpec, [*words, *sets])
    data: dict[str, Any] = {}
    for each in [*words, *sets]:
        set_value(data, each)
    return made_from(ClusterSpec, data)


@app.command("token")
def token(name: NameArgument, as_json: AsJson = False, context: InContext = "") -> None:
    """Issue another token for the cluster's member; `dure token revoke` ends an old one."""
    from dure.client.fleet import calls

    with centre(context) as client:
        issued = client.do(calls.issue_member_token(name))
    if as_json:
        echo_json(issued)
    else:
        typer.echo(issued.secret)


@app.command("cordon")
def cordon(name: NameArgument, context: InContext = "") -> None:
    """Place nothing new there; what runs there runs on."""
    _become(name, "cordoned", context)


@app.command("uncordon")
def uncordon(name: NameArgument, context: InContext = "") -> None:
    """Place work there again."""
    _become(name, "joined", context)


@app.command("drain")
def drain(name: NameArgument, context: InContext = "") -> None:
    """Cordon it and move what runs there elsewhere."""
    _become(name, "draining", context)


@app.command("declare-lost")
def declare_lost(name: NameArgument, yes: Yes = False, context: InContext = "") -> None:
    """Declare that it will not come back: what ran there is started elsewhere."""
    if not yes:
        typer.confirm(
            f"Work that still runs in {name} will run twice until it is stopped there. Sure?",
            abort=True,
        )
    _become(name, "lost", context)


@app.command("repartition")
def repartition(
    name: NameArgument,
    node: Annotated[str, typer.Argument(metavar="NODE", help="One of its nodes.")],
    layout: Annotated[
        str, typer.Argument(metavar="[LAYOUT]", help="That its manager knows, as all-1g.10gb.")
    ] = "",
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Let the node be as it is instead.")
    ] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Move what uses them elsewhere first.")
    ] = False,
    context: InContext = "",
) -> None:
    """Divide the devices of a node anew; its cluster refuses while anything uses them.

    `dure clusters show` says what has become of it.
    """
    from dure.client.fleet import calls

    if bool(layout) == withdraw:
        raise InputError("there is no layout, or one too many", "give LAYOUT or --withdraw")
    with centre(context) as client:
        if withdraw:
            client.do(calls.withdraw_partition(name, node))
            typer.echo(f"node {node} of {name} stays as it is.")
            return
        wish = client.do(calls.partition_node(name, node, layout, drain=drain))
    typer.echo(f"node {node} of {name} shall become {wish.layout}: {wish.phase.value}.")


@app.command("remove")
def remove(name: NameArgument, context: InContext = "") -> None:
    """Remove a cluster that nothing ran in; its members' tokens are revoked."""
    from dure.client.fleet import calls

    with centre(context) as client:
        present = client.do(calls.get_cluster(name))
        client.do(calls.delete_cluster(name, present.revision))
    typer.echo(f"cluster {name} is removed.")


@app.command("plan")
def plan(name: NameArgument, context: InContext = "") -> None:
    """Show what the centre wants of a cluster, as JSON."""
    from dure.client.fleet import calls

    with centre(context) as client:
        echo_json(client.do(calls.get_plan(name)))


def _become(name: str, state: str, context: str) -> None:
    from dure.client.fleet import calls
    from dure.domain.fleet.lifecycle import ClusterState

    with centre(context) as client:
        found = client.do(calls.set_cluster_state(name, ClusterState(state)))
    typer.echo(f"cluster {name} is {found.state.value}.")
