"""The way to a collector: OTLP over HTTP with protobuf bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_TRACES_PATH = "/v1/traces"


def traces_url(endpoint: str) -> str:
    """Complete a collector's base URL to the URL that takes spans.

    Args:
        endpoint: the base URL (`http://localhost:4318`), with or without a path of its own, or the full URL that
            already ends in `/v1/traces`.

    Raises:
        ValueError: not an absolute http or https URL.

    Example:
        `http://localhost:4318` gives `http://localhost:4318/v1/traces`.

    Source: OTLP/HTTP, "Endpoint URLs": a base URL is completed by `/v1/traces`.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(
            f"endpoint={endpoint!r} is not an http or https URL: write the collector's base URL, "
            "for example endpoint='http://localhost:4318'."
        )
    path = parts.path.rstrip("/")
    if not path.endswith(_TRACES_PATH):
        path += _TRACES_PATH
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def collector_exporter(url: str, headers: Mapping[str, str]) -> SpanExporter:
    """The official OTLP/HTTP exporter for one URL.

    It retries what can be retried (429, 502, 503, 504, no connection) and honours `Retry-After`, for at most 10 s a
    batch; then the batch is lost here.

    Raises:
        ImportError: the extra `otlp` is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ImportError(
            "configure(endpoint=...) needs the OTLP/HTTP exporter: pip install 'readmit[otlp]'"
        ) from error
    return OTLPSpanExporter(endpoint=url, headers=dict(headers))
