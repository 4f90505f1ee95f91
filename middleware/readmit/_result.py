"""What a tool returned, as bytes for the journal, and back with the very same types.

The bytes are one version byte and a JSON text that a person can read. What JSON has no word for is an object with one
key that begins with `$`: `{"$tuple": [1, 2]}`, `{"$decimal": "9.90"}`. Dictionaries whose own keys are not plain text,
or begin with `$`, are written as `{"$dict": [[key, value], …]}`.

Only exact types are stored; a subclass of `str` or `dict` is not what would come back. Dataclasses, pydantic models and
enums are stored by import path (see `readmit._rebuild`); nothing is ever unpickled. Reading a result imports the module
that a class is named with, and uses what it finds there only if it is a dataclass, a model or an enum.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import isfinite
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from readmit._canonical import MAX_DEPTH
from readmit._rebuild import Unstorable, put_together, take_apart

__all__ = ["Unstorable", "decode_result", "encode_result"]

_VERSION: Final = b"1"
_JSON: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def encode_result(value: Any, *, limit: int = 262_144) -> bytes:
    """Encode a tool's result.

    Args:
        value: The result.
        limit: The greatest size of the encoded result, in bytes.

    Raises:
        Unstorable: the result would not come back with the same value and types, or is too large.

    Example:
        >>> encode_result(("receipt", 1.0))
        b'1{"$tuple":["receipt",1.0]}'
    """
    packer = _Packer(limit)
    try:
        data = _VERSION + _JSON(packer.pack(value, 0)).encode()
        if len(data) > limit:
            raise packer.too_large()
        # Values of built-in types come back by construction; what a class does to its fields is found out by trying.
        if packer.classes and _JSON(_Packer(limit).pack(decode_result(data), 0)).encode() != data[1:]:
            raise Unstorable(f"a {type(value).__qualname__!r} did not come back as it was")
    except RecursionError:
        raise Unstorable("it is nested too deeply or contains itself") from None
    return data


def decode_result(data: bytes) -> Any:
    """Give back what `encode_result` was given: an equal value of identical types.

    Raises:
        Unstorable: the bytes are damaged or of a newer version, or a class is gone or has other fields now.
    """
    if data[:1] != _VERSION:
        raise Unstorable(f"the stored result has format {data[:1]!r}; this version of readmit reads {_VERSION!r}")
    try:
        return _unpack(json.loads(data[1:]))
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise Unstorable(f"the stored result is damaged: {type(error).__name__}: {error}") from error


class _Packer:
    """Turns a value into what JSON can say; remembers whether classes took part."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.classes = False

    def too_large(self) -> Unstorable:
        return Unstorable(f"it is larger than {self.limit} bytes")

    def pack(self, value: Any, depth: int) -> Any:
        cls = type(value)
        if value is None or cls is bool:
            return value
        if cls is str:
            if len(value) > self.limit:
                raise self.too_large()
            if value.isascii() or not _SURROGATE.search(value):
                return value
            return {"$str": b64encode(value.encode("utf-8", "surrogatepass")).decode()}
        if cls is int:
            return value if value.bit_length() <= 64 else {"$int": f"{value:x}"}
        if cls is float:
            return value if isfinite(value) else {"$float": str(value)}
        if cls is list:
            return self.items(value, depth)
        if cls is dict:
            return self.dictionary(value, depth)
        if cls in _PACKERS:
            tag, pack = _PACKERS[cls]
            return {tag: pack(self, value, depth)}
        kind, state = take_apart(value)
        self.classes = True
        return {f"${kind}": self.items(state, depth)}

    def items(self, values: Iterable[Any], depth: int) -> list[Any]:
        if depth >= MAX_DEPTH:
            raise RecursionError
        packed = []
        for count, value in enumerate(values):
            if count > self.limit:
                raise self.too_large()
            packed.append(self.pack(value, depth + 1))
        return packed

    def unordered(self, values: Iterable[Any], depth: int) -> list[Any]:
        return sorted(self.items(values, depth), key=_JSON)  # so that the same set gives the same bytes

    def dictionary(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        packed = self.items(value.values(), depth)
        if all(type(key) is str and key[:1] != "$" and not _SURROGATE.search(key) for key in value):
            return dict(zip(value, packed, strict=True))
        return {"$dict": [list(pair) for pair in zip(self.items(value, depth), packed, strict=True)]}


def _zone(zone: tzinfo | None) -> list[Any] | None:
    """A time zone as its kind and what makes it: microseconds of offset and a name of its own, a key, or seconds."""
    if zone is None:
        return None
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        name = zone.tzname(None)
        return ["fixed", offset // timedelta(microseconds=1), None if name == str(timezone(offset)) else name]
    if type(zone) is ZoneInfo and zone.key is not None:
        return ["key", zone.key]
    if type(zone) is _pydantic_zone():
        return ["pydantic", (zone.utcoffset(None) or timedelta()) // timedelta(seconds=1)]
    raise Unstorable(f"a time zone of type {type(zone).__qualname__!r} would not come back with its type")


def _unzone(packed: list[Any] | None) -> tzinfo | None:
    if packed is None:
        return None
    kind, value, *more = packed
    if kind == "key":
        return ZoneInfo(value)
    if kind == "fixed":
        return timezone(timedelta(microseconds=value), *(name for name in more if name is not None))
    zone = _pydantic_zone()
    if kind != "pydantic" or zone is None:
        raise Unstorable(f"the time zone {packed!r} needs pydantic, which is not imported here")
    made: tzinfo = zone(value)
    return made


def _pydantic_zone() -> Any:
    return getattr(sys.modules.get("pydantic_core"), "TzInfo", None)


def _clock(value: datetime | time) -> list[Any]:
    return [value.replace(tzinfo=None, fold=0).isoformat(), value.fold, _zone(value.tzinfo)]


def _unpack(packed: Any) -> Any:
    if type(packed) is list:
        return [_unpack(item) for item in packed]
    if type(packed) is not dict:
        return packed
    tag = next(iter(packed), "")
    if tag[:1] != "$":
        return {key: _unpack(item) for key, item in packed.items()}
    if tag[1:] in _KINDS:
        return put_together(tag[1:], *_unpack(packed[tag]))
    return _UNPACKERS[tag](packed[tag])


_KINDS = ("enum", "flag", "dataclass", "model")
_PACKERS: dict[type, tuple[str, Callable[[_Packer, Any, int], Any]]] = {
    bytes: ("$bytes", lambda packer, value, depth: b64encode(value).decode()),
    tuple: ("$tuple", _Packer.items),
    set: ("$set", _Packer.unordered),
    frozenset: ("$frozenset", _Packer.unordered),
    datetime: ("$datetime", lambda packer, value, depth: _clock(value)),
    time: ("$time", lambda packer, value, depth: _clock(value)),
    date: ("$date", lambda packer, value, depth: value.isoformat()),
    timedelta: ("$timedelta", lambda packer, value, depth: value // timedelta(microseconds=1)),
    Decimal: ("$decimal", lambda packer, value, depth: str(value)),
    UUID: ("$uuid", lambda packer, value, depth: value.hex),
}
_UNPACKERS: dict[str, Callable[[Any], Any]] = {
    "$str": lambda packed: b64decode(packed).decode("utf-8", "surrogatepass"),
    "$int": lambda packed: int(packed, 16),
    "$float": float,
    "$bytes": b64decode,
    "$dict": lambda packed: {_unpack(key): _unpack(item) for key, item in packed},
    "$tuple": lambda packed: tuple(map(_unpack, packed)),
    "$set": lambda packed: set(map(_unpack, packed)),
    "$frozenset": lambda packed: frozenset(map(_unpack, packed)),
    "$datetime": lambda packed: datetime.fromisoformat(packed[0]).replace(fold=packed[1], tzinfo=_unzone(packed[2])),
    "$time": lambda packed: time.fromisoformat(packed[0]).replace(fold=packed[1], tzinfo=_unzone(packed[2])),
    "$date": date.fromisoformat,
    "$timedelta": lambda packed: timedelta(microseconds=packed),
    "$decimal": Decimal,
    "$uuid": UUID,
}
