"""What the centre measured: shown to Prometheus, kept as series where it leads, found again."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dure.domain.errors import InputError
from dure.domain.metrics import fleet as m
from dure.domain.metrics import own
from dure.domain.metrics.kinds import Reading, Spread
from dure.domain.series import Fault, Found, Range, Sample, Selector
from dure.server.telemetry.fleet import FleetReader
from dure.stores.series.asking import Question, question
from dure.stores.series.exposition import Sampling, exposed
from dure.stores.series.recorder import Recorded

_log = logging.getLogger(__name__)

_LAYER = "fleet"


class SeriesKeeper(Protocol):
    """Where samples go; never waits."""

    def add(self, samples: Iterable[Sample]) -> None:
        """Take samples."""

    def recorded(self) -> Recorded:
        """What became of them."""


class SeriesShelf(Protocol):
    """Where samples are found again; to be asked in a thread."""

    def query(self, selector: Selector, span: Range) -> list[Found]:
        """Series with samples in a span."""

    def names(self) -> list[str]:
        """Names of all series."""


@dataclass(slots=True)
class Telemetry:
    """One for each server."""

    reader: FleetReader
    leads: Callable[[], bool] = lambda: False
    keeper: SeriesKeeper | None = None
    shelf: SeriesShelf | None = None
    _failures: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _sampling: Sampling = field(default_factory=Sampling)

    async def metrics(self, answers: Mapping[tuple[str, int], int]) -> bytes:
        """The text of `/metrics`: the fleet as it is now, and how this server does."""
        found = [*await self._read(), *self._own()]
        found += [
            Reading(m.HTTP_ANSWERS, (method, str(status)), float(count))
            for (method, status), count in sorted(answers.items())
        ]
        return await asyncio.to_thread(exposed, found)

    async def keep(self, period_s: float) -> None:
        """Until cancelled: measure, and keep it where this server leads: so it is kept once."""
        while True:
            await asyncio.sleep(period_s)
            if not self.leads():
                continue
            found = [*await self._read(), *self._own()]
            if self.keeper is not None:
                self.keeper.add(self._sampling.samples(found, time.time_ns() // 1_000_000))

    async def _read(self) -> Sequence[Reading | Spread]:
        """Nothing of the fleet where it cannot be read: an old value would look like a new one."""
        try:
            async with self._turn:
                return await self.reader.read()
        except Exception as error:  # noqa: BLE001, measuring must not end for what it measures
            if not self._failures:
                _log.warning("the fleet cannot be measured", exc_info=error)
            self._failures += 1
            return [*self.reader.own(None)]

    def _own(self) -> Iterable[Reading]:
        yield Reading(own.READ_FAILURES, (_LAYER,), float(self._failures))
        if self.keeper is None:
            return
        recorded = self.keeper.recorded()
        yield Reading(own.CPU, ("keep",), recorded.cpu_s)
        yield Reading(own.SAMPLES_WRITTEN, (), float(recorded.written))
        for fault in Fault:
            yield Reading(own.SAMPLES_LOST, (fault.value,), float(recorded.faults.get(fault, 0)))
        yield Reading(own.SAMPLES_WAITING, (), float(recorded.waiting))
        yield Reading(own.SERIES_KNOWN, (), float(recorded.series))
        yield Reading(own.STORE_UP, (), float(not recorded.trouble))

    async def series(
        self, asked: Mapping[str, str], labels: Iterable[str]
    ) -> tuple[Question, list[Found]]:
        """Series of a name over a span of time, with what was understood."""
        shelf, wanted = self._shelf(), question(asked, labels)
        return wanted, await asyncio.to_thread(shelf.query, wanted.selector, wanted.span)

    async def names(self) -> list[str]:
        """Names of all series."""
        return await asyncio.to_thread(self._shelf().names)

    def _shelf(self) -> SeriesShelf:
        if self.shelf is None:
            raise InputError(
                "this server keeps no series", "start it with `dure server --series sqlite`"
            )
        return self.shelf
