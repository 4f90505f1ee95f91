"""What a guarded POST costs beside the same client as OpenTelemetry traces it: `python -m tests.bench.bench_http`."""

from __future__ import annotations

import itertools
import multiprocessing
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider

import readmit
from readmit import Contract
from tests.bench.bare import batched
from tests.bench.figures import Figure, show
from tests.bench.stopwatch import CPU, WALL, take_turns

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_MARK = b"}"  # the last byte of each body
MEMORY = Path("/dev/shm")
Call = Callable[[], object]


def _serve(listener: socket.socket) -> None:
    """Answers every POST of one connection after the other; nothing of it is measured."""
    import threading

    def answer(connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := connection.recv(65536):
                if data.endswith(_MARK):
                    connection.sendall(_ANSWER)

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


@contextmanager
def server() -> Iterator[str]:
    """A server in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(listener,), daemon=True)
        process.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        process.terminate()
        process.join()


@contextmanager
def posting(
    url: str, provider: TracerProvider, contract: Contract | None, guard: readmit.Guard | None
) -> Iterator[Call]:
    """A traced client that posts another body each time; guarded if there is a guard."""
    numbers = itertools.count()
    with httpx.Client(base_url=url) as client:
        HTTPXClientInstrumentor.instrument_client(client, tracer_provider=provider)
        if guard is not None:
            readmit.instrument(client, contract=contract, guard=guard)
        yield lambda: client.post("/messages", json={"number": next(numbers)})


def compared(contract: Contract, place: Path | None, *, clock: Callable[[], int]) -> tuple[float, str]:
    """A guarded POST over the same traced one, in one run."""
    provider = batched()
    with server() as url, tempfile.TemporaryDirectory(dir=place) as folder:
        guard = readmit.Guard(journal=Path(folder) / "readmit.db", tracer_provider=provider)
        with posting(url, provider, contract, guard) as mine, posting(url, provider, None, None) as plain:
            ours, theirs = take_turns(mine, plain, clock=clock, rounds=30, calls=50)
        guard.close()
    provider.shutdown()
    return ours.over(theirs), f"{ours.typical:.0f} µs against {theirs.typical:.0f}"


def many_sends() -> tuple[float, str]:
    """The 2000 sends of one epoch, the last quarter over the first: what every send costs does not grow."""
    import time

    provider = batched()
    place = MEMORY if MEMORY.is_dir() else None
    with server() as url, tempfile.TemporaryDirectory(dir=place) as folder:
        guard = readmit.Guard(journal=Path(folder) / "readmit.db", tracer_provider=provider)
        taken: list[int] = []
        with posting(url, provider, Contract(), guard) as post:

            @guard.tool(effect="write", name="import")
            def load() -> None:
                for _ in range(2000):
                    started = time.process_time_ns()
                    post()
                    taken.append(time.process_time_ns() - started)

            load()
        guard.close()
    provider.shutdown()
    first, last = sum(taken[:500]) / 500_000, sum(taken[-500:]) / 500_000
    return last / first, f"{first:.0f} µs a send, then {last:.0f}"


def figures() -> list[Figure]:
    """All of them."""
    place = MEMORY if MEMORY.is_dir() else None
    reads = compared(Contract(reads=("POST",)), place, clock=CPU)
    latency = compared(Contract(reads=("POST",)), place, clock=WALL)
    writes = compared(Contract(), place, clock=CPU)
    grows = many_sends()
    return [
        Figure("a POST that the contract calls a read, CPU, of a traced one", reads[0], 1.15, "x", reads[1]),
        Figure("the same, wall time", latency[0], 1.15, "x", latency[1]),
        Figure("an effectful POST, CPU, of a traced one", writes[0], 1.4, "x", writes[1]),
        Figure("the last 500 sends of 2000 in one epoch, CPU, of the first 500", grows[0], 1.2, "x", grows[1]),
    ]


if __name__ == "__main__":
    show(figures())
