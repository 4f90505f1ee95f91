"""Classes whose instances a tool may return; found again by import path, in other processes too."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from functools import cached_property
from typing import Any, Generic, TypeVar

import pydantic

T = TypeVar("T")
EVENTS: list[str] = []


class State(StrEnum):
    PAID = "paid"
    OPEN = "open"


class Level(IntEnum):
    LOW = 1


class Shape(Enum):
    ROUND = (1, 2)
    CIRCLE = (1, 2)


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Receipt:
    id: str
    total: Decimal
    lines: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    state: State = State.PAID

    def __post_init__(self) -> None:
        EVENTS.append("constructed")

    @cached_property
    def label(self) -> str:
        return self.id.upper()


@dataclasses.dataclass(frozen=True, slots=True)
class Money:
    cents: int
    currency: str = "EUR"

    @dataclasses.dataclass(frozen=True)
    class Rate:
        factor: float


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    size: int = dataclasses.field(init=False, default=3)
    unset: int = dataclasses.field(init=False, repr=False, default=0)


@dataclasses.dataclass
class Half:
    given: int
    later: int = dataclasses.field(init=False)


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")

    name: str
    since: datetime | None = None
    tags: set[str] = set()
    pin: str = pydantic.Field(default="", exclude=True)
    _visits: int = pydantic.PrivateAttr(default=0)

    @pydantic.field_validator("name")
    @classmethod
    def _stripped(cls, name: str) -> str:
        EVENTS.append("validated")
        return name.strip()

    @cached_property
    def label(self) -> str:
        return self.name.upper()


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)

    money: Money
    inner: Customer | None = None


class Names(pydantic.RootModel[list[str]]):
    pass


class Text(str):
    pass


@dataclasses.dataclass
class Handle:
    """A dataclass with a way of its own to make instances."""

    id: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Handle:
        EVENTS.append("made")
        return super().__new__(cls)


@dataclasses.dataclass
class Loose:
    id: int
    __slots__ = ("__dict__", "more")


def local_class() -> Any:
    @dataclasses.dataclass
    class Local:
        id: int

    return Local(1)
