"""One occurrence as `show` gives it: what the journal alone knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import msgspec

from readmit import _authority
from readmit._authority import Closed, PermitView
from readmit._contract import Contract, Policy
from readmit._fold import Head
from readmit._guard import Guard
from readmit._model import AnyEvent, Delivered, DeliveryState, Permit, PermitSource, RecoveryKind, Request
from readmit._operator import Pending
from readmit.cli import _ids
from readmit.cli._next import NextCall, next_call, request
from readmit.cli._text import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One occurrence and what is derived from it.

    Attributes:
        head: its events, in their lanes.
        now: when it was looked at, in nanoseconds since the Unix epoch.
        short: its id, and those of its requests and permits, each with the shortest text by which commands find it.
        pending: what it waits for; None once it is closed.
        permits: each as it stands, by what the journal alone knows: another policy, executor or target can still make
            one stale.
        contract: that of the newest epoch; None before the first.
    """

    head: Head
    now: int
    short: Mapping[str, str]
    pending: Pending | None
    permits: tuple[PermitView, ...]
    contract: Contract | None

    @property
    def said(self) -> str:
        """The effect in a few words."""
        return known(self.head)

    @property
    def delivery(self) -> DeliveryState:
        """Whether the result reached everyone who is owed it."""
        delivered = any(isinstance(event, Delivered) for _, event in self.head.delivery)
        return DeliveryState.ACCEPTED if delivered and not self.head.debts() else DeliveryState.NONE

    @property
    def authority(self) -> Closed | tuple[PermitView, ...]:
        """The authority gate: what is missing, or the permits that open it; none for ambient authority."""
        return _authority.gate(self.head, self.permits, request(self.head))

    @property
    def promised(self) -> str:
        """The contract's name; empty before the first epoch."""
        if self.contract is None:
            return ""
        return self.contract.name or f"unnamed ({self.head.admissions[-1].contract})"

    @property
    def next_call(self) -> NextCall:
        """What an equal call would meet now."""
        alive = self.pending is not None and self.pending.state == "in_flight"
        return next_call(self.head, self.contract or Contract(), self.now, alive=alive)

    @property
    def events(self) -> list[tuple[int, AnyEvent]]:
        """All events with their places, in journal order."""
        head = self.head
        lanes = (head.identity, head.admission, head.recovery, head.authority, head.effect, head.delivery, head.record)
        return sorted((recorded for lane in lanes for recorded in lane), key=lambda recorded: recorded[0])

    def document(self) -> dict[str, Any]:
        """For scripts. Times are ISO 8601; those inside events are nanoseconds since the Unix epoch."""
        head, opened, effect = self.head, self.head.opened, self.head.effects()
        return {
            "occurrence_id": head.id,
            "tool": opened.tool,
            "scope": opened.scope,
            "principal": opened.principal,
            "opened": moment(opened.at).isoformat(),
            "open": not head.closed,
            "digest": head.digest,
            "contract": self.promised,
            "epoch": head.last_epoch,
            "recovery": {
                "state": head.recovery_state,
                "waiting": [s.suspension for s in head.waiting if not head.answered(s)],
            },
            "authority": self._authority(),
            "permits": [_permit(view) for view in self.permits],
            "effect": {
                "state": effect.state,
                "rule": effect.rule,
                "strength": effect.strength,
                "finding": effect.finding or None,
            },
            "delivery": {"state": self.delivery, "owed": len(head.debts())},
            "request_id": self.pending.request_id if self.pending else None,
            "remedies": list(self.pending.remedies) if self.pending else [],
            "next_call": {"decision": self.next_call.decision, "why": self.next_call.why or None},
            "events": [
                {"place": place, "dimension": event.dimension, **msgspec.to_builtins(event)}
                for place, event in self.events
            ],
        }

    def _authority(self) -> dict[str, Any]:
        gate = self.authority
        if isinstance(gate, Closed):
            return {"open": False, "refusal": gate.refusal, "source": gate.source, "detail": gate.detail or None}
        return {"open": True, "sources": [view.permit.source for view in gate] or [PermitSource.AMBIENT]}


def known(head: Head) -> str:
    """What is known of an occurrence's effect, in a few words."""
    effect = head.effects()
    if effect.state is None:
        return "nothing sent"
    return f"{effect.state} {effect.finding}".strip() + f" ({effect.rule})"


def look(guard: Guard, occurrence_id: str) -> View:
    """One occurrence, as it stands now."""
    ports = guard.ports()
    head, now = guard.show(occurrence_id), ports.clock()
    pending = next((entry for entry in guard.pending() if entry.occurrence_id == head.id), None)
    requests = [s.id for s in head.suspensions if s.suspension is RecoveryKind.CONFIRMATION]
    short = {
        **_ids.short(guard, "occurrence", [head.id]),
        **_ids.short(guard, "request", requests),
        **_ids.short(guard, "permit", [granted.permit.id for _, granted in head.grants]),
    }
    return View(
        head=head, now=now, short=short, pending=pending, permits=_permits(head, now), contract=_contract(guard, head)
    )


def waiting(pending: Pending) -> dict[str, Any]:
    """An entry of `pending`, for scripts."""
    document = {name: value for name, value in asdict(pending).items() if name != "age"}
    return {**document, "age_seconds": _seconds(pending.age), "remedies": list(pending.remedies)}


def _seconds(span: timedelta) -> float:
    return round(span.total_seconds(), 3)


def _permits(head: Head, now: int) -> tuple[PermitView, ...]:
    epochs = head.epochs()
    return tuple(
        _authority.view(
            place, granted.permit, head, epochs, _request(head, granted.permit), _policy(granted.permit), now
        )
        for place, granted in head.grants
    )


def _request(head: Head, permit: Permit) -> Request:
    return Request(principal=head.opened.principal, digest=head.digest, target=permit.binding.target)


def _policy(permit: Permit) -> Policy:
    return Policy(version=permit.binding.policy_version, executor=permit.binding.executor)


def _permit(view: PermitView) -> dict[str, Any]:
    permit = view.permit
    return {
        "permit_id": permit.id,
        "source": permit.source,
        "granted_by": permit.granted_by,
        "request_id": permit.request,
        "state": view.state,
        "detail": view.detail or None,
        "not_before": moment(permit.not_before).isoformat(),
        "expires": None if permit.expires is None else moment(permit.expires).isoformat(),
        "uses": permit.uses,
    }


def _contract(guard: Guard, head: Head) -> Contract | None:
    if not head.admissions:
        return None
    document = guard.ports().journal.document(head.admissions[-1].contract)
    return Contract.from_document(document) if document else Contract()
