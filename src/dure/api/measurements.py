"""Documents about what was measured, and what people say of tenants."""

from typing import Annotated, Literal

from pydantic import Field

from dure.api.base import Document, TenantPath, Text


class FeedbackRequest(Document):
    """POST /v1/feedback: how a user finds what runs for a tenant."""

    tenant: TenantPath
    verdict: Literal["good", "bad"]
    note: Annotated[Text, Field(max_length=500)] = ""
    """Why, in a sentence; operators read it."""


class SeriesPoint(Document):
    """All samples of one step, summed up."""

    at_ms: int
    """When the step begins, in milliseconds since 1970."""
    samples: int
    sum: float
    min: float
    max: float
    last: float


class SeriesDocument(Document):
    """One series."""

    name: str
    labels: dict[str, str]
    points: list[SeriesPoint]


class SeriesList(Document):
    """GET /v1/series."""

    start_ms: int
    end_ms: int
    step_ms: int
    series: list[SeriesDocument]


class SeriesNames(Document):
    """GET /v1/series/names."""

    names: list[str]
