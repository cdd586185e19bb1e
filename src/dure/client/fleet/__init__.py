"""The typed client of the centre: calls as values, and two doors that carry them out.

`FleetClient(context).do(calls.get_job(id))`, or the same with `await` on `AsyncFleetClient`.
"""

from dure.client.fleet import calls
from dure.client.fleet.config import Context, load_context
from dure.client.fleet.doors import AsyncFleetClient, FleetClient
from dure.client.fleet.errors import FleetError, RefusedError, UnreachableError

__all__ = [
    "AsyncFleetClient",
    "Context",
    "FleetClient",
    "FleetError",
    "RefusedError",
    "UnreachableError",
    "calls",
    "load_context",
]
