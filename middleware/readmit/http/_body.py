"""The body of a response, watched to its end: the effect is known before, but whether the answer arrived is not."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Any

from readmit.http._request import library_of

Over = Callable[[BaseException | None], None]
"""Called once: with None when the body was read or the reader had enough of it, else with what broke it."""

_MOST = 65_536  # bytes that are kept of an answer that nobody reads
_LONGEST = 1.0  # seconds spent on that
_log = logging.getLogger("readmit")


class Body:
    """Stands in for the stream of a response.

    Args:
        stream: of the response.
        over: called at its end.
        keeping: whether a short body that is closed unread is read all the same: to be `kept`.
        most: bytes of the body, as it comes, that are held for `passed`.
    """

    def __init__(self, stream: Any, over: Over, *, keeping: bool, most: int) -> None:
        self.kept: bytes | None = None
        self.passed = b""
        self._most = most
        self._stream = stream
        self._over: list[Over] = [over]
        self._ended = False
        self._unread = keeping
        self._handled = sys.exc_info()[1]  # by whoever sent the request: it broke nothing

    def _breaking(self) -> BaseException | None:
        """The exception that is on its way, if one is."""
        error = sys.exc_info()[1]
        return None if error is self._handled else error

    def then(self, over: Over) -> None:
        """One more who wants to know."""
        self._over.append(over)

    def _end(self, broken: BaseException | None) -> None:
        if not self._ended:
            self._ended = True
            for over in self._over:
                over(broken)

    def _pass(self, part: bytes) -> bytes:
        if self._most:
            self.passed += part
            if len(self.passed) > self._most:
                self.passed, self._most = b"", 0
        return part

    def _keep(self, parts: list[bytes], until: float) -> bool:
        """Whether to read on of an answer that nobody reads."""
        return sum(map(len, parts)) <= _MOST and time.monotonic() < until

    def _has(self, parts: list[bytes]) -> None:
        if sum(map(len, parts)) <= _MOST:
            self.kept = b"".join(parts)
            if self._most:
                self.passed = self.kept


class _Sync(Body):
    def __iter__(self) -> Iterator[bytes]:
        self._unread = False
        try:
            for part in self._stream:
                yield self._pass(part) if self._most else part
        except GeneratorExit:
            raise
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    def close(self) -> None:
        """Closes the stream; while an exception is on its way (a body that cannot be decoded), it counts as broken."""
        try:
            try:
                if self._unread:
                    self._drain()
            finally:
                self._stream.close()
        finally:
            self._end(self._breaking())

    def _drain(self) -> None:
        self._unread = False
        parts: list[bytes] = []
        until = time.monotonic() + _LONGEST
        try:
            for part in self._stream:
                parts.append(part)
                if not self._keep(parts, until):
                    return
        except Exception:
            _log.debug("The body of an answer that nobody reads broke.", exc_info=True)
            return
        self._has(parts)


class _Async(Body):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._unread = False
        try:
            async for part in self._stream:
                yield self._pass(part) if self._most else part
        except GeneratorExit:
            raise
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    async def aclose(self) -> None:
        """As `close` of the other."""
        try:
            try:
                if self._unread:
                    await self._drain()
            finally:
                await self._stream.aclose()
        finally:
            self._end(self._breaking())

    async def _drain(self) -> None:
        self._unread = False
        parts: list[bytes] = []
        until = time.monotonic() + _LONGEST
        try:
            async for part in self._stream:
                parts.append(part)
                if not self._keep(parts, until):
                    return
        except Exception:
            _log.debug("The body of an answer that nobody reads broke.", exc_info=True)
            return
        self._has(parts)


def watch(response: Any, over: Over, *, most: int = 0) -> Body | None:
    """Watches the body of a response; None, and `over` is called, where it is in memory already.

    Args:
        response: its stream is replaced.
        over: called when the body is over.
        most: bytes of it that are held for `passed`; a longer one is not.
    """
    library = library_of(response)
    if library is None or isinstance(response.stream, library.ByteStream):
        over(None)
        return None
    plain = isinstance(response.stream, library.SyncByteStream)
    keeping = not 200 <= response.status_code < 300 and _short(response)
    body: Body = _class(library, plain)(response.stream, over, keeping=keeping, most=most)
    response.stream = body
    return body


def _short(response: Any) -> bool:
    """Whether the peer says that its answer is short: else a reader who has had enough would wait for it."""
    declared = response.headers.get("content-length", "")
    return declared.isascii() and declared.isdigit() and int(declared) <= _MOST


@cache
def _class(library: Any, plain: bool) -> type[Body]:
    """Each library asserts that a stream is one of its own."""
    bases = (_Sync, library.SyncByteStream) if plain else (_Async, library.AsyncByteStream)
    return type(bases[0].__name__, bases, {})
