"""A server that leads and writes all the time, as a program that can be stopped.

    python -m tests.stores.leader ADDRESS TTL_S

Prints its epoch, then ends with "fenced" when it finds that it leads no more.
"""

import asyncio
import sys

from dure.stores.engine import StoreSettings
from dure.stores.errors import FencedError, StoreUnavailableError
from dure.stores.rows import NewEvent
from dure.stores.store import Store

_IMPATIENT = StoreSettings(idle_transaction_s=1.0)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def _lead(address: str, ttl_s: float) -> None:
    async with Store.open(address, _IMPATIENT) as store:
        lease = await store.acquire("stopped", ttl_s)
        assert lease is not None
        _say(str(lease.epoch))
        try:
            while True:
                try:
                    lease = await store.renew(lease, ttl_s)
                    async with store.transaction(fence=lease.epoch) as tx:
                        tx.events.add(NewEvent("written", f"epoch-{lease.epoch}"))
                except StoreUnavailableError:
                    # PostgreSQL ended the transaction in which it was stopped.
                    await asyncio.sleep(0.01)
        except FencedError:
            _say("fenced")


if __name__ == "__main__":
    asyncio.run(_lead(sys.argv[1], float(sys.argv[2])))
