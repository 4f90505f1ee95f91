"""One guarded call, from identity to delivery: a generator of steps, the same for every kind of function.

Nothing here does I/O except through its ports, or knows of asyncio: `_drive` answers the steps. Before the body runs,
occurrence, epoch, admission and claim are durable in one transaction; what comes after is evidence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from readmit import _findings, _outcome
from readmit._admission import Admit, Decision, Reconcile, Refuse, Return, Wait, decide
from readmit._context import Run
from readmit._contract import Approval, Contract, Policy, nanoseconds
from readmit._digest import digest_bytes
from readmit._effect import receipt
from readmit._epoch import Epoch, EpochSpan, stack_holds
from readmit._errors import JournalUnavailable, ReadmitError, Refused, refused
from readmit._fold import Head, fold
from readmit._identity import Call, Resolution, resolve
from readmit._model import (
    Admitted,
    AnyEvent,
    Binding,
    Challenge,
    Decided,
    Delivered,
    Identity,
    Joined,
    Justification,
    Left,
    Opened,
    Outcome,
    OwnerLost,
    RecoveryKind,
    Refusal,
    Request,
    Suspended,
    TraceContext,
)
from readmit._result import Unstorable, decode_result, encode_result
from readmit._steps import Append, Ask, Done, Execute, Find, Load, Sleep, Step
from readmit.journal._port import Change, Journal, Query, Stale

JOIN_TIMEOUT = 5.0  # seconds a second caller waits for the first, then gets a clear error
_FIRST_POLL, _LAST_POLL = 0.002, 0.05  # seconds
_log = logging.getLogger("readmit")
Steps = Generator[Step, Any, Done]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What the decorator says of one tool."""

    name: str
    read: bool
    contract: Contract
    fingerprint: str  # of the contract
    approval: Approval | None = None
    reconcile: Any = None
    classify: Any = None
    observe: bool = False
    reopens: bool = True  # False: a streamed body, which has no digest; always minted


class Spans(Protocol):
    """What the call tells whoever watches. It never raises: telemetry fails open."""

    def decided(
        self,
        call: GuardedCall,
        head: Head,
        decision: Decision,
        epoch: int,
        admission: str,
        started: int,
        of: EpochSpan | None = None,
    ) -> None:
        """One decision, as a span that is ended now; `of` is the span of the epoch that it admitted."""

    def epoch(
        self, call: GuardedCall, head: Head, decision: Admit | Refuse | None, number: int, admission: str, at: int
    ) -> EpochSpan:
        """Starts the span of an epoch that is about to be admitted; number 0: of a run that no journal holds."""

    def act(self, operation: str, head: Head, attributes: dict[str, Any], carries: Sequence[TraceContext] = ()) -> None:
        """Something that was found out or done about an occurrence, as a span that is ended now.

        `carries` are epochs whose results go with it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What a call needs from its guard."""

    journal: Journal
    spans: Spans
    policy: Policy
    clock: Callable[[], int]  # nanoseconds since the Unix epoch
    new_id: Callable[[], str]  # a UUIDv7
    secret: bytes | None = None  # makes digests an HMAC
    kept: set[str] = field(default_factory=set)  # contracts whose text the journal has
    join_timeout: float = JOIN_TIMEOUT


class Site(msgspec.Struct, frozen=True):
    """Where the call was made."""

    run: Run | None
    epochs: tuple[Epoch, ...]


class GuardedCall:
    """The state of one call while it is decided, run and settled."""

    def __init__(
        self,
        ports: Ports,
        tool: Declaration,
        call: Call,
        site: Site,
        arguments: Mapping[str, Any],
        digest_now: Callable[[], str] | None = None,
    ) -> None:
        self.ports = ports
        self.tool = tool
        self.site = site
        self.arguments = arguments
        self._digest_now = digest_now  # None: of a call whose arguments nobody else can reach
        self.token: str = ports.new_id()
        self.call: Call = call
        self.identity: Identity = Identity.MINTED
        self.repeat: bool = False
        self.request: Request = Request(
            principal=call.principal,
            executor=ports.policy.executor,
            policy_version=ports.policy.version,
            digest=call.digest,
            read=tool.read,
            reconcilable=tool.reconcile is not None,
            asked=tool.observe,
        )
        self._occurrence: str | None = None
        self._waiting: float | None = None
        self._abandoned: str | None = None
        self._seen = _Seen((), ())
        self._why = ""
        self._looked = False  # at the journal: what a first look left in the request may no longer be so
        self._executed = False
        self._inside: Epoch | None = None  # while its body runs

    # -- the whole call -------------------------------------------------------------------------------------------

    def steps(self) -> Steps:
        """Runs the call. Returns how it ended (a result, a recorded one, the tool's own error); raises `Refused`."""
        run, number = self.site.run, 0
        if run is not None:
            number = run.take(self.tool.name, self.call.digest)
            self.call = self.call._replace(run=run.id, number=number, done=frozenset(run.done))
        try:
            yield from self._consent()
            while True:
                try:
                    finished = yield from self._pass()
                except Stale:
                    continue
                except JournalUnavailable as error:
                    finished = yield from self._unguarded(error)
                if finished is not None:
                    break
        except BaseException as error:
            if self._waiting is not None and not isinstance(error, Refused):
                self.ports.journal.note(Change(self._occurrence or "", (Left(at=self.ports.clock(), call=self.token),)))
            kept = isinstance(error, Refused) and _final(error)
            if run is not None and not kept:
                run.give_back(self.tool.name, self.call.digest, number)
            raise
        if run is not None and finished.error is not None:
            run.give_back(self.tool.name, self.call.digest, number)
        elif run is not None and self._occurrence is not None:
            run.done.add(self._occurrence)
        return finished

    def _unguarded(self, error: JournalUnavailable) -> Generator[Step, Any, Done]:
        """Without a journal an effectful call is not sent; in observe mode nothing is blocked, and that is said."""
        if not self.tool.observe or self._executed:
            raise error
        _log.warning("%s %s runs all the same, unrecorded: nothing is blocked in observe mode.", error, self.tool.name)
        now = self.ports.clock()
        head = fold(Head(id=self._occurrence or self.ports.new_id()), self._opened(now))
        span = self.ports.spans.epoch(self, head, None, 0, "", now)
        head = fold(head, self._admitted(head, None, None, span, "", now))
        epoch = self._epoch(head, span)
        done: Done = yield Execute(epoch)
        for event in _outcome.events(self.tool, epoch, done, self.ports.clock()):
            head = fold(head, event)
        span.end(head, epoch, done)
        return done

    def _consent(self) -> Generator[Step, Any, None]:
        """Whether this call needs a person, and what state of its target that person would see."""
        approval = self.tool.approval
        if approval is None:
            return
        needed = approval.when is None or (yield from self._hook(approval.when)) is not False
        target = None
        if needed and approval.target is not None:
            seen = yield from self._hook(approval.target)
            try:
                target = digest_bytes("target", encode_result(seen))
            except Unstorable as error:
                raise TypeError(
                    f"{self.tool.name}: target= returned {seen!r}, which could not be compared later: {error}. "
                    "Return a text or a number: an ETag, a version. Nothing was run."
                ) from error
        self.request = msgspec.structs.replace(self.request, approval=needed, target=target)

    def _hook(self, hook: Callable[..., Any]) -> Generator[Step, Any, Any]:
        """What a hook of the approval says. Where nothing is blocked, one that fails says nothing."""
        try:
            return (yield Ask(hook, self.arguments))
        except Exception:
            if not self.tool.observe:
                raise
            _log.warning(
                "%r of %s failed; the call runs, since nothing is blocked in observe mode.",
                hook,
                self.tool.name,
                exc_info=True,
            )
            return None

    def _pass(self) -> Generator[Step, Any, Done | None]:
        """One look at the journal and one decision. None: look again."""
        started = self.ports.clock()
        head, opening, names = yield from self._resolve(started)
        flying, alive = head.in_flight, self.ports.journal.alive
        if lost := tuple([OwnerLost(at=started, epoch=a.epoch) for a in flying if not alive(a.owner)]):
            yield Append([Change(head.id, lost)], durable=False)
            return None
        if flying or self._looked:
            self.request = msgspec.structs.replace(
                self.request,
                owner_alive=bool(flying),
                reentrant=bool(flying) and stack_holds(self.site.epochs, head.id),
                waited=self._waiting is not None and self._waiting >= self.ports.join_timeout,
            )
        self._looked = True
        if self.tool.read and self._waiting is not None and not flying:
            return (yield from self._share(_Opened(head, opening, names, self._seen, started, started)))
        now = self.ports.clock()
        decision = decide(self.tool.contract, head, head.grants, self.request, self.ports.policy, now)
        opened = _Opened(head, opening, names, self._seen, now, started)
        if self.tool.observe and not isinstance(decision, Admit):
            return (yield from self._admit(opened, None, _would_refuse(decision)))
        match decision:
            case Admit() if self._waiting is not None:
                return (yield from self._refuse(opened, self._shared(head)))
            case Admit():
                return (yield from self._admit(opened, decision, None))
            case Return():
                return (yield from self._return(opened, head.result()))
            case Wait():
                yield from self._wait(opened, decision)
            case Reconcile():
                yield from self._reconcile(opened, decision)
            case Refuse():
                return (yield from self._refuse(opened, decision))
        return None

    # -- identity -------------------------------------------------------------------------------------------------

    def _resolve(
        self, now: int
    ) -> Generator[Step, Any, tuple[Head, tuple[AnyEvent, ...], tuple[tuple[str, int], ...]]]:
        """The occurrence of this call, and what is to be recorded about how it was found."""
        if self._waiting is not None:
            head = yield Load(self._occurrence or "")
            return head, (), ()
        call = self.call
        equal, names = call.equal, tuple(call.names().values())
        denied, abandoned = f"denied:{equal}", f"abandoned:{equal}"
        found = yield Find(Query((*names, denied, abandoned), call.slot, call.signature, call.digest))
        beside = tuple([head.id for head in (*found.open, *found.other_signature)])
        if not self.tool.reopens:
            found = found._replace(open=(), other_signature=())
        resolution = resolve(call, found)
        if resolution.conflict is not None and self.tool.observe:  # it runs, but not as that occurrence
            resolution = resolution._replace(head=None, names=())
        self.identity, self.repeat = resolution.identity, resolution.head is not None
        self._seen = _Seen(beside, tuple([(n, found.taken(n)) for n in (denied, abandoned)]))
        withheld = found.named.get(denied, (0, None))[1]
        left_open = found.named.get(abandoned, (0, None))[1]
        self._abandoned = (
            left_open.id if left_open is not None and left_open.abandoned and left_open is not resolution.head else None
        )
        if withheld is not None or resolution.conflict is not None or self._looked:
            self.request = msgspec.structs.replace(
                self.request, conflict=resolution.conflict, withheld_by=None if withheld is None else withheld.id
            )
        if resolution.head is None:
            opened = self._opened(now)
            head = fold(Head(id=self.ports.new_id()), opened)
            self._occurrence = head.id
            return head, (opened,), resolution.names
        self._occurrence = resolution.head.id
        joined = self._joined(resolution, now)
        return (
            (fold(resolution.head, joined) if joined else resolution.head),
            ((joined,) if joined else ()),
            resolution.names,
        )

    def _opened(self, now: int) -> Opened:
        call = self.call
        return Opened(
            at=now,
            scope=call.scope,
            tool=call.tool,
            signature=call.signature,
            digest=call.digest,
            parameters=dict(call.parameters),
            principal=call.principal,
            read=self.tool.read,
            key=call.key,
            call_id=call.call_id,
            response=call.response,
            run=call.run,
            outer=self.site.epochs[-1].occurrence_id if self.site.epochs else None,
        )

    def _joined(self, resolution: Resolution, now: int) -> Joined | None:
        """What the occurrence is to remember of this call; None when it knows all of it."""
        call, head = self.call, resolution.head
        assert head is not None
        if resolution.conflict is not None:
            return None
        opened = head.opened
        known = [(opened.call_id, opened.response, opened.run), *((j.call_id, j.response, j.run) for j in head.joined)]
        if not resolution.changed and not resolution.names and (call.call_id, call.response, call.run) in known:
            return None
        return Joined(
            at=now,
            identity=resolution.identity,
            call_id=call.call_id,
            response=call.response,
            run=call.run,
            digest=call.digest if resolution.changed else None,
            parameters=dict(call.parameters) if resolution.changed else None,
        )

    # -- the decisions --------------------------------------------------------------------------------------------

    def _admit(
        self, opened: _Opened, decision: Admit | None, would: Refuse | None
    ) -> Generator[Step, Any, Done | None]:
        ports, head = self.ports, opened.head
        number, admission = head.last_epoch + 1, ports.new_id()
        if self.tool.fingerprint not in ports.kept:
            ports.journal.keep_document(self.tool.fingerprint, self.tool.contract.document())
            ports.kept.add(self.tool.fingerprint)
        span = ports.spans.epoch(self, head, decision or would, number, admission, opened.now)
        admitted = self._admitted(head, decision, would, span, admission, opened.now)
        names = opened.names
        if self._abandoned is not None:
            names = (*names, (f"abandoned:{self.call.equal}", 0))
        unsent = None
        try:
            (head,) = yield Append([opened.change(self.call, (admitted,), names, admits=True)], durable=True)
        except (Stale, GeneratorExit):
            span.discard()
            raise
        except BaseException as error:
            if not (yield from self._was_written(head, admission, error)):
                span.discard()
                raise
            head = fold(head, admitted)
            outcome = Outcome.RAISED if isinstance(error, JournalUnavailable) else Outcome.CANCELLED
            unsent = Done(outcome, error=error, started=False)
        ports.spans.decided(
            self, opened.head, decision or would or Refuse(Refusal.CONFLICT), number, admission, opened.now, span
        )
        epoch = self._epoch(head, span)
        if unsent is None and decision is not None and self._lapsed(opened.head, decision):
            late = Stale("what the epoch was admitted on ran out while its admission was written")
            yield from self._settle(head, epoch, span, Done(Outcome.CANCELLED, error=late, started=False))
            return None
        if unsent is None and decision is not None and decision.permits and not self.tool.observe:
            unsent = self._altered(head)
        self._executed = True
        self._inside = epoch
        _outcome.begin_inside(epoch, self.tool)
        blocked = unsent is not None and (not self.tool.observe or unsent.outcome is Outcome.CANCELLED)
        done: Done = unsent if unsent is not None and blocked else (yield Execute(epoch))
        self._inside = None
        return (yield from self._settle(head, epoch, span, done))

    def _was_written(self, head: Head, admission: str, error: BaseException) -> Generator[Step, Any, bool]:
        """Whether an admission stands whose writing ended in an error: then its epoch has to be settled.

        An interrupt can come at any moment of it, and a cancellation hides how it ended: the journal is asked.
        """
        if isinstance(error, JournalUnavailable):
            return error.written
        now = yield Load(head.id)
        return now is not None and any(a.admission == admission for a in now.admissions)

    def _lapsed(self, head: Head, decision: Admit) -> bool:
        """Whether it would be another decision by now: writing the claim can take as long as others write."""
        if not decision.permits and decision.justification is not Justification.IDEMPOTENCY_KEY:
            return False
        ports = self.ports
        again = decide(self.tool.contract, head, head.grants, self.request, ports.policy, ports.clock())
        return again != decision

    def _altered(self, head: Head) -> Done | None:
        """A permit holds for the arguments that were digested: if others would run by now, nothing does.

        They are the caller's own objects, which a hook, another task or another thread can change meanwhile. From here
        to the body only another thread still can.
        """
        if self._digest_now is None:
            return None
        try:
            if self._digest_now() == self.call.digest:
                return None
            detail = "its arguments were changed while it was being admitted"
        except Exception as error:
            detail = f"its arguments cannot be read again: {error}"
        except BaseException as error:  # an interrupt, in the digest's own code: the epoch is settled all the same
            return Done(Outcome.CANCELLED, error=error, started=False)
        altered = refused(head.id, self.tool.name, Refusal.CONFLICT, detail=detail, gates=("identity",))
        return Done(Outcome.CANCELLED, error=altered, started=False)

    def collected(self, done: Done) -> None:
        """The end of a body whose steps are gone: the collector closes what is garbage in whatever order it likes."""
        epoch, self._inside = self._inside, None
        if epoch is not None:
            head, events = epoch.head, _outcome.events(self.tool, epoch, done, self.ports.clock())
            self.ports.journal.note(Change(head.id, events))
            head = fold(head, *events)
            _outcome.speak_for_outer(epoch, head)
            epoch.span.end(head, epoch, done)

    def _admitted(
        self, head: Head, decision: Admit | None, would: Refuse | None, span: EpochSpan, admission: str, now: int
    ) -> Admitted:
        return Admitted(
            at=now,
            epoch=head.last_epoch + 1,
            call=self.token,
            owner=self.ports.journal.owner,
            admission=admission,
            justification=decision.justification if decision else None,
            request=self.request,
            contract=self.tool.fingerprint,
            accept=self.tool.contract.accepted_strength,
            effects_through=self.tool.contract.effects_through,
            permits=tuple(p.permit.id for p in decision.permits) if decision else (),
            acceptance=decision.acceptance if decision else None,
            takes_over=head.departed(self.ports.journal.alive),
            refusal=would.reason if would else None,
            abandoned=self._abandoned,
            trace=span.context,
        )

    def _epoch(self, head: Head, span: EpochSpan) -> Epoch:
        admitted = head.admissions[-1]
        return Epoch(
            head=head,
            number=admitted.epoch,
            call=self.token,
            tool=self.tool.name,
            contract=self.tool.contract,
            justification=admitted.justification,
            span=span,
            outer=self.site.epochs[-1] if self.site.epochs else None,
            ports=self.ports,
            observe=self.tool.observe,
        )

    def _settle(self, head: Head, epoch: Epoch, span: EpochSpan, done: Done) -> Generator[Step, Any, Done]:
        """Records how the epoch ended. Its effect may have happened: nothing here hides the tool's own outcome."""
        now = self.ports.clock()
        events = _outcome.events(self.tool, epoch, done, now)
        change = Change(head.id, events)
        try:
            (head,) = yield Append([change], durable=False)
        except JournalUnavailable as error:
            _log.error("%s The outcome of %s (occurrence %s) waits to be written.", error, self.tool.name, head.id)
            self.ports.journal.note(change)
            head = fold(head, *events)
        except BaseException:  # an interrupt, or what a signal handler raised; written twice it says the same
            self.ports.journal.note(change)
            span.end(fold(head, *events), epoch, done)
            raise
        _outcome.speak_for_outer(epoch, head)
        span.end(head, epoch, done)
        if _outcome.reached(head, done, events):
            self._deliver(head.id, self.token, epoch)
        else:  # the results of calls inside reached nobody: a retry gets them
            for journal, occurrence, caller in _outcome.inner_deliveries(epoch):
                journal.note(Change(occurrence, (Left(at=now, call=caller),)))
        return done if epoch.interrupted is None else Done(Outcome.CANCELLED, error=epoch.interrupted)

    def _deliver(self, occurrence_id: str, call: str, epoch: Epoch | None = None) -> None:
        """Notes that a result reached its reader; that of a call inside another tool does so with the outer one's."""
        delivered = [(self.ports.journal, occurrence_id, call), *_outcome.inner_deliveries(epoch)]
        if self.site.epochs and self.site.epochs[-1].carry(delivered):
            return
        now = self.ports.clock()
        for journal, occurrence, caller in delivered:  # a call inside can be of another guard
            journal.note(Change(occurrence, (Delivered(at=now, call=caller),)))

    def _return(self, opened: _Opened, result: bytes | None) -> Generator[Step, Any, Done]:
        head = opened.head
        try:
            value = decode_result(result or b"")
        except Unstorable as error:
            return (
                yield from self._refuse(
                    opened, Refuse(Refusal.ALREADY_COMMITTED, str(error), ("effect",), ("compensate",))
                )
            )
        admission = self.ports.new_id()
        debtor = head.departed(self.ports.journal.alive)
        decided = Decided(at=opened.now, admission=admission, decision="return")
        yield Append([opened.change(self.call, (decided,), opened.names)], durable=False)
        self.ports.spans.decided(self, head, Return(), 0, admission, opened.started)
        owed = self.token if self._waiting is not None else debtor
        if owed is not None:
            self._deliver(head.id, owed)
        return Done(_outcome.RETURNED, value)

    def _refuse(self, opened: _Opened, refuse: Refuse) -> Generator[Step, Any, Done]:
        head = opened.head
        admission = self.ports.new_id()
        events: list[AnyEvent] = []
        request_id = next(
            (s.id for s in head.waiting if s.suspension is RecoveryKind.CONFIRMATION and not head.answered(s)), None
        )
        if refuse.ask:
            events.append(self._asked(head, opened.now, (yield from self._shown())))
            request_id = events[0].id  # type: ignore[union-attr]
        events.append(
            Decided(at=opened.now, admission=admission, decision="refuse", refusal=refuse.reason, detail=refuse.detail)
        )
        own = head.recipient == self.request.principal  # what somebody else is told is no delivery
        told = refuse.reason is Refusal.ALREADY_COMMITTED and own
        debtor = self.token if self._waiting is not None else head.departed(self.ports.journal.alive)
        if told and debtor is not None:
            events.append(Delivered(at=opened.now, call=debtor))
        names = opened.names if not refuse.ask else (*opened.names, (f"request:{request_id}", 1))
        if self._waiting is not None and not told:
            events.append(Left(at=opened.now, call=self.token))
        yield Append([opened.change(self.call, tuple(events), names)], durable=False)
        self.ports.spans.decided(self, head, refuse, 0, admission, opened.started)
        _outcome.refused_inside(self.site.epochs[-1] if self.site.epochs else None, self.tool, head.id)
        error = refused(
            head.id,
            self.tool.name,
            refuse.reason,
            detail=refuse.detail or self._why,
            gates=refuse.gates,
            remedies=refuse.remedies,
            request_id=request_id,
            challenges=_challenges(head),
        )
        _log.warning("%s", error)
        raise error

    def _shown(self) -> Generator[Step, Any, str]:
        """The call in the tool's own words, for the person who is asked."""
        show = None if self.tool.approval is None else self.tool.approval.show
        text = "" if show is None else (yield from self._hook(show))
        if not isinstance(text, str):
            raise TypeError(
                f"{self.tool.name}: show= returned {text!r}; return the text that a person approves. Nothing was run."
            )
        return text

    def _asked(self, head: Head, now: int, shown: str) -> Suspended:
        """A confirmation request: what the person will be shown, and what the approval will be bound to."""
        approval = self.tool.approval or Approval()
        return Suspended(
            at=now,
            suspension=RecoveryKind.CONFIRMATION,
            id=self.ports.new_id(),
            epoch=head.last_epoch,
            conditions=("approve",),
            lifetime=nanoseconds(approval.expires),
            shown=shown,
            binding=Binding(
                subject=self.request.principal,
                tool=self.tool.name,
                digest=self.request.digest,
                executor=self.request.executor,
                policy_version=self.request.policy_version,
                target=self.request.target,
                login=head.login,
            ),
        )

    def _wait(self, opened: _Opened, decision: Wait) -> Generator[Step, Any, None]:
        """Joins the call in flight: starts no epoch, shares its outcome, and says when it has waited long enough."""
        if self._waiting is None:
            joined = Joined(
                at=opened.now,
                identity=self.identity,
                call=self.token,
                owner=self.ports.journal.owner,
                takes_over=opened.head.departed(self.ports.journal.alive),
            )
            yield Append([opened.change(self.call, (joined,), opened.names)], durable=False)
            self.ports.spans.decided(self, opened.head, decision, decision.epoch, self.ports.new_id(), opened.started)
            self._waiting = 0.0
        pause = min(_LAST_POLL, max(_FIRST_POLL, self._waiting / 4))
        yield Sleep(pause)
        self._waiting += pause

    def _share(self, opened: _Opened) -> Generator[Step, Any, Done]:
        """What the joined caller of a read gets: the result of the epoch that it joined, where there is one."""
        joined = opened.head.epochs()[-1]
        own = joined.admitted.request.principal == self.request.principal  # under one key it may be somebody else's
        if own and joined.ended is not None and joined.ended.result is not None:
            return (yield from self._return(opened, joined.ended.result))
        return (yield from self._refuse(opened, self._shared(opened.head)))

    def _shared(self, head: Head) -> Refuse:
        """What a joined caller gets when the call it joined ended without a result."""
        known = head.effects().state or "without a result"
        return Refuse(Refusal.IN_FLIGHT, f"the call it joined ended: {known}", ("admission",))

    def _reconcile(self, opened: _Opened, decision: Reconcile) -> Generator[Step, Any, None]:
        """Asks the tool's hook, records the answer; the next pass decides again."""
        head = opened.head
        self.ports.spans.decided(self, head, decision, 0, self.ports.new_id(), opened.started)
        question = _findings.Question(
            head.id,
            self.tool.name,
            head.idempotency_key,
            self.arguments,
            decision.fence,
            receipt(head.effect),
            head.opened.key,
        )
        try:
            finding = _findings.checked((yield Ask(self.tool.reconcile, question)), self.tool.name)
        except ReadmitError:
            raise
        except Exception as error:
            _log.warning("The reconcile hook of %s failed for occurrence %s: %r", self.tool.name, head.id, error)
            finding, self._why = _findings.Unclear(f"{type(error).__name__}"), f"the reconcile hook failed: {error!r}"
        if isinstance(finding, _findings.Unclear) and finding.why and not self._why:
            self._why = f"the reconcile hook: {finding.why}"
        event = _outcome.reconciled(finding, question, at=self.ports.clock(), by=None, via="hook")
        (head,) = yield Append([Change(head.id, (event,))], durable=False)
        self.ports.spans.act("reconcile", head, {"readmit.epoch": decision.fence})
        self.request = msgspec.structs.replace(self.request, asked=True)


class _Seen(NamedTuple):
    """What a call was decided on: the open occurrences it could be, and how often names that matter were taken."""

    beside: tuple[str, ...]
    unless: tuple[tuple[str, int], ...]


class _Opened(msgspec.Struct, frozen=True):
    """The occurrence of a pass, with what is still to be written about how it was found."""

    head: Head
    opening: tuple[AnyEvent, ...]
    names: tuple[tuple[str, int], ...]
    seen: _Seen
    now: int
    started: int

    def change(
        self, call: Call, events: tuple[AnyEvent, ...], names: tuple[tuple[str, int], ...], *, admits: bool = False
    ) -> Change:
        """All of it in one change, decided on the version that was read; one that admits, on what people said too."""
        expected = self.head.version - len(self.opening)
        beside = self.seen.beside if expected == 0 else ()
        unless = self.seen.unless if expected == 0 or admits else ()
        return Change(self.head.id, (*self.opening, *events), expected, names, call.slot, beside, unless)


def _final(error: Refused) -> bool:
    """A refusal that advances the count of a run: denied, with a contradictory verdict too, or abandoned."""
    contradicted = error.reason is Refusal.CONFLICT and "authority" in error.gates
    return contradicted or error.reason in (Refusal.DENIED, Refusal.ABANDONED)


def _would_refuse(decision: Decision) -> Refuse:
    match decision:
        case Refuse():
            return decision
        case Return():
            return Refuse(Refusal.ALREADY_COMMITTED)
        case _:
            return Refuse(Refusal.IN_FLIGHT)


def _challenges(head: Head) -> tuple[Challenge, ...]:
    return head.challenge.challenges if head.challenge is not None and not head.answered(head.challenge) else ()
