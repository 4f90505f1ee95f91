"""The default guard, and the functions that speak to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from readmit._contract import Approval, Contract
from readmit._declare import UNSTATED, Effect, Mode, ToolSpec
from readmit._findings import Finding
from readmit._fold import Head
from readmit._guard import Guard, make_tool
from readmit._operator import Pending
from readmit.journal import Journal

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

F = TypeVar("F", bound=Callable[..., Any])
_guard = Guard()
_specs: list[ToolSpec] = []
_lock = threading.Lock()


def default_guard() -> Guard:
    """The guard that `configure` made last, or one with no configuration at all."""
    return _guard


def configure(
    *,
    journal: str | Path | Journal | None = None,
    mode: Mode = "enforce",
    scope: str | None = None,
    executor: str | None = None,
    policy_version: str | None = None,
    digest_secret: str | bytes | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Guard:
    """Sets up the default guard; optional. Tools decorated before and after belong to it.

    Args:
        journal: a path, `:memory:`, or a `Journal`; by default `READMIT_JOURNAL`, else `readmit.db` beside the program.
        mode: `enforce`, or `observe`: nothing is blocked and every would-be refusal is recorded.
        scope: the scope of calls made outside any `scope(…)`; by default `READMIT_SCOPE`, else `default`.
        executor: who executes, bound into approvals.
        policy_version: bound into approvals: a newer one makes them stale.
        digest_secret: makes digests an HMAC, so that small arguments cannot be guessed from them.
        tracer_provider: by default whatever the application has.

    Raises:
        ValueError: for a mode that no rule knows.

    Example:
        >>> guard = configure(journal=":memory:", scope="example")
    """
    global _guard
    made = Guard(
        journal=journal,
        mode=mode,
        scope=scope,
        executor=executor,
        policy_version=policy_version,
        digest_secret=digest_secret,
        tracer_provider=tracer_provider,
    )
    with _lock:
        for spec in _specs:
            made.register(spec)
        before, _guard = _guard, made
    before.close()
    return made


def _register(spec: ToolSpec) -> None:
    with _lock:
        _guard.register(spec)
        _specs.append(spec)


def tool(
    *misplaced: object,
    effect: Effect = UNSTATED,
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
        misplaced: nothing; it is there for the error that `@tool` without parentheses gets.
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
        >>> @tool(effect="write", key="order_id")
        ... def charge(order_id: str, cents: int) -> str:
        ...     return f"charged {cents}"
    """
    return make_tool(
        default_guard,
        _register,
        misplaced,
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


def pending() -> list[Pending]:
    """`Guard.pending` of the default guard."""
    return _guard.pending()


def show(occurrence_id: str) -> Head:
    """`Guard.show` of the default guard."""
    return _guard.show(occurrence_id)


def approve(request_id: str, *, by: str, expires: timedelta | None = None) -> str:
    """`Guard.approve` of the default guard."""
    return _guard.approve(request_id, by=by, expires=expires)


def deny(request_id: str, *, by: str) -> None:
    """`Guard.deny` of the default guard."""
    _guard.deny(request_id, by=by)


def revoke(permit_id: str, *, by: str) -> None:
    """`Guard.revoke` of the default guard."""
    _guard.revoke(permit_id, by=by)


def authenticated(
    *, principal: str | None, scope: str | None = None, credential: Mapping[str, Any] | str | None = None
) -> str:
    """`Guard.authenticated` of the default guard."""
    return _guard.authenticated(principal=principal, scope=scope, credential=credential)


def reconcile(
    occurrence_id: str, finding: Finding | None = None, *, epoch: int | None = None, by: str | None = None
) -> Finding:
    """`Guard.reconcile` of the default guard."""
    return _guard.reconcile(occurrence_id, finding, epoch=epoch, by=by)


def accept(occurrence_id: str, *, epoch: int, by: str, statement: str) -> None:
    """`Guard.accept` of the default guard."""
    _guard.accept(occurrence_id, epoch=epoch, by=by, statement=statement)


def compensate(occurrence_id: str, *, epoch: int, by: str) -> None:
    """`Guard.compensate` of the default guard."""
    _guard.compensate(occurrence_id, epoch=epoch, by=by)


def declare_unknown(occurrence_id: str, *, epoch: int, by: str) -> None:
    """`Guard.declare_unknown` of the default guard."""
    _guard.declare_unknown(occurrence_id, epoch=epoch, by=by)


def abandon(occurrence_id: str, *, by: str, statement: str = "") -> None:
    """`Guard.abandon` of the default guard."""
    _guard.abandon(occurrence_id, by=by, statement=statement)
