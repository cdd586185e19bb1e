"""Which of several members of a cluster acts: a Lease, judged by each one's own clock alone.

As in client-go: whoever wants to lead watches whether the holder's record still changes, on its own
monotonic clock, so that wrong clocks harm nobody. A holder that could not renew for a while stops
before anybody else can have waited long enough to take the lease.
"""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from dure.domain.errors import InputError
from dure.kube.client import KubeClient
from dure.kube.errors import (
    KubeConflictError,
    KubeError,
    KubeExistsError,
    KubeNotFoundError,
)
from dure.kube.resources import LEASES, Object

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseTimes:
    """How long a lease lasts, and how soon its holder lets go."""

    lasts_s: float = 15.0
    """Without a renewal for so long anybody may take it."""
    renew_within_s: float = 10.0
    """A holder that could not renew for so long leads no more."""
    again_s: float = 2.0
    """Between two attempts to take or renew it."""

    def __post_init__(self) -> None:
        if not self.again_s < self.renew_within_s < self.lasts_s:
            raise InputError(
                f"a lease of {self.lasts_s} s cannot be given up after {self.renew_within_s} s "
                f"with attempts each {self.again_s} s",
                "let attempts be shorter than the time to renew, and that shorter than the lease",
            )


class LeaseElection:
    """One candidate for one lease."""

    def __init__(
        self,
        client: KubeClient,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._identity = identity
        self._times = times or LeaseTimes()
        self._seen: tuple[str, str] = ("", "")
        """Holder and time of its last renewal, as last seen."""
        self._seen_at_s = float("-inf")
        """When that was first seen, on our clock."""
        self._renewed_at_s = float("-inf")
        """When our last renewal that succeeded was asked for."""
        self._renewing: asyncio.Task[None] | None = None

    async def lead(self) -> None:
        """Returns when this one leads."""
        while not await self._attempt():
            await asyncio.sleep(self._times.again_s)
        log.info("%s leads %s", self._identity, self._name)
        self._renewing = asyncio.create_task(self._renew())

    async def lost(self) -> None:
        """Returns when it does so no longer, while nobody else can lead yet."""
        if self._renewing is not None:
            await asyncio.shield(self._renewing)

    async def resign(self) -> None:
        """Stop leading at once, and let the next need not wait."""
        if self._renewing is None or self._renewing.done():
            return
        self._renewing.cancel()
        await asyncio.gather(self._renewing, return_exceptions=True)
        lease = await self._client.get(LEASES, self._name)
        if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
            await self._client.replace(LEASES, {**lease, "spec": {**lease["spec"], **_NOBODY}})

    async def _renew(self) -> None:
        """Renew until that has failed for too long, or somebody else holds the lease."""
        times = self._times
        while True:
            await asyncio.sleep(times.again_s)
            left_s = self._renewed_at_s + times.renew_within_s - time.monotonic()
            try:
                async with asyncio.timeout(max(0.0, left_s)):
                    held = await self._attempt()
            except TimeoutError:
                log.warning("%s could not renew %s in time", self._identity, self._name)
                return
            if not held and self._seen[0] not in ("", self._identity):
                log.warning("%s lost %s to %s", self._identity, self._name, self._seen[0])
                return

    async def _attempt(self) -> bool:
        """Take the lease or renew it; whether it is ours now."""
        asked_at_s = time.monotonic()
        try:
            held = await self._take()
        except (KubeConflictError, KubeExistsError):
            return False  # somebody was faster, or our own lost answer: look again
        except KubeError as error:
            log.info("the lease %s cannot be had: %s", self._name, error)
            return False
        if held:
            self._renewed_at_s = asked_at_s
        return held

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name)
        except KubeNotFoundError:
            made = {"metadata": {"name": self._name}, "spec": self._record({})}
            await self._client.create(LEASES, made)
            return True
        spec = lease.get("spec") or {}
        if self._is_others(spec):
            return False
        await self._client.replace(LEASES, {**lease, "spec": self._record(spec)})
        return True

    def _is_others(self, spec: Object) -> bool:
        """Whether somebody else holds it and has renewed it not too long ago."""
        seen = (str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or ""))
        now_s = time.monotonic()
        if seen != self._seen:
            self._seen, self._seen_at_s = seen, now_s
        lasts_s = max(float(spec.get("leaseDurationSeconds") or 0), self._times.lasts_s)
        return seen[0] not in ("", self._identity) and now_s < self._seen_at_s + lasts_s

    def _record(self, before: Object) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changed = before.get("holderIdentity") != self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._times.lasts_s)),
            "acquireTime": now if changed else before.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + int(changed),
        }


_NOBODY: Object = {"holderIdentity": "", "leaseDurationSeconds": 1}
