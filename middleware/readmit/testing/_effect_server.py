"""A real HTTP/1.1 server on loopback that counts effects and can lose, break or refuse its answers."""

from __future__ import annotations

import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import BinaryIO, Literal, NamedTuple

Then = Literal["answer", "close", "reset", "stall", "break_body"]
_REASONS = {
    200: "OK",
    307: "Temporary Redirect",
    401: "Unauthorized",
    422: "Unprocessable Content",
    500: "Server Error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What the server does with one request.

    Args:
        commits: whether the effect takes place, before anything else.
        then: `answer`; `close` or `reset` the connection without a word; `stall` until the client has gone; or answer
            and `break_body` in the middle.
        status: of the answer.
        headers: of the answer, beside `Content-Length`; a name may come twice.
        body: of the answer.

    Example:
        >>> Behaviour(commits=True, then="close").status
        200
    """

    commits: bool = True
    then: Then = "answer"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b"{}"


CHALLENGES = (
    ("WWW-Authenticate", 'Bearer realm="messages", scope="send, read", error="invalid_token"'),
    ("WWW-Authenticate", 'Basic realm="messages"'),
)
ANSWERED = Behaviour()
LOST = Behaviour(then="close")  # the effect is there, the answer is not
RESET = Behaviour(then="reset")
STALLED = Behaviour(then="stall")
BROKEN_BODY = Behaviour(then="break_body", body=b'{"sent": true, "id": 7}')
CHALLENGED = Behaviour(commits=False, status=401, headers=CHALLENGES)
CHALLENGED_LATE = Behaviour(status=401, headers=CHALLENGES)  # the token is checked after the effect
INVALID = Behaviour(commits=False, status=422)
FAILED = Behaviour(status=500)  # after the effect


def redirected(location: str, *, commits: bool = True) -> Behaviour:
    """A 307 to another address, after the effect or before it."""
    return Behaviour(commits=commits, status=307, headers=(("Location", location),))


class Received(NamedTuple):
    """A request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Effect(NamedTuple):
    """An effect that took place. `key` is the idempotency key that came with it."""

    path: str
    body: bytes
    key: str | None


class EffectServer:
    """Counts what really happened, which is the only thing a guard is measured by.

    A safe method (GET, HEAD, OPTIONS, TRACE) and a CONNECT have no effect, whatever the script says.

    Args:
        port: to listen on; by default a free one.
        honours_keys: a repeat under an `Idempotency-Key` that was seen gets the first answer and has no effect; with
            another body it gets a 422.

    Example:
        >>> from urllib.request import Request, urlopen
        >>> with EffectServer() as server:
        ...     status = urlopen(Request(f"{server.url}/messages", b"hello", method="POST")).status
        ...     (status, len(server.effects))
        (200, 1)
    """

    def __init__(self, *, port: int = 0, honours_keys: bool = False) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.url: str = f"http://127.0.0.1:{self.port}"
        self.effects: list[Effect] = []
        self.requests: list[Received] = []
        self._honours_keys = honours_keys
        self._script: dict[str, deque[Behaviour]] = defaultdict(deque)
        self._kept: dict[str, tuple[Received, Behaviour]] = {}
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closing = False

    def script(self, path: str, behaviours: Iterable[Behaviour]) -> None:
        """What is done with the next requests to a path, one after the other; then `ANSWERED`."""
        with self._changed:
            self._script[path].extend(behaviours)

    def wait(self, condition: Callable[[EffectServer], bool], *, seconds: float = 5.0) -> None:
        """Waits until something is true of the server.

        Raises:
            TimeoutError: it did not become true in time.

        Example:
            >>> with EffectServer() as server:
            ...     server.wait(lambda s: not s.effects)
        """
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), seconds):
                raise TimeoutError(f"after {seconds} s: {len(self.requests)} requests, {len(self.effects)} effects")

    def __enter__(self) -> EffectServer:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        with self._changed:
            self._closing = True
            open_now = list(self._connections)
        for connection in open_now:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):  # closing a listener wakes nobody everywhere; a connection does
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        self._listener.close()
        for thread in list(self._threads):
            thread.join(5)

    # -- connections ----------------------------------------------------------------------------------------------

    def _start(self, function: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=function, args=args, name="effect-server", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # it was closed
                return
            with self._changed:
                if self._closing:
                    connection.close()
                    return
                self._connections.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection, connection.makefile("rb") as stream:
                while (request := _read(stream)) is not None and self._respond(connection, request):
                    pass
        except OSError:  # the client has gone, or the server ends
            pass
        finally:
            with self._changed:
                self._connections.discard(connection)

    # -- one request ----------------------------------------------------------------------------------------------

    def _respond(self, connection: socket.socket, request: Received) -> bool:
        """Does what the script says; returns whether the connection goes on."""
        behaviour = self._decide(request)
        if behaviour.then == "stall":
            connection.recv(1)
            return False
        if behaviour.then == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if behaviour.then == "close":
            return False
        reason = _REASONS.get(behaviour.status, "Scripted")
        fields = (*behaviour.headers, ("Content-Length", str(len(behaviour.body))))
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        body = b"" if request.method == "HEAD" else behaviour.body
        if behaviour.then == "break_body":
            body = body[: len(body) // 2]
        connection.sendall(f"HTTP/1.1 {behaviour.status} {reason}\r\n{head}\r\n".encode("latin-1") + body)
        return behaviour.then == "answer"

    def _decide(self, request: Received) -> Behaviour:
        """Takes the next behaviour and lets the effect happen, in one step."""
        key = request.headers.get("idempotency-key")
        path = request.path.partition("?")[0]
        with self._changed:
            self.requests.append(request)
            waiting = self._script[path]
            behaviour = waiting.popleft() if waiting else ANSWERED
            if request.method in ("GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"):
                behaviour = replace(behaviour, commits=False)
            elif self._honours_keys and key is not None and key in self._kept:
                first, answer = self._kept[key]
                same = (first.method, first.path, first.body) == (request.method, request.path, request.body)
                behaviour = replace(answer, commits=False, then="answer") if same else INVALID
            if behaviour.commits:
                self.effects.append(Effect(path, request.body, key))
                if key is not None:
                    self._kept[key] = request, behaviour
            self._changed.notify_all()
        return behaviour


def _read(stream: BinaryIO) -> Received | None:
    """One request; None when the client has closed the connection, or does not speak HTTP."""
    words = stream.readline(65536).decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    method, path, _ = words
    headers: dict[str, str] = {}
    while (field := stream.readline()).strip():
        name, _, value = field.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        return Received(method, path, headers, _chunks(stream))
    return Received(method, path, headers, stream.read(int(headers.get("content-length", "0"))))


def _chunks(stream: BinaryIO) -> bytes:
    body = b""
    while True:
        if not (line := stream.readline()):
            raise ConnectionError("the client went in the middle of its body")
        if not (size := int(line.split(b";")[0], 16)):
            break
        body += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass
    return body


def closed_port() -> int:
    """A port on loopback at which nobody listens: a connection to it is refused.

    Example:
        >>> 0 < closed_port() < 65536
        True
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
