"""What every `dure sim` command says of its input: a scenario to run, or a recording to replay."""

from pathlib import Path

from dure.domain.errors import InputError


def refuse_scenario(scenario: Path | None) -> None:
    """Of a replay: what is to be decided anew is in its recording."""
    if scenario is not None:
        raise InputError("a replay takes no scenario", "leave out one of the two", field="--replay")


def needed(scenario: Path | None, recording: str = "a recording") -> Path:
    """The scenario to run; `recording`: what could be replayed instead."""
    if scenario is None:
        raise InputError(
            "there is no scenario to run", f"name a file, or {recording} with --replay"
        )
    return scenario
