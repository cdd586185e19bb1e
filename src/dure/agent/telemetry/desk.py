"""Answers what people ask about measurements, and takes what they say of tenants."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dure.agent.events import EventLog
from dure.agent.registry import Registry
from dure.agent.telemetry.feedback import FeedbackLayer
from dure.agent.telemetry.ports import SeriesShelf
from dure.agent.telemetry.sampler import Sampler
from dure.client.telemetry import (
    FeedbackRequest,
    SeriesAnswer,
    SeriesFound,
    SeriesNames,
    SeriesPoint,
)
from dure.domain.errors import InputError
from dure.stores.series.asking import question
from dure.stores.series.exposition import exposed

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


@dataclass(slots=True)
class TelemetryDesk:
    """GET /metrics, /v1/series; POST /v1/tenants/{name}/feedback."""

    sampler: Sampler
    feedback: FeedbackLayer
    shelf: SeriesShelf | None
    registry: Registry
    events: EventLog

    def metrics(self) -> bytes:
        """Everything that was read last, as Prometheus reads it."""
        return exposed(self.sampler.shown())

    def series(self, asked: Mapping[str, str], labels: Iterable[str]) -> SeriesAnswer:
        """Series of a name over a span of time."""
        shelf, wanted = self._shelf(), question(asked, labels)
        found = shelf.query(wanted.selector, wanted.span)
        span = wanted.span
        return SeriesAnswer(
            start_ms=span.start_ms,
            end_ms=span.end_ms,
            step_ms=span.step_ms,
            series=tuple(
                SeriesFound(
                    name=each.series.name,
                    labels=dict(each.series.labels),
                    points=tuple(SeriesPoint(**point._asdict()) for point in each.points),
                )
                for each in found
            ),
        )

    def names(self) -> SeriesNames:
        """Names of all series."""
        return SeriesNames(names=tuple(self._shelf().names()))

    def say(self, tenant: str, said: FeedbackRequest) -> None:
        """Take what somebody says of a tenant."""
        self.registry.find(tenant)
        self.feedback.add(tenant, said.verdict)
        note = _CONTROL.sub(" ", said.note).strip()
        text = f"{tenant} is found {said.verdict}{f': {note}' if note else ''}"
        self.events.add("feedback", text, tenant=tenant)

    def _shelf(self) -> SeriesShelf:
        if self.shelf is None:
            raise InputError(
                "this agent keeps no series", "start it with `dure agent --series sqlite`"
            )
        return self.shelf
