"""Where a span sits among others: its ids for the journal, and links that say what they are."""

from __future__ import annotations

import random

from opentelemetry.trace import Link, Span, SpanContext, TraceFlags

from readmit._attributes import recovered
from readmit._fold import Head
from readmit._model import TraceContext


def link(name: str, context: TraceContext | None) -> list[Link]:
    """A link that says what it is, in addition to the attribute that says the same."""
    if context is None:
        return []
    flags = TraceFlags(int(context.sampled))
    there = SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=False, trace_flags=flags)
    return [Link(there, {"readmit.link": name})]


def before(head: Head) -> list[Link]:
    """What went before: the newest epoch, and the one whose end is what is recovered from."""
    if not head.admission:
        return []
    epochs = {a.epoch: a.trace for a in head.admissions}
    stopped = recovered(head)
    return [
        *link("prior_epoch", epochs.get(head.last_epoch)),
        *link("recovery", epochs.get(stopped.epoch) if stopped is not None else None),
    ]


def traced(span: Span, surroundings: SpanContext, outer: TraceContext | None) -> TraceContext:
    """The ids of a span; where the application has no provider, ids of our own, for whoever forwards the journal."""
    context = span.get_span_context()
    if context.is_valid and context.span_id != surroundings.span_id:
        parent = f"{surroundings.span_id:016x}" if surroundings.trace_id == context.trace_id else ""
        return TraceContext(
            trace_id=f"{context.trace_id:032x}",
            span_id=f"{context.span_id:016x}",
            parent_id=parent,
            sampled=context.trace_flags.sampled,
        )
    made = f"{random.getrandbits(64) or 1:016x}"
    if outer is not None:
        trace_id, parent = outer.trace_id, outer.span_id
    elif surroundings.is_valid:
        trace_id, parent = f"{surroundings.trace_id:032x}", f"{surroundings.span_id:016x}"
    else:
        trace_id, parent = f"{random.getrandbits(128) or 1:032x}", ""
    return TraceContext(trace_id=trace_id, span_id=made, parent_id=parent, sampled=False)
