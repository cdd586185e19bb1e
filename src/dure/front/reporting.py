"""Tells the centre what passes through a front, so that the service is as large as that asks."""

import asyncio
import logging
import secrets
import time
from collections.abc import Iterator

from dure.api.loads import LoadReport
from dure.client.fleet import AsyncFleetClient, FleetError, RefusedError, calls
from dure.domain.units import NS_PER_S
from dure.front.traffic import Figures, Traffic

_log = logging.getLogger(__name__)

PERIOD_S = 2.0
_FORBIDDEN, _TOO_OFTEN = 403, 429


class Reporter:
    """Reports for one front, under a name of its own."""

    def __init__(self, client: AsyncFleetClient, traffic: Traffic) -> None:
        self._client = client
        self._traffic = traffic
        self._name = f"front-{secrets.token_hex(4)}"
        self._quiet = False
        """Whether it was said that reports do not arrive."""
        self._waited = False
        """Whether somebody waited when this was last said."""
        self.job = ""
        """That the front stands before; empty: none now."""

    async def run(self) -> None:
        """Every few seconds; ends by itself only where the asker's token may not report."""
        while True:
            await asyncio.sleep(PERIOD_S)
            if not self.job:
                continue
            for report in self.reports(time.monotonic()):
                if not await self._told(report):
                    return

    def reports(self, now_s: float) -> Iterator[LoadReport]:
        """What is to be said now: of each cluster, and of those who wait for any."""
        found = self._traffic.figures(now_s)
        for cluster, figures in sorted(found.items()):
            if cluster:
                yield self._of(cluster, figures)
        waiting = self._traffic.waiting
        if waiting or self._waited or not found:
            # Nobody's yet: where nothing is ready, as in a service that sleeps, it is all there is.
            asked = 0.0 if not found else None
            source = f"{self._name}-waiting"
            yield LoadReport(requests_per_second=asked, queue=float(waiting), source=source)
        self._waited = waiting > 0

    def _of(self, cluster: str, figures: Figures) -> LoadReport:
        took_ns = round(figures.p95_s * NS_PER_S)
        return LoadReport(
            requests_per_second=round(figures.requests_per_s, 3),
            queue=0.0,
            latency=f"{took_ns}ns" if took_ns else None,
            cluster=cluster,
            source=f"{self._name}-{cluster}",
        )

    async def _told(self, report: LoadReport) -> bool:
        """Say it; False where that will never be wanted."""
        try:
            taken = await self._client.do(calls.report_load(self.job, report))
        except RefusedError as error:
            if error.status == _FORBIDDEN:
                _log.warning("the service does not follow this front's load: %s", error)
                return False
            if error.status != _TOO_OFTEN:
                self._complain(str(error))
        except FleetError as error:
            self._complain(str(error))
        else:
            if taken.clusters:
                self._quiet = False
            else:
                self._complain(taken.note)
        return True

    def _complain(self, what: str) -> None:
        """Once, until it works again."""
        if not self._quiet:
            self._quiet = True
            _log.warning("what this front sees of the load goes nowhere: %s", what)
