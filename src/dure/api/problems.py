"""Refusals as RFC 9457 has them: what was wrong, where, and what to do."""

from pydantic import Field

from dure.api.base import Document

MEDIA_TYPE = "application/problem+json"


class FieldProblem(Document):
    """What is wrong with one field of a request."""

    field: str
    """`resources.memory`; of the query or a header: its name."""
    detail: str
    remedy: str = ""


class Problem(Document):
    """Why a request was refused."""

    type: str
    """Names the kind of problem; stays the same over versions."""
    title: str
    status: int
    detail: str
    """What happened; what to do."""
    fields: list[FieldProblem] = Field(default_factory=list)
