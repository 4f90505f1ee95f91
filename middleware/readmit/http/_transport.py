"""Guarded transports: every request that really leaves passes here, also those of auth flows, redirects and retries."""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import httpx
from opentelemetry import trace

from readmit import _drive
from readmit._context import has_context
from readmit._contract import Contract
from readmit._default import default_guard
from readmit._epoch import Epoch, any_in_flight, strayed
from readmit.http._alone import LoneCall, alone, inside
from readmit.http._passing import Passing

if TYPE_CHECKING:
    from readmit._guard import Guard

Effect = Literal["read", "write"]
_log = logging.getLogger("readmit")


class Guarded:
    """What the guarded transports share: whose request it is, and whether it is a call of its own.

    Args:
        inner: the transport below.
        effect: `read` for a client whose requests have no effect on the world: token, search, model endpoints.
        contract: what the service promises.
        guard: by default the one of `configure`. Inside a tool it is the tool's own in any case.

    Raises:
        ValueError: for an effect that no rule knows.
        TypeError: for a contract that is none, or a transport of the other kind.
    """

    asynchronous = False
    lonely = True  # requests outside any tool are guarded; if not, they are only observed

    def __init__(
        self,
        inner: Any,
        *,
        effect: Effect = "write",
        contract: Contract | None = None,
        guard: Guard | None = None,
    ) -> None:
        leaves = "handle_async_request" if self.asynchronous else "handle_request"
        if not callable(getattr(inner, leaves, None)):
            raise TypeError(
                f"{inner!r} has no {leaves}(): GuardedTransport takes a transport of a plain client, "
                "AsyncGuardedTransport one of an async client"
            )
        self._inner = inner
        self._warned = False
        self.declare(effect=effect, contract=contract, guard=guard)

    def declare(self, *, effect: Effect, contract: Contract | None, guard: Guard | None) -> None:
        """States, or states anew, what the client is."""
        if effect not in ("read", "write"):
            raise ValueError(f"effect={effect!r}: write 'read' for a client whose requests have no effect, or 'write'")
        if contract is not None and not isinstance(contract, Contract):
            raise TypeError(f"contract={contract!r}: write a readmit.Contract(…)")
        self._effect, self._contract, self._guard = effect, contract, guard

    @property
    def inner(self) -> Any:
        """The transport below."""
        return self._inner

    def _passing(self, request: Any) -> tuple[Passing, LoneCall | None]:
        guard = self._guard or default_guard()
        passing = Passing(
            request,
            self._inner,
            guard,
            reading=self._effect == "read",
            contract=self._contract,
            asynchronous=self.asynchronous,
        )
        if passing.harmless is not None:
            return passing, None
        if passing.frame.reading is not None:
            self._contradicts(passing, passing.frame.reading)
        elif passing.epoch is None:
            self._misses_context(passing)
        if passing.epoch is not None or not (self.lonely or passing.frame.reading):
            return passing, None
        return passing, alone(passing.facts, guard, self._contract or Contract())

    def _contradicts(self, passing: Passing, tool: str) -> None:
        """A tool that says it only reads, and sends an effect: an error in its declaration."""
        _log.warning(
            "%s is declared effect='read' but sends %s %s. The request is guarded as a write all the same; "
            "declare the tool effect='write', or name the request in its client's contract: reads=(…).",
            tool,
            passing.facts.method,
            passing.facts.url,
        )
        trace.get_current_span().set_attribute("readmit.declaration.conflict", True)
        passing.span.mark({"readmit.declaration.conflict": True})

    def _misses_context(self, passing: Passing) -> None:
        """A plain thread, or a task from before, knows nothing of the tool whose work it does."""
        if has_context() or not any_in_flight():
            return
        if threading.current_thread() is threading.main_thread():
            strayed("http")
            return
        strayed("http", "sends")
        passing.span.mark({"readmit.context": "none"})
        if not self._warned:
            self._warned = True
            _log.warning(
                "%s %s is sent in a thread without context while a guarded tool runs: if it belongs to that tool, "
                "the tool's epoch does not know of it. Start the thread's function through readmit.bind(…).",
                passing.facts.method,
                passing.facts.url,
            )


def _here(epoch: Epoch | None) -> AbstractContextManager[None]:
    return nullcontext()


class GuardedTransport(Guarded, httpx.BaseTransport):
    """Guards what an httpx client sends. Of httpx2 too: the two have the same transports.

    Args:
        inner: the transport below, for instance `httpx.HTTPTransport()`.
        effect: `read` for a client whose requests have no effect on the world: token, search, model endpoints.
        contract: what the service promises.
        guard: by default the one of `configure`. Inside a tool it is the tool's own in any case.

    Raises:
        ReplayRefused: by `handle_request`: the request would repeat an effect without justification. It did not leave.
        RecoveryPending: outside a tool: an earlier equal request was challenged and nobody has signed in since.
        JournalUnavailable: an effectful request cannot be written down. It did not leave.

    Example:
        >>> client = httpx.Client(transport=GuardedTransport(httpx.HTTPTransport(), contract=Contract(rejected=(401,))))
    """

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends one request, if it may leave."""
        if "readmit.guarded" in request.extensions:  # by a transport further out
            response: httpx.Response = self._inner.handle_request(request)
            return response
        passing, call = self._passing(request)
        transmit = _drive.call_body(_here, lambda: self._inner.handle_request(passing.outgoing))

        def send() -> httpx.Response:
            journal = passing.enter()
            sent: httpx.Response = _drive.drive(passing.steps(), journal, transmit)
            return sent

        if call is None:
            return send()
        try:
            response = _drive.drive(call.steps(), call.ports.journal, _drive.call_body(inside, send))
        except BaseException as error:
            call.over(None)
            response = passing.instead(error)
            return response
        passing.when_read(call.over)
        return response

    def __enter__(self) -> GuardedTransport:
        self._inner.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._inner.__exit__(exc_type, exc_value, traceback)

    def close(self) -> None:
        """Closes the transport below."""
        self._inner.close()


class AsyncGuardedTransport(Guarded, httpx.AsyncBaseTransport):
    """As `GuardedTransport`, for asynchronous clients.

    Args:
        inner: the transport below, for instance `httpx.AsyncHTTPTransport()`.
        effect: `read` for a client whose requests have no effect on the world.
        contract: what the service promises.
        guard: by default the one of `configure`.

    Example:
        >>> client = httpx.AsyncClient(transport=AsyncGuardedTransport(httpx.AsyncHTTPTransport()))
    """

    asynchronous = True

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends one request, if it may leave."""
        if "readmit.guarded" in request.extensions:
            response: httpx.Response = await self._inner.handle_async_request(request)
            return response
        passing, call = self._passing(request)
        transmit = _drive.await_body(_here, lambda: self._inner.handle_async_request(passing.outgoing))

        async def send() -> httpx.Response:
            journal = passing.enter()
            sent: httpx.Response = await _drive.drive_async(passing.steps(), journal, transmit)
            return sent

        if call is None:
            return await send()
        try:
            response = await _drive.drive_async(call.steps(), call.ports.journal, _drive.await_body(inside, send))
        except BaseException as error:
            call.over(None)
            response = passing.instead(error)
            return response
        passing.when_read(call.over)
        return response

    async def __aenter__(self) -> AsyncGuardedTransport:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._inner.__aexit__(exc_type, exc_value, traceback)

    async def aclose(self) -> None:
        """Closes the transport below."""
        await self._inner.aclose()
