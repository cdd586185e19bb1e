"""Events, and lists that come page by page."""

from typing import Generic, TypeVar

from pydantic import Field, JsonValue

from dure.api.base import Document

ItemT = TypeVar("ItemT", bound=Document)


class EventDocument(Document):
    """Something that happened; later ones have greater numbers, without gaps."""

    seq: int
    at: str
    kind: str
    subject: str
    tenant: str | None
    data: dict[str, JsonValue] = Field(default_factory=dict)


class EventList(Document):
    """Events after a number."""

    items: list[EventDocument]
    last: int
    """The number to go on after: no event up to it is missing."""


class Page(Document, Generic[ItemT]):
    """Some of a list in order."""

    items: list[ItemT]
    cursor: str = ""
    """Goes on after the last one; empty at the end."""
