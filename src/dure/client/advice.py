"""What the agent's API says of adaptation: what is measured, proposed and was done."""

from typing import Literal

from dure.client.messages import Answer

AdaptName = Literal["off", "advise", "auto"]


class ChoiceStatus(Answer):
    """A policy with the parameters that differ from its defaults."""

    policy: str
    parameters: dict[str, float]


class ForetoldStatus(ChoiceStatus):
    """What the last dry run gave a choice."""

    score: float


class AdviceLine(Answer):
    """One proposal, switch, look back or rollback."""

    at_unix_s: float
    kind: Literal["proposed", "switched", "rolled back", "kept"]
    before: ChoiceStatus
    after: ChoiceStatus
    measured: float
    """The objective before, from 0 to 1."""
    gain: float
    """Expected; once looked back at, what it was."""
    reason: str


class GpuAdvice(Answer):
    """Of one GPU."""

    gpu: str
    inforce: ChoiceStatus
    objective: float | None
    """As measured over the last seconds, from 0 to 1; None: nobody wanted anything, or adaptation
    is off."""
    proposal: AdviceLine | None
    """What would do better, if something would."""
    foretold: tuple[ForetoldStatus, ...]
    dry_runs: int
    trouble: str = ""
    """Why there is no advice, if so."""
    history: tuple[AdviceLine, ...]
    """Oldest first."""


class AdviceAnswer(Answer):
    """GET /v1/policy/advice."""

    adapt: AdaptName
    objective: str
    """In a sentence, what is to be large."""
    gpus: tuple[GpuAdvice, ...]
