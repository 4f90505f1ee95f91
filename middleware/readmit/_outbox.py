"""A batch in the journal: an occurrence whose effect is the delivery, with its calls and results in one lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readmit._correlate import CallResult, PendingCall
from readmit._digest import digest_bytes
from readmit._errors import BatchUndelivered, ReadmitError
from readmit._fold import Head
from readmit._identity import Call
from readmit._model import (
    Answered,
    AnyEvent,
    Charged,
    EffectState,
    Identity,
    Invalidated,
    Listed,
    ListedCall,
    Opened,
    TraceContext,
)
from readmit._result import decode_result
from readmit.journal._port import Change, Query, Stale

if TYPE_CHECKING:
    from readmit._guard import Guard

DELIVER = "readmit.deliver"  # the tool, as traces and people see it
_SIGNATURE = "v1(batch)"
_NOTHING = (None, EffectState.NOT_SENT, EffectState.REJECTED)


class Outbox:
    """What the journal holds of one batch, as it was last looked at.

    Args:
        guard: whose journal.
        scope: of the response.
        principal: for whom.
        response: names it, inside its scope.
    """

    def __init__(self, guard: Guard, scope: str | None, principal: str | None, response: str) -> None:
        self.guard: Guard = guard
        self.scope: str = scope or guard.scope_name
        self.principal: str | None = principal
        self.response: str = response
        self.id: str = digest_bytes("batch", self.scope, principal or "", response)[:32]
        self.head: Head = Head(id="")

    # -- what is held ---------------------------------------------------------------------------------------------

    @property
    def listed(self) -> tuple[ListedCall, ...]:
        """The calls, as the response lists them."""
        return _listed(self.head)

    @property
    def calls(self) -> tuple[PendingCall, ...]:
        """The same, as results are correlated with them."""
        return tuple(
            PendingCall(occurrence_id=c.occurrence, tool=c.tool, digest=c.digest, call_id=c.call_id, position=n)
            for n, c in enumerate(self.listed)
        )

    @property
    def answers(self) -> tuple[Answered, ...]:
        """Every result that was news, in the order in which they came."""
        return tuple(e for _, e in self.head.delivery if isinstance(e, Answered))

    @property
    def results(self) -> list[CallResult]:
        """The same, as they are correlated with calls."""
        return [
            CallResult(payload=decode_result(e.payload), occurrence_id=e.occurrence, call_id=e.call_id)
            for e in self.answers
        ]

    @property
    def charged(self) -> int:
        """What was counted against a budget."""
        return sum(e.calls for _, e in self.head.delivery if isinstance(e, Charged))

    @property
    def invalidated(self) -> bool:
        """Whether the provider has invalidated the response."""
        return any(isinstance(e, Invalidated) for _, e in self.head.delivery)

    def void(self, call: PendingCall) -> bool:
        """Whether a call has nothing to be answered with: of an invalidated response, and nothing of it was done."""
        if not self.invalidated:
            return False
        head = self._ran(call)
        return head is None or (not head.in_flight and head.effects().state in _NOTHING)

    def carried(self) -> list[TraceContext]:
        """The epochs whose results it holds."""
        heads = (self._ran(call) for call in self.calls)
        return [a.trace for head in heads if head is not None for a in head.admissions[-1:] if a.trace is not None]

    def _ran(self, call: PendingCall) -> Head | None:
        """The occurrence of the guarded tool that was run for a call."""
        heads = self.guard.ports().journal.named("framework:" + digest_bytes(self.scope, call.occurrence_id))
        return heads[-1] if heads else None

    # -- reading and writing --------------------------------------------------------------------------------------

    def delivery(self, *results: str) -> Call:
        """The delivery as a call: the same one as long as the digests of the results are."""
        return Call(
            scope=self.scope,
            principal=self.principal,
            tool=DELIVER,
            signature=_SIGNATURE,
            digest=digest_bytes("deliver", *results),
            parameters={},
            key=self.id,
        )

    def refresh(self) -> None:
        """Looks at what others have written."""
        head = self.guard.ports().journal.load(self.head.id)
        assert head is not None, "an occurrence does not go away"
        self.head = head

    def find(self, calls: tuple[ListedCall, ...] | None) -> bool:
        """Whether the journal has it.

        Raises:
            ReadmitError: it has it with other calls.
        """
        name = self.delivery().names()[Identity.KEY]
        head = self.guard.ports().journal.find(Query((name,), "", "", "")).named.get(name, (0, None))[1]
        if head is None:
            return False
        if calls is not None and calls != (known := _listed(head)):
            raise ReadmitError(
                f"Response {self.response} is known in scope {self.scope} with other calls: "
                f"{', '.join(c.tool for c in known) or 'none'}. Two responses have two names."
            )
        self.head = head
        return True

    def open(self, calls: tuple[ListedCall, ...] | None, *, beside: bool) -> None:
        """Begins it; whoever comes second finds it.

        Raises:
            BatchUndelivered: others of the scope wait, and that was not expected.
            ReadmitError: its calls are not known.
        """
        if calls is None:
            raise ReadmitError(f"No batch of response {self.response} is known in scope {self.scope}: list its calls.")
        if not beside and (others := undelivered(self.guard, self.scope, self.principal)):
            raise BatchUndelivered(tuple(o.response for o in others), tuple(o.head.id for o in others))
        ports, call = self.guard.ports(), self.delivery()
        while not self.find(calls):
            found = ports.journal.find(Query((), call.slot, _SIGNATURE, call.digest))
            now = ports.clock()
            opened = Opened(
                at=now,
                scope=self.scope,
                tool=DELIVER,
                signature=_SIGNATURE,
                digest=call.digest,
                parameters={},
                principal=self.principal,
                key=self.id,
                response=self.response,
            )
            events = (opened, Listed(at=now, response=self.response, calls=calls))
            seen = tuple(head.id for head in (*found.open, *found.other_signature))
            names = ((call.names()[Identity.KEY], 1),)
            try:
                ports.journal.append([Change(ports.new_id(), events, 0, names, call.slot, seen)], durable=True)
            except Stale:
                continue

    def write(self, event: AnyEvent) -> bool:
        """Writes durably, on what was seen; False if something came in between, which is then seen."""
        change = Change(self.head.id, (event,), expected=self.head.version)
        try:
            (self.head,) = self.guard.ports().journal.append([change], durable=True)
        except Stale:
            self.refresh()
            return False
        return True

    def now(self) -> int:
        """Nanoseconds since the Unix epoch, by the guard's clock."""
        return self.guard.ports().clock()


def undelivered(guard: Guard, scope: str, principal: str | None) -> list[Outbox]:
    """Batches of a scope whose results the provider does not have, oldest first."""
    found = []
    for head in guard.ports().journal.open():
        opened, accepted = head.opened, head.effects().present  # which may have no reader any more who notes it
        if (opened.tool, opened.scope, opened.principal) == (DELIVER, scope, principal) and not accepted:
            found.append(outbox := Outbox(guard, scope, principal, opened.response or ""))
            outbox.head = head
    return found


def _listed(head: Head) -> tuple[ListedCall, ...]:
    return next(e.calls for _, e in head.delivery if isinstance(e, Listed))
