"""Ids as people type and see them: whole, or any beginning that no other of the journal has, open or closed."""

from __future__ import annotations

from collections.abc import Iterable

from readmit._fold import Head
from readmit._guard import Guard
from readmit._model import Granted, RecoveryKind, Suspended
from readmit.cli._exit import Exit, Stop
from readmit.cli._text import clean, shortened

_WHERE = {
    "occurrence": "`readmit pending` lists the open ones; an error names its occurrence.",
    "request": "`readmit pending` shows the ones that wait.",
    "permit": "`readmit show` lists the permits of an occurrence.",
}


def occurrence(guard: Guard, text: str) -> Head:
    """The occurrence that is meant.

    Raises:
        Stop: none, or several.
    """
    return guard.show(_whole(guard, "occurrence", text))


def request(guard: Guard, text: str) -> tuple[Head, Suspended]:
    """The approval request that is meant, with its occurrence.

    Raises:
        Stop: none, or several.
    """
    whole = _whole(guard, "request", text)
    for head in guard.ports().journal.named(f"request:{whole}"):
        for suspension in head.suspensions:
            if suspension.id == whole and suspension.suspension is RecoveryKind.CONFIRMATION:
                return head, suspension
    raise _none("request", text)


def permit(guard: Guard, text: str) -> tuple[list[Head], Granted]:
    """The permit that is meant, with every occurrence that holds it.

    Raises:
        Stop: none, or several.
    """
    whole = _whole(guard, "permit", text)
    heads = guard.ports().journal.named(f"permit:{whole}")
    for head in heads:
        for _, granted in head.grants:
            if granted.permit.id == whole:
                return heads, granted
    raise _none("permit", text)


def short(guard: Guard, kind: str, ids: Iterable[str]) -> dict[str, str]:
    """Each id with the shortest beginning by which every command finds it: that no other of its kind has.

    A call and what is asked about it are made in one millisecond: told apart from each other, too, most of their ids
    would be shown.
    """
    journal = guard.ports().journal
    return {one: shortened(one, lambda text: journal.beginning(kind, text)) for one in ids}


def _whole(guard: Guard, kind: str, text: str) -> str:
    matches = guard.ports().journal.beginning(kind, text) if text else []
    if text in matches:
        return text
    if not matches:
        raise _none(kind, text)
    if len(matches) > 1:
        which = "\n  ".join(matches)
        raise Stop(
            Exit.NOTHING,
            f"{len(matches)} {kind}s or more begin with {clean(text)}; write more of the one that is meant:\n  {which}",
        )
    return matches[0]


def _none(kind: str, text: str) -> Stop:
    return Stop(Exit.NOTHING, f"The journal holds no {kind} {clean(text)}. {_WHERE[kind]}")
