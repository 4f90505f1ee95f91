"""The script, played once with the guarded tool and once with its twin."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

import readmit
from readmit._guard import Guard
from readmit._operator import Pending
from readmit.demo import _sides
from readmit.demo._narrator import Narrator
from readmit.demo._report import LEFT_ASKING, LEFT_UNKNOWN, DemoReport
from readmit.testing import LOST, EffectServer, closed_port

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from readmit_analysis import Finding

OPERATOR = "carol"


def run_demo(directory: Path | None = None, *, quiet: bool = False) -> DemoReport:
    """Plays the demo: two servers on loopback, a journal, traces, and their analysis.

    Args:
        directory: where everything is written, made if missing; what an earlier demo left there stays, and this one
            gets a folder of its own below. By default a new temporary folder.
        quiet: tell nothing.

    Returns:
        What the servers counted, what the analysis found, and where it all is.

    Raises:
        ModuleNotFoundError: the extras `otlp` and `analysis` (and `cli`, to tell it) are not installed.
        OSError: the directory cannot be written.

    Example:
        >>> report = run_demo(quiet=True)
        >>> report.line
        'guarded 1, unguarded 2'
    """
    began = time.monotonic()
    _needs()
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider, sampling

    import readmit_exporters

    folder = _folder(directory)
    narrator = Narrator() if quiet else _terminal()
    narrator.opens(folder)
    resource = Resource.create({SERVICE_NAME: "readmit-demo"})
    provider = TracerProvider(sampler=sampling.ALWAYS_ON, resource=resource, shutdown_on_exit=False)
    exporters = readmit_exporters.configure(files=folder / "traces", tracer_provider=provider)
    guard = Guard(journal=folder / "readmit.db", tracer_provider=provider)
    try:
        with _unheard():
            counts, occurrence_id = _play(guard, provider, narrator)
            _goes_straight_through(guard, provider, narrator)
            left = _leaves_open(guard, provider, narrator)
    finally:
        guard.close()
        exporters.shutdown()
    findings = _analysed(folder / "traces")
    report = DemoReport(
        directory=folder,
        journal=folder / "readmit.db",
        traces=folder / "traces",
        guarded=counts[0],
        unguarded=counts[1],
        findings=findings,
        occurrence_id=occurrence_id,
        left=left,
        seconds=time.monotonic() - began,
    )
    narrator.analysed(report)
    narrator.closes(report)
    return report


def _play(guard: Guard, provider: TracerProvider, narrator: Narrator) -> tuple[tuple[int, int], str]:
    """The call, the login, the call again; then a person settles it."""
    with _sides.guarded(guard, provider) as ours, _sides.unguarded(provider) as theirs:
        first, twin = ours.call(), theirs.call()
        (open_call,) = guard.pending()
        head = guard.show(open_call.occurrence_id)
        narrator.first_call(first, twin, head)

        guard.authenticated(principal=_sides.PRINCIPAL, credential={"subject": _sides.PRINCIPAL, "issuer": "demo"})
        narrator.login(guard.show(head.id))

        narrator.repeat(ours.call(), theirs.call(), guard.show(head.id))

        receipt = f"msg-1 to {_sides.TO}"
        found = readmit.Present(receipt, result="msg-1")
        guard.reconcile(head.id, found, epoch=open_call.epoch, by=OPERATOR)
        narrator.settled(ours.call(), guard.show(head.id), receipt, by=OPERATOR)
        return (len(ours.server.effects), len(theirs.server.effects)), head.id


def _goes_straight_through(guard: Guard, provider: TracerProvider, narrator: Narrator) -> None:
    """The other half of the promise: a call that provably never left needs nobody."""
    port = closed_port()
    with _sides.client_of(f"http://127.0.0.1:{port}", provider) as client:
        readmit.instrument(client, guard=guard)

        @guard.tool(effect="write", name="post_status")
        def post_status(text: str) -> int:
            return client.post("/status", json={"text": text}).raise_for_status().status_code

        with readmit.scope("demo-guarded", principal=_sides.PRINCIPAL):
            try:
                post_status("all well")
            except httpx.ConnectError as error:
                refused: Exception = error
            (waiting,) = guard.pending()
            with EffectServer(port=port) as server:
                status = post_status("all well")
                count = len(server.effects)
    narrator.straight_through(refused, guard.show(waiting.occurrence_id), status, count)


def _leaves_open(guard: Guard, provider: TracerProvider, narrator: Narrator) -> tuple[Pending, ...]:
    """For whoever wants to try the commands: an effect that nobody has looked for, and a request without a verdict."""
    with EffectServer() as server, _sides.client_of(server.url, provider) as client:
        server.script("/receipts", [LOST])
        readmit.instrument(client, guard=guard)

        @guard.tool(effect="write", name=LEFT_UNKNOWN)
        def send_receipt(order: str) -> int:
            return client.post("/receipts", json={"order": order}).raise_for_status().status_code

        @guard.tool(effect="write", name=LEFT_ASKING, approval=True)
        def close_account(account: str) -> int:
            return client.post("/closings", json={"account": account}).raise_for_status().status_code

        with readmit.scope("demo-left-open", principal=_sides.PRINCIPAL):
            with suppress(httpx.TransportError):
                send_receipt("order-1001")
            with suppress(readmit.ApprovalRequired):
                close_account("acme")
    left = tuple(guard.pending())
    narrator.left_open(left)
    return left


def _terminal() -> Narrator:
    from rich.console import Console

    from readmit.demo._terminal import Terminal

    return Terminal(Console(highlight=False))


def _analysed(traces: Path) -> tuple[Finding, ...]:
    import readmit_analysis

    with readmit_analysis.load(traces) as loaded:
        return tuple(loaded.findings())


def _needs() -> None:
    """Everything that is optional, before anything is written."""
    import duckdb  # noqa: F401
    import opentelemetry.exporter.otlp.json.file  # noqa: F401


def _folder(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="readmit-demo-"))
    directory = Path(directory).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if not any((directory / name).exists() for name in ("readmit.db", "traces")):
        return directory
    return Path(tempfile.mkdtemp(prefix="run-", dir=directory))


@contextmanager
def _unheard() -> Iterator[None]:
    """Refusals are warnings of the library; here they are the story, and told as that."""
    logger = logging.getLogger("readmit")
    handler, propagate = logging.NullHandler(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = propagate
        logger.removeHandler(handler)
