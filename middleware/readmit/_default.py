"""The default guard, and the functions that speak to it: one guard's own methods, so that each text is written once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from readmit._decorator import Decorates
from readmit._guard import Guard
from readmit._operator import Operator
from readmit.journal import Journal
from readmit.journal._forks import Lock

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from readmit._call import Ports
    from readmit._declare import Mode, ToolSpec

_guard = Guard()
_specs: dict[str, ToolSpec] = {}
_lock = Lock()


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
    with _lock.held():
        made.adopt(_specs)
        before, _guard = _guard, made
    before.close(replaced=True)
    return made


class _Default(Decorates, Operator):
    """Speaks for the default guard, whichever that is at the moment."""

    def guard(self) -> Guard:
        """The default guard."""
        return _guard

    def ports(self) -> Ports:
        """What it is wired with."""
        return _guard.ports()

    def spec_of(self, tool: str) -> ToolSpec | None:
        """The declaration of a tool of this process, by its name."""
        return _guard.spec_of(tool)

    def register(self, spec: ToolSpec) -> None:
        """Takes a tool's name, also for the guards that come after."""
        with _lock.held():
            _guard.register(spec)
            _specs[spec.declaration.name] = spec


_speaks = _Default()

tool: Final = _speaks.tool
pending: Final = _speaks.pending
show: Final = _speaks.show
approve: Final = _speaks.approve
deny: Final = _speaks.deny
revoke: Final = _speaks.revoke
authenticated: Final = _speaks.authenticated
reconcile: Final = _speaks.reconcile
accept: Final = _speaks.accept
compensate: Final = _speaks.compensate
declare_unknown: Final = _speaks.declare_unknown
abandon: Final = _speaks.abandon
