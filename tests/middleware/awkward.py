"""Values that are easily taken for one another, and classes of every kind that holds declared fields."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from functools import cached_property
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pydantic

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2024, 1, 31, 12, 0)


class Currency(StrEnum):
    EUR = "EUR"
    USD = "USD"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Colour(Enum):
    RED = 1
    CRIMSON = 1
    BLUE = 2


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Order:
    item: str
    count: int = 1
    note: str = dataclasses.field(default="", compare=False, repr=False)

    @cached_property
    def label(self) -> str:
        return f"{self.count} x {self.item}"


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    item: str
    count: int = 1


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    name: str
    pin: str = pydantic.Field(default="", exclude=True)


class Guest(pydantic.BaseModel):
    name: str


class Parcel(msgspec.Struct):
    to: str
    grams: int = 0


class Point(NamedTuple):
    x: int
    y: int


class OddZone(tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        return None

    dst = utcoffset

    def tzname(self, when: datetime | None) -> str | None:
        return None


VALUES: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "0": 0,
    "1": 1,
    "-1": -1,
    "2**53": 2**53,
    "2**53+1": 2**53 + 1,
    "2**60": 2**60,
    "10**5000": 10**5000,
    "0.0": 0.0,
    "-0.0": -0.0,
    "1.0": 1.0,
    "1e-7": 1e-7,
    "2.0**60": 2.0**60,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "complex": 1 + 0j,
    "complex nan": complex(math.nan, 1),
    "empty": "",
    "'1'": "1",
    "'nan'": "nan",
    "'None'": "None",
    "'i1;'": "i1;",
    "null byte": "\0",
    "emoji": "🧾",
    "half an emoji": "\ud83e",
    "two halves": "\ud83e\uddfe",
    "e acute, composed": "é",
    "e acute, decomposed": "e\u0301",
    "b''": b"",
    "b'1'": b"1",
    "b'ff'": b"\xff",
    "y umlaut": "ÿ",
    "bytearray": bytearray(b"1"),
    "memoryview": memoryview(b"1"),
    "Decimal 1": Decimal("1"),
    "Decimal 1.0": Decimal("1.0"),
    "Decimal 1E+2": Decimal("1E+2"),
    "Decimal 100": Decimal("100"),
    "Decimal -0": Decimal("-0"),
    "Decimal 0": Decimal("0"),
    "Decimal NaN": Decimal("NaN"),
    "Decimal sNaN": Decimal("sNaN"),
    "Decimal Infinity": Decimal("Infinity"),
    "UUID": UUID(int=1),
    "date": date(2024, 1, 31),
    "midnight": datetime(2024, 1, 31),
    "noon": NOON,
    "noon, text": "2024-01-31T12:00:00",
    "noon, later": NOON.replace(microsecond=1),
    "noon, fold": NOON.replace(fold=1),
    "noon, UTC": NOON.replace(tzinfo=UTC),
    "noon, +01:00": NOON.replace(tzinfo=timezone(timedelta(hours=1))),
    "one, +01:00": NOON.replace(hour=13, tzinfo=timezone(timedelta(hours=1))),
    "noon, Berlin": NOON.replace(tzinfo=BERLIN),
    "noon, Paris": NOON.replace(tzinfo=ZoneInfo("Europe/Paris")),
    "time": time(12),
    "time, UTC": time(12, tzinfo=UTC),
    "time, Berlin": time(12, tzinfo=BERLIN),
    "timedelta": timedelta(seconds=1),
    "timedelta, -": timedelta(seconds=-1),
    "timedelta, days": timedelta(days=1),
    "Currency.EUR": Currency.EUR,
    "'EUR'": "EUR",
    "Currency.USD": Currency.USD,
    "Level.LOW": Level.LOW,
    "Colour.RED": Colour.RED,
    "Rights.READ": Rights.READ,
    "Rights.READ|WRITE": Rights.READ | Rights.WRITE,
    "[]": [],
    "()": (),
    "{}": {},
    "set()": set(),
    "frozenset()": frozenset(),
    "[1, 2]": [1, 2],
    "[2, 1]": [2, 1],
    "[[1], 2]": [[1], 2],
    "[[1, 2]]": [[1, 2]],
    "(1, 2)": (1, 2),
    "{1, 2}": {1, 2},
    "frozenset 1, 2": frozenset({1, 2}),
    "[1, '2']": [1, "2"],
    "dict 1": {1: "a"},
    "dict '1'": {"1": "a"},
    "dict True": {True: "a"},
    "dict None": {None: "a"},
    "dict tuple": {(1, 2): "a"},
    "dict b": {"a": 1, "b": 2},
    "dict pairs": [["a", 1], ["b", 2]],
    "range": range(3),
    "Point": Point(1, 2),
    "Order": Order("tea"),
    "Order, 2": Order("tea", 2),
    "Order, note": Order("tea", note="loose"),
    "Offer": Offer("tea"),
    "Order, dict": {"item": "tea", "count": 1, "note": ""},
    "Customer": Customer(name="Ada"),
    "Customer, pin": Customer(name="Ada", pin="1234"),
    "Customer, extra": Customer.model_validate({"name": "Ada", "age": 36}),
    "Guest": Guest(name="Ada"),
    "Parcel": Parcel("Ada"),
    "Parcel, 2": Parcel("Ada", 2),
    "PurePosixPath": PurePosixPath("a/b"),
    "PureWindowsPath": PureWindowsPath("a/b"),
    "class": Decimal,
    "class, text": "decimal:Decimal",
    "deep": [[[[[[[[["x"]]]]]]]]],
}
