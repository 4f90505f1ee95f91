"""Whole OTLP documents, and whole spans, out of damaged or pretty-printed text. Pure: text in, pieces out."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Document", "Lost", "is_document", "one_line", "pieces"]

_DECODER = json.JSONDecoder(strict=False)
_ENVELOPE = re.compile(r'\{\s*"(?:resourceSpans|batches)"\s*:')
_TOKEN = re.compile(r'([^"\[\]{}]*)("[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}])', re.DOTALL)
_BLANK = re.compile(r"\s*")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_CONTROL = dict.fromkeys(range(0x20), " ")


@dataclass(frozen=True, slots=True)
class Document:
    """One OTLP document as it was written, on one line."""

    text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A record that could not be read: where it starts (characters into the text), why, and the spans saved from it."""

    start: int
    reason: str
    spans_kept: int = 0


def is_document(value: object) -> bool:
    """Whether a decoded JSON value is an OTLP traces document (`resourceSpans`, or Tempo's `batches`)."""
    if not isinstance(value, dict):
        return False
    found = [value[key] for key in ("resourceSpans", "batches") if isinstance(value.get(key), list)]
    # A document inside a document is what a fragment and the next record make together.
    return bool(found) and not any(
        isinstance(item, dict) and "resourceSpans" in item for part in found for item in part
    )


def one_line(text: str) -> str:
    """The same JSON on one line and fit for a strict parser: no control characters, no half surrogate pairs."""
    flat = text.translate(_CONTROL)
    if "\\u" not in flat:
        return flat
    return _ESCAPE.sub(lambda m: "\\ufffd" if m["lone"] else m[0], flat)


def pieces(text: str) -> Iterator[Document | Lost]:
    """Take a text apart into OTLP documents and what is lost between them.

    Documents may be spread over lines, follow each other without a line break, follow a fragment on its line, or sit
    in a JSON array. From a document that breaks off, the spans that are complete are kept.

    Example:
        >>> [type(piece).__name__ for piece in pieces('{"resourceSpans":[{"sco{"resourceSpans":[]}')]
        ['Lost', 'Document']
    """
    envelopes = [match.start() for match in _ENVELOPE.finditer(text)]
    at = _skip_blank(text, 0)
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            end = _next_start(text, at, envelopes)
            yield from _broken(text, at, end, error)
        else:
            yield from _whole(value, text, at, end)
            inside = bisect_right(envelopes, at)
            if not _holds_documents(value) and inside < len(envelopes) and envelopes[inside] < end:
                end = envelopes[inside]  # a stray quote can make a string of a document's beginning
        at = _skip_blank(text, end)


def _skip_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _next_start(text: str, at: int, envelopes: list[int]) -> int:
    """Where to look on after a failure: the next envelope, and outside of envelopes at the latest the next line."""
    index = bisect_right(envelopes, at)
    end = envelopes[index] if index < len(envelopes) else len(text)
    if index and envelopes[index - 1] == at:
        return end
    line = text.find("\n", at, end)
    return line + 1 if line >= 0 else end


def _broken(text: str, start: int, end: int, error: Exception) -> Iterator[Document | Lost]:
    if not _ENVELOPE.match(text, start):
        yield Lost(start, "not JSON")
        return
    if isinstance(error, RecursionError):
        yield Lost(start, "nested too deeply")
        return
    limit = min(end, error.pos) if isinstance(error, json.JSONDecodeError) else end
    closed, count = _closed(text[start:limit])
    if count:
        yield Document(one_line(closed))
    yield Lost(start, "torn: the record breaks off", spans_kept=count)


def _closed(torn: str) -> tuple[str, int]:
    """Cut a torn document after its last complete span and close what is open; and how many spans that leaves."""
    open_brackets: list[tuple[str, str]] = []  # the closing bracket, and the key under which it was opened
    cut, cut_closing, count, at, key = 0, "", 0, 0, ""
    while match := _TOKEN.match(torn, at):
        between, token = match.groups()
        if token[0] == '"':
            key = token[1:-1]
        elif token in "{[":
            open_brackets.append(("}" if token == "{" else "]", key if ":" in between else ""))
        elif not open_brackets or open_brackets.pop()[0] != token:
            break
        elif token == "}" and open_brackets and open_brackets[-1] == ("]", "spans"):
            count += 1
            cut, cut_closing = match.end(), "".join(bracket for bracket, _ in reversed(open_brackets))
        at = match.end()
    closed = torn[:cut] + cut_closing
    try:
        _DECODER.decode(closed)
    except (ValueError, RecursionError):
        return "", 0
    return closed, count


def _whole(value: Any, text: str, start: int, end: int) -> Iterator[Document | Lost]:
    if is_document(value):
        yield Document(one_line(text[start:end]))
    elif isinstance(value, dict) and is_document(value.get("trace")):  # the query API of newer Tempo wraps it
        yield Document(json.dumps(value["trace"]))
    elif isinstance(value, list) and any(is_document(item) for item in value):
        for item in value:
            yield Document(json.dumps(item)) if is_document(item) else Lost(start, _foreign(item))
    else:
        yield Lost(start, _foreign(value))


def _holds_documents(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(is_document, value))
    return is_document(value) or (isinstance(value, dict) and is_document(value.get("trace")))


def _foreign(value: Any) -> str:
    """Name the kind of JSON that is not ours to read."""
    if isinstance(value, dict):
        if "resourceLogs" in value or "resourceMetrics" in value:
            return "OTLP logs or metrics, not traces"
        if "resource_spans" in value:
            return "OTLP in snake_case: not read yet"
        if "data" in value:
            return "Jaeger JSON or another tool's export: not read yet"
    if isinstance(value, list) and value and isinstance(value[0], dict) and "localEndpoint" in value[0]:
        return "Zipkin JSON: not read yet"
    return "JSON, but not OTLP traces"
