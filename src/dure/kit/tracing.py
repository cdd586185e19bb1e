"""Traces of things that several processes work on, sent by OpenTelemetry where that is configured.

Everybody who knows a thing's id knows its trace: the trace and its first span are worked out from
the id, so that the context travels with whatever carries the id and nothing has to be stored. Where
no exporter is configured, OpenTelemetry is not even loaded.
"""

import hashlib
import logging
import os
from collections.abc import Mapping
from typing import Any, Protocol

_log = logging.getLogger(__name__)

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""OpenTelemetry's own: where traces are sent; tracing is on where one is set."""
_OFF_VARIABLE = "OTEL_SDK_DISABLED"
_TRACE_BYTES, _SPAN_BYTES = 16, 8


class Tracer(Protocol):
    """Where spans go; never waits."""

    def whole(self, thing: str, name: str, span: tuple[int, int], **about: str) -> None:
        """The whole of a thing's way, from one moment to another in ns since 1970; said once."""

    def part(self, thing: str, name: str, span: tuple[int, int], **about: str) -> None:
        """One part of its way."""

    def close(self) -> None:
        """Send what was not sent."""


def trace_of(thing: str) -> tuple[int, int]:
    """The trace of a thing, and its first span."""
    digest = hashlib.sha256(thing.encode()).digest()
    trace = int.from_bytes(digest[:_TRACE_BYTES], "big")
    span = int.from_bytes(digest[_TRACE_BYTES : _TRACE_BYTES + _SPAN_BYTES], "big")
    return trace, span


def make_tracer(service: str, environment: Mapping[str, str] = os.environ) -> Tracer | None:
    """A tracer of a process, where the environment says where to; None: nothing is traced."""
    wanted = any(environment.get(name) for name in ENDPOINT_VARIABLES)
    if not wanted or environment.get(_OFF_VARIABLE, "").lower() == "true":
        return None
    try:
        return _OtelTracer(service)
    except ImportError:
        _log.warning("nothing is traced: install dure[tracing]")
        return None


class _OtelTracer:
    """Spans by the SDK, in batches, from a thread of its own."""

    def __init__(self, service: str) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - only where it is configured
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415

        class Given(RandomIdGenerator):
            """Ids that are given for the next span, else by chance."""

            next_ids: tuple[int, int] | None = None

            def generate_trace_id(self) -> int:
                return self.next_ids[0] if self.next_ids else super().generate_trace_id()

            def generate_span_id(self) -> int:
                return self.next_ids[1] if self.next_ids else super().generate_span_id()

        self._api: Any = trace
        self._ids = Given()
        self._provider = TracerProvider(
            id_generator=self._ids, resource=Resource.create({"service.name": service})
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("dure")

    def whole(self, thing: str, name: str, span: tuple[int, int], **about: str) -> None:
        self._ids.next_ids = trace_of(thing)
        try:
            self._say(name, span, about, None)
        finally:
            self._ids.next_ids = None

    def part(self, thing: str, name: str, span: tuple[int, int], **about: str) -> None:
        trace_id, span_id = trace_of(thing)
        flags = self._api.TraceFlags(self._api.TraceFlags.SAMPLED)
        parent = self._api.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
        context = self._api.set_span_in_context(self._api.NonRecordingSpan(parent))
        self._say(name, span, about, context)

    def _say(self, name: str, span: tuple[int, int], about: dict[str, str], context: Any) -> None:
        start_ns, end_ns = span
        said = self._tracer.start_span(name, context, start_time=start_ns, attributes=about)
        said.end(max(start_ns, end_ns))

    def close(self) -> None:
        self._provider.shutdown()
