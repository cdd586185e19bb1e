"""Fixtures of this folder; tests elsewhere import them from `tests.stores.fixtures`."""

from tests.stores.fixtures import address, nats, postgres

__all__ = ["address", "nats", "postgres"]
