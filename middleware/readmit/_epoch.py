"""An epoch as the code that runs inside it sees it: its ids, its key, and where evidence is put down."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakValueDictionary

from readmit._context import Frame, Run, frame
from readmit._contract import Contract
from readmit._errors import ReadmitError
from readmit._fold import Head
from readmit._model import (
    AnyEvent,
    Challenge,
    EffectState,
    Evidence,
    Justification,
    Observed,
    SendStarted,
    Strength,
    TraceContext,
)
from readmit._steps import Done
from readmit.journal._port import Change, Journal

if TYPE_CHECKING:
    from readmit._call import Ports


_in_flight: WeakValueDictionary[str, Epoch] = WeakValueDictionary()  # by call: those whose body runs here


_NOTHING = Evidence(state=EffectState.NOT_SENT, strength=Strength.CONTRACT, rule="tool.inner")


class EpochSpan(Protocol):
    """The span of one epoch, as the core sees it."""

    span: Any  # of OpenTelemetry, which the core does not know
    context: TraceContext

    def end(self, head: Head, epoch: Epoch, done: Done) -> None:
        """Ends it with what is known now."""

    def discard(self) -> None:
        """The admission was not written: there is no such epoch."""


class Send:
    """One effectful request of an epoch, from before its first byte on.

    Equal requests of one epoch share `nth` while they repeat one another; the next one that is meant gets the next.
    """

    def __init__(self, started: SendStarted, resend: int, *, nth: int = 1, streamed: bool = False) -> None:
        self.started = started
        self.resend = resend  # how many requests it repeats in this epoch
        self.nth = nth
        self.streamed = streamed  # its body has no digest
        self.evidence: list[Evidence] = []
        self.challenges: tuple[Challenge, ...] = ()
        self.position = ""
        self.journalled = True
        self.over = False  # answered or failed
        self.answered = False  # the whole answer reached whoever asked
        self.first: Any = None  # what became of it, for whoever repeats it and may not: see `readmit.http._first`
        self.given_again = 0  # how often that was given instead of a repeat
        self.key: str | None = None  # the idempotency key it carried; its digest is what is kept
        self.fingerprint = ""  # of the login it carried, to see whether the next one differs; never kept
        self.receipt = ""  # how the service names the effect
        self.body = ""  # digest of a streamed body that has left

    def observed(self, at: int) -> list[Observed]:
        """What is known of it, as events; a receipt and a digest go with the last."""
        started, last = self.started, len(self.evidence) - 1
        return [
            Observed(
                at=at,
                epoch=started.epoch,
                send=started.send,
                evidence=evidence,
                receipt=self.receipt if i == last else "",
                body=self.body if i == last else "",
            )
            for i, evidence in enumerate(self.evidence)
        ]


class Epoch:
    """One admitted execution attempt, seen from inside: what `readmit.current()` gives.

    Attributes:
        occurrence_id: the logical call; the same after retries, restarts and resumes.
        number: the epoch's number, 1, 2, 3 …; it is the fencing token.
        tool: the tool's name.
    """

    def __init__(
        self,
        *,
        head: Head,
        number: int,
        call: str,
        tool: str,
        contract: Contract,
        justification: Justification | None,
        span: EpochSpan,
        outer: Epoch | None,
        ports: Ports | None = None,
        observe: bool = False,
    ) -> None:
        self.occurrence_id: str = head.id
        self.number = number
        self.tool = tool
        self.call = call
        self.contract = contract
        self.justification = justification
        self.span = span
        self.trace: TraceContext = span.context
        self.outer = outer
        self.head = head
        self.ports = ports
        self.observe = observe
        self.stray: bool = False  # something went out in a thread without context, and may belong here
        self.interrupted: BaseException | None = None  # what came while its end was read, and is raised after it
        self.over: bool = False  # its end is being recorded; what is learnt later is recorded by itself
        self.sends: list[Send] = []
        self.equal: dict[str, dict[int, Send]] = {}  # the newest send of each meaning of a request, by its digest
        self.doubtful: dict[int, Send] = {}  # requests of which nothing is known, by number
        self.ends_read = 0  # events of the effect that were looked through for this epoch's end
        self.observed: list[Observed] = []
        self.within: Send | None = None  # this call, as a send of the epoch around it
        self.inner: list[tuple[Journal, str, str]] = []  # guarded calls inside, delivered with this one
        self.surfaced: dict[str, tuple[Challenge, ...]] = {}  # met by reads and not answered since, by route
        self.lock: threading.Lock = threading.Lock()
        self._run = Run(f"occurrence:{head.id}")
        _in_flight[call] = self

    def end(self) -> None:
        """Its body has ended."""
        self.over = True
        _in_flight.pop(self.call, None)

    @property
    def idempotency_key(self) -> str:
        """A stable key for this occurrence: the same in every epoch and after a restart, up to a compensation."""
        return self.head.idempotency_key

    def record_effect(
        self, state: Literal["not_sent", "rejected", "committed"], *, receipt: str = "", at: int | None = None
    ) -> None:
        """Puts down what the tool itself knows of its effect.

        Args:
            state: `not_sent`, `rejected` or `committed`.
            receipt: the service's own word; one that echoes the idempotency key or the occurrence id is proof.
            at: nanoseconds since the Unix epoch, by default the epoch's own start.

        Raises:
            ValueError: for a state that is not one of the three.
            TypeError: `at` is no whole number of nanoseconds, or the receipt no text.

        Example:
            >>> def pay(cents: int) -> None:
            ...     answer = bank.transfer(cents, reference=current().idempotency_key)
            ...     current().record_effect("committed", receipt=answer.reference)
        """
        if state not in ("not_sent", "rejected", "committed"):
            raise ValueError(f"record_effect({state!r}): write 'not_sent', 'rejected' or 'committed'")
        if (at is not None and type(at) is not int) or not isinstance(receipt, str):
            raise TypeError(f"record_effect: at={at!r} is nanoseconds since the Unix epoch, receipt={receipt!r} a text")
        strength = Strength.PROOF if receipt and self.echoes(receipt) else Strength.CONTRACT
        evidence = Evidence(state=EffectState(state), strength=strength, rule="tool.recorded")
        started = self.head.admissions[-1].at
        observed = Observed(at=at or started, epoch=self.number, evidence=evidence)
        with self.lock:
            self.observed.append(observed)
            late = self.over
        if late:  # a thread that goes on after the tool
            self._late(observed)

    def echoes(self, receipt: str) -> bool:
        """Whether a receipt names this occurrence or its idempotency key."""
        return self.occurrence_id in receipt or self.idempotency_key in receipt

    def carry(self, delivered: list[tuple[Journal, str, str]]) -> bool:
        """Results of guarded calls inside: they reach their reader with this one's. False if that has ended before."""
        with self.lock:
            if not self.over:
                self.inner += delivered
            return not self.over

    def inner_began(self, occurrence_id: str) -> Send:
        """A guarded call inside is about to run: it counts as a send, which its own admission keeps from a repeat."""
        with self.lock:
            started = SendStarted(
                at=self.head.admissions[-1].at,
                epoch=self.number,
                send=self.next_send(),
                route="tool",
                request=occurrence_id,
                key=occurrence_id,
            )
            send = Send(started, 0)
            send.journalled = False
            self.sends.append(send)
            late = self.over
        if late:
            self._late(started)
        return send

    def inner_ended(self, send: Send, evidence: Evidence | None) -> None:
        """What became of it; None if that says nothing about this epoch."""
        with self.lock:
            if evidence is None and not self.over:
                self.sends.remove(send)
                return
            send.evidence.append(evidence or _NOTHING)
            late = self.over
        if late:
            self._late(*send.observed(send.started.at))

    def _late(self, *events: AnyEvent) -> None:
        """What is learnt after the end was recorded settles this epoch only."""
        assert self.ports is not None, "an epoch that runs has what its call was given"
        self.ports.journal.note(Change(self.occurrence_id, events))

    def next_send(self) -> int:
        """The number of the next send. One that was withdrawn before it left gives its own back; the lock is held."""
        return self.sends[-1].started.send + 1 if self.sends else 1

    def take(self, send: Send) -> None:
        """One more request; the lock is held."""
        self.sends.append(send)
        self.equal.setdefault(send.started.request, {})[send.nth] = send
        if not send.evidence:
            self.doubtful[send.started.send] = send

    def withdraw(self, send: Send) -> None:
        """A request that did not leave after all; the lock is held."""
        self.sends.remove(send)
        self.doubtful.pop(send.started.send, None)
        equal = self.equal[send.started.request]
        del equal[send.nth]
        equal.update({s.nth: s for s in self.sends if s.nth == send.nth and s.started.request == send.started.request})

    def frame(self, surroundings: Frame) -> Frame:
        """The frame in which the tool's body runs: guarded calls inside belong to this occurrence."""
        return Frame(surroundings.scope, surroundings.principal, self._run, epochs=(*surroundings.epochs, self))


def current() -> Epoch:
    """The epoch that the calling code runs in.

    Raises:
        ReadmitError: outside a guarded tool, or in a thread that was started without `bind`.

    Example:
        >>> current()
        Traceback (most recent call last):
        readmit._errors.ReadmitError: current() is called outside a guarded tool; a plain thread needs readmit.bind
    """
    epochs = frame().epochs
    if not epochs:
        raise ReadmitError("current() is called outside a guarded tool; a plain thread needs readmit.bind")
    return epochs[-1]


def any_in_flight() -> bool:
    """Whether a guarded tool runs anywhere in this process."""
    return bool(_in_flight)


def strayed(*effects_through: str) -> None:
    """Something left in a thread without context: of tools that promise to show it all, it may belong to any."""
    for reference in _in_flight.valuerefs():  # a list at once: other threads begin and end epochs meanwhile
        epoch = reference()
        if epoch is not None and epoch.contract.effects_through in effects_through:
            epoch.stray = True


def stack_holds(epochs: tuple[Epoch, ...], occurrence_id: str) -> bool:
    """Whether an occurrence already runs further up in the call stack."""
    return any(e.occurrence_id == occurrence_id for e in epochs)
