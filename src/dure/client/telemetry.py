"""What the agent's API says of series, and takes of what people say; also the centre's."""

from typing import Annotated, Literal

from pydantic import Field

from dure.client.messages import Answer, Message

Verdict = Literal["good", "bad"]
MOST_NOTE = 500


class FeedbackRequest(Message):
    """POST /v1/tenants/{name}/feedback: how a user finds a tenant's service."""

    verdict: Verdict
    note: Annotated[str, Field(max_length=MOST_NOTE)] = ""


class SeriesPoint(Answer):
    """All samples of one step, summed up."""

    at_ms: int
    """When the step begins, since 1970."""
    samples: int
    sum: float
    min: float
    max: float
    last: float


class SeriesFound(Answer):
    """One series."""

    name: str
    labels: dict[str, str]
    points: tuple[SeriesPoint, ...]


class SeriesAnswer(Answer):
    """GET /v1/series?name=…"""

    start_ms: int
    end_ms: int
    step_ms: int
    series: tuple[SeriesFound, ...]


class SeriesNames(Answer):
    """GET /v1/series/names."""

    names: tuple[str, ...]
