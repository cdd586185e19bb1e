"""Tenants as a tree, and the vNode pools they own."""

from typing import Annotated

from pydantic import Field, model_validator

from dure.api.base import Document, Line, LowerName, Name, Priority, WholeFromZero, Windows
from dure.domain.fleet.accounts import TenantKind


class Quota(Document):
    """Limits at submission."""

    jobs: WholeFromZero | None = None
    """Jobs that have not ended."""


class TenantSpec(Document):
    """What an operator says of a tenant, a team or a service."""

    title: Line = ""
    weight: Annotated[float, Field(ge=1e-3, le=1e6)] = 1.0
    """Its share of what is scarce, relative to others; of tenants alone."""
    priority: Priority = 0
    """Added to the priority of its jobs; of tenants alone."""
    quota: Quota = Quota()
    """Of tenants alone."""
    windows: Windows = Field(default_factory=list)
    """When its jobs may be moved by themselves; of tenants alone."""


class TenantDocument(Document):
    """A node of the tree tenant → team → service."""

    path: str
    kind: TenantKind
    parent: str | None
    spec: TenantSpec
    revision: int
    created_at: str


class PoolSpec(Document):
    """A class of virtual nodes of one tenant, carved out of real nodes of several clusters."""

    tenant: LowerName
    profile: Name
    """The accelerator its units are of."""
    slice: Name | None = None
    """Slice template that its units are; left out: whole devices."""
    clusters: Annotated[list[LowerName], Field(min_length=1, max_length=1000)] | None = None
    """Where it may be; anywhere where this is left out."""
    guaranteed: WholeFromZero = 0
    """Units its tenant can always have, back at once when lent."""
    lendable: WholeFromZero = 0
    """Of the guaranteed units, how many others may use while they are idle."""
    maximum: WholeFromZero | None = None
    """The most units it grows to by borrowing."""
    dedicated: bool = False
    """Whether its nodes serve this tenant alone."""

    @model_validator(mode="after")
    def _fits(self) -> "PoolSpec":
        if self.lendable > self.guaranteed:
            raise ValueError(
                f"lendable of {self.lendable} is more than the {self.guaranteed} guaranteed units; "
                f"lend at most {self.guaranteed}"
            )
        if self.maximum is not None and self.maximum < max(1, self.guaranteed):
            raise ValueError(
                f"maximum of {self.maximum} is less than the {self.guaranteed} guaranteed units; "
                f"write at least {max(1, self.guaranteed)}"
            )
        return self


class PoolDocument(Document):
    """A vNode pool."""

    name: str
    spec: PoolSpec
    revision: int
    created_at: str
