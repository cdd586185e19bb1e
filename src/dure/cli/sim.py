"""`dure sim`: what a policy would do to a mix of tenants, in virtual time."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dure.cli.scenarios import needed, refuse_scenario
from dure.cli.sim_fleet import fleet
from dure.cli.sim_node import node
from dure.cli.terminal import (
    announce_compilation,
    duration_option_ns,
    output_console,
    progress_bar,
    refuse_unwritable,
)
from dure.domain.errors import DureError, InputError
from dure.kit.files import write_text

if TYPE_CHECKING:
    from dure.sim.kernel.compare import Comparison
    from dure.sim.kernel.journal import ReplayReport
    from dure.sim.kernel.scenario import Scenario

app = typer.Typer(
    help="Run a level of Dure in virtual time, beside what people use today.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Run a level of Dure in virtual time, beside what people use today."""


app.command("fleet")(fleet)
app.command("node")(node)


@app.command("kernel")
def kernel(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help="What to run: GPU, tenants, modes; docs/guide/scenarios.md explains the fields.",
            metavar="SCENARIO.yaml",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every figure as JSON instead of tables.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of random arrivals, instead of the scenario's.", min=0)
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write a report with charts and the timeline of squads there."),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="Record there what the machine is told and answers; one mode only."),
    ] = None,
    modes: Annotated[
        str, typer.Option(help="Modes to run instead of the scenario's, as in 'mps,slo'.")
    ] = "",
    duration: Annotated[
        str | None, typer.Option(help="Virtual time to run instead of the scenario's, as '5s'.")
    ] = None,
    goals: Annotated[
        Path | None,
        typer.Option(help="Add a mode with the policy chosen for these goals and tenants."),
    ] = None,
    adapt: Annotated[
        Literal["off", "advise", "auto"],
        typer.Option(help="Add a mode in which an advisor proposes or switches policies."),
    ] = "off",
    replay: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of a scenario, run again what `dure record` or --journal wrote.",
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="With --replay: what this policy would have decided instead.")
    ] = "",
) -> None:
    """Compare ways to share a GPU under one load, or replay a journal."""
    if replay is not None:
        refuse_scenario(scenario)
        if policy:
            _replay_policy(replay, policy, as_json=as_json)
        else:
            _replay(replay, as_json=as_json)
        return
    if policy:
        raise InputError(
            "it needs a recording", "add --replay FILE, or use --modes", field="--policy"
        )
    scenario = needed(scenario, "a journal")
    from dure.sim.kernel.compare import compare
    from dure.sim.kernel.scenario import Overrides, read_scenario

    wanted = tuple(name.strip() for name in modes.split(",") if name.strip())
    length_ns = None if duration is None else duration_option_ns(duration, "--duration")
    described = read_scenario(scenario, Overrides(seed, length_ns, wanted))
    described = _with_further_modes(described, goals, adapt)
    _refuse_clashes({"scenario": scenario, "--goals": goals, "--html": html, "--journal": journal})
    refuse_unwritable(html, "--html")
    announce_compilation()
    with progress_bar() as tell:
        comparison = compare(described, journal=journal, progress=tell)
    if html is not None:
        from dure.sim.kernel.report import html_report

        write_text(html, html_report(comparison))
    _show(comparison, as_json=as_json)


def _with_further_modes(described: "Scenario", goals: Path | None, adapt: str) -> "Scenario":
    """The scenario with the modes that --goals and --adapt add."""
    if goals is not None:
        from dure.sim.goals_file import read_goals
        from dure.sim.kernel.with_goals import with_goals

        described = with_goals(described, read_goals(goals))
    if adapt != "off":
        from dure.domain.adaptation import AdaptBy
        from dure.sim.kernel.with_advice import with_advice

        described = with_advice(described, AdaptBy(adapt))
    return described


def _show(comparison: "Comparison", *, as_json: bool) -> None:
    if as_json:
        from dure.sim.kernel.export import comparison_data

        data = comparison_data(comparison)
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))
        return
    from dure.sim.kernel.tables import WIDTH, comparison_tables

    output_console(WIDTH).print(comparison_tables(comparison))


def _refuse_clashes(files: dict[str, Path | None]) -> None:
    """No file may be named twice: an output would overwrite an input or another output."""
    seen: dict[Path, str] = {}
    for name, path in files.items():
        if path is None:
            continue
        known = seen.setdefault(path.resolve(), name)
        if known != name:
            raise InputError(
                f"{path} is named twice, as {known} too", "name another file", field=name
            )


def _replay(path: Path, *, as_json: bool) -> None:
    from dure.sim.kernel.journal import replay_journal

    report = replay_journal(path)
    if as_json:
        typer.echo(json.dumps(_replay_data(report), indent=2, ensure_ascii=False))
    else:
        typer.echo(
            f"{report.events:,} events and {report.instructions:,} instructions of a machine "
            f"started with '{report.policy}' replayed: "
            + ("identical." if report.identical else f"{report.mismatches:,} answers differ.")
        )
        if report.note:
            typer.echo(f"note: {report.note}", err=True)
    if report.first_mismatch is not None:
        raise DureError(
            f"{path}: the replay differs first at {report.first_mismatch}",
            "replay with the version of Dure that recorded it",
        )


def _replay_policy(path: Path, policy: str, *, as_json: bool) -> None:
    from dure.sim.kernel.replay import replay_policy

    found = replay_policy(path, policy)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2, ensure_ascii=False))
        return
    for moment in found.moments:
        typer.echo(f"{moment.at_s:10.3f} s  recorded  {moment.recorded}")
        typer.echo(f"{'':10}    {'':9} {moment.replayed}")
    for tenant, was, would in found.tenants:
        typer.echo(
            f"{tenant}: gives way to others {was:.0%} of the time as recorded, "
            f"{would:.0%} under '{policy}'"
        )
    typer.echo(
        f"{found.events:,} events of {found.seconds:.1f} s recorded under "
        f"'{found.recorded_policy}': with '{policy}' other squads {found.differing_share:.0%} of "
        f"the time, {found.replayed_plans:,} plans instead of {found.recorded_plans:,}"
    )
    if found.note:
        typer.echo(f"note: {found.note}", err=True)


def _replay_data(report: "ReplayReport") -> dict[str, object]:
    return {
        "policy": report.policy,
        "events": report.events,
        "instructions": report.instructions,
        "mismatches": report.mismatches,
        "first_mismatch": str(report.first_mismatch) if report.first_mismatch else None,
        "note": report.note,
    }
