"""Where something stands in an HTTP message: in a header, or in a JSON body. Pure; contracts name places."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_VALUE = msgspec.json.Decoder()
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


class Place(NamedTuple):
    """A place in a message.

    Attributes:
        kind: `header` or `json`.
        name: of the header, empty for a JSON body.
        path: of the JSON pointer (RFC 6901), unescaped.
    """

    kind: Literal["header", "json"]
    name: str = ""
    path: tuple[str, ...] = ()

    def find(self, headers: Mapping[str, str], body: bytes | None) -> str:
        """What stands there; empty if nothing does, or no text and no number.

        Args:
            headers: of the message, by names in any case.
            body: of the message, None where it cannot be read.

        Example:
            >>> place("json:/charge/id").find({}, b'{"charge": {"id": 17}}')
            '17'
        """
        if self.kind == "header":
            return headers.get(self.name) or ""
        value: Any = body
        try:
            for step in self.path:
                value = _step(bytes(value), step)
            found = _VALUE.decode(bytes(value))
        except (msgspec.DecodeError, LookupError, TypeError, ValueError, RecursionError):
            return ""
        return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""

    def put(self, body: bytes, text: str) -> bytes | None:
        """A JSON body with a text at this place; None if it has no such place.

        Every other value keeps its bytes.

        Example:
            >>> place("json:/key").put(b'{"cents": 1.50}', "k-1")
            b'{"cents":1.50,"key":"k-1"}'
        """
        try:
            return _put(body, self.path, text)
        except (msgspec.DecodeError, LookupError, RecursionError):
            return None


@lru_cache(maxsize=256)
def place(text: str) -> Place:
    """Reads a place: `Location` or `header:Location` for a header, `json:/charge/id` for a JSON pointer.

    Raises:
        ValueError: for anything else.
    """
    kind, colon, rest = text.partition(":")
    if not colon:
        kind, rest = "header", text
    if kind == "header" and rest.strip() and rest.isascii() and rest.isprintable():
        return Place("header", rest.strip().lower())
    if kind == "json" and rest.startswith("/"):
        return Place("json", path=tuple(p.replace("~1", "/").replace("~0", "~") for p in rest[1:].split("/")))
    raise ValueError(f"{text!r} is no place in a message: write header:Location, or json:/charge/id")


def _step(body: bytes, step: str) -> msgspec.Raw:
    if body.lstrip()[:1] == b"[":
        return _ITEMS.decode(body)[int(step)]
    return _FIELDS.decode(body)[step]


def _put(body: bytes, path: tuple[str, ...], text: str) -> bytes:
    fields = _FIELDS.decode(body)
    name, *rest = path
    inner = _put(bytes(fields[name]), tuple(rest), text) if rest else msgspec.json.encode(text)
    fields[name] = msgspec.Raw(inner)
    return msgspec.json.encode(fields)
