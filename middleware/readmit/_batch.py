"""The calls of one model response, and an outbox for their results (DESIGN §10).

A batch is an occurrence of its own, whose effect is the delivery to the model provider: an attempt is an epoch, so that
two workers do not deliver at once, and one that was killed is known to have been at it. Repeats are idempotent by
contract: they carry the same results, byte for byte, and nothing of it is run, asked or charged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from readmit._canonical import Unencodable, encode
from readmit._context import entered, frame, identified
from readmit._correlate import CallResult, Correlation, PendingCall, correlate
from readmit._digest import digest_bytes
from readmit._errors import ReadmitError
from readmit._model import Answered, Charged, DeliveryState, Invalidated, ListedCall
from readmit._outbox import Outbox, undelivered
from readmit._result import Unstorable, decode_result, encode_result

if TYPE_CHECKING:
    from readmit._delivery import Delivery
    from readmit._guard import Guard

SCHEMA = 1  # of `dump`


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A call as a model's response lists it.

    Args:
        tool: the tool's name.
        arguments: what it is called with.
        call_id: as the provider gave it; it need not be unique.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    call_id: str | None = None


class Batch:
    """The calls of one model response, until the model provider has their results.

    Made again with the same response, in the same scope, it is the same batch: after a restart, in another worker.

    Args:
        response: what names the response: the provider's id, or one that the host keeps with its session.
        calls: the calls in the response's order; may be left out where the batch is known already.
        beside: another undelivered batch of this scope is expected, for instance of an agent that runs in parallel.
        guard: by default the one of `configure`.

    Raises:
        BatchUndelivered: the results of an earlier response in this scope were not delivered. Deliver them first, or
            `drop` them, with a record.
        ReadmitError: the response is known with other calls, or not known and `calls` are left out.
        JournalUnavailable: nothing can be kept, so nothing is begun.

    Example:
        >>> import readmit
        >>> guard = readmit.Guard(journal=":memory:")
        >>> batch = Batch("resp-1", [ModelCall(tool="weather", call_id="c1")], guard=guard)
        >>> batch.add("sunny", call_id="c1")
        True
        >>> with batch.deliver() as outputs:
        ...     [(output.call_id, output.payload) for output in outputs]  # handed to the provider here
        [('c1', 'sunny')]
        >>> str(batch.state)
        'accepted'
    """

    def __init__(
        self,
        response: str,
        calls: Iterable[ModelCall] | None = None,
        *,
        beside: bool = False,
        guard: Guard | None = None,
    ) -> None:
        if not isinstance(response, str) or not response:
            raise ValueError(f"response={response!r}: a text that names the response, and is not empty")
        here = frame()
        outbox = Outbox(guard or _default(), here.scope, here.principal, response)
        self.outbox: Outbox = outbox
        listed = None if calls is None else tuple(_listed(outbox, n, call) for n, call in enumerate(calls))
        if not outbox.find(listed):
            outbox.open(listed, beside=beside)

    @classmethod
    def _of(cls, outbox: Outbox) -> Batch:
        batch = cls.__new__(cls)
        batch.outbox = outbox
        return batch

    def __repr__(self) -> str:
        return f"<Batch of {self.response}: {len(self.calls)} calls, {len(self.pending)} pending, {self.state}>"

    @classmethod
    def undelivered(cls, *, guard: Guard | None = None) -> list[Batch]:
        """The batches of this scope whose results the provider does not have: to be asked when the user says more.

        Args:
            guard: by default the one of `configure`.

        Returns:
            Oldest first; each is to be delivered first, or dropped with a record.
        """
        guard, here = guard or _default(), frame()
        return [cls._of(outbox) for outbox in undelivered(guard, here.scope or guard.scope_name, here.principal)]

    # -- what it is -----------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Names it, in every worker."""
        return self.outbox.id

    @property
    def response(self) -> str:
        """What names the response."""
        return self.outbox.response

    @property
    def occurrence_id(self) -> str:
        """What `readmit show` takes."""
        return self.outbox.head.id

    @property
    def calls(self) -> tuple[PendingCall, ...]:
        """Its calls, in the response's order."""
        return self.outbox.calls

    @property
    def results(self) -> dict[str, Any]:
        """The results that are bound, by the occurrence ids of their calls, in order."""
        return {occurrence: result.payload for occurrence, result in self.correlation().bound.items()}

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """Calls that still wait for a result; a void one does not."""
        return tuple(call for call in self.correlation().pending if not self.outbox.void(call))

    @property
    def void(self) -> tuple[PendingCall, ...]:
        """Calls of an invalidated response that did nothing: they are not to be run any more."""
        return tuple(call for call in self.correlation().pending if self.outbox.void(call))

    @property
    def state(self) -> DeliveryState:
        """`none` before the first attempt, `offered` until the provider's success was seen, then `accepted`."""
        head = self.outbox.head
        if head.effects().present:
            return DeliveryState.ACCEPTED
        return DeliveryState.OFFERED if head.admissions else DeliveryState.NONE

    @property
    def dropped(self) -> bool:
        """Whether somebody decided that it is not to be delivered."""
        return self.outbox.head.abandoned is not None

    @property
    def invalidated(self) -> bool:
        """Whether the provider has invalidated the response."""
        return self.outbox.invalidated

    @property
    def charged(self) -> int:
        """What was counted against the budget; 0 before `charge`."""
        return self.outbox.charged

    def correlation(self) -> Correlation:
        """Which result belongs to which call, from everything that has arrived in any worker."""
        self.outbox.refresh()
        return correlate(self.calls, self.outbox.results)

    # -- what happens to it ---------------------------------------------------------------------------------------

    @contextmanager
    def executing(self, call: PendingCall) -> Iterator[None]:
        """Where a call is run here: the guarded tool inside runs once, and again gets its recorded result.

        A confirmation that it waits for, asked once, is answered once; a restart changes nothing.

        Args:
            call: one of `calls`.

        Raises:
            ReadmitError: the call is void, or of another batch.
        """
        if call not in self.calls:
            raise ReadmitError(f"{call.tool} ({call.call_id or 'no call id'}) is no call of {self!r}.")
        if call in self.void:
            raise ReadmitError(
                f"{call.tool} is void: the provider has invalidated response {self.response}, and it did nothing."
            )
        here = msgspec.structs.replace(frame(), scope=self.outbox.scope, principal=self.outbox.principal)
        with entered(here), identified(call_id=call.call_id, response=self.id, framework=call.occurrence_id):
            yield

    def add(
        self,
        payload: Any,
        *,
        call: PendingCall | None = None,
        call_id: str | None = None,
        occurrence_id: str | None = None,
    ) -> bool:
        """Keeps a result, durably, before anybody is told of it.

        Args:
            payload: what the model is to get.
            call: the call that it answers, where that is known.
            call_id: the provider's id that came with it, where only that is known.
            occurrence_id: of the call, where the host application was given it and hands it back.

        Returns:
            True if it is news; False for an equal duplicate, which is not to be published to the user again.

        Raises:
            CorrelationConflict: it contradicts another result, or belongs to no call. It was not kept.
            ReadmitError: its call is void. Without this an attempt could carry less than the one after it.
            TypeError: it cannot be compared or kept.
        """
        if call is not None:
            occurrence_id, call_id = call.occurrence_id, call.call_id
        result = CallResult(payload=payload, occurrence_id=occurrence_id, call_id=call_id)
        try:
            data = encode_result(payload)
        except Unstorable as error:
            raise TypeError(
                f"A result of {self.response} cannot be kept: {error}. Hand over what the model gets."
            ) from error
        while True:
            before = self.correlation()
            after = correlate(self.calls, [*self.outbox.results, result])
            if (after.bound.keys(), after.known, len(after.unpaired)) == (
                before.bound.keys(),
                before.known,
                len(before.unpaired),
            ):
                return False
            if void := [c.tool for c in before.pending if c.occurrence_id in after.bound and self.outbox.void(c)]:
                raise ReadmitError(
                    f"{', '.join(void)} is void: the provider has invalidated response {self.response}, and it did "
                    "nothing. Its result is not kept, since what is offered may not change; say it in a later turn."
                )
            event = Answered(
                at=self.outbox.now(), payload=data, occurrence=result.occurrence_id, call_id=result.call_id or None
            )
            if self.outbox.write(event):
                return True

    def charge(self, calls: int | None = None) -> bool:
        """Counts the calls against a budget: once, whoever asks, however often it is delivered.

        Args:
            calls: how many; by default all.

        Returns:
            True if they were counted now, False if they had been before.
        """
        while not self.charged:
            if self.outbox.write(Charged(at=self.outbox.now(), calls=len(self.calls) if calls is None else calls)):
                return True
        return False

    def invalidate(self) -> None:
        """The provider has invalidated the response. Calls that did nothing are void; what was done is still told."""
        while not self.invalidated:
            self.outbox.write(Invalidated(at=self.outbox.now()))

    def drop(self, *, by: str, statement: str) -> None:
        """Decides that it is not to be delivered, for good. What its calls did stays done, and on record.

        Args:
            by: who decides.
            statement: why, in so many words.

        Raises:
            OperatorError: it is being delivered right now.
            ValueError: nobody is named, or nothing is stated.
        """
        if not statement.strip():
            raise ValueError("statement= is empty: say why the results are not to be delivered")
        self.outbox.guard.abandon(self.occurrence_id, by=by, statement=statement)
        self.outbox.refresh()

    def deliver(self) -> Delivery:
        """One attempt to hand the results to the provider: a context manager, plain and async, and a decorator.

        Raises:
            BatchIncomplete: calls still wait. It is raised where the attempt begins, as is `ReplayRefused` for a batch
                that was accepted, is being delivered, or was dropped.
        """
        from readmit._delivery import Delivery

        return Delivery(self)

    # -- as a text ------------------------------------------------------------------------------------------------

    def dump(self) -> str:
        """All of it as JSON, for a session store; `Batch.load` reads it in any worker."""
        self.outbox.refresh()
        outbox = self.outbox
        state = _State(
            schema=SCHEMA,
            scope=outbox.scope,
            principal=outbox.principal,
            response=outbox.response,
            calls=outbox.listed,
            results=outbox.answers,
            charged=outbox.charged,
            invalidated=outbox.invalidated,
        )
        return msgspec.json.encode(state).decode()

    @classmethod
    def load(cls, text: str, *, guard: Guard | None = None) -> Batch:
        """The batch of a `dump`. Where the journal knows more of it, that holds; what it lacks is added to it.

        Args:
            text: what `dump` gave.
            guard: by default the one of `configure`.

        Raises:
            ValueError: it is no such text, or of a newer schema.
            CorrelationConflict: it contradicts what the journal holds.
        """
        try:
            state = msgspec.json.decode(text, type=_State)
        except msgspec.MsgspecError as error:
            raise ValueError(f"This is no batch that readmit has dumped: {error}") from error
        if state.schema != SCHEMA:
            raise ValueError(f"This batch is of schema {state.schema}, and this readmit reads {SCHEMA}: update readmit")
        outbox = Outbox(guard or _default(), state.scope, state.principal, state.response)
        if not outbox.find(state.calls):
            outbox.open(state.calls, beside=True)
        batch = cls._of(outbox)
        for result in state.results:
            batch.add(decode_result(result.payload), occurrence_id=result.occurrence, call_id=result.call_id)
        if state.charged:
            batch.charge(state.charged)
        if state.invalidated:
            batch.invalidate()
        return batch


class _State(msgspec.Struct, kw_only=True, frozen=True):
    schema: int
    scope: str
    principal: str | None
    response: str
    calls: tuple[ListedCall, ...]
    results: tuple[Answered, ...]
    charged: int
    invalidated: bool


def _listed(outbox: Outbox, position: int, call: ModelCall) -> ListedCall:
    try:
        text = encode(dict(call.arguments))
    except Unencodable as error:
        raise TypeError(
            f"The arguments of {call.tool} hold a {error.offender.__qualname__}, which has no digest: list the call "
            "with the arguments that the model gave."
        ) from None
    digest = digest_bytes("arguments", text, secret=outbox.guard.digest_secret)
    return ListedCall(occurrence=f"{outbox.id}.{position}", tool=call.tool, digest=digest, call_id=call.call_id or None)


def _default() -> Guard:
    from readmit._default import default_guard

    return default_guard()
