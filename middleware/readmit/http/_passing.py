"""One request on its way through a guarded transport: a generator of steps, the same for sync and async clients.

`_drive` answers the steps; `Execute` is the transport below. What is known of the effect is put down when the status
line is there, or when it will not come.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from readmit._context import Frame, frame
from readmit._contract import Contract
from readmit._epoch import Epoch, Send
from readmit._errors import JournalUnavailable, Refused
from readmit._evidence import Seen, judge, position, without_effect
from readmit._model import Challenge, EffectState, Evidence, Refusal, Strength
from readmit._steps import Append, Done, Execute, Step
from readmit.http import _challenges, _spans, _within
from readmit.http._body import Body, Over, watch
from readmit.http._first import First, give
from readmit.http._phases import Phases, reports
from readmit.http._request import Facts, Request
from readmit.http._resend import Suppressed, Terms, place
from readmit.journal._port import Change, Journal

if TYPE_CHECKING:
    from readmit._guard import Guard

_log = logging.getLogger("readmit")
_WITHOUT = (EffectState.NOT_SENT, EffectState.REJECTED)


class Passing:
    """The state of one request while it is placed, sent and judged.

    Args:
        request: as the client handed it over.
        below: the transport that sends it.
        guard: whose journal and spans serve outside a tool.
        reading: whether its client was declared `effect="read"`.
        contract: of the client.
        asynchronous: whether the client is.
    """

    def __init__(
        self,
        request: Request,
        below: object,
        guard: Guard,
        *,
        reading: bool,
        contract: Contract | None,
        asynchronous: bool,
    ) -> None:
        self.frame: Frame = frame()
        self.epoch = self.frame.epochs[-1] if self.frame.epochs else None
        ports = self.epoch.ports if self.epoch is not None else None
        self.facts = Facts(request, guard.digest_secret if ports is None else ports.secret)
        self.terms = Terms.of(contract, self.epoch.contract if self.epoch is not None else None)
        self.harmless = without_effect(self.facts.method, self.facts.path, reads=self.terms.reads, declared=reading)
        self.phases = Phases(self.facts.method)
        self.span = _spans.ClientSpan(guard.spans if ports is None else ports.spans, self.facts)
        self.body: Body | None = None
        self.send: Send | None = None
        self.outgoing: Any = None
        self._below = below
        self._asynchronous = asynchronous
        self._after_unknown = False

    def enter(self) -> Journal | None:
        """Takes the surroundings as they are now; returns who writes down what leaves."""
        epochs = frame().epochs
        self.epoch = epochs[-1] if epochs else None
        return None if self.epoch is None or self.epoch.ports is None else self.epoch.ports.journal

    def steps(self) -> Generator[Step, Any, Done]:
        """Sends the request; returns how that ended: with a response, or with the error of the transport below."""
        if self.harmless is not None:
            around = {} if self.epoch is None else _within.marks(self.epoch)
            self.span.mark({**around, "readmit.effect.rule": self.harmless})
        elif self.epoch is not None and (again := (yield from self._start(self.epoch))) is not None:
            return again
        self.outgoing = self.facts.copy(self._trace(), self._own_key())
        given = self.outgoing.headers
        done: Done = yield Execute(None)
        self._judge(done)
        status = getattr(done.value, "status_code", None)
        self.span.end(status, done.error, instrumented=self.outgoing.headers is not given)
        return done

    # -- before the first byte ------------------------------------------------------------------------------------

    def _start(self, epoch: Epoch) -> Generator[Step, Any, Done | None]:
        """Writes down that the request is about to leave. If it must not: the first answer, where it repeats one."""
        ports = epoch.ports
        assert ports is not None, "an epoch that runs has what its call was given"
        with epoch.lock:
            send, former, against = place(epoch, self.facts, self.terms, ports.new_id(), ports.clock())
            if epoch.over:
                against = Suppressed("fence", Refusal.EFFECT_UNKNOWN, f"epoch {epoch.number} has ended")
            if against is None or epoch.observe:
                epoch.sends.append(send)
            elif against.rule == "http.key":  # not a repeat: a request that was meant and did not happen
                send.journalled, send.over = False, True
                send.evidence.append(_within.suppressed(against.rule))
                epoch.sends.append(send)
        self.span.mark(_within.marks(epoch))
        if against is not None:
            error = _within.refusal(epoch, against)
            self._say(epoch, error, against.rule, send.started.send)
            if not epoch.observe:
                return give(former, error)
        self.span.mark(_within.marks(epoch, send))
        self.send = send
        try:
            yield Append([Change(epoch.occurrence_id, (send.started,), check=_within.fence(epoch))], durable=False)
        except BaseException as error:
            if not (epoch.observe and isinstance(error, JournalUnavailable)):
                with epoch.lock:
                    epoch.sends.remove(send)
                if isinstance(error, Refused):
                    self._say(epoch, error, "fence", send.started.send)
                raise
            send.journalled = False
        self.facts.mark(send, epoch)
        return None

    def _say(self, epoch: Epoch, error: Refused, rule: str, number: int) -> None:
        """Says that a send does not leave, which one it would have been and why; in observe mode that it should not."""
        shown: dict[str, Any] = {
            "readmit.send.suppressed": number,
            "readmit.send.refusal": str(error.reason),
            "readmit.send.refusal.rule": rule,
            "readmit.send.refusal.detail": error.detail,
        }
        _log.warning("%s", error)
        if epoch.observe:
            self.span.mark(shown)
            return
        epoch.span.span.set_attributes(shown)
        self.span.suppressed({**shown, **_spans.effect(_within.suppressed(rule))})

    def _own_key(self) -> tuple[str, str] | None:
        """The header with our idempotency key, where the request carries none of its own."""
        keyed = self.terms.keyed
        if self.send is None or self.send.key is None or keyed is None or keyed.idempotency_key is None:
            return None
        carried = self.facts.request.headers.get(keyed.idempotency_key)
        return None if carried else (keyed.idempotency_key, self.send.key)

    def instead(self, error: BaseException) -> Any:
        """What a request outside tools gives that was not admitted and repeats another: what came of that one.

        Raises:
            BaseException: `error`, of any other request.
        """
        trail = self.facts.trail()
        if trail is None or not isinstance(error, Refused):
            raise error
        shown = {"readmit.send.refusal": str(error.reason), "readmit.send.refusal.rule": "http.resend"}
        self.span.suppressed({**shown, **_spans.effect(_within.suppressed("http.resend"))})
        done = give(trail.send, error)
        if done.error is not None:
            raise done.error
        return done.value

    # -- while it is under way ------------------------------------------------------------------------------------

    def _trace(self) -> Callable[..., Any]:
        """Our callback, and the caller's own after it."""
        theirs = self.facts.request.extensions.get("trace")
        if not self._asynchronous:

            def trace(name: str, info: Mapping[str, Any]) -> Any:
                self._saw(name, info)
                return theirs(name, info) if theirs is not None else None

            return trace

        async def atrace(name: str, info: Mapping[str, Any]) -> None:
            self._saw(name, info)
            answer = theirs(name, info) if theirs is not None else None
            if inspect.isawaitable(answer):
                await answer

        return atrace

    def _saw(self, name: str, info: Mapping[str, Any]) -> None:
        if not self.span.found:
            self.span.find()
        if self.phases.note(name, info):
            self._departs_again()
        if (
            name.endswith(("receive_response_headers.complete", ".failed"))
            and self.send is not None
            and self.span.wanted
        ):
            self.span.learn(self._evidence(self.phases.failure))

    def _departs_again(self) -> None:
        """The transport below sends the request once more by itself, before anybody saw an answer."""
        evidence = self._evidence(None)
        accepted = self.epoch.contract.accepted_strength if self.epoch is not None else Strength.PROOF
        settled = evidence.state in _WITHOUT and evidence.strength.rank >= accepted.rank
        challenged = self.phases.status is not None and _challenges.challenged(self.phases.status, self.phases.fields)
        if (not settled or challenged) and self.send is not None and self.epoch is not None and not self.epoch.observe:
            started = self.send.started
            if not (started.idempotent or (started.key is not None and started.key_lifetime is not None)):
                detail = f"send {started.send} is repeated by the transport below it"
                error = _within.refusal(self.epoch, Suppressed("http.resend", Refusal.EFFECT_UNKNOWN, detail))
                self._say(self.epoch, error, "http.resend", started.send + 1)
                raise self.phases.failure_again() or error
        self.phases.again(settled=settled)

    # -- afterwards -----------------------------------------------------------------------------------------------

    def _judge(self, done: Done) -> None:
        """Puts down what is known now: of a send its evidence, of a read the challenges it met."""
        response = done.value if done.error is None else None
        if response is not None:
            self.phases.status, self.phases.fields = response.status_code, response.headers.raw
        met = () if response is None else _challenges.met(response.status_code, response.headers.raw)
        if self.send is None:
            if self.epoch is not None and self.harmless is not None and response is not None:
                self._surface(self.epoch, met)
            elif self.harmless is None:
                self.span.learn(self._evidence(done.error))
            return
        evidence = self._evidence(done.error)
        assert self.epoch is not None
        where = "" if done.error is None else position(self._seen(done.error))
        _within.learn(self.epoch, self.send, evidence, met, where)
        self.span.learn(evidence)
        if response is not None:
            self.body = watch(response, self._body_over)
        self.send.first = First(response, done.error, self.body)

    def _surface(self, epoch: Epoch, met: tuple[Challenge, ...]) -> None:
        """Keeps the challenges of a read until a later read of the same place meets none."""
        with epoch.lock:
            epoch.surfaced.pop(self.facts.route(), None)
            if met:
                epoch.surfaced[self.facts.route()] = met

    def _evidence(self, error: BaseException | None) -> Evidence:
        return judge(self._seen(error), self.terms.rejected)

    def _seen(self, error: BaseException | None) -> Seen:
        if not self._after_unknown and self.epoch is not None and self.send is not None:
            self._after_unknown = _within.collides(self.epoch, self.send)
        return self.phases.seen(
            after_unknown=self._after_unknown,
            known=reports(self._below) or self.phases.explains(error),
            claim=self.terms.claim(error) if error is not None else None,
            error=error,
        )

    def when_read(self, over: Over) -> None:
        """Tells when the answer's body has been read, closed or lost."""
        if self.body is None:
            over(None)
        else:
            self.body.then(over)

    def _body_over(self, broken: BaseException | None) -> None:
        """The answer's body has been read, closed or lost. The effect stands as the status line said."""
        if self.send is None:
            return
        if broken is None:
            self.send.answered = True
        else:
            self.send.position = "body"
            self.send.first = First(None, broken, None)
