"""`tool`, the decorator, for whichever guard a call belongs to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from readmit import _tool
from readmit._contract import Approval, Contract
from readmit._declare import EFFECTS, UNSTATED, Effect, Mode, Told, ToolSpec, declare

if TYPE_CHECKING:
    from readmit._guard import Guard

F = TypeVar("F", bound=Callable[..., Any])
Method = TypeVar("Method", bound=Callable[..., Any])


def _heard(method: Method) -> Method:
    """Lets what is missing or misplaced reach the checks, which say what to write instead."""

    @functools.wraps(method)
    def tool(self: Any, *misplaced: object, **told: Any) -> Any:
        if misplaced:
            above = f" above {misplaced[0]!r}" if callable(misplaced[0]) else f", not tool({misplaced[0]!r})"
            raise TypeError(f"tool takes keywords only: write @readmit.tool(effect=…){above}; {EFFECTS}")
        return method(self, **{"effect": UNSTATED, **told})

    return cast("Method", tool)


class Decorates:
    """What has tools declared on it."""

    def guard(self) -> Guard:
        """The guard that a call belongs to, asked at the call."""
        raise NotImplementedError

    def register(self, spec: ToolSpec) -> None:
        """Takes a tool's name.

        Raises:
            ValueError: another function has it.
        """
        raise NotImplementedError

    @_heard
    def tool(
        self,
        *,
        effect: Effect,
        contract: Contract = Contract(),  # noqa: B008 - frozen
        key: str | Callable[[Mapping[str, Any]], str] | None = None,
        approval: Approval | bool = False,
        exclude: Iterable[str] = (),
        digest_with: Mapping[str, Callable[[Any], Any]] | None = None,
        reconcile: Callable[..., Any] | None = None,
        compensate: Callable[..., Any] | None = None,
        classify: Callable[[Any], Any] | None = None,
        name: str | None = None,
        mode: Mode | None = None,
    ) -> Callable[[F], F]:
        """Guards a function, coroutine function, generator or async generator.

        Args:
            effect: `read` for a tool without effect on the world, `write` for any other. It has no default.
            contract: what the tool promises about repeats.
            key: a parameter's name, or a function of the bound arguments, that gives the call its business key.
            approval: True, or an `Approval`: a person must approve each dispatch.
            exclude: parameters that say nothing about the intent: contexts, loggers, secrets, delivery ids.
            digest_with: for a parameter that cannot be encoded, a function that gives something that can.
            reconcile: asked with a `Question` when the effect is unknown; answers `Present`, `Absent` or `Unclear`.
            compensate: called by `compensate(…)` to undo the effect.
            classify: says of a result `committed`, `rejected`, `not_sent`, `unknown` or None.
            name: by default module and qualified name.
            mode: `enforce` or `observe`, for this tool alone.

        Returns:
            A decorator; what it gives has the signature, docstring and kind of the function.

        Raises:
            TypeError, ValueError: at decoration, for whatever no rule knows, with what to write instead.

        Example:
            >>> import readmit
            >>> @readmit.tool(effect="write", key="order_id")
            ... def charge(order_id: str, cents: int) -> str:
            ...     return f"charged {cents}"
        """
        told = Told(
            effect=effect,
            contract=contract,
            key=key,
            approval=approval,
            exclude=exclude,
            digest_with=digest_with,
            reconcile=reconcile,
            compensate=compensate,
            classify=classify,
            name=name,
            mode=mode,
        )

        def decorate(function: F) -> F:
            spec = declare(function, told)
            self.register(spec)
            return _tool.wrap(function, spec, self.guard)

        return decorate
