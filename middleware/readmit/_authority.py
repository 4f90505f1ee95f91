"""Authority: which of an occurrence's permits are valid for this request, now. Says nothing about the effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from readmit._contract import Policy
from readmit._effect import EpochEffect
from readmit._fold import Head
from readmit._model import Granted, Permit, PermitSource, PermitState, Refusal, Request

Grants = Sequence[tuple[int, Granted]]


class PermitView(NamedTuple):
    """A permit as it stands for one request: `refusal` is None when it is valid."""

    permit: Permit
    place: int
    state: PermitState
    refusal: Refusal | None = None
    detail: str = ""


class Closed(NamedTuple):
    """Authority that is missing, and what to ask for."""

    refusal: Refusal
    source: PermitSource
    detail: str = ""
    permit: PermitView | None = None  # the newest that could have been it


def view(
    place: int, permit: Permit, head: Head, epochs: Sequence[EpochEffect], request: Request, policy: Policy, now: int
) -> PermitView:
    """The state of one permit. A claim of an epoch that is proved not sent is given back."""

    def closed(state: PermitState, refusal: Refusal, detail: str = "") -> PermitView:
        return PermitView(permit, place, state, refusal, detail)

    if permit.id in head.revocations:
        return closed(PermitState.REVOKED, Refusal.PERMIT_MISSING, "revoked")
    if permit.request in head.denials:
        return closed(PermitState.DENIED, Refusal.PERMIT_MISSING, "denied")
    twins = {
        g.permit.id for _, g in head.grants if permit.request is not None and g.permit.request == permit.request
    } | {permit.id}
    claims = sum(not twins.isdisjoint(e.admitted.permits) and not e.proved_not_sent for e in epochs)
    if permit.uses is not None and claims >= permit.uses:
        return closed(PermitState.CONSUMED, Refusal.PERMIT_CONSUMED)
    if now < permit.not_before:
        return closed(PermitState.GRANTED, Refusal.PERMIT_MISSING, "not valid yet")
    if permit.expires is not None and now >= permit.expires:
        return closed(PermitState.EXPIRED, Refusal.PERMIT_EXPIRED)
    bound = permit.binding
    if bound.subject != request.principal:
        return closed(PermitState.GRANTED, Refusal.WRONG_PRINCIPAL)
    if bound.executor is not None and bound.executor != policy.executor:
        return closed(PermitState.GRANTED, Refusal.WRONG_EXECUTOR)
    if permit.source is not PermitSource.LOGIN and (changed := _changed(permit, head, request, policy)):
        return closed(PermitState.STALE, Refusal.PERMIT_STALE, changed)
    return PermitView(permit, place, PermitState.GRANTED)


def _changed(permit: Permit, head: Head, request: Request, policy: Policy) -> str:
    bound = permit.binding
    if bound.digest and bound.digest != request.digest:
        return "arguments"
    if bound.login is not None and bound.login != head.login:
        return "login"
    if bound.policy_version != policy.version:
        return "policy"
    return "target" if bound.target != request.target else ""


def views(
    head: Head, grants: Grants, epochs: Sequence[EpochEffect], request: Request, policy: Policy, now: int
) -> list[PermitView]:
    """Every permit of the occurrence as it stands for this request, oldest first."""
    return [view(place, g.permit, head, epochs, request, policy, now) for place, g in grants]


def required(head: Head, request: Request) -> list[PermitSource]:
    """The sources this request needs (row 7).

    An approval where the tool asks for one or ambient authority was withheld, *and* a login after a challenge; else
    ambient authority, for which the list is empty.
    """
    sources = []
    if request.approval or request.withheld_by is not None or head.revocations:
        sources.append(PermitSource.APPROVAL)
    if head.challenge is not None:
        sources.append(PermitSource.LOGIN)
    return sources


def gate(head: Head, permits: Sequence[PermitView], request: Request) -> tuple[PermitView, ...] | Closed:
    """The permits this epoch claims, one for each required source, or what is missing. Empty: ambient authority."""
    claimed = []
    for source in required(head, request):
        candidates = [
            p for p in permits if p.permit.source is source or (source is PermitSource.APPROVAL and _stands_in(p))
        ]
        if source is PermitSource.LOGIN:
            assert head.challenge is not None
            candidates = [p for p in candidates if p.permit.after_epoch >= head.challenge.epoch]
        valid = [p for p in candidates if p.refusal is None]
        if not valid:
            newest = max(candidates, key=lambda p: p.place, default=None)
            if newest is None or newest.refusal is None:
                return Closed(Refusal.PERMIT_MISSING, source)
            return Closed(newest.refusal, source, newest.detail, newest)
        claimed.append(valid[-1])
    return tuple(claimed)


def _stands_in(view: PermitView) -> bool:
    """An operator's or a policy's own permit stands where an approval is asked for."""
    return view.permit.source in (PermitSource.OPERATOR, PermitSource.POLICY)
