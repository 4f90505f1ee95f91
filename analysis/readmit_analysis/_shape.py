"""The type of an OTLP JSON document, in the notation of DuckDB's `from_json`.

Source: opentelemetry-proto, `trace.proto` and its JSON mapping; `batches` and `instrumentationLibrarySpans` are what
Tempo writes. Values stay text: `"intValue": "2"`, `2` and `2.0` are kept as they were written.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["OTLP_DOCUMENT"]

_VALUE = {
    **dict.fromkeys(("stringValue", "intValue", "boolValue", "doubleValue", "bytesValue"), "VARCHAR"),
    **dict.fromkeys(("arrayValue", "kvlistValue"), "JSON"),
}
_ATTRIBUTES = [{"key": "VARCHAR", "value": _VALUE}]
_SPAN: dict[str, Any] = {
    **dict.fromkeys(("traceId", "spanId", "parentSpanId", "name", "kind"), "VARCHAR"),
    **dict.fromkeys(("startTimeUnixNano", "endTimeUnixNano"), "VARCHAR"),
    "attributes": _ATTRIBUTES,
    **dict.fromkeys(("events", "links"), "JSON"),
    "status": {"code": "VARCHAR", "message": "VARCHAR"},
}
_SCOPE_SPANS = [{"scope": {"name": "VARCHAR"}, "instrumentationLibrary": {"name": "VARCHAR"}, "spans": [_SPAN]}]
_RESOURCE_SPANS = [
    {
        "resource": {"attributes": _ATTRIBUTES},
        "scopeSpans": _SCOPE_SPANS,
        "instrumentationLibrarySpans": _SCOPE_SPANS,
    }
]

OTLP_DOCUMENT = json.dumps({"resourceSpans": _RESOURCE_SPANS, "batches": _RESOURCE_SPANS})
