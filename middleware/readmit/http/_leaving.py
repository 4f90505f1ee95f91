"""One request before its first byte: whether it may leave, what it carries, and what a repeat gets instead."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from readmit._context import Frame, frame
from readmit._contract import Contract
from readmit._epoch import Epoch, Send
from readmit._errors import JournalUnavailable, Refused
from readmit._evidence import without_effect
from readmit._fold import Head
from readmit._model import Refusal
from readmit._steps import Append, Done, Find, Step
from readmit.http import _keys, _spans, _within
from readmit.http._first import give
from readmit.http._phases import Phases
from readmit.http._request import Facts, Request
from readmit.http._resend import Placed, Suppressed, brought, placed, taken
from readmit.http._terms import Terms
from readmit.http._upload import Upload, digesting
from readmit.journal._port import Change, Query

if TYPE_CHECKING:
    from readmit._guard import Guard

_log = logging.getLogger("readmit")


class Leaving:
    """The state of one request, and its way to the first byte.

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
        self.terms = Terms.of(contract, self.epoch.contract if self.epoch is not None else None)
        secret = guard.digest_secret if ports is None else ports.secret
        self.facts = Facts(request, secret, self.terms.volatile)
        self.harmless = without_effect(self.facts.method, self.facts.path, reads=self.terms.reads, declared=reading)
        if self.harmless is None and self.facts.asks_for_a_token():
            self.harmless = "http.token_request"
        self.phases = Phases(self.facts.method)
        self.span = _spans.ClientSpan(guard.spans if ports is None else ports.spans, self.facts)
        self.send: Send | None = None
        self.upload: Upload | None = None
        self.outgoing: Any = None
        self.after_unknown = False
        self._below = below
        self._asynchronous = asynchronous

    def _leave(self, epoch: Epoch) -> Generator[Step, Any, Done | None]:
        """Writes down that the request is about to leave. If it must not: the first answer, where it repeats one."""
        own = yield from self._known_under_its_key()
        with epoch.lock:
            send, former, against = self._place(epoch, own)
            if against is None or epoch.observe:
                epoch.take(send)
            elif against.rule == "http.key":  # not a repeat: a request that was meant and did not happen
                send.journalled, send.over = False, True
                send.evidence.append(_within.suppressed(against.rule))
                epoch.take(send)
        self.span.mark(_within.marks(epoch))
        if against is not None:
            error = _within.refusal(epoch, against)
            self._say(epoch, error, against.rule, send.started.send)
            if not epoch.observe:
                return give(former if against.rule == "http.resend" else None, error)
        self.span.mark(_within.marks(epoch, send))
        self.send = send
        try:
            self.outgoing = self._prepared(send)
            names = ((f"sent:{send.started.key}", 0),) if brought(epoch, send) else ()
            check = _within.fence(epoch)
            yield Append([Change(epoch.occurrence_id, (send.started,), names=names, check=check)], durable=False)
        except BaseException as error:
            if not (epoch.observe and isinstance(error, JournalUnavailable)):
                with epoch.lock:
                    epoch.withdraw(send)
                if isinstance(error, Refused):
                    self._say(epoch, error, "fence", send.started.send)
                raise
            send.journalled = False
        self.facts.mark(send, epoch)
        return None

    def _known_under_its_key(self) -> Generator[Step, Any, Head | None]:
        """The occurrence that last sent the idempotency key that the request brings with it."""
        keyed = self.terms.keyed
        own = None if keyed is None else _keys.carried(keyed, self.facts)
        if own is None:
            return None
        name = f"sent:{self.facts.key_digest(own)}"
        found = yield Find(Query((name,), "", "", ""))
        known: Head | None = found.named.get(name, (0, None))[1]
        return known

    def _place(self, epoch: Epoch, known: Head | None) -> Placed:
        """Its place in the epoch, and what speaks against it; the epoch's lock is held."""
        ports = epoch.ports
        assert ports is not None, "an epoch that runs has what its call was given"
        send, former, against = placed(epoch, self.facts, self.terms, ports.new_id(), ports.clock())
        if epoch.over:
            against = Suppressed("fence", Refusal.EFFECT_UNKNOWN, f"epoch {epoch.number} has ended")
        if against is None and former is None and brought(epoch, send):
            against = taken(known, send.started)
        return Placed(send, former, against)

    def _prepared(self, send: Send | None) -> Any:
        """What goes to the transport below: with our key, unless it has one, and with somebody who digests a stream."""
        request = self.facts.copy(self._trace())
        if send is None:
            return request
        keyed = self.terms.keyed
        if send.key is not None and keyed is not None and _keys.carried(keyed, self.facts) is None:
            request.headers = type(request.headers)(request.headers)
            _keys.put(keyed, request, send.key)
        if send.streamed:
            self.upload = digesting(request, self.facts.secret, asynchronous=self._asynchronous)
        return request

    def _trace(self) -> Callable[..., Any]:
        """Called with every phase of the request."""
        raise NotImplementedError

    def _say(self, epoch: Epoch, error: Refused, rule: str, number: int) -> None:
        """Says that a send does not leave, which one it would have been and why; in observe mode that it should not."""
        shown: dict[str, Any] = {
            "readmit.send.suppressed": number,
            "readmit.send.refusal": str(error.reason),
            "readmit.send.refusal.rule": rule,
            "readmit.send.refusal.detail": error.detail,
        }
        _log.warning(
            "%s", f"{error} It was let through: nothing is blocked in observe mode." if epoch.observe else error
        )
        if epoch.observe:
            self.span.mark(shown)
            return
        epoch.span.span.set_attributes(shown)
        self.span.suppressed({**shown, **_spans.effect(_within.suppressed(rule))})

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
