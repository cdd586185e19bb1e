"""Somebody who takes traces over HTTP, as OpenTelemetry's collector does."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collected:
    """Spans that came, with the service that sent each."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[tuple[str, Any]] = []

    def names(self) -> set[tuple[str, str]]:
        return {(service, span.name) for service, span in list(self.spans)}

    def take(self, raw: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(raw)
        for each in request.resource_spans:
            attributes = {pair.key: pair.value.string_value for pair in each.resource.attributes}
            for scope in each.scope_spans:
                self.spans += [(attributes["service.name"], span) for span in scope.spans]


@contextmanager
def collecting() -> Iterator[Collected]:
    """Listen until the context is left."""
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                raw = gzip.decompress(raw)
            collected.take(raw)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collected.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collected
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
