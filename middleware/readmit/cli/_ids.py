"""Ids as people type them: whole, or a prefix that only one open occurrence (or request, or permit) has."""

from __future__ import annotations

from collections.abc import Iterable

from readmit._fold import Head
from readmit._guard import Guard
from readmit._model import Granted, RecoveryKind, Suspended
from readmit.cli._exit import Exit, Stop
from readmit.cli._text import clean


def occurrence(guard: Guard, text: str) -> Head:
    """The occurrence that is meant.

    Raises:
        Stop: none, or several.
    """
    journal = guard.ports().journal
    if (head := journal.load(text)) is not None:
        return head
    found = _only(
        "occurrence",
        text,
        (head.id for head in journal.open()),
        "`readmit pending` lists the open ones; a closed one needs its whole id.",
    )
    return guard.show(found)


def request(guard: Guard, text: str) -> tuple[Head, Suspended]:
    """The approval request that is meant, with its occurrence.

    Raises:
        Stop: none, or several.
    """
    journal = guard.ports().journal
    named = journal.named(f"request:{text}")
    if not named:
        waiting = (w.request_id for w in guard.pending() if w.request_id is not None)
        text = _only("approval request", text, waiting, "`readmit pending` shows the ones that wait.")
        named = journal.named(f"request:{text}")
    for head in named:
        for suspension in head.suspensions:
            if suspension.id == text and suspension.suspension is RecoveryKind.CONFIRMATION:
                return head, suspension
    raise Stop(
        Exit.NOTHING,
        f"The journal holds no approval request {clean(text)}. `readmit pending` shows the ones that wait.",
    )


def permit(guard: Guard, text: str) -> tuple[list[Head], Granted]:
    """The permit that is meant, with every occurrence that holds it.

    Raises:
        Stop: none, or several.
    """
    journal = guard.ports().journal
    named = journal.named(f"permit:{text}")
    if not named:
        held = (granted.permit.id for head in journal.open() for _, granted in head.grants)
        text = _only("permit", text, held, "`readmit show` lists the permits of an occurrence.")
        named = journal.named(f"permit:{text}")
    for head in named:
        for _, granted in head.grants:
            if granted.permit.id == text:
                return named, granted
    raise Stop(
        Exit.NOTHING, f"The journal holds no permit {clean(text)}. `readmit show` lists the permits of an occurrence."
    )


def _only(what: str, prefix: str, known: Iterable[str], where: str) -> str:
    matches = sorted({one for one in known if prefix and one.startswith(prefix)})
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise Stop(Exit.NOTHING, f"The journal holds no {what} {clean(prefix)}. {where}")
    raise Stop(
        Exit.NOTHING,
        f"{len(matches)} open {what}s begin with {clean(prefix)}: {', '.join(matches)}. Write one of them in full.",
    )
