"""The acts that speak about the effect: `reconcile`, `accept`, `compensate`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from readmit._findings import Absent, Finding, Present, Unclear
from readmit.cli import _ids
from readmit.cli._acts import occurrence_act
from readmit.cli._consent import consent
from readmit.cli._exit import Exit, Stop
from readmit.cli._report import recorded
from readmit.cli._session import Session

Given = Annotated[Session, Parameter(parse=False)]


def reconcile(
    id: str,
    /,
    *,
    epoch: int,
    by: str,
    present: str | None = None,
    result: str | None = None,
    absent: Annotated[bool, Parameter(negative=())] = False,
    authoritative: Annotated[bool | None, Parameter(negative="--not-authoritative")] = None,
    unclear: str | None = None,
    session: Given,
) -> int:
    """Record what was found out about the effect at the service. Say exactly one of present, absent, unclear.

    Args:
        id: the occurrence, or a beginning of its id that no other has.
        epoch: the newest epoch when the question was asked, as `pending` showed it.
        by: who found it.
        present: the effect is there; how the service names it.
        result: what the call would have returned, as JSON; a repeat gets it. Only with present.
        absent: the effect is not there.
        authoritative: with absent: it also can no longer arrive, or perhaps it still can, which settles nothing.
        unclear: it could not be found out, and why.
        session: of this command line.
    """
    finding, meaning = _finding(present, result, absent, authoritative, unclear)
    with session.guard() as guard:
        head = _ids.occurrence(guard, id)
        act = occurrence_act(guard, "reconcile", head, by, epoch, meaning=meaning)
        act = replace(act, shown=(*act.shown, ("found", _said(finding)), ("result", result)))
        via = consent(session, act)
        guard.reconcile(head.id, finding, epoch=epoch, by=by, via=via)
        return recorded(session, guard, act, via, [head.id], epoch=epoch, finding=_said(finding))


def accept(id: str, /, *, epoch: int, by: str, statement: str, session: Given) -> int:
    """Accept that the epochs so far may have had their effect: one repeat may follow. Restores no authority.

    Args:
        id: the occurrence, or a beginning of its id that no other has.
        epoch: the newest epoch, as `pending` showed it.
        by: who accepts it.
        statement: what is accepted, in so many words.
        session: of this command line.
    """
    with session.guard() as guard:
        head = _ids.occurrence(guard, id)
        act = occurrence_act(
            guard, "accept", head, by, epoch, meaning="One repeat may follow, and the effect may then happen TWICE."
        )
        act = replace(act, shown=(*act.shown, ("statement", statement)))
        via = consent(session, act)
        guard.accept(head.id, epoch=epoch, by=by, statement=statement, via=via)
        return recorded(session, guard, act, via, [head.id], epoch=epoch)


def compensate(id: str, /, *, epoch: int, by: str, session: Given) -> int:
    """Record that the effect was undone and that nothing can still arrive. A repeat then needs a new permit.

    A tool's own compensate= hook runs only in the program that holds the tool: here it is recorded, not done.

    Args:
        id: the occurrence, or a beginning of its id that no other has.
        epoch: the newest epoch, as `pending` showed it.
        by: who undid it.
        session: of this command line.
    """
    with session.guard() as guard:
        head = _ids.occurrence(guard, id)
        meaning = "It was undone at the service, and nothing of it can still arrive. This command undoes nothing."
        act = occurrence_act(guard, "compensate", head, by, epoch, meaning=meaning)
        via = consent(session, act)
        guard.compensate(head.id, epoch=epoch, by=by, via=via)
        return recorded(session, guard, act, via, [head.id], epoch=epoch)


def _finding(
    present: str | None, result: str | None, absent: bool, authoritative: bool | None, unclear: str | None
) -> tuple[Finding, str]:
    """The one finding that was said, and what it will mean."""
    if (present is not None) + absent + (unclear is not None) != 1:
        raise Stop(
            Exit.USAGE,
            "Say what was found, exactly one of: --present RECEIPT, --unclear WHY, or --absent with --authoritative or "
            "--not-authoritative. A tool's reconcile hook runs only in the program that holds the tool.",
        )
    if (authoritative is not None) != absent:
        raise Stop(
            Exit.USAGE,
            "--absent needs --authoritative (it also can no longer arrive) or --not-authoritative (perhaps it still "
            "can); nothing else takes them.",
        )
    if result is not None and present is None:
        raise Stop(Exit.USAGE, "--result is what the call would have returned: it goes with --present only.")
    if present is not None:
        return _present(
            present, result
        ), "The effect is there. The call will not be sent again; a repeat gets the result, where one is known."
    if unclear is not None:
        return Unclear(unclear), "Nothing is settled; the question and its answer are kept."
    if authoritative:
        return Absent(
            authoritative=True
        ), "The effect is not there and can no longer arrive: the call may be SENT AGAIN."
    return Absent(authoritative=False), "The effect is not there yet; it may still arrive, so nothing is settled."


def _present(receipt: str, result: str | None) -> Present:
    if result is None:
        return Present(receipt)
    try:
        return Present(receipt, result=json.loads(result))
    except ValueError as error:
        raise Stop(
            Exit.USAGE, f"--result is not JSON: {error}. A text needs quotes of its own: --result '\"paid\"'"
        ) from error


def _said(finding: Finding) -> str:
    match finding:
        case Present(receipt=receipt):
            return f"present: {receipt}" if receipt else "present"
        case Absent(authoritative=authoritative):
            return "absent, and can no longer arrive" if authoritative else "absent for now"
        case Unclear(why=why):
            return f"unclear: {why}"
