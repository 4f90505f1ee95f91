"""Events of one occurrence, written by hand, and the stores that must treat them alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from readmit._identity import slot
from readmit._model import (
    Admitted,
    AnyEvent,
    Delivered,
    EffectState,
    Ended,
    Evidence,
    Justification,
    Observed,
    Opened,
    Outcome,
    Request,
    Strength,
)
from readmit.journal import Change, Journal, Query, SQLiteJournal

Opener = Callable[[Path], Journal]
"""Opens a journal in a folder; twice in one folder gives the same journal to two owners, where the store allows it."""

SHARED: dict[str, Opener] = {"sqlite": lambda folder: SQLiteJournal(folder / "readmit.db")}
STORES: dict[str, Opener] = {**SHARED, "memory": lambda folder: SQLiteJournal(":memory:")}

TOOL, SIGNATURE = "bank.pay", "v1(cents)"
SLOT = slot("s", None, TOOL)
_times = itertools.count(1)


def opened(digest: str = "d1", *, signature: str = SIGNATURE, scope: str = "s") -> Opened:
    return Opened(
        at=next(_times), scope=scope, tool=TOOL, signature=signature, digest=digest, parameters={"cents": digest}
    )


def admitted(owner: str, *, epoch: int = 1, call: str = "call", permits: tuple[str, ...] = ()) -> Admitted:
    return Admitted(
        at=next(_times),
        epoch=epoch,
        call=call,
        owner=owner,
        admission=f"admission-{epoch}",
        justification=Justification.FIRST_ATTEMPT,
        request=Request(digest="d1"),
        contract="c",
        permits=permits,
    )


def ended(*, epoch: int = 1, call: str = "call") -> Ended:
    return Ended(at=next(_times), epoch=epoch, call=call, outcome=Outcome.RETURNED, result=b"1null")


def observed(state: EffectState, *, epoch: int = 1) -> Observed:
    evidence = Evidence(state=state, strength=Strength.PROTOCOL, rule="by hand")
    return Observed(at=next(_times), epoch=epoch, evidence=evidence)


def delivered(*, call: str = "call") -> Delivered:
    return Delivered(at=next(_times), call=call)


def query(digest: str = "d1", *names: str, signature: str = SIGNATURE, scope: str = "s") -> Query:
    return Query(names, slot("s" if scope == "s" else scope, None, TOOL), signature, digest)


def first(
    occurrence: str, *events: AnyEvent, names: tuple[tuple[str, int], ...] = (), beside: tuple[str, ...] = ()
) -> Change:
    """The change that mints an occurrence."""
    return Change(occurrence, events, expected=0, names=names, slot=SLOT, beside=beside)


def evidence(occurrence: str, *events: AnyEvent) -> Change:
    return Change(occurrence, events)
