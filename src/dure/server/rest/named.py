"""Resources that people name: put, found and removed the same way, whatever they are.

A put creates what is not there. What is there it replaces only for those who show the revision they
saw; put again as it is, it changes nothing: so a put may be sent twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import ConfigDict, Field

from dure.api.base import Document
from dure.server.rest.door import Call
from dure.server.rest.problems import not_found
from dure.server.rest.revisions import may_create, may_overwrite
from dure.stores.repos.base import Versioned, values_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    RowT = TypeVar("RowT", bound=DataclassInstance)
else:
    RowT = TypeVar("RowT")

ItemT = TypeVar("ItemT")


class ListQuery(Document):
    """Which part of a list is wanted."""

    model_config = ConfigDict(strict=False)

    cursor: Annotated[str, Field(max_length=256, pattern=r"^[^\x00]*$")] = ""
    """From an earlier page."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """Items at most."""


Part = Annotated[ListQuery, Query()]


@dataclass(frozen=True)
class Named(Generic[RowT]):
    """One kind of resource in a transaction."""

    repo: Versioned[RowT]
    noun: str

    async def put(
        self, call: Call, key: tuple[str, ...], made: Callable[[RowT | None], RowT]
    ) -> tuple[RowT, bool, bool]:
        """Store what `made` makes of what is there; tells whether it is new, and changed."""
        stored = await self.repo.find(*key)
        name = "/".join(key)
        row = made(stored)
        if stored is None:
            may_create(call.request, self.noun, name)
            return await self.repo.add(row), True, True
        revision = revision_of(stored)
        if row == stored and "if-none-match" not in call.request.headers:
            return stored, False, False
        may_overwrite(call.request, self.noun, name, revision)
        return await self.repo.put(row), False, True

    async def remove(self, call: Call, key: tuple[str, ...]) -> RowT:
        """Remove what is there, for those who have seen it."""
        stored = await self.repo.find(*key)
        if stored is None:
            raise not_found(self.noun, "/".join(key))
        may_overwrite(call.request, self.noun, "/".join(key), revision_of(stored))
        await self.repo.remove(*key)
        return stored


def revision_of(row: "DataclassInstance") -> int:
    """How often a row was changed."""
    return int(values_of(row)["revision"])


def part_of(
    items: Sequence[ItemT], key: Callable[[ItemT], str], query: ListQuery
) -> tuple[list[ItemT], str]:
    """Some of a short list in the order of its keys, and where to go on."""
    cursor, limit = query.cursor, query.limit
    after = [item for item in sorted(items, key=key) if not cursor or key(item) > cursor]
    return after[:limit], key(after[limit - 1]) if len(after) > limit else ""
