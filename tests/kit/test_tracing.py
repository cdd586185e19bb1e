"""Traces: found by a thing's id alone, sent where it is configured, free where it is not."""

import subprocess
import sys

import pytest

from dure.kit.tracing import ENDPOINT_VARIABLES, make_tracer, trace_of
from tests.kit.collector import collecting


def test_parts_that_different_processes_tell_are_of_one_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with collecting() as collected:
        monkeypatch.setenv(ENDPOINT_VARIABLES[0], collected.url)
        server, member = make_tracer("server"), make_tracer("member")
        assert server is not None
        assert member is not None
        server.whole("job-1", "job", (1_000, 9_000), cluster="seoul")
        member.part("job-1", "cluster.start", (3_000, 5_000))
        member.part("job-2", "cluster.start", (3_000, 5_000))
        server.close()
        member.close()
    spans = {(service, span.name, span.trace_id): span for service, span in collected.spans}
    trace_id, span_id = trace_of("job-1")
    trace = trace_id.to_bytes(16, "big")
    whole, part = spans["server", "job", trace], spans["member", "cluster.start", trace]
    assert whole.span_id == part.parent_span_id == span_id.to_bytes(8, "big")
    assert (whole.start_time_unix_nano, whole.end_time_unix_nano) == (1_000, 9_000)
    assert part.span_id != whole.span_id
    assert len({trace for _, _, trace in spans}) == 2


def test_where_nothing_is_configured_opentelemetry_is_not_loaded() -> None:
    script = (
        "import sys; from dure.kit.tracing import make_tracer; assert make_tracer('x', {}) is None;"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_it_can_be_switched_off() -> None:
    given = {ENDPOINT_VARIABLES[0]: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}
    assert make_tracer("x", given) is None


def test_without_the_library_nothing_is_traced_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert make_tracer("x", {ENDPOINT_VARIABLES[0]: "http://127.0.0.1:1"}) is None
    assert "install dure[tracing]" in caplog.text
