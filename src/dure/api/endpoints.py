"""Documents of where services answer."""

from dure.api.base import Document


class Endpoint(Document):
    """One instance of a service that answers."""

    address: str
    """HOST:PORT, as its cluster knows it."""
    cluster: str
    attempt: int
    index: int
    weight: int
    """Its part of new requests, beside the others; 0: it finishes what it has."""


class Endpoints(Document):
    """Where a service answers now."""

    job: str
    ended: bool
    """Whether the job is over, so that nothing will answer any more."""
    items: list[Endpoint]
