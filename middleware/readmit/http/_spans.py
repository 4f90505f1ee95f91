"""The client span of one request: that of opentelemetry-instrumentation-httpx, or our own where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from readmit._model import EffectState, Evidence
from readmit._telemetry import OpenTelemetrySpans, _open
from readmit.http._request import Facts

Attributes = Mapping[str, Any]


class ClientSpan:
    """Found when the first phase is reported: the instrumentation's span is current then, whichever came first.

    Args:
        spans: of the guard; a span of our own is started there.
        facts: the request.
    """

    def __init__(self, spans: object, facts: Facts) -> None:
        self._spans = spans if isinstance(spans, OpenTelemetrySpans) else None
        self._facts = facts
        self._outside = trace.get_current_span()
        self._around = self._outside if _describes(self._outside, facts) else None
        self._began = self._spans.now() if self._spans is not None else 0
        self._span: Span | None = None
        self._own = False
        self._marks: dict[str, Any] = {}
        self._graded = False

    @_open
    def mark(self, attributes: Attributes) -> None:
        """What the span carries as soon as there is one."""
        self._marks.update(attributes)

    @property
    def found(self) -> bool:
        """Whether it is known which span it is."""
        return self._span is not None

    @property
    def wanted(self) -> bool:
        """Whether anybody would see what is said now."""
        return self._span is not None and self._span.is_recording()

    @_open
    def find(self) -> None:
        """Within a phase of the request: the instrumentation's span, else one of our own."""
        if self._span is not None:
            return
        current = trace.get_current_span()
        if _describes(current, self._facts):
            self._span = current
        elif self._around is not None:
            self._span = self._around
        elif current is not self._outside and not current.is_recording():
            self._span = current  # the instrumentation's, sampled away
        elif is_http_instrumentation_enabled() and self._spans is not None:
            facts = self._facts
            self._span, self._own = self._spans.client(facts.method, _request(facts), self._began), True
        else:
            self._span = trace.INVALID_SPAN
        self._span.set_attributes(self._marks)

    @_open
    def say(self, attributes: Attributes) -> None:
        """Adds what has been learnt, where it can still be seen."""
        if self._span is None:
            self._marks.update(attributes)
        elif self._span.is_recording():
            self._span.set_attributes(dict(attributes))

    def learn(self, evidence: Evidence) -> None:
        """Adds what is known of the effect by now; an attribute cannot be taken back, so a strength is weakened."""
        said = effect(evidence)
        if "readmit.effect.strength" in said:
            self._graded = True
        elif self._graded:
            said["readmit.effect.strength"] = str(evidence.strength)
        self.say(said)

    @_open
    def suppressed(self, attributes: Attributes) -> None:
        """The request does not leave: a span that the instrumentation has already opened says so."""
        if self._around is not None:
            self._around.set_attributes({**self._marks, **attributes})

    @_open
    def end(self, status: int | None, error: BaseException | None, *, instrumented: bool) -> None:
        """The request is over.

        Args:
            status: of the answer.
            error: that came instead.
            instrumented: somebody put headers on the request below: it has a span, though no phase was reported in it.
        """
        if self._span is None and (self._around is not None or not instrumented):
            self.find()
        if self._span is None or not self._own or self._spans is None:
            return
        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if error is not None or (status is not None and status >= 400):
            kind = type(error).__qualname__ if error is not None else str(status)
            self._span.set_attribute("error.type", kind)
            self._span.set_status(Status(StatusCode.ERROR, kind if error is not None else None))
        self._span.end(end_time=self._spans.now())


def effect(evidence: Evidence) -> dict[str, str]:
    """A piece of evidence, as attributes."""
    attributes = {"readmit.effect.state": str(evidence.state), "readmit.effect.rule": evidence.rule}
    if evidence.state is not EffectState.UNKNOWN:
        attributes["readmit.effect.strength"] = str(evidence.strength)
    return attributes


def _request(facts: Facts) -> dict[str, Any]:
    """HTTP semantic conventions for client spans; the query stays off. No header is ever shown."""
    url = facts.request.url
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    attributes: dict[str, Any] = {
        "http.request.method": facts.method,
        "url.full": facts.url,
        "server.address": url.host,
    }
    return attributes if port is None else {**attributes, "server.port": port}


def _describes(span: Span, facts: Facts) -> bool:
    """Whether a span is the client span of this request, and no send has taken it yet."""
    if getattr(span, "kind", None) is not SpanKind.CLIENT or not span.is_recording():
        return False
    attributes: Attributes = getattr(span, "attributes", None) or {}
    method = attributes.get("http.request.method") or attributes.get("http.method")
    shown = urlsplit(str(attributes.get("url.full") or attributes.get("http.url") or ""))
    place = f"{shown.scheme}://{shown.netloc.rpartition('@')[2]}{shown.path}"
    return method in (facts.method, "_OTHER") and place == facts.url and "readmit.send" not in attributes
