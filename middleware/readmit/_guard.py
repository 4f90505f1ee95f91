"""The guard: wires journal, policy, clock and spans together, and holds the tools declared on it."""

from __future__ import annotations

import atexit
import dataclasses
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import uuid_utils

from readmit._absent import AbsentJournal
from readmit._call import JOIN_TIMEOUT, Declaration, Ports
from readmit._context import UNNAMED
from readmit._contract import Policy
from readmit._declare import Mode, ToolSpec
from readmit._decorator import Decorates
from readmit._digest import digest_bytes
from readmit._errors import JournalUnavailable
from readmit._function import apart, differs
from readmit._operator import Operator
from readmit._telemetry import OpenTelemetrySpans
from readmit.journal import Journal, SQLiteJournal
from readmit.journal._forks import Lock

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_log = logging.getLogger("readmit")


def default_path() -> str:
    """Where the journal is when nobody says: `READMIT_JOURNAL`, else `readmit.db` beside the program.

    A program that is part of an installation (a console script, `python -m`) has no folder of its own: then it is the
    working directory.
    """
    if named := os.environ.get("READMIT_JOURNAL"):
        return named
    program = Path(getattr(sys.modules.get("__main__"), "__file__", None) or "").resolve()
    own = program.suffix == ".py" and not program.is_relative_to(Path(sys.prefix).resolve())
    return str((program.parent if own else Path.cwd()) / "readmit.db")


class Guard(Decorates, Operator):
    """Replay admission for the tools declared on it. `configure` makes the default one; most programs need no other.

    Args:
        journal: a path, `:memory:`, or a `Journal`. Opened by the first call that needs it.
        mode: `enforce`, or `observe`: nothing is blocked and every would-be refusal is recorded.
        scope: the scope of calls made outside any `scope(…)`; `READMIT_SCOPE` by default, else `default`.
        executor: who executes, bound into approvals.
        policy_version: bound into approvals: a newer one makes them stale.
        digest_secret: a bare hash of a small argument can be guessed; with a secret it is an HMAC.
        tracer_provider: by default whatever the application has.
        clock: nanoseconds since the Unix epoch.
        new_id: makes the ids of occurrences, permits, requests and admissions; each must sort after the one before.
        join_timeout: seconds a second caller waits for an equal call that is in flight.

    Raises:
        ValueError: for a mode that no rule knows.

    Example:
        >>> guard = Guard(journal=":memory:")
        >>> @guard.tool(effect="write")
        ... def greet(name: str) -> str:
        ...     return f"hello {name}"
        >>> greet("ann")
        'hello ann'
    """

    def __init__(
        self,
        *,
        journal: str | Path | Journal | None = None,
        mode: Mode = "enforce",
        scope: str | None = None,
        executor: str | None = None,
        policy_version: str | None = None,
        digest_secret: str | bytes | None = None,
        tracer_provider: TracerProvider | None = None,
        clock: Callable[[], int] = time.time_ns,
        new_id: Callable[[], str] = lambda: str(uuid_utils.uuid7()),
        join_timeout: float = JOIN_TIMEOUT,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode={mode!r}; write 'enforce' or 'observe'")
        self.scope_name: str = scope or os.environ.get("READMIT_SCOPE") or UNNAMED
        self.digest_secret: bytes | None = digest_secret.encode() if isinstance(digest_secret, str) else digest_secret
        self.spans: OpenTelemetrySpans = OpenTelemetrySpans(tracer_provider, clock)
        self.new_id = new_id
        self._mode: Mode = mode
        self._policy = Policy(version=policy_version, executor=executor)
        self._clock = clock
        self._join_timeout = join_timeout
        self._where = journal
        self._lock = Lock()
        self._ports: Ports | None = None
        self._complained = False
        self._same_secret = False
        self._tools: dict[str, ToolSpec] = {}
        self._adopted: dict[str, ToolSpec] = {}

    # -- wiring ---------------------------------------------------------------------------------------------------

    def ports(self, *, observe: bool = False) -> Ports:
        """What calls need; opens the journal the first time.

        Args:
            observe: nothing is blocked: without a journal a call gets one that can hold nothing.

        Raises:
            JournalUnavailable: it cannot be opened. The next call tries again.
        """
        if self._ports is None:
            with self._lock.held():
                try:
                    if self._ports is None:
                        self._ports = self._open()
                except JournalUnavailable as error:
                    if observe:
                        return self._wired(AbsentJournal(error))
                    raise
                return self._ports
        return self._ports

    def _open(self) -> Ports:
        journal = self._where
        if journal is None or isinstance(journal, str | Path):
            journal = SQLiteJournal(str(journal or default_path()))
            _log.info("readmit keeps its journal in %s", journal.name)
        atexit.register(self.close)
        return self._wired(journal)

    def ports_of_calls(self, *, observe: bool) -> Ports:
        """`ports`, for calls: they are found by their digests, so the journal must be of the same secret.

        Raises:
            JournalUnavailable: it cannot be opened, or was written under another `digest_secret`.
        """
        ports = self.ports(observe=observe)
        if not self._same_secret:
            try:
                self._check_secret(ports.journal)
            except JournalUnavailable as error:
                if observe:
                    return self._wired(AbsentJournal(error))
                raise
            self._same_secret = True
        return ports

    def _check_secret(self, journal: Journal) -> None:
        """Under another secret every digest is another, and no open occurrence would be found again."""
        mine = (
            b"none" if self.digest_secret is None else digest_bytes("secret", secret=self.digest_secret)[:16].encode()
        )
        theirs = journal.document("digest_secret")
        if theirs is None:
            journal.keep_document("digest_secret", mine)
        elif theirs != mine:
            raise JournalUnavailable(
                f"The journal {journal.name} was written under another digest_secret, by which its occurrences are "
                "found: configure that one, or name another file with configure(journal=…) or READMIT_JOURNAL."
            )

    def _wired(self, journal: Journal) -> Ports:
        return Ports(
            journal=journal,
            spans=self.spans,
            policy=self._policy,
            clock=self._clock,
            new_id=self.new_id,
            secret=self.digest_secret,
            join_timeout=self._join_timeout,
        )

    def check_journal(self) -> None:
        """For a read-only call, which runs without a journal: says once that there is none."""
        if self._ports is None and not self._complained:
            try:
                self.ports()
            except JournalUnavailable as error:
                self._complained = True
                _log.warning("%s Read-only calls run.", error)

    @property
    def mode(self) -> Mode:
        """`enforce`, or `observe`: nothing is blocked."""
        return self._mode

    def mode_of(self, spec: ToolSpec) -> Mode:
        """A tool's own mode, else the guard's."""
        return spec.mode or self._mode

    def declared(self, spec: ToolSpec) -> Declaration:
        """A tool's declaration, as this guard runs it."""
        if self.mode_of(spec) == "enforce":
            return spec.declaration
        return dataclasses.replace(spec.declaration, observe=True)

    def spec_of(self, tool: str) -> ToolSpec | None:
        """The declaration of a tool of this process, by its name."""
        return self._tools.get(tool) or self._adopted.get(tool)

    def guard(self) -> Guard:
        """Calls of a guard's own tools belong to it."""
        return self

    def register(self, spec: ToolSpec) -> None:
        """Takes a tool's name.

        Raises:
            ValueError: another function has it.
        """
        name = spec.declaration.name
        mine, adopted = self._tools.get(name), self._adopted.get(name)
        why = differs(mine.function, spec.function) if mine else ""
        why = why or (apart(adopted.function, spec.function) if adopted else "")
        if why:
            raise ValueError(
                f"Two functions are named {name!r}: {why}. Calls of one would be taken for the other: give one a "
                "name=, or hand over what differs as a parameter (exclude= if it says nothing about the effect)"
            )
        self._tools[name] = spec

    def adopt(self, specs: Mapping[str, ToolSpec]) -> None:
        """Takes over the tools of a guard that this one replaces; made anew by their factory, they may hold others."""
        self._adopted = dict(specs)

    def close(self, *, replaced: bool = False) -> None:
        """Writes what waits and closes the journal; the next call opens it again.

        Args:
            replaced: another guard takes its calls from now on.
        """
        atexit.unregister(self.close)
        with self._lock.held():
            ports, self._ports = self._ports, None
        if ports is not None:
            ports.journal.close()
            if replaced:
                _log.info("Calls were kept in %s until now; that configuration was replaced.", ports.journal.name)
