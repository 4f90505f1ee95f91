"""Completed results survive a failed delivery: however it fails, at every moment, in every form, however resumed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import readmit
from readmit import Batch, ReplayRefused
from readmit._digest import digest_bytes
from readmit.testing import EffectServer
from tests.middleware.outbox import CALLS, FORMS, Host, Lost, nothing

OFTEN = ("block", "coroutine", "async generator")
KEPT = digest_bytes("batch", "chat", "ann", "resp-1")[:32]
MOMENTS = ("before", "during", "after")
FAULTS: dict[str, type[BaseException]] = {
    "raised": Lost,
    "invalidated": Lost,
    "cancelled": asyncio.CancelledError,
}


@pytest.fixture
def server() -> Iterator[EffectServer]:
    with EffectServer() as server:
        yield server


def failing(error: type[BaseException], batch: Batch, *, invalidates: bool) -> Callable[[], None]:
    def fault() -> None:
        if invalidates:
            batch.invalidate()
        raise error

    return fault


def resumed(host: Host, batch: Batch, how: str, content: str) -> tuple[Host, Batch]:
    """The batch as the next attempt finds it."""
    if how == "same process":
        return host, batch
    text = batch.dump()
    if how == "JSON":
        return host, host.batch(content, text)
    host.guard.close()
    again = Host(host.folder, host.url)
    return again, again.batch(content)


def check(host: Host, server: EffectServer, batch: Batch, content: str, *, attempts: int) -> None:
    """What must hold in the end, whatever happened."""
    said = Counter(line.split(" ")[0] for line in host.said())
    own = CALLS[content].count("pay")
    assert said == Counter(paid=own, asked=own, published=2, charged=1), host.said()
    assert len({line for line in host.said() if line.startswith("asked")}) == own
    bodies = [effect.body for effect in server.effects]
    assert len(bodies) == attempts
    assert len(set(bodies)) == 1, "not the same bytes"
    assert (batch.state, batch.charged) == ("accepted", 2)
    assert Batch.undelivered(guard=host.guard) == []
    assert host.guard.pending() == []


@pytest.mark.parametrize("how", ["same process", "JSON", "restart"])
@pytest.mark.parametrize("content", CALLS)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", [pytest.param(f, marks=() if f in OFTEN else pytest.mark.slow) for f in FORMS])
def test_a_delivery_that_fails_is_made_again_and_nothing_else(
    tmp_path: Path, server: EffectServer, form: str, fault: str, moment: str, content: str, how: str
) -> None:
    host = Host(tmp_path, server.url)
    with readmit.scope("chat", principal="ann"):
        batch = host.batch(content)
        host.work(batch)
        fails = failing(FAULTS[fault], batch, invalidates=fault == "invalidated")
        faults = {m: fails if m == moment else nothing for m in MOMENTS}
        with pytest.raises(FAULTS[fault]):
            host.deliver(batch, form, faults["before"], faults["during"])
            faults["after"]()
        assert batch.state == ("accepted" if moment == "after" else "offered")
        host, batch = resumed(host, batch, how, content)
        host.work(batch)
        if moment == "after":  # its success was seen: never again
            with pytest.raises(ReplayRefused):
                host.deliver(batch, form, nothing, nothing)
        else:
            host.deliver(batch, form, nothing, nothing)
        check(host, server, batch, content, attempts=2 if moment == "during" else 1)
        assert batch.invalidated == (fault == "invalidated")
    host.guard.close()


@pytest.mark.parametrize("how", ["JSON", "restart"])
@pytest.mark.parametrize("content", CALLS)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("form", ["block", "async generator"])
def test_a_delivery_whose_process_was_killed_is_made_again_and_nothing_else(
    tmp_path: Path, server: EffectServer, form: str, moment: str, content: str, how: str
) -> None:
    program = [sys.executable, "-m", "tests.middleware.outbox", tmp_path, server.url, content, form, moment]
    done = subprocess.run([*map(str, program)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -9, done.stdout + done.stderr
    host = Host(tmp_path, server.url)
    with readmit.scope("chat", principal="ann"):
        assert [b.id for b in Batch.undelivered(guard=host.guard)] == ([] if moment == "after" else [KEPT])
        batch = host.batch(content, (tmp_path / "dump").read_text() if how == "JSON" else None)
        assert batch.id == KEPT
        host.work(batch)
        if moment == "after":
            with pytest.raises(ReplayRefused):
                host.deliver(batch, form, nothing, nothing)
        else:
            host.deliver(batch, form, nothing, nothing)
        check(host, server, batch, content, attempts=2 if moment == "during" else 1)
    host.guard.close()


@pytest.mark.parametrize("form", ["generator", "async generator"])
def test_a_stream_that_nobody_reads_to_its_end_stays_offered(tmp_path: Path, server: EffectServer, form: str) -> None:
    host = Host(tmp_path, server.url)
    with readmit.scope("chat", principal="ann"):
        batch = host.batch("mixed")
        host.work(batch)
        if form == "generator":
            stream = batch.deliver()(lambda outputs: iter(()))  # a plain function is no stream
            assert callable(stream)

            @batch.deliver()
            def items(outputs: object) -> Iterator[int]:
                yield from range(3)

            broken = items()
            assert next(broken) == 0
            broken.close()
        else:

            async def read() -> None:
                @batch.deliver()
                async def items(outputs: object):  # type: ignore[no-untyped-def]
                    for n in range(3):
                        yield n

                broken = items()
                assert await anext(broken) == 0
                await broken.aclose()

            asyncio.run(read())
        assert batch.state == "offered"
        host.deliver(batch, form, nothing, nothing)
        assert batch.state == "accepted"
    host.guard.close()
