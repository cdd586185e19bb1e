"""`dure feedback`: say how a tenant's service is found; measured like everything else."""

from typing import Annotated, Literal

import typer

from dure.cli.centre import InContext


def feedback(
    tenant: Annotated[str, typer.Argument(help="The tenant.", metavar="TENANT")],
    verdict: Annotated[Literal["good", "bad"], typer.Argument(help="How you find it.")],
    note: Annotated[str, typer.Argument(help="Why, in a sentence; people read it.")] = "",
    fleet: Annotated[
        bool, typer.Option("--fleet", help="A tenant of the fleet: tell the centre, not the agent.")
    ] = False,
    context: InContext = "",
) -> None:
    """Say how you find a tenant's service: it counts as a measurement, and operators see it."""
    if fleet or context:
        from dure.api.measurements import FeedbackRequest
        from dure.cli.centre import centre, made_from
        from dure.client.fleet import calls

        said = {"tenant": tenant, "verdict": verdict, "note": note}
        with centre(context) as client:
            client.do(calls.give_feedback(made_from(FeedbackRequest, said)))
    else:
        from dure.client.api import find_agent

        with find_agent() as agent:
            agent.feedback(tenant, verdict, note)
    typer.echo(f"{tenant} is found {verdict}; noted.")
