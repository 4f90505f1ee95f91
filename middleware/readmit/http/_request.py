"""One request, as the rules see it: where it goes, its digests, what it carries, and a copy that may be changed."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Collection, MutableMapping
from dataclasses import dataclass
from hashlib import sha256
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote_plus

from readmit._digest import digest_bytes

if TYPE_CHECKING:
    from readmit._epoch import Epoch, Send

_TRAIL = "readmit.trail"
_GUARDED = "readmit.guarded"
_FORM = 16_384  # bytes; a token request is short
_LOGINS = ("authorization", "proxy-authorization", "cookie")


class Request(Protocol):
    """A request of httpx or httpx2."""

    method: str
    url: Any
    headers: Any
    stream: Any
    extensions: MutableMapping[str, Any]

    @property
    def content(self) -> bytes:
        """The body, where it is in memory."""


@dataclass(frozen=True, slots=True)
class Trail:
    """Left on a request that was sent, and carried on by what httpx makes of it: a redirect, an auth flow's repeat."""

    request: weakref.ref[Request]
    send: Send
    epoch: Epoch


def library_of(value: object) -> ModuleType | None:
    """The library, httpx or httpx2, by the classes of a request or response."""
    for cls in type(value).__mro__:
        root = cls.__module__.partition(".")[0]
        if root in ("httpx", "httpx2"):
            return sys.modules.get(root)
    return None


def _lasting(query: bytes, volatile: Collection[str]) -> bytes:
    fields = query.split(b"&")
    return b"&".join(f for f in fields if unquote_plus(f.partition(b"=")[0].decode("latin-1")) not in volatile)


class Facts:
    """What the rules need of a request.

    Args:
        request: it is only read; `copy` is what may be changed.
        secret: makes the digests an HMAC.
        volatile: query parameters that make no other request of it.
    """

    def __init__(self, request: Request, secret: bytes | None, volatile: Collection[str] = ()) -> None:
        self.request = request
        self.method = request.method.upper()
        url = request.url
        path, _, query = url.raw_path.partition(b"?")
        self.path: str = path.decode("latin-1")
        self.origin = f"{url.scheme}://{url.netloc.decode('latin-1')}"
        self.url = f"{self.origin}{self.path}"  # without the query, which may hold what is nobody's business
        self.query: bytes = _lasting(query, volatile) if volatile else query
        self._secret = secret

    def body(self) -> bytes | None:
        """The body, None for one that is streamed."""
        try:
            return self.request.content
        except RuntimeError:  # RequestNotRead of either library
            library, stream = library_of(self.request), self.request.stream
            in_memory = library is not None and isinstance(stream, library.ByteStream)  # a redirect carries it so
            return b"".join(stream) if in_memory else None

    def asks_for_a_token(self) -> bool:
        """Whether it is a token request, as auth flows make them: RFC 6749 sections 4 and 6, a form with a grant."""
        form = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.method != "POST" or form != "application/x-www-form-urlencoded":
            return False
        body = self.body() or b""
        return len(body) <= _FORM and any(field.startswith(b"grant_type=") for field in body.split(b"&"))

    def route(self) -> str:
        """The digest of method and address. The query is left out: one that holds a time would hide a repeat."""
        return digest_bytes("route", self.method, self.url, secret=self._secret)

    def digest(self, body: bytes | str) -> str:
        """The digest of method, whole URL and body, without what is volatile in the query."""
        return digest_bytes("request", self.method, self.url, self.query, body, secret=self._secret)

    def key_digest(self, key: str) -> str:
        """The digest of an idempotency key, which is what is kept of it."""
        return digest_bytes("key", key, secret=self._secret)

    def login(self) -> str:
        """A fingerprint of the credentials it carries, to be compared in memory."""
        headers = self.request.headers
        carried = "\0".join(f"{name}:{headers.get(name, '')}" for name in _LOGINS)
        return sha256(carried.encode("utf-8", "surrogatepass")).hexdigest()

    def trail(self) -> Trail | None:
        """What an earlier send has left, on this request or on the one it was made from."""
        found = self.request.extensions.get(_TRAIL)
        return found if isinstance(found, Trail) else None

    def mark(self, send: Send, epoch: Epoch) -> None:
        """Leaves a trail. It goes with what is made of the request, and never onto the wire."""
        self.request.extensions[_TRAIL] = Trail(weakref.ref(self.request), send, epoch)

    @property
    def guarded(self) -> bool:
        """Whether a guarded transport further out has it in hand."""
        return _GUARDED in self.request.extensions

    def copy(self, trace: Any) -> Any:
        """A request for the transport below: the caller's own stays as it is, so that it can be sent again."""
        request = object.__new__(type(self.request))
        request.__dict__.update(self.request.__dict__)
        request.extensions = {**self.request.extensions, "trace": trace, _GUARDED: True}
        return request

    def streamed_digest(self, body: str) -> str:
        """The digest of method, whole URL and a body that was digested while it left."""
        return digest_bytes("streamed", self.method, self.url, self.query, body, secret=self._secret)

    @property
    def secret(self) -> bytes | None:
        """Makes the digests an HMAC."""
        return self._secret
