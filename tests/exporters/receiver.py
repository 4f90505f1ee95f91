"""A collector on loopback: takes OTLP/HTTP protobuf, keeps every span."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Receiver:
    """What arrived. `status` is the answer to every request from now on."""

    url: str
    status: int = 200
    spans: list[Span] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    @property
    def span_ids(self) -> list[str]:
        return [span.span_id.hex() for span in self.spans]

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.paths.add(path)
        self.headers.append(headers)
        if self.status != 200:
            return
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for attribute in resource.resource.attributes:
                if attribute.key == "service.name":
                    self.services.add(attribute.value.string_value)
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free port of 127.0.0.1 for the length of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(receiver.status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(url=f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
