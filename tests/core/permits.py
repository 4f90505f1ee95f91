"""Permits and recovery, each as real events and as plain facts: the other two lanes of a situation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from readmit._contract import Policy
from readmit._model import (
    Abandoned,
    AnyEvent,
    Binding,
    Challenge,
    Denied,
    Granted,
    Permit,
    PermitSource,
    RecoveryKind,
    Refusal,
    Revoked,
    Suspended,
)
from tests.core.situations import DIGEST, NOW, PRINCIPAL, START

POLICY = Policy(version="p1", executor="exec")
_SHOWN = Binding(subject=PRINCIPAL, tool="pay", digest=DIGEST, executor="exec", policy_version="p1")
_APPROVAL = Permit(
    id="approval",
    source=PermitSource.APPROVAL,
    granted_by="boss",
    binding=_SHOWN,
    not_before=START,
    uses=1,
    request="request",
)
_LOGIN = Permit(
    id="login", source=PermitSource.LOGIN, granted_by=PRINCIPAL, binding=Binding(subject=PRINCIPAL, login="x")
)


class PermitFact(NamedTuple):
    """What one permit is worth."""

    id: str
    source: PermitSource
    refusal: Refusal | None = None
    early: bool = False  # granted before the first epoch
    claimed: bool = False  # by the newest epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Permits: granted before the first epoch, claimed by the newest one, or granted after it."""

    name: str
    early: tuple[Permit, ...] = ()
    late: tuple[Permit, ...] = ()
    claims: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()
    facts: tuple[PermitFact, ...] = ()


def _one(name: str, permit: Permit, refusal: Refusal | None = None, **more: object) -> Authority:
    fact = PermitFact(permit.id, permit.source, refusal)
    return Authority(name=name, late=(permit,), facts=(fact,), **more)  # type: ignore[arg-type]


def _changed(name: str, refusal: Refusal, **bound: object) -> Authority:
    binding = msgspec.structs.replace(_SHOWN, **bound)
    return _one(name, msgspec.structs.replace(_APPROVAL, binding=binding), refusal)


def _permits() -> list[Authority]:
    def other(permit: Permit, **changes: object) -> Permit:
        return msgspec.structs.replace(permit, **changes)

    fresh = other(_APPROVAL, id="fresh", request="another request")
    used = Authority(
        name="used",
        early=(_APPROVAL,),
        claims=("approval",),
        facts=(PermitFact("approval", PermitSource.APPROVAL, early=True, claimed=True),),
    )
    before = Authority(
        name="login before", early=(_LOGIN,), facts=(PermitFact("login", PermitSource.LOGIN, early=True),)
    )
    after = _one("login", _LOGIN)
    approved = _one("approved", _APPROVAL)
    eve = Binding(subject="eve", login="x")
    return [
        Authority(name="none"),
        approved,
        _one("approval expired", other(_APPROVAL, expires=NOW), Refusal.PERMIT_EXPIRED),
        _one("approval to come", other(_APPROVAL, not_before=NOW + 1), Refusal.PERMIT_MISSING),
        _changed("approval of other arguments", Refusal.PERMIT_STALE, digest="other"),
        _changed("approval under another login", Refusal.PERMIT_STALE, login="y"),
        _changed("approval under another policy", Refusal.PERMIT_STALE, policy_version="p0"),
        _changed("approval of another target state", Refusal.PERMIT_STALE, target="etag"),
        _changed("approval for somebody else", Refusal.WRONG_PRINCIPAL, subject="eve"),
        _changed("approval for another executor", Refusal.WRONG_EXECUTOR, executor="other"),
        _one("approval revoked", _APPROVAL, Refusal.PERMIT_MISSING, revoked=("approval",)),
        used,
        replace(
            used,
            name="used, and another",
            late=(fresh,),
            facts=(*used.facts, PermitFact("fresh", PermitSource.APPROVAL)),
        ),
        before,
        after,
        _one("login of somebody else", other(_LOGIN, binding=eve), Refusal.WRONG_PRINCIPAL),
        _one("login revoked", _LOGIN, Refusal.PERMIT_MISSING, revoked=("login",)),
        replace(after, name="login and approval", late=(_LOGIN, _APPROVAL), facts=(*after.facts, *approved.facts)),
        replace(before, name="login before, approval", late=(_APPROVAL,), facts=(*before.facts, *approved.facts)),
        _one("an operator's own", other(_APPROVAL, id="own", source=PermitSource.OPERATOR, uses=None, request=None)),
        _one("the policy's own", other(_APPROVAL, id="own", source=PermitSource.POLICY, uses=None, request=None)),
    ]


PERMITS = tuple(_permits())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What execution stopped for. `challenge` is its epoch, counted back from the newest: 0 is the newest."""

    name: str
    events: Callable[[int], tuple[AnyEvent, ...]] = lambda last: ()
    challenge: int | None = None
    asked: str = ""  # a confirmation: open, answered, other (arguments)
    verdict: str = ""  # denied, contradictory, abandoned


def _challenge(back: int) -> Callable[[int], tuple[AnyEvent, ...]]:
    return lambda last: (
        Suspended(
            at=START,
            suspension=RecoveryKind.CHALLENGE,
            id=f"challenge {last - back}",
            epoch=last - back,
            challenges=(Challenge(raw="Bearer"),),
        ),
    )


def _asked(request: str, digest: str = DIGEST) -> Callable[[int], tuple[AnyEvent, ...]]:
    return lambda last: (
        Suspended(
            at=START,
            suspension=RecoveryKind.CONFIRMATION,
            id=request,
            epoch=last,
            binding=Binding(subject=PRINCIPAL, digest=digest),
        ),
    )


def _failure(last: int) -> tuple[AnyEvent, ...]:
    return (Suspended(at=START, suspension=RecoveryKind.FAILURE, id="failure", epoch=last, position="wait"),)


def _denied(last: int) -> tuple[AnyEvent, ...]:
    return (*_asked("no")(last), Denied(at=START, request="no", by="boss"))


def _contradictory(last: int) -> tuple[AnyEvent, ...]:
    yes = msgspec.structs.replace(_APPROVAL, id="yes", request="both")
    return (*_asked("both")(last), Granted(at=START, permit=yes), Denied(at=START, request="both", by="boss"))


RECOVERIES = (
    Recovery(name="clear"),
    Recovery(name="failure", events=_failure),
    Recovery(name="challenge", events=_challenge(0), challenge=0),
    Recovery(name="challenge of an older epoch", events=_challenge(1), challenge=1),
    Recovery(name="asked", events=_asked("open"), asked="open"),
    Recovery(name="asked, perhaps answered", events=_asked("request"), asked="request"),
    Recovery(name="asked about other arguments", events=_asked("open", "other"), asked="other"),
    Recovery(
        name="challenge, and asked",
        events=lambda last: (*_challenge(0)(last), *_asked("open")(last)),
        challenge=0,
        asked="open",
    ),
    Recovery(name="denied", events=_denied, verdict="denied"),
    Recovery(name="contradictory verdicts", events=_contradictory, verdict="contradictory"),
    Recovery(
        name="abandoned",
        events=lambda last: (Abandoned(at=START, by="ann", statement="by hand"),),
        verdict="abandoned",
    ),
)


def grants(authority: Authority, last: int) -> tuple[tuple[AnyEvent, ...], tuple[AnyEvent, ...]]:
    """The events before the first epoch, and those after the newest."""
    early = tuple(Granted(at=START, permit=p) for p in authority.early)
    late = tuple(Granted(at=START, permit=msgspec.structs.replace(p, after_epoch=last)) for p in authority.late)
    return early, (*late, *(Revoked(at=START, permit=p, by="ann") for p in authority.revoked))
