"""Fixtures of this folder."""

from tests.stores.fixtures import address, nats, postgres

__all__ = ["address", "nats", "postgres"]
