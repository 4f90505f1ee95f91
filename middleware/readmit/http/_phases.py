"""How far a request got: read from the `trace` request extension, not guessed from an exception's class.

httpcore and httpcore2 report the same phases. Source: https://www.encode.io/httpcore/extensions/#trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import wrapt

from readmit._evidence import Seen
from readmit._model import Evidence
from readmit.http import _challenges

_STOCK = frozenset({"httpx._transports.default", "httpx2._transports.default"})
_PATIENCE = 16  # times a repeat that may not leave gets the failure of the first
_CHAIN = 8  # exceptions looked at between the one a transport raised and the one it comes from


class Phases:
    """What was reported of one request. A request can leave more than once: below a transport that retries."""

    def __init__(self, method: str) -> None:
        self.reported = False
        self.started = False
        self.complete = False
        self.repeated = False
        self.status: int | None = None
        self.fields: list[tuple[bytes, bytes]] = []
        self._method = method.encode()
        self._tunnel = False
        self._stream: int | None = None
        self._failure: BaseException | None = None
        self._suppressed = 0
        self._local = False

    def note(self, name: str, info: Mapping[str, Any]) -> bool:
        """Takes one event, for instance `http11.send_request_headers.started`.

        Returns:
            Whether the request is about to leave once more.
        """
        self.reported = True
        _, _, event = name.partition(".")
        if event == "send_request_headers.started":
            return self._departs(info)
        if event.endswith(".failed"):
            self._fails(info["exception"], writing=name == "http11.send_request_headers.failed")
        elif not self._tunnel:
            if event == "send_request_body.complete":
                self.complete = True
            elif event == "receive_response_headers.complete":
                self._answered(info["return_value"])
        return False

    def _departs(self, info: Mapping[str, Any]) -> bool:
        request = info.get("request")
        self._tunnel = getattr(request, "method", None) == b"CONNECT" and self._method != b"CONNECT"
        if self._tunnel:  # a proxy is asked for a way; nothing of ours leaves
            return False
        self._stream = info.get("stream_id")
        if not self.started:
            self.started = True
            return False
        return True

    def _fails(self, error: BaseException, *, writing: bool) -> None:
        self._failure, kind = error, type(error).__name__
        if kind == "ConnectionNotAvailable":  # a GOAWAY let it not through, and the pool starts over
            self.started = self.repeated
        elif writing and kind == "LocalProtocolError":  # what cannot be written in HTTP/1.1 is refused before it is
            self._local, self.started = not self.repeated, self.repeated

    def _answered(self, value: tuple[Any, ...]) -> None:
        status, fields = (value[1], value[3]) if len(value) == 4 else value  # HTTP/1.1, HTTP/2
        if status >= 200:
            self.status, self.fields = status, fields

    @property
    def failure(self) -> BaseException | None:
        """The exception that was reported last."""
        return self._failure

    def failure_again(self) -> BaseException | None:
        """The failure that a repeat gets which may not leave; None after an answer, or if the loop never ends."""
        self._suppressed += 1
        return self._failure if self.status is None and self._suppressed <= _PATIENCE else None

    def answered_unseen(self) -> None:
        """An answer came though this request was seen to leave and to fail: it left once more without being seen."""
        if self.started and self._failure is not None and self.status is None:
            self.repeated = True

    def again(self, *, settled: bool) -> None:
        """It leaves once more; `settled`: the time before is known to have had no effect."""
        self.repeated = self.repeated or not settled
        self.complete, self.status, self._failure = False, None, None

    def seen(
        self,
        *,
        after_unknown: bool,
        known: bool,
        claim: Evidence | None = None,
        error: BaseException | None = None,
    ) -> Seen:
        """What is known by now.

        Args:
            after_unknown: an earlier send of the occurrence has an unknown effect.
            known: the phases can be trusted, see `reports` and `explains`.
            claim: what the contract says of the exception.
            error: the exception.
        """
        last, reset = self._said_by_peer(error)
        return Seen(
            status=self.status,
            phases=known,
            started=self.started or self.repeated,
            complete=self.complete,
            challenged=self.status is not None and _challenges.challenged(self.status, self.fields),
            after_unknown=after_unknown or self.repeated,
            reset=None if self.repeated else reset,
            stream=self._stream,
            last_stream=None if self.repeated else last,
            claim=claim,
            local=self._local,
        )

    def _said_by_peer(self, error: BaseException | None) -> tuple[int | None, int | None]:
        """The last stream of a GOAWAY, or the code of a reset stream: httpcore raises with the event that ended it.

        A GOAWAY that came while another request was reading is not in the failure that was reported, but in what is
        raised instead of it.
        """
        for failure in (self._failure, *_origins(error)):
            event = failure.args[0] if failure is not None and failure.args else None
            if (last := getattr(event, "last_stream_id", None)) is not None:
                return last, None
            ours = self._stream is not None and getattr(event, "stream_id", None) == self._stream
            if ours and (code := getattr(event, "error_code", None)) is not None:
                return None, code
        return None, None

    def explains(self, error: BaseException | None) -> bool:
        """Whether the reported failure is where this exception comes from."""
        return self._failure is not None and any(e is self._failure for e in _origins(error))


def _origins(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those it was raised from.

    Not those in whose handling it was raised: a retry in an `except` block has the failure of another request there.
    """
    for _ in range(_CHAIN):
        if error is None:
            return
        yield error
        error = error.__cause__


def reports(transport: object) -> bool:
    """Whether a transport is known to report every phase.

    Those of httpx and httpx2 are, also as OpenTelemetry wraps them, but not if another function stands in their place.
    """
    for holder in (transport, *type(transport).__mro__):
        for name in ("handle_request", "handle_async_request"):
            if (method := getattr(holder, "__dict__", {}).get(name)) is not None:
                while isinstance(method, wrapt.ObjectProxy):
                    method = method.__wrapped__
                return not hasattr(method, "__wrapped__") and getattr(method, "__module__", None) in _STOCK
    return False
