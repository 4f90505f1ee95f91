"""Spans: one for each decision, one for each epoch, one for each act of an operator.

Final states are attributes, the marker attributes are there when a span starts, and no key or value holds a word that
default scrubbers blank. Telemetry fails open: whatever goes wrong here is logged and the call goes on.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from readmit._admission import Admit, Decision, Refuse
from readmit._attributes import Attributes, decided, ended, ended_at, identity, prior, states
from readmit._call import GuardedCall
from readmit._context import FRAME, Frame
from readmit._epoch import Epoch
from readmit._epoch import EpochSpan as _EpochSpan
from readmit._fold import Head
from readmit._model import TraceContext
from readmit._steps import Done
from readmit._traced import before, link, traced
from readmit._version import __version__

P = ParamSpec("P")
_log = logging.getLogger("readmit")


def _open(function: Callable[P, None]) -> Callable[P, None]:
    """Telemetry fails open: an error in it is logged, never raised into a call."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Exception:
            _log.warning("A span could not be written; the call goes on.", exc_info=True)

    return guarded


class EpochSpan:
    """The span of one epoch, started before its admission is written so that the journal knows its ids."""

    def __init__(
        self, span: Span, context: TraceContext, clock: Callable[[], int], said: Attributes, links: Sequence[Link]
    ) -> None:
        self.span = span
        self.said = said  # what the span of its admission says too
        self.links = links
        self.context = context
        self._clock = clock

    @_open
    def end(self, head: Head, epoch: Epoch, done: Done) -> None:
        """Ends it with the final states as attributes."""
        self.span.set_attributes(ended(head, epoch.number))
        finish(self.span, done.error, ended_at(head, epoch.number) or self._clock())

    @_open
    def discard(self) -> None:
        """Leaves it unended: what was not admitted is no epoch, and an unended span is never exported."""


_ADMISSION = {"readmit.link": "admission"}


def _said(call: GuardedCall, head: Head, decision: Decision | None, epoch: int, admission: str) -> Attributes:
    """What the span of a decision says, and of the epoch that it admitted."""
    said = identity(call, head)
    if decision is None:
        return said
    if epoch:
        said["readmit.epoch"] = epoch
    said["readmit.admission.id"] = admission
    return {**said, **prior(head), **decided(decision, observed=call.tool.observe and epoch > 0)}


class OpenTelemetrySpans:
    """The spans of one guard, written to whatever provider the application has.

    Args:
        provider: by default whatever the application has, also if it comes later.
        clock: nanoseconds since the Unix epoch.
    """

    def __init__(self, provider: trace.TracerProvider | None = None, clock: Callable[[], int] = time.time_ns) -> None:
        self._tracer = trace.get_tracer("readmit", __version__, provider)
        self._clock = clock

    @_open
    def decided(
        self,
        call: GuardedCall,
        head: Head,
        decision: Decision,
        epoch: int,
        admission: str,
        started: int,
        of: _EpochSpan | None = None,
    ) -> None:
        """One decision, as a span that is ended at once: a crash after it cannot take it along.

        That of an epoch is a child of the epoch's: one trace holds both, and one sampling decision.
        """
        if isinstance(of, EpochSpan):
            said, links = of.said, of.links
        else:
            said, links = _said(call, head, decision, epoch, admission), before(head)
        attributes = {**said, "readmit.operation": "admit", **states(head)}
        within = None if of is None or not _is_valid(of.span) else trace.set_span_in_context(of.span)
        span = self._point(f"admit {call.tool.name}", attributes, links, started, within)
        if of is not None:
            of.span.add_link(span.get_span_context(), _ADMISSION)

    def epoch(
        self, call: GuardedCall, head: Head, decision: Admit | Refuse | None, number: int, admission: str, at: int
    ) -> EpochSpan:
        """Starts the span of an epoch that is about to be admitted; number 0: of a run that no journal holds."""
        surroundings = trace.get_current_span().get_span_context()
        span: Span = trace.INVALID_SPAN
        said: Attributes = {}
        links: Sequence[Link] = ()
        try:
            said, links = _said(call, head, decision, number, admission), before(head)
            attributes = {**said, "gen_ai.operation.name": "execute_tool", "readmit.operation": "execute"}
            span = self._started(f"execute_tool {call.tool.name}", attributes, links, at)
        except Exception:
            _log.warning("The span of an epoch could not be started; the call goes on.", exc_info=True)
        outer = call.site.epochs[-1].trace if call.site.epochs else None
        return EpochSpan(span, traced(span, surroundings, outer), self._clock, said, links)

    def read(self, tool: str, attributes: Mapping[str, Any]) -> Span:
        """Starts the span of a read-only call: no epoch, no admission."""
        try:
            return self._started(f"execute_tool {tool}", attributes, (), self._clock())
        except Exception:
            _log.warning("The span of a read could not be started; the call goes on.", exc_info=True)
            return trace.INVALID_SPAN

    def read_ended(self, span: Span, error: BaseException | None) -> None:
        """Ends the span of a read-only call."""
        finish(span, error, self._clock())

    def now(self) -> int:
        """Nanoseconds since the Unix epoch, by the guard's clock."""
        return self._clock()

    def client(self, method: str, attributes: Mapping[str, Any], began: int) -> Span:
        """Starts the span of an HTTP request for which nobody else makes one."""
        return self._tracer.start_span(method, kind=SpanKind.CLIENT, attributes=attributes, start_time=began)

    @_open
    def act(self, operation: str, head: Head, attributes: Attributes, carries: Sequence[TraceContext] = ()) -> None:
        """Something that was found out or done about an occurrence, so that a trace alone tells the story."""
        tool = head.opened.tool
        shown = {
            "gen_ai.tool.name": tool,
            "readmit.operation": operation,
            "readmit.occurrence.id": head.id,
            **states(head),
            **attributes,
        }
        links = [*before(head), *(one for context in carries for one in link("result", context))]
        self._point(f"{operation} {tool}", shown, links, self._clock())

    def _started(
        self, name: str, attributes: Mapping[str, Any], links: Sequence[Link], at: int, within: Context | None = None
    ) -> Span:
        return self._tracer.start_span(name, within, attributes=attributes, links=links, start_time=at)

    def _point(
        self, name: str, attributes: Attributes, links: Sequence[Link], at: int, within: Context | None = None
    ) -> Span:
        span = self._started(name, attributes, links, at, within)
        span.end(end_time=self._clock())
        return span


def _is_valid(span: Span) -> bool:
    return bool(span.get_span_context().is_valid)


def finish(span: Span, error: BaseException | None, at: int) -> None:
    """Ends a span; never raises."""
    try:
        failed(span, error)
        span.end(end_time=at)
    except Exception:
        _log.warning("A span could not be written; the call goes on.", exc_info=True)


def failed(span: Span, error: BaseException | None) -> None:
    """Status and `error.type` of a span whose call raised. GenAI conventions; the message may hold arguments."""
    if error is not None:
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR, type(error).__qualname__))


class Inside:
    """Where a tool's own body runs: its frame and its span are current; a span that could not be started is not."""

    __slots__ = ("_attached", "_frame", "_span", "_token")

    def __init__(self, frame: Frame, span: Span) -> None:
        self._frame = frame
        self._span = span if _is_valid(span) else None

    def __enter__(self) -> None:
        self._token = FRAME.set(self._frame)
        self._attached = None if self._span is None else attach(trace.set_span_in_context(self._span))

    def __exit__(self, *_: object) -> None:
        if self._attached is not None:
            detach(self._attached)
        FRAME.reset(self._token)
