"""The body of a request that is streamed: digested while it is sent, never held, never read twice."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Iterator
from functools import cache
from hashlib import sha256
from typing import Any

from readmit.http._request import library_of


class Upload:
    """Stands in for the stream of a request.

    Attributes:
        size: bytes that were handed to the transport.
        whole: whether they were all.
    """

    def __init__(self, stream: Any, secret: bytes | None) -> None:
        self.size = 0
        self.whole = False
        self._stream = stream
        self._secret = secret
        self._state: Any = None

    def digest(self) -> str:
        """The digest of a body that was handed over whole; empty of any other."""
        return self._state.hexdigest() if self.whole else ""

    def _begin(self) -> None:
        self.size, self.whole = 0, False
        self._state = sha256() if self._secret is None else hmac.new(self._secret, digestmod="sha256")

    def _pass(self, part: bytes) -> bytes:
        self._state.update(part)
        self.size += len(part)
        return part


class _Sync(Upload):
    def __iter__(self) -> Iterator[bytes]:
        self._begin()
        for part in self._stream:
            yield self._pass(part)
        self.whole = True

    def close(self) -> None:
        """Closes the stream."""
        self._stream.close()


class _Async(Upload):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._begin()
        async for part in self._stream:
            yield self._pass(part)
        self.whole = True

    async def aclose(self) -> None:
        """Closes the stream."""
        await self._stream.aclose()


def digesting(request: Any, secret: bytes | None, *, asynchronous: bool) -> Upload:
    """Puts itself between a request's body and whoever sends it."""
    upload: Upload = _class(library_of(request), asynchronous)(request.stream, secret)
    request.stream = upload
    return upload


@cache
def _class(library: Any, asynchronous: bool) -> type[Any]:
    """Each library asserts that a stream is one of its own."""
    bases = (_Async, library.AsyncByteStream) if asynchronous else (_Sync, library.SyncByteStream)
    return type(bases[0].__name__, bases, {})
