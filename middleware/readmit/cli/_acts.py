"""The acts of people. Each shows what it is about, asks, records, and says how the occurrence stands then."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from readmit._acts import doubtful
from readmit._fold import Head
from readmit._guard import Guard
from readmit._model import Suspended
from readmit.cli import _ids, _view
from readmit.cli._consent import Act, consent
from readmit.cli._exit import Exit, Stop
from readmit.cli._report import recorded
from readmit.cli._session import Session
from readmit.cli._text import age, when

Given = Annotated[Session, Parameter(parse=False)]


def approve(request: str, /, *, by: str, expires: timedelta | None = None, session: Given) -> int:
    """Say yes to an approval request: one dispatch of exactly what it shows.

    Args:
        request: the approval request, as `pending` shows it; an old one answers nothing newer.
        by: who approves.
        expires: how long it holds, as in 30m or 1h30m; by default what the tool's Approval says.
        session: of this command line.
    """
    with session.guard() as guard:
        head, asked = _ids.request(guard, request)
        lifetime = expires or (timedelta(microseconds=asked.lifetime // 1000) if asked.lifetime is not None else None)
        act = Act(
            operation="approve",
            by=by,
            shown=(*_asked(head, asked), ("holds for", age(lifetime) if lifetime else "as long as nobody revokes it")),
            meaning="Grants one dispatch of exactly this. It says nothing about what an earlier attempt did.",
            notes=_verdicts(head, asked, "approve"),
        )
        via = consent(session, act)
        permit = guard.approve(asked.id, by=by, expires=expires, via=via)
        return recorded(session, guard, act, via, [head.id], permit_id=permit, request_id=asked.id)


def deny(request: str, /, *, by: str, session: Given) -> int:
    """Say no to an approval request. It is terminal; an equal later call can ask again.

    Args:
        request: the approval request, as `pending` shows it.
        by: who denies.
        session: of this command line.
    """
    with session.guard() as guard:
        head, asked = _ids.request(guard, request)
        act = Act(
            operation="deny",
            by=by,
            shown=_asked(head, asked),
            meaning="This call will not run. It does not undo an effect that is already there.",
            notes=_verdicts(head, asked, "deny"),
        )
        via = consent(session, act)
        guard.deny(asked.id, by=by, via=via)
        return recorded(session, guard, act, via, [head.id], request_id=asked.id)


def revoke(permit: str, /, *, by: str, session: Given) -> int:
    """Take a permit back, in every occurrence that holds it. What it was used for is not undone.

    Args:
        permit: the permit, as `show` lists it.
        by: who takes it back.
        session: of this command line.
    """
    with session.guard() as guard:
        heads, granted = _ids.permit(guard, permit)
        act = Act(
            operation="revoke",
            by=by,
            shown=(
                ("permit", granted.permit.id),
                (
                    "source",
                    f"{granted.permit.source} of {granted.permit.granted_by or 'no principal'}, {when(granted.at)}",
                ),
                *(("occurrence", f"{head.id}  {head.opened.tool}") for head in heads),
            ),
            meaning="No later epoch is admitted on it, and these occurrences need an approval from then on.",
        )
        via = consent(session, act)
        guard.revoke(granted.permit.id, by=by, via=via)
        return recorded(session, guard, act, via, [head.id for head in heads], permit_id=granted.permit.id)


def authenticated(
    *,
    principal: str | None = None,
    scope: str | None = None,
    subject: str | None = None,
    issuer: str | None = None,
    scopes: str | None = None,
    session: Given,
) -> int:
    """Record a sign-in. It restores authority where a challenge took it, and says nothing about any effect.

    Args:
        principal: who signed in, as scope(…, principal=…) names them; without it, calls that name nobody.
        scope: only in this scope; by default wherever the principal has open occurrences.
        subject: subject of what they hold. Only a fingerprint of the three is kept.
        issuer: issuer of what they hold.
        scopes: scopes of what they hold, with spaces between.
        session: of this command line.
    """
    held = {
        name: value
        for name, value in (("subject", subject), ("issuer", issuer), ("scopes", scopes))
        if value is not None
    }
    with session.guard() as guard:
        served = [p for p in guard.pending() if p.principal == principal and scope in (None, p.scope)]
        if not served:
            where = "" if scope is None else f" in scope {scope}"
            raise Stop(
                Exit.NOTHING,
                f"Nothing of {principal or 'calls without a principal'}{where} is open: a sign-in would serve nothing.",
            )
        act = Act(
            operation="authenticated",
            by=principal,
            shown=(
                ("principal", principal or "none: calls that name nobody"),
                ("scope", scope or "any"),
                *held.items(),
                *(("occurrence", f"{p.occurrence_id}  {p.tool}, {p.recovery}") for p in served),
            ),
            meaning="They signed in again. It opens the authority gate of these calls; an unknown effect stays so.",
        )
        via = consent(session, act)
        permit = guard.authenticated(principal=principal, scope=scope, credential=held or None, via=via)
        return recorded(session, guard, act, via, [p.occurrence_id for p in served], permit_id=permit)


def declare_unknown(id: str, /, *, epoch: int, by: str, session: Given) -> int:
    """Give up on an epoch that hangs: its effect is unknown from then on, and its owner is fenced.

    Args:
        id: the occurrence, or a beginning of its id that no other has.
        epoch: the epoch that is in flight, as `pending` showed it.
        by: who gives it up.
        session: of this command line.
    """
    with session.guard() as guard:
        head = _ids.occurrence(guard, id)
        act = occurrence_act(
            guard,
            "declare_unknown",
            head,
            by,
            epoch,
            meaning="The epoch counts as unknown, even if its process still runs.",
        )
        via = consent(session, act)
        guard.declare_unknown(head.id, epoch=epoch, by=by, via=via)
        return recorded(session, guard, act, via, [head.id], epoch=epoch)


def abandon(id: str, /, *, by: str, statement: str = "", session: Given) -> int:
    """Close an occurrence for good. What may have happened stays as it is; a later equal call is a new one.

    Args:
        id: the occurrence, or a beginning of its id that no other has.
        by: who closes it.
        statement: why, in so many words; needed where the effect is unknown, or there but not delivered.
        session: of this command line.
    """
    with session.guard() as guard:
        head = _ids.occurrence(guard, id)
        act = occurrence_act(
            guard,
            "abandon",
            head,
            by,
            None,
            meaning="It is closed for good; nothing is undone at the service, and a later equal call is a new one.",
        )
        notes = ("It is closed for good already: nothing will change.",) if head.abandoned else ()
        act = replace(act, shown=(*act.shown, ("statement", statement or None)), notes=notes)
        via = consent(session, act)
        guard.abandon(head.id, by=by, statement=statement, via=via)
        return recorded(session, guard, act, via, [head.id])


def occurrence_act(guard: Guard, operation: str, head: Head, by: str, epoch: int | None, *, meaning: str) -> Act:
    """An act on one occurrence: which call it is, and how it stands."""
    view = _view.look(guard, head.id)
    shown = (
        ("occurrence", head.id),
        ("tool", head.opened.tool),
        ("scope", head.opened.scope),
        ("principal", head.opened.principal),
        ("arguments", f"digest {head.digest}"),
        ("effect", view.said),
        ("epoch", None if epoch is None else f"{epoch} of {head.last_epoch}"),
    )
    return Act(operation=operation, by=by, shown=shown, meaning=meaning)


def _asked(head: Head, asked: Suspended) -> tuple[tuple[str, str | None], ...]:
    """Everything that an approval will be bound to, in full."""
    opened, bound = head.opened, asked.binding
    return (
        ("request", asked.id),
        ("occurrence", head.id),
        ("asks for", asked.shown or None),
        ("tool", bound.tool if bound else opened.tool),
        ("scope", opened.scope),
        ("principal", bound.subject if bound else opened.principal),
        ("key", opened.key),
        ("arguments", f"digest {bound.digest if bound else head.digest} (the journal keeps no arguments)"),
        ("target", bound.target if bound else None),
        ("executor", bound.executor if bound else None),
        ("policy", bound.policy_version if bound else None),
        ("asked", when(asked.at)),
        ("effect", _view.known(head)),
    )


def _verdicts(head: Head, asked: Suspended, verdict: str) -> tuple[str, ...]:
    """What was said about this request before, whether it still waits, and what a yes alone does not do."""
    if verdict == "approve" and doubtful(head):
        return ("An earlier attempt may have had its effect. A yes alone does not let it run again.",)
    if head.confirmation is not None and asked.id in head.superseded:
        return (f"A newer request of this call was made ({head.confirmation.id}): this answers nothing newer.",)
    approved = any(granted.permit.request == asked.id for _, granted in head.grants)
    denied = asked.id in head.denials
    if approved if verdict == "deny" else denied:
        other = "denied" if denied else "approved"
        return (f"This request was {other} before. Two verdicts that differ are a conflict: nothing runs on either.",)
    if approved or denied:
        return ("This request has the same verdict already: nothing will change.",)
    return ()
