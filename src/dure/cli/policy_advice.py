"""`dure policy advice`: which policy would do better, by how much, and why."""

from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.terminal import output_console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dure.client.advice import AdviceAnswer, ChoiceStatus, GpuAdvice

_WIDTH = 120

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def advice(as_json: AsJson = False) -> None:
    """Show what the advisor measures, what it proposes or did, and why."""
    from dure.client.api import find_agent

    with find_agent() as client:
        answer = client.advice()
    if as_json:
        typer.echo(answer.model_dump_json(indent=2, by_alias=True))
        return
    console = output_console(_WIDTH)
    for line in advice_lines(answer):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def advice_lines(answer: "AdviceAnswer") -> "Iterator[str]":
    """The answer for people."""
    if answer.adapt == "off":
        yield "Adaptation is off; start the agent with --adapt advise or --adapt auto."
        return
    yield f"objective: {answer.objective}"
    for gpu in answer.gpus:
        yield from _gpu_lines(gpu, answer.adapt)


def _gpu_lines(gpu: "GpuAdvice", adapt: str) -> "Iterator[str]":
    measured = "nobody wants anything" if gpu.objective is None else f"{gpu.objective:.3f}"
    yield f"GPU {gpu.gpu}  {_words(gpu.inforce)} in force, {measured}; {gpu.dry_runs} dry runs"
    for each in gpu.foretold:
        yield f"  dry run: {_words(each)} {each.score:.3f}"
    if gpu.trouble:
        yield f"  no advice: {gpu.trouble}"
    elif gpu.proposal is not None:
        wanted = gpu.proposal
        settings = " ".join(f"{name}={value:g}" for name, value in wanted.after.parameters.items())
        yield f"  {_words(wanted.after)} would add {wanted.gain:+.3f}: {wanted.reason}"
        yield f"  switch: dure policy set {f'{wanted.after.policy} {settings}'.strip()}"
    else:
        yield "  nothing is known that would do better"
    for line in gpu.history:
        if line.kind != "proposed":
            yield (
                f"  {line.kind}: {_words(line.before)} → {_words(line.after)} "
                f"({line.gain:+.3f}): {line.reason}"
            )
    if adapt == "advise" and gpu.proposal is not None:
        yield "  --adapt auto would switch by itself."


def _words(choice: "ChoiceStatus") -> str:
    said = ", ".join(f"{name}={value:g}" for name, value in choice.parameters.items())
    return f"{choice.policy} ({said})" if said else choice.policy
