"""What the agent's API says of the last minute of a GPU: GET /v1/timeline; and of its policies."""

from dure.client.messages import Answer


class TimelinePart(Answer):
    """One tenant in one slice; shares are of the slice's time."""

    tenant: str
    sm_first: int
    sm_count: int
    """The compute units its kernels went to."""
    ran: float
    """Kernels of it were on the device."""
    wanted: float
    """It had work."""
    held: float
    """Its threads were held at the gate."""


class TimelineSlice(Answer):
    """From one tick of the agent to the next."""

    number: int
    at_ms: float
    """When it began, since 1970."""
    length_ms: float
    epoch: int
    """Of the plan in force when it ended."""
    squad: int
    squads: int
    """Squads that began in it."""
    bubble: float
    """Somebody had work and nobody's kernels ran, as a share of time and compute units."""
    parts: tuple[TimelinePart, ...]


class TimelineAnswer(Answer):
    """GET /v1/timeline?gpu=…&after=…&seconds=…"""

    gpu: str
    sms: int
    last: int
    """Number of the newest slice; to go on after it. The newest second may still change."""
    slices: tuple[TimelineSlice, ...]


class PolicyChoice(Answer):
    """A policy that a GPU may be given."""

    name: str
    about: str
    parameters: dict[str, float]
    """With their defaults."""


class PolicyChoices(Answer):
    """GET /v1/policy/choices."""

    choices: tuple[PolicyChoice, ...]
