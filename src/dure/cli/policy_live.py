"""`dure policy` on a running agent: show what is in force, switch, apply goals."""

from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.terminal import output_console
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from dure.client.schema import GoalsAnswer, PlanStatus, PolicyAnswer, PolicyStatus
    from dure.kernel.goals import Goals

_WIDTH = 100
_MOST_SQUADS = 8

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
OnGpu = Annotated[str | None, typer.Option(help="Index or UUID of the GPU; all unless given.")]


def show(as_json: AsJson = False) -> None:
    """Show the policy of every GPU of a running agent, with the plan in force."""
    from dure.client.api import find_agent

    with find_agent() as client:
        _print(client.policy(), as_json=as_json)


def switch(
    policy: Annotated[str, typer.Argument(help="jct, slo or hybrid.", metavar="POLICY")],
    parameters: Annotated[
        list[str] | None,
        typer.Argument(help="Parameters, as 'patience=0.1'.", metavar="[NAME=VALUE]…"),
    ] = None,
    gpu: OnGpu = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    as_json: AsJson = False,
) -> None:
    """Switch the policy while work runs; it takes effect at the next squad."""
    from dure.client.api import find_agent
    from dure.client.schema import PolicyRequest
    from dure.kernel.policies.registry import make_policy

    numbers = dict(_parameter(each) for each in parameters or ())
    make_policy(policy, tuple(sorted(numbers.items())))
    request = PolicyRequest(policy=policy, parameters=numbers, gpu=gpu, dry_run=dry_run)
    with find_agent() as client:
        _print(client.set_policy(request), as_json=as_json)


def is_device(gpu: str) -> bool:
    """Whether this names a GPU of this host, by index or UUID, and not a kind of accelerator."""
    return gpu.isdecimal() or gpu.upper().startswith("GPU-")


def apply_to_agent(goals: "Goals", *, gpu: str | None, dry_run: bool) -> "GoalsAnswer | None":
    """Hand goals to a running agent; None where there is none and no GPU of one was named."""
    from dure.client.api import AgentUnreachableError, find_agent
    from dure.client.convert import goals_request

    try:
        client = find_agent()
    except AgentUnreachableError:
        if gpu is not None or dry_run:
            raise
        return None
    with client:
        try:
            return client.apply_goals(goals_request(goals, gpu=gpu, dry_run=dry_run))
        except InputError as error:
            raise error.located(file=goals.file) from error


def print_applied(answer: "GoalsAnswer", *, as_json: bool) -> None:
    """What a running agent made of goals."""
    if as_json:
        typer.echo(answer.model_dump_json(indent=2, by_alias=True))
        return
    from rich.text import Text

    console = output_console(_WIDTH)
    console.print(Text.assemble("policy ", (answer.policy, "bold")))
    for name, value in sorted(answer.parameters.items()):
        console.print(f"  {name} = {value:g}")
    console.print("why")
    for reason in answer.reasons:
        console.print(Text(f"  - {reason}"), soft_wrap=True)
    console.print("Nothing was changed." if answer.dry_run else "The running agent follows it now.")


def _parameter(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name.strip(), float(number)
    except ValueError:
        raise InputError(
            f"'{text}' is no parameter", "write NAME=NUMBER, as in 'patience=0.1'"
        ) from None


def _print(answer: "PolicyAnswer", *, as_json: bool) -> None:
    if as_json:
        typer.echo(answer.model_dump_json(indent=2, by_alias=True))
        return
    console = output_console(_WIDTH)
    console.print(policy_view(answer.policies))
    if answer.dry_run:
        console.print("Nothing was changed.")


def policy_view(policies: "Iterable[PolicyStatus]") -> "RenderableType":
    """Policy and plan of each GPU, for people."""
    from rich.console import Group

    return Group(*(line for each in policies for line in _policy_lines(each)))


def _policy_lines(status: "PolicyStatus") -> "Iterator[RenderableType]":
    from rich.text import Text

    yield Text.assemble("GPU ", status.gpu, "  policy ", (status.policy, "bold"))
    for name, value in sorted(status.parameters.items()):
        yield Text(f"  {name} = {value:g}")
    if status.reason:
        yield Text(f"  {status.reason}", style="italic")
    if status.plan is not None and status.plan.squads:
        yield _plan_table(status.plan)


def _plan_table(plan: "PlanStatus") -> "RenderableType":
    from rich import box
    from rich.table import Table

    from dure.domain.units import format_duration
    from dure.kernel.goal_words import joined

    table = Table(
        *("squad", "tenant", "SMs", "budget", "in flight", "yields to"),
        title=f"plan {plan.epoch}",
        title_justify="left",
        title_style="dim",
        header_style="dim",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for number, squad in enumerate(plan.squads[:_MOST_SQUADS], start=1):
        for place, member in enumerate(squad.members):
            last = member.sm_first + member.sm_count - 1
            table.add_row(
                f"{number}: {format_duration(squad.duration_ns)}" if place == 0 else "",
                member.tenant,
                f"{member.sm_first}-{last}" if member.beside else "all",
                format_duration(member.budget_ns) if member.budget_ns else "",
                format_duration(member.inflight_ns) if member.inflight_ns else "",
                joined(member.yields_to),
            )
    if len(plan.squads) > _MOST_SQUADS:
        table.caption = f"and {len(plan.squads) - _MOST_SQUADS} more squads"
    return table
