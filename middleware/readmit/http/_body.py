"""The body of a response, watched to its end: the effect is known before, but whether the answer arrived is not."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Any

from readmit.http._request import library_of

Over = Callable[[BaseException | None], None]
"""Called once: with None when the body was read or the reader had enough of it, else with what broke it."""


class Body:
    """Stands in for the stream of a response."""

    def __init__(self, stream: Any, over: Over) -> None:
        self._stream = stream
        self._over: list[Over] = [over]
        self._ended = False

    def then(self, over: Over) -> None:
        """One more who wants to know."""
        self._over.append(over)

    def _end(self, broken: BaseException | None) -> None:
        if not self._ended:
            self._ended = True
            for over in self._over:
                over(broken)


class _Sync(Body):
    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except GeneratorExit:
            raise
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    def close(self) -> None:
        """Closes the stream; while an exception is on its way (a body that cannot be decoded), it counts as broken."""
        try:
            self._stream.close()
        finally:
            self._end(sys.exc_info()[1])


class _Async(Body):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._stream:
                yield part
        except GeneratorExit:
            raise
        except BaseException as error:
            self._end(error)
            raise
        self._end(None)

    async def aclose(self) -> None:
        """As `close` of the other."""
        try:
            await self._stream.aclose()
        finally:
            self._end(sys.exc_info()[1])


def watch(response: Any, over: Over) -> Body | None:
    """Watches the body of a response; None, and `over` is called, where it is in memory already."""
    library = library_of(response)
    if library is None or isinstance(response.stream, library.ByteStream):
        over(None)
        return None
    plain = isinstance(response.stream, library.SyncByteStream)
    body: Body = _class(library, plain)(response.stream, over)
    response.stream = body
    return body


@cache
def _class(library: Any, plain: bool) -> type[Body]:
    """Each library asserts that a stream is one of its own."""
    bases = (_Sync, library.SyncByteStream) if plain else (_Async, library.AsyncByteStream)
    return type(bases[0].__name__, bases, {})
