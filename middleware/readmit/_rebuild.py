"""Instances of dataclasses, pydantic models and enums, taken apart and put together again without running their code.

An instance is taken apart into plain values and the import path of its class, and put together by setting its fields on
a bare object: no constructor, no `__post_init__`, no validator. That is exact only if the fields are all there is, so
an instance that holds more (a cached property, an attribute set from outside) is refused, and so is a class that can
not be found again under its name (one made inside a function, a notebook cell's earlier version of it).
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping
from enum import Enum, Flag
from typing import Any, cast


class Unstorable(Exception):
    """A result cannot be stored, or can no longer be given back, exactly as it was.

    Args:
        why: The reason, for a person.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def take_apart(value: Any) -> tuple[str, list[Any]]:
    """Return the kind of an instance, and its class's import path followed by its state.

    Raises:
        Unstorable: the value is no dataclass, model or enum, or would not be the same again.
    """
    cls = type(value)
    kind = _kind(cls)
    shown = f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")
    if kind is None:
        raise Unstorable(f"a value of type {shown!r} would not come back with its type")
    if _lookup(sys.modules.get(cls.__module__), cls.__qualname__) is not cls:
        raise Unstorable(f"the class {shown!r} cannot be found again under this name")
    path = f"{cls.__module__}:{cls.__qualname__}"
    if kind == "enum":
        if cls._member_map_.get(value._name_) is not value:
            raise Unstorable(f"a {shown!r} is not one of its members")
        return kind, [path, value._name_]
    if kind == "flag":
        return kind, [path, value._value_]
    if cls.__new__ is not object.__new__:
        raise Unstorable(f"the class {shown!r} makes its instances in its own way (it has a __new__)")
    fields = _fields(shown, value)
    if kind == "dataclass":
        return kind, [path, fields]
    hidden = value.__pydantic_private__
    return kind, [path, fields, value.__pydantic_extra__, hidden, sorted(value.__pydantic_fields_set__)]


def put_together(kind: str, path: str, *state: Any) -> Any:
    """Return the instance that `take_apart` took apart.

    Raises:
        Unstorable: the class is gone, is no longer of this kind, or has other fields or members now.
    """
    cls = _find(kind, path)
    if kind == "enum":
        (name,) = state
        if name not in cls._member_map_:
            raise Unstorable(f"{path} has no member {name!r} now")
        return cls._member_map_[name]
    if kind == "flag":
        return cls(*state)
    fields = cast("dict[str, Any]", state[0])
    if fields.keys() != set(_names(cls)) or cls.__new__ is not object.__new__:
        raise Unstorable(f"{path} has other fields now than when the result was stored")
    value = object.__new__(cls)
    if kind == "dataclass":
        for name, item in fields.items():
            object.__setattr__(value, name, item)
        return value
    _, extra, hidden, fields_set = state
    object.__setattr__(value, "__dict__", fields)
    object.__setattr__(value, "__pydantic_fields_set__", set(fields_set))
    for name, item in (("__pydantic_extra__", extra), ("__pydantic_private__", hidden)):
        if getattr(value, name, value) is not item:  # a RootModel has both as None in its class
            object.__setattr__(value, name, item)
    return value


def _kind(cls: Any) -> str | None:
    if not isinstance(cls, type):
        return None
    if issubclass(cls, Enum):
        return "flag" if issubclass(cls, Flag) else "enum"
    model = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    if model is not None and issubclass(cls, model) and hasattr(cls, "__pydantic_fields_set__"):
        return "model"
    return "dataclass" if dataclasses.is_dataclass(cls) else None


def _names(cls: Any) -> list[str]:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return list(cls.model_fields)


def _fields(shown: str, value: Any) -> dict[str, Any]:
    names, held = _names(type(value)), dict(getattr(value, "__dict__", {}))
    slots = _slots(type(value)) if dataclasses.is_dataclass(value) else ()  # those of a model are its state
    more = {*held, *slots} - {*names}
    if more:
        raise Unstorable(f"a {shown!r} holds more than its fields: {min(more)!r}")
    unset = [name for name in names if name not in held and not hasattr(value, name)]
    if unset:
        raise Unstorable(f"a {shown!r} has no value for its field {unset[0]!r}")
    return {name: held[name] if name in held else getattr(value, name) for name in names}


def _slots(cls: type) -> set[str]:
    slots = [base.__dict__.get("__slots__", ()) for base in cls.__mro__]
    names = {name for some in slots for name in ((some,) if isinstance(some, str) else some)}
    return names - {"__dict__", "__weakref__"}


def _lookup(module: Any, qualified_name: str) -> Any:
    found = module
    for name in qualified_name.split("."):
        held: Mapping[str, Any] = getattr(found, "__dict__", {})
        found = held.get(name)  # not getattr(): a module's __getattr__ is code
    return found


def _find(kind: str, path: str) -> Any:
    module, _, qualified_name = path.partition(":")
    try:
        found = _lookup(importlib.import_module(module), qualified_name)
    except Exception as error:  # whatever the module's own code raises
        raise Unstorable(f"the module of {path} cannot be imported: {type(error).__name__}: {error}") from error
    if _kind(found) != kind:
        raise Unstorable(f"{path} is no {kind} now")
    return found
