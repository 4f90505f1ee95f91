"""Spans: one for each decision, one for each epoch, one for each act of an operator.

Final states are attributes, the marker attributes are there when a span starts, and no key or value holds a word that
default scrubbers blank. Telemetry fails open: whatever goes wrong here is logged and the call goes on.
"""

from __future__ import annotations

import functools
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TraceFlags

from readmit._admission import Admit, Decision, Reconcile, Refuse, Return, Wait
from readmit._call import GuardedCall
from readmit._epoch import Epoch
from readmit._fold import Head
from readmit._model import PermitSource, TraceContext
from readmit._steps import Done
from readmit._version import __version__

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger("readmit")
Attributes = dict[str, Any]


def _open(function: Callable[P, None]) -> Callable[P, None]:
    """Telemetry fails open: an error in it is logged, never raised into a call."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception:
            _log.warning("A span could not be written; the call goes on.", exc_info=True)

    return guarded


def link(name: str, context: TraceContext | None) -> list[Link]:
    """A link that says what it is, in addition to the attribute that says the same."""
    if context is None:
        return []
    return [Link(_context(context), {"readmit.link": name})]


def _context(context: TraceContext) -> SpanContext:
    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=False, trace_flags=TraceFlags(int(context.sampled)))


def identity_of(call: GuardedCall, head: Head) -> Attributes:
    """What every span of a call carries from its start."""
    attributes: Attributes = {
        "gen_ai.tool.name": call.tool.name,
        "readmit.occurrence.id": head.id,
        "readmit.identity": str(call.identity),
        "readmit.input.digest": call.call.digest,
        "readmit.contract": call.tool.contract.name or call.tool.fingerprint,
        "readmit.mode": "observe" if call.tool.observe else "enforce",
        "readmit.trigger": trigger(head, repeat=call.repeat),
    }
    if call.call.call_id is not None:
        attributes["gen_ai.tool.call.id"] = call.call.call_id
    if call.call.scope:
        attributes["gen_ai.conversation.id"] = call.call.scope
    return attributes


def trigger(head: Head, *, repeat: bool) -> str:
    """What came between the last epoch and this call: the newest login, approval or operator's act, else a repeat."""
    last = max((place for place, e in head.admission if getattr(e, "epoch", 0) == head.last_epoch), default=0)
    grants = [g.permit.source for place, g in head.grants if place > last]
    if grants:
        return "login" if grants[-1] is PermitSource.LOGIN else "approval"
    if any(place > last and getattr(e, "by", None) for place, e in (*head.effect, *head.record)):
        return "operator"
    return "repeat" if repeat else "call"


def states_of(head: Head) -> Attributes:
    """The occurrence's effect and recovery, as they stand."""
    effect = head.effects()
    attributes: Attributes = {"readmit.recovery.state": str(head.recovery_state)}
    if head.waiting:
        attributes["readmit.recovery.kind"] = str(head.waiting[-1].suspension)
    if effect.state is not None and head.admissions:
        attributes["readmit.effect.state"] = str(effect.state)
        attributes["readmit.effect.rule"] = effect.rule
        if effect.strength is not None:
            attributes["readmit.effect.strength"] = str(effect.strength)
    return attributes


def _permits(decision: Admit | None) -> Attributes:
    if decision is None:
        return {}
    if not decision.permits:
        return {"readmit.permit.source": str(PermitSource.AMBIENT), "readmit.permit.state": "granted"}
    claimed = decision.permits[0]
    state = "consumed" if claimed.permit.uses is not None else "granted"
    return {"readmit.permit.source": str(claimed.permit.source), "readmit.permit.id": claimed.permit.id, "readmit.permit.state": state}


def _decision(decision: Decision, *, observed: bool) -> Attributes:
    match decision:
        case Admit():
            return {"readmit.admission.decision": "admit", "readmit.admission.justification": str(decision.justification), **_permits(decision)}
        case Return():
            return {"readmit.admission.decision": "return"}
        case Wait():
            return {"readmit.admission.decision": "wait"}
        case Reconcile():
            return {"readmit.admission.decision": "reconcile"}
        case Refuse():
            attributes = {"readmit.admission.decision": "observed" if observed else "refuse", "readmit.admission.refusal": str(decision.reason)}
            if decision.detail:
                attributes["readmit.admission.detail"] = decision.detail
            return attributes


class EpochSpan:
    """The span of one epoch, started before its admission is written so that the journal knows its ids."""

    def __init__(self, span: Span, context: TraceContext) -> None:
        self.span = span
        self.context = context

    @_open
    def end(self, head: Head, epoch: Epoch, done: Done) -> None:
        """Ends it with the final states as attributes."""
        own = next(e for e in head.epochs() if e.admitted.epoch == epoch.number)
        attributes: Attributes = {"readmit.recovery.state": str(head.recovery_state)}
        if head.waiting:
            attributes["readmit.recovery.kind"] = str(head.waiting[-1].suspension)
        if own.evidence is not None:
            attributes["readmit.effect.state"] = str(own.evidence.state)
            attributes["readmit.effect.rule"] = own.evidence.rule
            if own.evidence.state != "unknown":
                attributes["readmit.effect.strength"] = str(own.evidence.strength)
        if own.ended is not None and own.ended.unstorable:
            attributes["readmit.result.unstorable"] = own.ended.unstorable
        self.span.set_attributes(attributes)
        failed(self.span, done.error)
        self.span.end()

    @_open
    def discard(self) -> None:
        """Leaves it unended: what was not admitted is no epoch, and an unended span is never exported."""


def failed(span: Span, error: BaseException | None) -> None:
    """Status and `error.type` of a span whose call raised. GenAI conventions; the message may hold arguments."""
    if error is not None:
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR, type(error).__qualname__))


class OpenTelemetrySpans:
    """The spans of one guard, written to whatever provider the application has."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("readmit", __version__, provider)

    @_open
    def decided(self, call: GuardedCall, head: Head, decision: Decision, epoch: int, admission: str, started: int) -> None:
        """One decision, as a span that is ended at once: a crash after it cannot take it along."""
        attributes = {
            **identity_of(call, head),
            "readmit.operation": "admit",
            "readmit.admission.id": admission,
            **states_of(head),
            **_decision(decision, observed=call.tool.observe and epoch > 0),
        }
        if epoch:
            attributes["readmit.epoch"] = epoch
        self._tracer.start_span(f"admit {call.tool.name}", attributes=attributes, start_time=started).end()

    def epoch(self, call: GuardedCall, head: Head, decision: Admit | None, number: int, admission: str) -> EpochSpan:
        """Starts the span of an epoch that is about to be admitted."""
        prior = head.admissions[-1].trace if head.admissions else None
        attributes: Attributes = {
            **identity_of(call, head),
            "gen_ai.operation.name": "execute_tool",
            "readmit.operation": "execute",
            "readmit.epoch": number,
            "readmit.admission.id": admission,
            "readmit.admission.decision": "admit" if decision else "observed",
            **_permits(decision),
        }
        if decision is not None:
            attributes["readmit.admission.justification"] = str(decision.justification)
        if prior is not None:
            attributes["readmit.prior_epoch.span_id"] = prior.span_id
        try:
            span = self._tracer.start_span(f"execute_tool {call.tool.name}", attributes=attributes, links=link("prior_epoch", prior))
        except Exception:
            _log.warning("The span of an epoch could not be started; the call goes on.", exc_info=True)
            span = trace.INVALID_SPAN
        return EpochSpan(span, _traced(span))

    def read(self, tool: str, attributes: Mapping[str, Any]) -> Span:
        """Starts the span of a read-only call: no epoch, no admission."""
        return self._tracer.start_span(f"execute_tool {tool}", attributes=attributes)

    @_open
    def act(self, operation: str, head: Head, attributes: Attributes) -> None:
        """An operator's act, as a span, so that a trace alone tells the story."""
        linked = [x for a in head.admissions[-1:] for x in link("admission", a.trace)]
        tool = head.opened.tool
        shown = {"gen_ai.tool.name": tool, "readmit.operation": operation, "readmit.occurrence.id": head.id, **states_of(head), **attributes}
        self._tracer.start_span(f"{operation} {tool}", attributes=shown, links=linked).end()


def _traced(span: Span) -> TraceContext:
    """The ids of a span; where the application has no provider, ids of our own, for whoever forwards the journal."""
    context = span.get_span_context()
    parent = getattr(span, "parent", None)
    if not context.is_valid:
        return TraceContext(trace_id=f"{random.getrandbits(128) or 1:032x}", span_id=f"{random.getrandbits(64) or 1:016x}", sampled=False)
    return TraceContext(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=f"{parent.span_id:016x}" if parent is not None else "",
        sampled=context.trace_flags.sampled,
    )


@contextmanager
def current_span(span: Span) -> Iterator[None]:
    """Makes a span current while a tool's own body runs."""
    token = attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        detach(token)

