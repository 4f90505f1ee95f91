"""What can end an occurrence, and which command does it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from readmit._operator import Pending


class Remedy(NamedTuple):
    """What a remedy means, and the command that records it, without the name of the program."""

    meaning: str
    command: str


_ALL = {
    "sign_in": Remedy(
        "Sign in again, then record it. Opens the authority gate; says nothing about the effect.",
        "authenticated{principal} --scope {scope}",
    ),
    "approve": Remedy(
        "Say yes to the request: good for one dispatch of exactly this call.",
        "approve {request} --by NAME",
    ),
    "deny": Remedy("The other verdict. It is terminal.", "deny {request} --by NAME"),
    "reconcile": Remedy(
        "Look at the service whether the effect is there, and record what you found: --present, --absent or --unclear.",
        "reconcile {id} --epoch {epoch} --by NAME --present RECEIPT",
    ),
    "accept": Remedy(
        "Accept that it may already have happened: one repeat may follow, and it may happen twice.",
        "accept {id} --epoch {epoch} --by NAME --statement TEXT",
    ),
    "compensate": Remedy(
        "Undo the effect at the service, see that nothing can still arrive, and record it.",
        "compensate {id} --epoch {epoch} --by NAME",
    ),
    "declare_unknown": Remedy(
        "Give up on the epoch that is in flight, if it hangs. Its effect is then unknown.",
        "declare-unknown {id} --epoch {epoch} --by NAME",
    ),
    "abandon": Remedy(
        "Close this occurrence for good. What may have happened stays; a later equal call is a new one.",
        "abandon {id} --by NAME --statement TEXT",
    ),
}


def remedy(name: str, pending: Pending, *, short: Mapping[str, str]) -> Remedy:
    """A remedy of one occurrence; `short` has its ids as people may type them."""
    known = _ALL[name]
    command = known.command.format(
        id=short[pending.occurrence_id],
        epoch=pending.epoch,
        scope=quoted(pending.scope),
        principal=f" --principal {quoted(pending.principal)}" if pending.principal is not None else "",
        request=short.get(pending.request_id or "", "REQUEST"),
    )
    return Remedy(known.meaning, command)


def quoted(text: str) -> str:
    """A name as a shell takes it."""
    return shlex.quote(text)
