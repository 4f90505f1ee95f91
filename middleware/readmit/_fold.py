"""Heads are a fold over events: one function, used live and at restart.

A dimension is a field of the head and one branch of the fold. All else (effect, recovery, permits, debts, whether the
occurrence is closed) is derived from the lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import get_args

import msgspec

from readmit._digest import digest_bytes
from readmit._effect import Effect, EpochEffect, Recorded, compensations, epoch_effect, occurrence_effect
from readmit._kept import kept
from readmit._model import (
    Abandoned,
    Accepted,
    Admitted,
    AnyEvent,
    Compensated,
    Delivered,
    Denied,
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


class Head(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One occurrence: its events, a lane for each dimension. `version` counts the events.

    What is derived is worked out once, see `kept`: nobody changes what they get.
    """

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

    @kept
    def opened(self) -> Opened:
        """The event that minted the occurrence."""
        first = self.identity[0][1]
        assert isinstance(first, Opened)
        return first

    @kept
    def joined(self) -> tuple[Joined, ...]:
        """Calls that were resolved to it later."""
        if len(self.identity) == 1:
            return ()
        return tuple(e for _, e in self.identity if isinstance(e, Joined))

    @kept
    def digest(self) -> str:
        """The digest of the arguments, as the last call before any dispatch gave them."""
        return next((j.digest for j in reversed(self.joined) if j.digest), self.opened.digest)

    @kept
    def parameters(self) -> dict[str, str]:
        """Per-parameter digests that belong to `digest`."""
        return next((j.parameters for j in reversed(self.joined) if j.parameters), self.opened.parameters)

    # -- admission ------------------------------------------------------------------------------------------------

    @kept
    def admissions(self) -> tuple[Admitted, ...]:
        """Epochs, oldest first."""
        return tuple([e for _, e in self.admission if isinstance(e, Admitted)])

    @kept
    def last_epoch(self) -> int:
        """The number of the newest epoch; 0 before the first."""
        admissions = self.admissions
        return admissions[-1].epoch if admissions else 0

    @kept
    def accept(self) -> Strength:
        """The strength at which the newest contract accepts evidence."""
        admissions = self.admissions
        return admissions[-1].accept if admissions else Strength.CONTRACT

    # -- effect ---------------------------------------------------------------------------------------------------

    def epochs(self) -> tuple[EpochEffect, ...]:
        """Each epoch with the effect of its own evidence."""
        return self._epochs

    @kept
    def _epochs(self) -> tuple[EpochEffect, ...]:
        return tuple([epoch_effect(a, self.effect) for a in self.admissions])

    def effects(self) -> Effect:
        """The effect of the occurrence."""
        return self._effects

    @kept
    def _effects(self) -> Effect:
        return occurrence_effect(self._epochs, self.effect, self.accept)

    @kept
    def in_flight(self) -> tuple[Admitted, ...]:
        """Epochs that have not ended, been given up or lost their owner."""
        return tuple([e.admitted for e in self._epochs if e.in_flight])

    @kept
    def returned(self) -> EpochEffect | None:
        """The newest epoch that returned a recorded result of the effect that stands."""
        undone = compensations(self.effect)
        for epoch in reversed(self.epochs()):
            if epoch.ended is not None and epoch.ended.result is not None and epoch.stands(undone):
                return epoch
        return None

    @kept
    def recipient(self) -> str | None:
        """The principal whom the recorded result belongs to."""
        return self.opened.principal if self.returned is None else self.returned.admitted.request.principal

    def result(self) -> bytes | None:
        """The recorded result of the effect that stands: of its newest return, else of a present finding."""
        undone = compensations(self.effect)
        if self.returned is not None and self.returned.ended is not None:
            return self.returned.ended.result
        found = [
            e for _, e in self.effect if isinstance(e, Reconciled) and e.result is not None and e.finding == "present"
        ]
        found = [e for e in found if not any(fence >= e.fence for fence, _ in undone)]
        return max(found, key=lambda e: (e.fence, e.strength.rank, e.result or b"")).result if found else None

    @kept
    def compensations(self) -> int:
        """The newest epoch that was undone: a newer one gives the idempotency key a new generation."""
        return self.compensated_before(self.version + 1)

    @property
    def idempotency_key(self) -> str:
        """What sends carry so that the service knows a repeat: 32 hex digits, the same until the effect was undone."""
        return digest_bytes("idempotency", self.id, str(self.compensations))[:32]

    def compensated_before(self, place: int) -> int:
        """`compensations` as it stood at a place in the journal."""
        return max((e.fence for at, e in self.effect if isinstance(e, Compensated) and at < place), default=0)

    # -- recovery -------------------------------------------------------------------------------------------------

    @kept
    def suspensions(self) -> tuple[Suspended, ...]:
        """Every time execution stopped, oldest first."""
        return tuple(e for _, e in self.recovery if isinstance(e, Suspended))

    @kept
    def challenge(self) -> Suspended | None:
        """The challenge of the newest epoch that met one."""
        met = [s for s in self.suspensions if s.suspension is RecoveryKind.CHALLENGE]
        return max(met, key=lambda s: s.epoch, default=None)

    @kept
    def confirmation(self) -> Suspended | None:
        """The newest confirmation request."""
        return next((s for s in reversed(self.suspensions) if s.suspension is RecoveryKind.CONFIRMATION), None)

    def answered(self, suspension: Suspended) -> bool:
        """Whether what the suspension asks for has come. Derived: no recovery event grants, no permit writes it."""
        match suspension.suspension:
            case RecoveryKind.FAILURE:
                return True
            case RecoveryKind.CHALLENGE:
                return any(
                    isinstance(e, Granted)
                    and e.permit.source is PermitSource.LOGIN
                    and e.permit.after_epoch >= suspension.epoch
                    for _, e in self.authority
                )
            case RecoveryKind.CONFIRMATION:
                return any(
                    (isinstance(e, Granted) and e.permit.request == suspension.id)
                    or (isinstance(e, Denied) and e.request == suspension.id)
                    for _, e in self.authority
                )

    @kept
    def waiting(self) -> tuple[Suspended, ...]:
        """Suspensions that still stand before the next epoch: the newest of each kind, met by the newest epoch."""
        if not self.recovery:
            return ()
        newest = (s for s in (self.challenge, self.confirmation) if s is not None)
        return tuple(s for s in newest if s.epoch >= self.last_epoch)

    @kept
    def recovery_state(self) -> RecoveryState:
        """`suspended` while a condition is unanswered, `satisfied` until the next epoch, else `clear`."""
        if not self.waiting:
            return RecoveryState.CLEAR
        return RecoveryState.SATISFIED if all(map(self.answered, self.waiting)) else RecoveryState.SUSPENDED

    # -- authority ------------------------------------------------------------------------------------------------

    @kept
    def grants(self) -> tuple[tuple[int, Granted], ...]:
        """Permits with their place in the journal."""
        return tuple((place, e) for place, e in self.authority if isinstance(e, Granted))

    @kept
    def revocations(self) -> frozenset[str]:
        """Ids of permits that were taken back."""
        return frozenset(e.permit for _, e in self.authority if isinstance(e, Revoked))

    @kept
    def denials(self) -> frozenset[str]:
        """Ids of requests that were denied."""
        return frozenset(e.request for _, e in self.authority if isinstance(e, Denied))

    @kept
    def superseded(self) -> frozenset[str]:
        """Ids of confirmation requests that are not the newest: a verdict on one answers nothing newer."""
        asked = [s.id for s in self.suspensions if s.suspension is RecoveryKind.CONFIRMATION]
        return frozenset(asked[:-1])

    @kept
    def denied(self) -> bool:
        """Whether a person said no to what was asked last, which is terminal."""
        return bool(self.denials) and not self.denials <= self.superseded

    @kept
    def contradicted(self) -> bool:
        """Whether the newest request got both verdicts."""
        return any(g.permit.request in self.denials - self.superseded for _, g in self.grants if g.permit.request)

    @kept
    def login(self) -> str | None:
        """The fingerprint of the newest login, where one was given."""
        return next(
            (
                g.permit.binding.login
                for _, g in reversed(self.grants)
                if g.permit.source is PermitSource.LOGIN and g.permit.binding.login
            ),
            None,
        )

    # -- record ---------------------------------------------------------------------------------------------------

    @kept
    def abandoned(self) -> Abandoned | None:
        """The record that closed the occurrence for good."""
        if not self.record:
            return None
        return next((e for _, e in self.record if isinstance(e, Abandoned)), None)

    @kept
    def acceptances(self) -> tuple[Accepted, ...]:
        """Ambiguities that a named person accepted."""
        return tuple(e for _, e in self.record if isinstance(e, Accepted))

    # -- delivery -------------------------------------------------------------------------------------------------

    def debts(self) -> dict[str, str]:
        """Calls that are owed a delivery, each with its owner."""
        return self._debts

    @kept
    def _debts(self) -> dict[str, str]:
        calls: dict[str, str] = {}
        for _, event in sorted((*self.identity, *self.admission), key=_place) if self.joined else self.admission:
            if isinstance(event, (Admitted, Joined)) and event.call:
                calls[event.call] = event.owner or ""
                if event.takes_over:
                    calls.pop(event.takes_over, None)
        for _, event in self.delivery:
            if isinstance(event, Delivered):
                calls.pop(event.call, None)
        return calls

    def departed(self, alive: Callable[[str], bool]) -> str | None:
        """The oldest call that left without its delivery: raised, cancelled, gone with its process."""
        if not self.debts():
            return None
        ended = {
            e.call for _, e in self.effect if isinstance(e, Ended) and (e.outcome is not Outcome.RETURNED or e.unclear)
        }
        left = {e.call for _, e in self.delivery if isinstance(e, Left)} | ended
        return next((call for call, owner in self.debts().items() if call in left or not alive(owner)), None)

    # -- open and closed ------------------------------------------------------------------------------------------

    @kept
    def closed(self) -> bool:
        """Whether an equal call is a new occurrence (open and closed)."""
        if not self.record and not self.authority and (not self.effect or self.debts()):
            return False  # nothing has ended, or somebody is owed the result; and nobody has closed it
        epochs = self.epochs()
        if any(e.in_flight for e in epochs):
            return False
        if self.abandoned:
            return True
        effect = self.effects()
        delivered = not self.debts()
        if self.denied:
            return effect.state is not EffectState.UNKNOWN and (delivered or not effect.present)
        if not epochs:
            return False
        if self.opened.read:
            return delivered
        return delivered and settled(effect, self.accept, waiting=bool(self.waiting))

    @kept
    def uncertain(self) -> bool:
        """In flight, unknown or known too weakly, or recovery pending: what folds calls of other runs (rule 4)."""
        if self.in_flight or self.waiting:
            return True
        effect = self.effects()
        return effect.state is not None and not settled(effect, self.accept, waiting=False)


def settled(effect: Effect, accept: Strength, *, waiting: bool) -> bool:
    """Whether nothing about the effect is left to find out."""
    match effect.state:
        case None | EffectState.UNKNOWN:
            return False
        case EffectState.REJECTED | EffectState.NOT_SENT:
            return effect.strength is not None and effect.strength.rank >= accept.rank and not waiting
        case _:
            return True


_LANE: dict[type, str] = {event: event.dimension.value for event in get_args(AnyEvent)}
_WORKED_OUT_OF = {  # lanes, and what stays true while nothing is added to them
    ("identity",): ("opened", "joined", "digest", "parameters"),
    ("admission",): ("admissions", "last_epoch", "accept"),
    ("admission", "effect"): ("_epochs", "_effects", "in_flight"),
}


def _place(recorded: Recorded) -> int:
    return recorded[0]


def fold(head: Head, *events: AnyEvent) -> Head:
    """Events onto a head, in journal order: each takes the next place in the lane of its dimension."""
    place = head.version
    lanes: dict[str, tuple[Recorded, ...]] = {}
    for event in events:
        place += 1
        lane = _LANE[type(event)]
        lanes[lane] = (*(lanes.get(lane) or getattr(head, lane)), (place, event))
    after = msgspec.structs.replace(head, version=place, **lanes)
    if known := head.__dict__:
        kept = after.__dict__
        for name in _still_true(tuple(lanes)):
            if name in known:
                kept[name] = known[name]
    return after


@cache
def _still_true(lanes: tuple[str, ...]) -> tuple[str, ...]:
    """What was worked out and stays so when something is added to these lanes."""
    return tuple(name for needed, names in _WORKED_OUT_OF.items() if set(lanes).isdisjoint(needed) for name in names)
