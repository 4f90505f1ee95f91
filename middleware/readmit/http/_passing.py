"""One request on its way through a guarded transport: a generator of steps, the same for sync and async clients.

`_drive` answers the steps; `Execute` is the transport below. What is known of the effect is put down when the status
line is there, or when it will not come.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from typing import Any

from readmit._context import frame
from readmit._epoch import Epoch
from readmit._evidence import Seen, judge, position
from readmit._model import Challenge, EffectState, Evidence, Refusal, Strength
from readmit._steps import Done, Execute, Step
from readmit.http import _challenges, _receipts, _within
from readmit.http._body import Body, Over, watch
from readmit.http._first import First
from readmit.http._leaving import Leaving
from readmit.http._phases import reports
from readmit.http._resend import Suppressed
from readmit.journal._port import Journal

_WITHOUT = (EffectState.NOT_SENT, EffectState.REJECTED)


class Passing(Leaving):
    """The state of one request while it is placed, sent and judged."""

    body: Body | None = None
    _naming: _receipts.Awaited | None = None

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
        elif self.epoch is not None and (again := (yield from self._leave(self.epoch))) is not None:
            return again
        if self.outgoing is None:
            self.outgoing = self._prepared(None)
        given = self.outgoing.headers
        done: Done = yield Execute(None)
        self._judge(done)
        status = getattr(done.value, "status_code", None)
        self.span.end(status, done.error, instrumented=self.outgoing.headers is not given)
        return done

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
            self.phases.answered_unseen()
            self.phases.status, self.phases.fields = response.status_code, response.headers.raw
        if not (self.phases.reported or reports(self._below)):
            self.span.say({"readmit.phases": "none"})
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
        if self.upload is not None:
            self.send.body = self.facts.streamed_digest(digest) if (digest := self.upload.digest()) else ""
            self.span.say({"http.request.body.size": self.upload.size})
        _within.learn(self.epoch, self.send, evidence, met, where)
        self.span.learn(evidence)
        if response is not None:
            self._watch(response)
        self.send.first = First(response, done.error, self.body)

    def _watch(self, response: Any) -> None:
        """Follows the answer's body to its end, and reads how it names the effect where the contract says that."""
        place = self.terms.receipt if _receipts.may_name(response.status_code) else None
        in_body = place is not None and place.kind == "json"
        self.body = watch(response, self._body_over, most=_receipts.MOST if in_body else 0)
        if place is None:
            return
        if in_body and self.body is not None:
            self._naming = _receipts.Awaited(place, response)
        else:
            self._named(_receipts.read(place, response))

    def _surface(self, epoch: Epoch, met: tuple[Challenge, ...]) -> None:
        """Keeps the challenges of a read until a later read of the same place meets none."""
        with epoch.lock:
            epoch.surfaced.pop(self.facts.route(), None)
            if met:
                epoch.surfaced[self.facts.route()] = met

    def _evidence(self, error: BaseException | None) -> Evidence:
        return judge(self._seen(error), self.terms.rejected)

    def _seen(self, error: BaseException | None) -> Seen:
        if not self.after_unknown and self.epoch is not None and self.send is not None:
            self.after_unknown = _within.collides(self.epoch, self.send)
        return self.phases.seen(
            after_unknown=self.after_unknown,
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

    def _named(self, receipt: str) -> None:
        assert self.send is not None and self.epoch is not None
        if receipt:
            _within.named(self.epoch, self.send, receipt)

    def _body_over(self, broken: BaseException | None) -> None:
        """The answer's body has been read, closed or lost. The effect stands as the status line said."""
        assert self.send is not None and self.epoch is not None
        if broken is not None:
            self.send.position = "body"
            self.send.first = First(None, broken, None)
            _within.broke(self.epoch, self.send)
            return
        self.send.answered = True
        if self.body is not None and self._naming is not None:
            self._named(self._naming.read(self.body.passed))
