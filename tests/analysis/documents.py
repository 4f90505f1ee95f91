"""OTLP JSON documents as text, in the dialects that other writers use."""

from __future__ import annotations

import base64
import json
from typing import Any


def span(number: int, **fields: Any) -> dict[str, Any]:
    """A span with ids made from a number."""
    return {
        "traceId": f"{0xFACE:04x}{number:028x}",
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "kind": 1,
        "startTimeUnixNano": str(1_790_000_000_000_000_000 + number),
        "endTimeUnixNano": str(1_790_000_000_000_000_900 + number),
        "status": {},
        **fields,
    }


def document(*spans: dict[str, Any], service: str = "svc") -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "lib"}, "spans": list(spans)}]}]}


def line(*numbers: int) -> str:
    return json.dumps(document(*map(span, numbers)), separators=(",", ":"))


def tempo(value: dict[str, Any]) -> dict[str, Any]:
    """The same document as Tempo lets one download it: other names, base64 ids, enum names."""
    batches = []
    for resource in value["resourceSpans"]:
        scopes = [
            {"instrumentationLibrary": scope["scope"], "spans": [_base64(item) for item in scope["spans"]]}
            for scope in resource["scopeSpans"]
        ]
        batches.append({"resource": resource["resource"], "instrumentationLibrarySpans": scopes})
    return {"batches": batches}


def _base64(item: dict[str, Any]) -> dict[str, Any]:
    ids = {
        key: base64.b64encode(bytes.fromhex(item[key])).decode()
        for key in ("traceId", "spanId", "parentSpanId")
        if item.get(key)
    }
    return {**item, **ids, "kind": "SPAN_KIND_INTERNAL"}


def attribute(key: str, **value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}
