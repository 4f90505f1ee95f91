"""Heads are a fold over events: one function, used live, at restart, by `verify` and by the analysis of journals.

A dimension is a field of the head and one branch of the fold. All else (effect, recovery, permits, debts, whether the
occurrence is closed) is derived from the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from readmit._effect import Effect, EpochEffect, Recorded, epoch_effect, occurrence_effect
from readmit._model import (
    Abandoned,
    Accepted,
    Admitted,
    AnyEvent,
    Compensated,
    Delivered,
    Denied,
    Dimension,
    EffectState,
    Ended,
    Granted,
    Joined,
    Left,
    Opened,
    Outcome,
    PermitSource,
    Reconciled,
    RecoveryKind,
    RecoveryState,
    Revoked,
    Strength,
    Suspended,
)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """One occurrence: its events, a lane for each dimension. `version` counts the events."""

    id: str
    version: int = 0
    identity: tuple[Recorded, ...] = ()
    admission: tuple[Recorded, ...] = ()
    recovery: tuple[Recorded, ...] = ()
    authority: tuple[Recorded, ...] = ()
    effect: tuple[Recorded, ...] = ()
    delivery: tuple[Recorded, ...] = ()
    record: tuple[Recorded, ...] = ()

    # -- identity -------------------------------------------------------------------------------------------------

    @property
    def opened(self) -> Opened:
        """The event that minted the occurrence."""
        first = self.identity[0][1]
        assert isinstance(first, Opened)
        return first

    @property
    def joined(self) -> tuple[Joined, ...]:
        """Calls that were resolved to it later."""
        return tuple(e for _, e in self.identity if isinstance(e, Joined))

    @property
    def digest(self) -> str:
        """The digest of the arguments, as the last call before any dispatch gave them."""
        return next((j.digest for j in reversed(self.joined) if j.digest), self.opened.digest)

    @property
    def parameters(self) -> dict[str, str]:
        """Per-parameter digests that belong to `digest`."""
        return next((j.parameters for j in reversed(self.joined) if j.parameters), self.opened.parameters)

    # -- admission ------------------------------------------------------------------------------------------------

    @property
    def admissions(self) -> tuple[Admitted, ...]:
        """Epochs, oldest first."""
        return tuple(e for _, e in self.admission if isinstance(e, Admitted))

    @property
    def last_epoch(self) -> int:
        """The number of the newest epoch; 0 before the first."""
        return max((a.epoch for a in self.admissions), default=0)

    @property
    def accept(self) -> Strength:
        """The strength at which the newest contract accepts evidence."""
        admissions = self.admissions
        return admissions[-1].accept if admissions else Strength.CONTRACT

    # -- effect ---------------------------------------------------------------------------------------------------

    def epochs(self) -> tuple[EpochEffect, ...]:
        """Each epoch with the effect of its own evidence."""
        return tuple(epoch_effect(a, self.effect) for a in self.admissions)

    def effects(self) -> Effect:
        """The effect of the occurrence."""
        return occurrence_effect(self.epochs(), self.effect)

    @property
    def in_flight(self) -> tuple[Admitted, ...]:
        """Epochs that have not ended, been given up or lost their owner."""
        return tuple(e.admitted for e in self.epochs() if e.in_flight)

    def result(self) -> bytes | None:
        """The recorded result: that of the newest return, else of a present finding."""
        ended = [e for _, e in self.effect if isinstance(e, Ended) and e.result is not None and not e.unclear]
        found = [e for _, e in self.effect if isinstance(e, Reconciled) and e.result is not None and e.finding == "present"]
        if ended:
            return max(ended, key=lambda e: e.epoch).result
        return max(found, key=lambda e: e.fence).result if found else None

    @property
    def compensations(self) -> int:
        """How often the effect was undone: each gives the idempotency key a new generation."""
        return len({e.fence for _, e in self.effect if isinstance(e, Compensated)})

    # -- recovery -------------------------------------------------------------------------------------------------

    @property
    def suspensions(self) -> tuple[Suspended, ...]:
        """Every time execution stopped, oldest first."""
        return tuple(e for _, e in self.recovery if isinstance(e, Suspended))

    @property
    def challenge(self) -> Suspended | None:
        """The challenge of the newest epoch that met one."""
        met = [s for s in self.suspensions if s.suspension is RecoveryKind.CHALLENGE]
        return max(met, key=lambda s: s.epoch, default=None)

    @property
    def confirmation(self) -> Suspended | None:
        """The newest confirmation request."""
        return next((s for s in reversed(self.suspensions) if s.suspension is RecoveryKind.CONFIRMATION), None)

    def answered(self, suspension: Suspended) -> bool:
        """Whether what the suspension asks for has come. Derived: no recovery event grants, no permit writes recovery."""
        match suspension.suspension:
            case RecoveryKind.FAILURE:
                return True
            case RecoveryKind.CHALLENGE:
                return any(
                    isinstance(e, Granted) and e.permit.source is PermitSource.LOGIN and e.permit.after_epoch >= suspension.epoch
                    for _, e in self.authority
                )
            case RecoveryKind.CONFIRMATION:
                return any(
                    (isinstance(e, Granted) and e.permit.request == suspension.id) or (isinstance(e, Denied) and e.request == suspension.id)
                    for _, e in self.authority
                )

    @property
    def waiting(self) -> tuple[Suspended, ...]:
        """Suspensions that still stand before the next epoch: the newest of each kind, met by the newest epoch."""
        newest = (s for s in (self.challenge, self.confirmation) if s is not None)
        return tuple(s for s in newest if s.epoch >= self.last_epoch)

    @property
    def recovery_state(self) -> RecoveryState:
        """`suspended` while a condition is unanswered, `satisfied` until the next epoch, else `clear`."""
        if not self.waiting:
            return RecoveryState.CLEAR
        return RecoveryState.SATISFIED if all(map(self.answered, self.waiting)) else RecoveryState.SUSPENDED

    # -- authority ------------------------------------------------------------------------------------------------

    @property
    def grants(self) -> tuple[tuple[int, Granted], ...]:
        """Permits with their place in the journal."""
        return tuple((place, e) for place, e in self.authority if isinstance(e, Granted))

    @property
    def revocations(self) -> frozenset[str]:
        """Ids of permits that were taken back."""
        return frozenset(e.permit for _, e in self.authority if isinstance(e, Revoked))

    @property
    def denials(self) -> frozenset[str]:
        """Ids of requests that were denied."""
        return frozenset(e.request for _, e in self.authority if isinstance(e, Denied))

    @property
    def contradicted(self) -> bool:
        """Whether one request got both verdicts."""
        return any(g.permit.request in self.denials for _, g in self.grants if g.permit.request)

    @property
    def login(self) -> str | None:
        """The fingerprint of the newest login, where one was given."""
        return next(
            (g.permit.binding.login for _, g in reversed(self.grants) if g.permit.source is PermitSource.LOGIN and g.permit.binding.login),
            None,
        )

    # -- record ---------------------------------------------------------------------------------------------------

    @property
    def abandoned(self) -> Abandoned | None:
        """The record that closed the occurrence for good."""
        return next((e for _, e in self.record if isinstance(e, Abandoned)), None)

    @property
    def acceptances(self) -> tuple[Accepted, ...]:
        """Ambiguities that a named person accepted."""
        return tuple(e for _, e in self.record if isinstance(e, Accepted))

    # -- delivery -------------------------------------------------------------------------------------------------

    def debts(self) -> dict[str, str]:
        """Calls that are owed a delivery, each with its owner."""
        calls: dict[str, str] = {}
        for _, event in sorted((*self.identity, *self.admission), key=lambda r: r[0]):
            if isinstance(event, Admitted | Joined) and event.call:
                calls[event.call] = event.owner or ""
                if event.takes_over:
                    calls.pop(event.takes_over, None)
        for _, event in self.delivery:
            if isinstance(event, Delivered):
                calls.pop(event.call, None)
        return calls

    def departed(self, alive: Callable[[str], bool]) -> str | None:
        """The oldest call that left without its delivery: raised, cancelled, gone with its process."""
        ended = {e.call for _, e in self.effect if isinstance(e, Ended) and (e.outcome is not Outcome.RETURNED or e.unclear)}
        left = {e.call for _, e in self.delivery if isinstance(e, Left)} | ended
        return next((call for call, owner in self.debts().items() if call in left or not alive(owner)), None)

    # -- open and closed ------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether an equal call is a new occurrence (DESIGN §3, open and closed)."""
        epochs = self.epochs()
        if any(e.in_flight for e in epochs):
            return False
        if self.abandoned:
            return True
        effect = occurrence_effect(epochs, self.effect)
        delivered = not self.debts()
        if self.denials:
            return effect.state is not EffectState.UNKNOWN and (delivered or not effect.present)
        if not epochs:
            return False
        if self.opened.read:
            return delivered
        return settled(effect, self.accept, waiting=bool(self.waiting)) and delivered

    @property
    def uncertain(self) -> bool:
        """In flight, unknown, or recovery pending: what folds calls of other runs (DESIGN §3, rule 4)."""
        return bool(self.in_flight) or self.effects().state is EffectState.UNKNOWN or bool(self.waiting)


def settled(effect: Effect, accept: Strength, *, waiting: bool) -> bool:
    """Whether nothing about the effect is left to find out."""
    match effect.state:
        case None | EffectState.UNKNOWN:
            return False
        case EffectState.REJECTED | EffectState.NOT_SENT:
            return effect.strength is not None and effect.strength.rank >= accept.rank and not waiting
        case _:
            return True


_LANE = {
    Dimension.IDENTITY: "identity",
    Dimension.ADMISSION: "admission",
    Dimension.RECOVERY: "recovery",
    Dimension.AUTHORITY: "authority",
    Dimension.EFFECT: "effect",
    Dimension.DELIVERY: "delivery",
    Dimension.RECORD: "record",
}


def fold(head: Head, event: AnyEvent) -> Head:
    """One event onto a head: it takes the next place in the lane of its dimension."""
    place = head.version + 1
    lane = _LANE[event.dimension]
    return msgspec.structs.replace(head, version=place, **{lane: (*getattr(head, lane), (place, event))})


def fold_all(occurrence_id: str, events: Iterable[AnyEvent]) -> Head:
    """The head of an occurrence from its events, in journal order."""
    head = Head(id=occurrence_id)
    for event in events:
        head = fold(head, event)
    return head
