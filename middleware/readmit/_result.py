"""What a tool returned, as bytes for the journal, and back with the very same types.

The bytes are one version byte and a JSON text that a person can read. What JSON has no word for is an object with one
key that begins with `$`: `{"$tuple": [1, 2]}`, `{"$decimal": "9.90"}`. Dictionaries whose own keys are not plain text,
or begin with `$`, are written as `{"$dict": [[key, value], …]}`.

Only exact types are stored; a subclass of `str` or `dict` is not what would come back. Dataclasses, pydantic models and
enums are stored by import path; what their instances hold is put back as it was, and neither a constructor nor a
validator runs. Nothing is ever unpickled. Reading a result imports the module that a class is named with, and uses what
it finds there only if it is a dataclass, a model or an enum.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag
from math import isfinite
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from readmit._canonical import MAX_DEPTH

_VERSION: Final = b"1"
_JSON: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Unstorable(Exception):
    """A result cannot be stored, or can no longer be given back, exactly as it was.

    Args:
        why: The reason, for a person.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


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
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
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
        return self.declared(value, cls, depth)

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

    def declared(self, value: Any, cls: type, depth: int) -> dict[str, Any]:
        kind = _kind(cls)
        shown = f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")
        if kind is None:
            raise Unstorable(f"it holds a value of type {shown!r}, which would not come back with its type")
        if _lookup(sys.modules.get(cls.__module__), cls.__qualname__) is not cls:
            raise Unstorable(f"it holds a value of class {shown!r}, which cannot be found again by that name")
        self.classes = True
        return {f"${kind}": [f"{cls.__module__}:{cls.__qualname__}", *_STATE[kind](self, value, depth)]}
