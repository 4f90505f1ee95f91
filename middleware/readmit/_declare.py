"""What the decorator is told about a tool, checked when it is told; every error says what to write instead."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import wrapt

from readmit._call import Declaration
from readmit._context import Frame
from readmit._contract import Approval, Contract
from readmit._digest import Binder

Effect = Literal["read", "write"]
Mode = Literal["enforce", "observe"]
Key = str | Callable[[Mapping[str, Any]], Any]
UNSTATED: Any = object()
EFFECTS = "write effect='read' for a tool without effect on the world, effect='write' for any other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the decorator was given, as it was given. See `readmit.tool`."""

    effect: Any
    contract: Any
    key: Any
    approval: Any
    exclude: Any
    digest_with: Mapping[str, Callable[[Any], Any]] | None
    reconcile: Any
    compensate: Any
    classify: Any
    name: Any
    mode: Any


class ToolSpec:
    """A declared tool: what the core needs of it, and how its arguments are read."""

    def __init__(
        self,
        declaration: Declaration,
        binder: Binder,
        key: Key | None,
        mode: Mode | None,
        compensate: Callable[..., Any] | None,
        function: Any,
    ) -> None:
        self.declaration = declaration
        self.binder = binder
        self.key = key
        self.mode = mode
        self.compensate = compensate
        self.function = function
        self.warned = False  # that a read's arguments have no digest

    @property
    def reads(self) -> bool:
        """Whether it stands outside the table: read-only, and nobody has to approve it."""
        return self.declaration.read and self.declaration.approval is None

    def key_of(self, arguments: Mapping[str, Any], here: Frame) -> str | None:
        """The business key of one call.

        Raises:
            ValueError: for a key that is empty or not a text or an integer.
        """
        if self.key is None:
            return here.key
        value = arguments[self.key] if isinstance(self.key, str) else self.key(arguments)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value:
            raise ValueError(
                f"{self.declaration.name}: its key is {value!r}; a business key is a text that is not empty, "
                "or an integer. Nothing was run."
            )
        return value


def declare(function: Callable[..., Any], told: Told) -> ToolSpec:
    """Checks what the decorator was given.

    Raises:
        TypeError, ValueError: for whatever no rule knows.
    """
    plain = getattr(function, "__func__", function)
    if is_guarded(function) or is_guarded(plain):
        raise TypeError(f"{plain.__qualname__} is a guarded tool already: decorate it once")
    called = _name(plain, told.name)
    if told.effect is UNSTATED:
        raise TypeError(f"{called}: effect= is not stated; {EFFECTS}")
    if told.effect not in get_args(Effect):
        raise ValueError(f"{called}: effect={told.effect!r}; {EFFECTS}")
    if told.mode not in (None, *get_args(Mode)):
        raise ValueError(f"{called}: mode={told.mode!r}; write 'enforce' or 'observe'")
    if not isinstance(told.contract, Contract):
        raise TypeError(f"{called}: contract={told.contract!r}; write a readmit.Contract(…)")
    if not isinstance(told.approval, bool | Approval):
        raise TypeError(f"{called}: approval={told.approval!r}; write True, False or a readmit.Approval(…)")
    if told.key is not None and not isinstance(told.key, str) and not callable(told.key):
        raise TypeError(f"{called}: key={told.key!r}; write a parameter's name, or a function of the bound arguments")
    approval = Approval() if told.approval is True else (told.approval or None)
    _check_hooks(called, plain, told, approval)
    declaration = Declaration(
        name=called,
        read=told.effect == "read",
        contract=told.contract,
        fingerprint=told.contract.fingerprint,
        approval=approval,
        reconcile=told.reconcile,
        classify=told.classify,
    )
    return ToolSpec(declaration, _binder(function, plain, called, told), told.key, told.mode, told.compensate, plain)


def is_guarded(function: Any) -> bool:
    """Whether a function or method is a tool already."""
    layers = (wrapt.FunctionWrapper, wrapt.BoundFunctionWrapper)
    return isinstance(function, layers) and bool(getattr(function, "_self_readmit", False))


def _name(plain: Any, name: Any) -> str:
    if inspect.isclass(plain) or not hasattr(plain, "__qualname__") or not hasattr(plain, "__module__"):
        raise TypeError(f"{plain!r} is not a function or a method: write a def around it and decorate that")
    if name is not None and (not isinstance(name, str) or not name):
        raise ValueError(f"{plain.__qualname__}: name={name!r}; a tool's name is a text that is not empty")
    return name or f"{plain.__module__}.{plain.__qualname__}"


def _check_hooks(called: str, plain: Any, told: Told, approval: Approval | None) -> None:
    hooks = {"reconcile": told.reconcile, "compensate": told.compensate, "classify": told.classify}
    if approval is not None:
        hooks |= {"when": approval.when, "target": approval.target, "show": approval.show}
    awaits = inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain)
    for hook, given in hooks.items():
        if given is None:
            continue
        if not callable(given):
            raise TypeError(f"{called}: {hook}={given!r} is not callable; write a function")
        if _is_async(given) and (hook == "classify" or not (awaits or hook == "compensate")):
            kind = "a classifier reads a result" if hook == "classify" else "the tool is not async"
            raise TypeError(f"{called}: {hook}={given!r} is async, but {kind}; write a plain function")
    if told.reconcile is not None and re.search(r"\bbool\b", _answer_of(told.reconcile)):
        raise TypeError(
            f"{called}: a reconcile hook cannot answer with a bool; "
            "return Present(receipt), Absent(authoritative=…) or Unclear(why)"
        )


def _is_async(hook: Any) -> bool:
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(hook, "__call__", None))  # noqa: B004


def _answer_of(hook: Any) -> str:
    try:
        annotation = inspect.signature(hook).return_annotation
    except (TypeError, ValueError):  # nothing is said about its answers, which are checked when they come
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _binder(function: Any, plain: Any, called: str, told: Told) -> Binder:
    exclude: Iterable[str] = told.exclude
    digest_with = dict(told.digest_with or {})
    key = told.key if isinstance(told.key, str) else None
    first = _first_parameter(plain)
    named = isinstance(exclude, str) or first in digest_with or first in (exclude := tuple(exclude))
    if first is not None and not named and first != key and (isinstance(function, classmethod) or first == "cls"):
        digest_with[first] = _class_name
    return Binder(plain, tool=called, exclude=exclude, key=key, digest_with=digest_with)


def _first_parameter(plain: Any) -> str | None:
    try:
        return next(iter(inspect.signature(plain).parameters), None)
    except (TypeError, ValueError):  # no signature: the binder says what to do
        return None


def _class_name(value: object) -> object:
    """The class that a classmethod is called on says something about the intent: its name does."""
    return ("class", value.__qualname__) if isinstance(value, type) else value
