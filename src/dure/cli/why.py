"""`dure why`: by whom and for which reason a tenant was held."""

from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.terminal import output_console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dure.client.schema import WhyAnswer

_WIDTH = 100
_REASONS = {
    "budget": "its turn was over: the budget of its squad was spent",
    "order": "another tenant went before it",
    "promise": "another tenant has a promise to keep",
    "in-flight": "enough of its own work was still under way",
}


def why(
    tenant: Annotated[str, typer.Argument(help="The tenant.", metavar="TENANT")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every figure as JSON instead of text.")
    ] = False,
) -> None:
    """Say whether a tenant was held lately: by whom, how long, for which promise.

    Where the agent adapts, also what its advisor proposed or did on that GPU, and why.
    """
    from dure.client.api import find_agent

    with find_agent() as client:
        answer = client.why(tenant)
    if as_json:
        typer.echo(answer.model_dump_json(indent=2, by_alias=True))
    else:
        output_console(_WIDTH).print(why_view(answer))


def why_view(answer: "WhyAnswer") -> "RenderableType":
    """The answer for people: sentences first, then how the time divides."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from dure.domain.units import NS_PER_S, format_duration

    said = (*answer.sentences, *answer.advice)
    parts: list[RenderableType] = [Text(sentence) for sentence in said]
    window_ns = max(answer.window_s * NS_PER_S, 1.0)
    rows = [(_REASONS[each.reason], "", each.held_ns) for each in answer.reasons if each.held_ns]
    rows += [
        (f"for {each.tenant}", each.promise or "no promise", each.held_ns)
        for each in answer.holders
        if each.held_ns
    ]
    if rows:
        table = Table(
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
            header_style="dim",
        )
        table.add_column("held")
        table.add_column("promise")
        table.add_column("time", justify="right", no_wrap=True)
        table.add_column("of the window", justify="right", no_wrap=True)
        for words, promise, held_ns in rows:
            share = f"{100 * held_ns / window_ns:.1f} %"
            table.add_row(words, promise, format_duration(held_ns), share)
        parts.append(table)
    parts.append(
        Text(
            f"{answer.tenant}: {100 * answer.gpu_share:.0f} % of the GPU, "
            f"{100 * answer.held_share:.0f} % of the time held, longest "
            f"{format_duration(answer.longest_hold_ns)}, in the last {answer.window_s:.3g} s",
            style="dim",
        )
    )
    return Group(*parts)
