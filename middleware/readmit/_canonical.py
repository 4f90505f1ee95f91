"""The canonical encoding of values: one text for one value, and never one text for two.

Every value begins with a tag of its type and either has a known end (`;`) or states its length before its content, so
that no value is the beginning of another and no two sequences of values read alike. `1`, `1.0`, `True` and `"1"` have
four tags. What has no order (dictionaries, sets, declared fields) is sorted by its encoding. `repr`, `pickle`, `hash`
and `id` take no part: they differ between processes, releases or machines.

Only exact types are encoded. A subclass of a built-in type can carry more than the built-in shows (a `Timestamp` with
nanoseconds is a `datetime`), and two values that differ in what we cannot see would get one digest. `Decimal("1")` and
`Decimal("1.0")` differ, as they do on the wire; so do two spellings of one instant in two time zones.

Classes are named by qualified name *without* module: a class that moved to another module between two runs must not
turn a repeat into a new call. Fields are what the class declares, never what an instance happens to have beside them: a
cached property must not change the digest of a value.

A change in the text of any value needs a new `VERSION`; the golden vectors in the tests notice.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from functools import lru_cache
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

VERSION = 1
MAX_DEPTH = 128  # levels of nesting: a fixed number, so that the answer does not depend on how deep the caller is

BUILT_IN: tuple[type, ...] = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset)
BUILT_IN += (datetime, date, time, timedelta, Decimal, UUID, PurePath)
"""Types whose subclasses are refused, the more special before the more general."""

Encoder = Callable[[Any, int], str]


class Unencodable(Exception):
    """A value has no canonical encoding.

    Args:
        offender: The type of the value that could not be encoded.
        too_deep: The type is fine, but the value is nested too deeply or contains itself.
    """

    def __init__(self, offender: type, too_deep: bool = False) -> None:
        super().__init__(offender, too_deep)
        self.offender = offender
        self.too_deep = too_deep


def encode(value: Any, depth: int = 0) -> str:
    """Return the canonical text of a value that `depth` levels of nesting surround.

    Raises:
        Unencodable: the value, or a value in it, has no canonical encoding.
    """
    return ENCODERS[type(value)](value, depth)


def _str(value: str, depth: int = 0) -> str:
    return f"s{len(value)}:{value}"


def _int(value: int, depth: int = 0) -> str:
    return f"i{value:x};"  # decimal digits are limited (sys.set_int_max_str_digits), hexadecimal ones are not


def _bytes(value: bytes, depth: int) -> str:
    return f"b{len(value)}:{value.decode('latin-1')}"


def _items(values: Iterable[Any], depth: int) -> list[str]:
    depth += 1
    if depth > MAX_DEPTH:
        raise Unencodable(type(values), too_deep=True)
    encoders = ENCODERS
    return [encoders[type(value)](value, depth) for value in values]


def _list(value: list[Any], depth: int) -> str:
    return f"l{len(value)}:{''.join(_items(value, depth))}"


def _tuple(value: tuple[Any, ...], depth: int) -> str:
    return f"t{len(value)}:{''.join(_items(value, depth))}"


def _set(value: set[Any], depth: int) -> str:
    return f"S{len(value)}:{''.join(sorted(_items(value, depth)))}"


def _frozenset(value: frozenset[Any], depth: int) -> str:
    return f"Z{len(value)}:{''.join(sorted(_items(value, depth)))}"


def _dict(value: dict[Any, Any], depth: int) -> str:
    depth += 1
    if depth > MAX_DEPTH:
        raise Unencodable(dict, too_deep=True)
    encoders = ENCODERS
    pairs = [
        f"s{len(key)}:{key}{encoders[type(item)](item, depth)}"
        if type(key) is str
        else f"{encoders[type(key)](key, depth)}{encoders[type(item)](item, depth)}"
        for key, item in value.items()
    ]
    pairs.sort()  # no key's encoding is the beginning of another's: this is the order of the keys
    return f"d{len(pairs)}:{''.join(pairs)}"


def _zone(value: datetime | time) -> str:
    """The time zone: a key where it has one (two zones of one offset part ways in summer), else the offset."""
    zone = value.tzinfo
    if zone is None:
        return "N"
    if isinstance(zone, ZoneInfo) and zone.key is not None:
        return _str(zone.key)
    offset = value.utcoffset()
    if offset is None:
        raise Unencodable(type(zone))
    return _timedelta(offset)


def _clock(value: datetime | time, depth: int) -> str:
    tag = "D" if isinstance(value, datetime) else "H"
    return f"{tag}{value.replace(tzinfo=None).isoformat()};{value.fold}{_zone(value)}"


def _timedelta(value: timedelta, depth: int = 0) -> str:
    return f"L{value.days};{value.seconds};{value.microseconds};"


def _memoryview(value: memoryview, depth: int) -> str:
    return f"m{_str(value.format)}{_tuple(tuple(value.shape or ()), depth)}{_bytes(value.tobytes(), depth)}"


def _path(value: PurePath, depth: int) -> str:
    return f"p{_str(type(value).__qualname__)}{_str(str(value))}"


def _enum(value: Enum, depth: int) -> str:
    return f"E{_str(type(value).__qualname__)}{_str(value._name_)}"


def _flag(value: Flag, depth: int) -> str:
    # The name of a combination is spelled differently by different versions of Python.
    return f"G{_str(type(value).__qualname__)}{encode(value._value_, depth)}"


def _fields(value: Any, pairs: Iterable[tuple[str, Any]], depth: int) -> str:
    depth += 1
    if depth > MAX_DEPTH:
        raise Unencodable(type(value), too_deep=True)
    encoded = sorted([f"{_str(name)}{encode(item, depth)}" for name, item in pairs if item is not _ABSENT])
    return f"o{_str(type(value).__qualname__)}{len(encoded)}:{''.join(encoded)}"


def _dataclass(value: Any, depth: int) -> str:
    names = [field.name for field in dataclasses.fields(value)]
    return _fields(value, [(name, getattr(value, name, _ABSENT)) for name in names], depth)


def _pydantic(value: Any, depth: int) -> str:
    # Not model_dump(): it hides secrets and excluded fields, and lets serializers say anything.
    pairs = [(name, value.__dict__.get(name, _ABSENT)) for name in type(value).model_fields]
    return _fields(value, [*pairs, *(value.__pydantic_extra__ or {}).items()], depth)


def _struct(value: Any, depth: int) -> str:
    return _fields(value, [(name, getattr(value, name, _ABSENT)) for name in value.__struct_fields__], depth)


def _namedtuple(value: Any, depth: int) -> str:
    return _fields(value, zip(value._fields, tuple.__iter__(value), strict=True), depth)


def _class(value: type, depth: int) -> str:
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not value:  # made by a function: another class can have the same name
        raise Unencodable(type(value))
    return f"y{_str(value.__module__)}{_str(value.__qualname__)}"


def _refused(value: Any, depth: int) -> str:
    raise Unencodable(type(value))


@lru_cache(maxsize=1024)
def _encoder(cls: type) -> Encoder:
    """The encoder of a type that is not built in."""
    rules: tuple[tuple[bool, Encoder], ...] = (
        (issubclass(cls, type), _class),
        (issubclass(cls, Flag), _flag),
        (issubclass(cls, Enum), _enum),
        (issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple), _namedtuple),
        (issubclass(cls, BUILT_IN), _refused),
        (dataclasses.is_dataclass(cls), _dataclass),
        (hasattr(cls, "model_dump") and hasattr(cls, "model_fields"), _pydantic),
        (hasattr(cls, "__struct_fields__"), _struct),
    )
    return next((encoder for applies, encoder in rules if applies), _refused)


class _Encoders(dict[type, Encoder]):
    """Encoders by exact type; any other type is looked at once."""

    __slots__ = ()

    def __missing__(self, cls: type) -> Encoder:
        return _encoder(cls)


_ABSENT = object()
ENCODERS = _Encoders(
    {
        type(None): lambda value, depth: "N",
        bool: lambda value, depth: "T" if value else "F",
        int: _int,
        float: lambda value, depth: f"f{value.hex()};",
        complex: lambda value, depth: f"j{value.real.hex()};{value.imag.hex()};",
        str: _str,
        bytes: _bytes,
        bytearray: lambda value, depth: f"B{len(value)}:{value.decode('latin-1')}",
        memoryview: _memoryview,
        list: _list,
        tuple: _tuple,
        dict: _dict,
        set: _set,
        frozenset: _frozenset,
        range: lambda value, depth: f"R{value.start:x};{value.stop:x};{value.step:x};",
        datetime: _clock,
        date: lambda value, depth: f"Y{value.isoformat()};",
        time: _clock,
        timedelta: _timedelta,
        Decimal: lambda value, depth: f"Q{str(value).upper()};",  # the context decides between e and E
        UUID: lambda value, depth: f"U{value.int:x};",
        PurePosixPath: _path,
        PureWindowsPath: _path,
        PosixPath: _path,
        WindowsPath: _path,
    }
)
