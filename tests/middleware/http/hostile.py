"""A server that can stop, reset, stall or lie at every phase, over HTTP/1.1 and HTTP/2, and counts effects.

Raw sockets for HTTP/1.1; `h2` for HTTP/2 with prior knowledge. Which of the two a client speaks is told from its first
bytes, so one server serves both.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import h2.config
import h2.connection
import h2.events

At = Literal["first_byte", "request_line", "headers", "half_body", "body"]
How = Literal["answer", "close", "reset", "stall", "garbage", "half_head", "interim", "break_body", "rst", "goaway"]
CERTIFICATE = Path(__file__).parent / "localhost.pem"  # with its key, which is good for nothing else
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_READS = (b"GET", b"HEAD", b"OPTIONS", b"TRACE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What is done with one request.

    Args:
        at: how much of the request is read before anything is done.
        effect: whether the effect takes place then.
        how: what follows: an answer, an end, half a head, an interim answer and an end; in HTTP/2 a stream that is
            reset with `code`, or a GOAWAY with `last`.
        status: of an answer.
        headers: of an answer.
        body: of an answer.
        code: of `rst`.
        last: the last stream that a GOAWAY lets through.
        ends: whether the connection is closed after the answer.
        drains: whether what is left of the request is read first.
    """

    at: At = "body"
    effect: bool = True
    how: How = "answer"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b"{}"
    code: int = 0
    last: int = 0
    ends: bool = False
    drains: bool = True


class Hostile:
    """Does what the script says, request by request, then answers 200 after the effect.

    Args:
        tls: whether it speaks TLS, by `CERTIFICATE`.
    """

    def __init__(self, *, tls: bool = False) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
        if self._tls is not None:
            self._tls.load_cert_chain(CERTIFICATE)
            self._tls.set_alpn_protocols(["h2", "http/1.1"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.effects = 0
        self.requests = 0
        self.connections = 0
        self.script: deque[Act] = deque()
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closing = False

    def __enter__(self) -> Hostile:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closing = True
            still_open = list(self._open)
        for connection in still_open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        self._listener.close()
        for thread in list(self._threads):
            thread.join(5)

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, 5), "it did not come to that"

    # -- connections ----------------------------------------------------------------------------------------------

    def _start(self, function: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=function, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                if self._closing:
                    connection.close()
                    return
                self._open.add(connection)
                self.connections += 1
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True) as speaking:
                wire = _Socket(speaking)
                if self.script and self.script[0].at == "first_byte":
                    speaking.recv(1)
                    _leave(speaking, self._take().how)
                elif wire.starts_with(_PREFACE):
                    _Http2(self, wire).run()
                else:
                    while _http1(self, wire):
                        pass
        except OSError:
            pass
        finally:
            with self._changed:
                self._open.discard(connection)

    # -- what happens ---------------------------------------------------------------------------------------------

    def _take(self) -> Act:
        with self._changed:
            return self.script.popleft() if self.script else Act()

    def happens(self, act: Act, method: bytes) -> None:
        """The request was taken in, and may have its effect."""
        with self._changed:
            self.requests += 1
            self.effects += act.effect and method not in _READS
            self._changed.notify_all()


class _Socket:
    """A connection that can be read by lines, by counts, and not at all."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.held = b""

    def starts_with(self, start: bytes) -> bool:
        while len(self.held) < len(start) and start.startswith(self.held):
            if not self.more():
                return False
        return self.held.startswith(start)

    def more(self) -> bytes:
        data = self.connection.recv(65536)
        self.held += data
        return data

    def until(self, mark: bytes) -> bytes:
        while mark not in self.held:
            if not self.more():
                raise ConnectionError
        taken, _, self.held = self.held.partition(mark)
        return taken + mark

    def exactly(self, count: int) -> bytes:
        while len(self.held) < count:
            if not self.more():
                raise ConnectionError
        taken, self.held = self.held[:count], self.held[count:]
        return taken


def _leave(connection: socket.socket, how: str) -> None:
    """Goes without another word: an end, a reset, or a silence until the client has gone."""
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif how == "stall":
        with suppress(OSError):
            while connection.recv(65536):
                pass


# -- HTTP/1.1 -----------------------------------------------------------------------------------------------------


def _http1(server: Hostile, wire: _Socket) -> bool:
    """One request; returns whether the connection goes on."""
    act, line = _peek(server), wire.until(b"\r\n")
    method = line.split(b" ")[0]
    if act.at == "request_line":
        server._take()
        server.happens(act, method)
        _leave(wire.connection, act.how)
        return False
    head = wire.until(b"\r\n\r\n") if not wire.held.startswith(b"\r\n") else wire.exactly(2)
    fields = {k.strip().lower(): v.strip() for k, _, v in (f.partition(b":") for f in head.split(b"\r\n")) if k}
    rest = _Http1Body(wire, fields)
    act = server._take()
    if act.at in ("half_body", "body"):
        rest.read(half=act.at == "half_body")
    server.happens(act, method)
    if act.how in ("close", "reset", "stall", "rst", "goaway"):  # the last two are words of HTTP/2
        _leave(wire.connection, act.how)
        return False
    wire.connection.sendall(_answer1(act, method))
    if act.drains:
        rest.read()
    return act.how == "answer" and not act.ends


def _peek(server: Hostile) -> Act:
    return server.script[0] if server.script else Act()


class _Http1Body:
    def __init__(self, wire: _Socket, fields: dict[bytes, bytes]) -> None:
        self._wire = wire
        self._chunked = fields.get(b"transfer-encoding") == b"chunked"
        self._left = int(fields.get(b"content-length", b"0"))

    def read(self, *, half: bool = False) -> None:
        if self._chunked:
            while size := int(self._wire.until(b"\r\n"), 16):
                self._wire.exactly(size + 2)
                if half:
                    return
            self._wire.until(b"\r\n")
            self._chunked = False
            return
        count = self._left // 2 if half else self._left
        self._left -= count
        while count:
            count -= len(self._wire.exactly(min(count, 65536)))


def _answer1(act: Act, method: bytes) -> bytes:
    if act.how == "garbage":
        return b"\x00\x01 this is no HTTP\r\n\r\n"
    if act.how == "interim":
        return b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
    head = f"HTTP/1.1 {act.status} Scripted\r\nContent-Length: {len(act.body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in act.headers)
    head += "Connection: close\r\n" if act.ends else ""
    if act.how == "half_head":
        return head.encode("latin-1")[: len(head) - 4]
    body = b"" if method == b"HEAD" else act.body
    return head.encode("latin-1") + b"\r\n" + (body[: len(body) // 2] if act.how == "break_body" else body)


# -- HTTP/2 -------------------------------------------------------------------------------------------------------


class _Http2:
    """One connection, its streams one after the other."""

    def __init__(self, server: Hostile, wire: _Socket) -> None:
        self.server = server
        self.wire = wire
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.waiting: dict[int, tuple[Act, bytes]] = {}

    def run(self) -> None:
        self.h2.initiate_connection()
        data, self.wire.held = self.wire.held, b""
        going = True
        while data and going:
            for event in self.h2.receive_data(data):
                going = going and self._handle(event)
            self.flush()
            data = self.wire.connection.recv(65536) if going else b""

    def flush(self) -> None:
        self.wire.connection.sendall(self.h2.data_to_send())

    def _handle(self, event: Any) -> bool:
        if isinstance(event, h2.events.RequestReceived):
            assert event.stream_id is not None and event.headers is not None
            method = next(bytes(v) for k, v in event.headers if k == b":method")
            self.waiting[event.stream_id] = act, _ = self.server._take(), method
            return self._do(event.stream_id) if act.at in ("request_line", "headers") else True
        if isinstance(event, h2.events.DataReceived):
            assert event.stream_id is not None and event.flow_controlled_length is not None
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            half = event.stream_id in self.waiting and self.waiting[event.stream_id][0].at == "half_body"
            return self._do(event.stream_id) if half else True
        if isinstance(event, h2.events.StreamEnded):
            assert event.stream_id is not None
            return self._do(event.stream_id)
        return True

    def _do(self, stream: int) -> bool:
        """What the script says of a stream; returns whether the connection goes on."""
        if stream not in self.waiting:
            return True
        act, method = self.waiting.pop(stream)
        self.server.happens(act, method)
        if act.how in ("close", "reset", "stall"):
            self.flush()
            _leave(self.wire.connection, act.how)
            return False
        if act.how == "rst":
            self.h2.reset_stream(stream, act.code)
            return True
        if act.how == "goaway":
            self.h2.close_connection(act.code, last_stream_id=act.last)
            self.flush()
            return False
        if act.how == "garbage":
            self.wire.connection.sendall(b"\xff" * 64)
            return False
        return self._answer(stream, act)

    def _answer(self, stream: int, act: Act) -> bool:
        if act.how in ("interim", "half_head"):
            self.h2.send_headers(stream, [(":status", "103"), ("link", "</style.css>")])
            self.flush()
            return False
        fields = [(name.lower(), value) for name, value in act.headers]
        self.h2.send_headers(stream, [(":status", str(act.status)), ("content-length", str(len(act.body))), *fields])
        if act.how == "break_body":
            self.h2.send_data(stream, act.body[: len(act.body) // 2])
            self.h2.reset_stream(stream, 2)
        else:
            self.h2.send_data(stream, act.body, end_stream=True)
        self.flush()
        return not act.ends
