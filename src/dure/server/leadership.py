"""Which server plans: it holds the leader's lease, and stops at once when that may be over."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from dure.server.ports import Leadership
from dure.stores.errors import FencedError, StoreError, StoreUnavailableError
from dure.stores.rows import Lease
from dure.stores.whole import whole

_log = logging.getLogger(__name__)

RENEWALS = 4
"""Times in the life of a lease that its holder asks for more."""
_LOOKS = 10
"""Times in the life of a lease that others look whether it is over,"""
_MOST_WAIT_S = 0.5
"""and how long they wait in between at most."""

Lead = Callable[[Lease], Awaitable[None]]


class Leader:
    """Tries to lead for ever; while it does, runs what the leader does."""

    def __init__(self, leases: Leadership, holder: str, ttl_s: float) -> None:
        self._leases = leases
        self._holder = holder
        self._ttl_s = ttl_s
        self.lease: Lease | None = None
        """That it holds now."""

    @property
    def leads(self) -> bool:
        """Whether this server plans now."""
        return self.lease is not None

    async def run(self, lead: Lead) -> None:
        """Lead whenever nobody else does; only ends by being cancelled."""
        while True:
            lease = await self._acquire()
            _log.info("leads with epoch %d", lease.epoch)
            self.lease = lease
            try:
                await self._while_held(lease, lead)
            finally:
                self.lease = None
                # Also where this server ends just now: others need not wait for the lease's end.
                await whole(self._let_go(lease))
            # Whatever went wrong here may not go wrong elsewhere: let another server be first.
            await asyncio.sleep(_MOST_WAIT_S)

    async def _acquire(self) -> Lease:
        wait_s = min(_MOST_WAIT_S, self._ttl_s / _LOOKS)
        while True:
            try:
                lease = await self._leases.acquire(self._holder, self._ttl_s)
            except StoreError as error:
                _log.warning("cannot ask who leads: %s", error)
                lease = None
            if lease is not None:
                return lease
            await asyncio.sleep(wait_s)

    async def _while_held(self, lease: Lease, lead: Lead) -> None:
        """Until the lease is over, or the planner gives up; both are then done again."""
        tasks = [
            asyncio.create_task(self._renew(lease), name="renew"),
            asyncio.ensure_future(lead(lease)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if _is_fenced(error):
                    _log.warning("leads no more: %s", error)
                elif error is not None:
                    _log.error("planning failed and begins anew", exc_info=error)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(self, lease: Lease) -> None:
        loop = asyncio.get_running_loop()
        held_until = loop.time() + self._ttl_s
        while True:
            await asyncio.sleep(self._ttl_s / RENEWALS)
            asked = loop.time()
            try:
                async with asyncio.timeout_at(held_until):
                    await self._leases.renew(lease, self._ttl_s)
                held_until = asked + self._ttl_s
            except StoreUnavailableError as error:
                _log.warning("cannot renew the lease: %s", error)
            except TimeoutError:
                raise FencedError("the lease could not be renewed in time") from None
            if loop.time() >= held_until:
                raise FencedError("the lease could not be renewed in time")

    async def _let_go(self, lease: Lease) -> None:
        try:
            async with asyncio.timeout(self._ttl_s):
                await self._leases.release(lease)
        except (StoreError, TimeoutError) as error:
            _log.warning("the lease runs out by itself: %s", error)


def _is_fenced(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(FencedError) is not None
    return isinstance(error, FencedError)
