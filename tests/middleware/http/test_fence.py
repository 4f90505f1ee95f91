"""An epoch that was given up, or has ended: its late outcome counts, and nothing more leaves."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

import readmit
from readmit import ReplayRefused
from readmit._model import Observed
from readmit.testing import EffectServer
from tests.middleware.http.wires import Wire, events, span
from tests.middleware.stage import Stage, attributes


async def test_an_epoch_that_was_declared_unknown_sends_nothing_more(wire: Wire) -> None:
    client = wire.client()

    async def send() -> None:
        (waiting,) = wire.stage.guard.pending()
        wire.stage.guard.declare_unknown(waiting.occurrence_id, epoch=1, by="ann")
        await client.post()

    with pytest.raises(ReplayRefused, match="epoch 1 has ended or was given up"):
        await wire.tool(send)()
    assert wire.server.requests == []
    said = attributes(span(wire.stage, "execute_tool send"))
    assert (said["readmit.send.refusal"], said["readmit.send.refusal.rule"]) == ("effect_unknown", "fence")


def test_what_is_learnt_after_the_end_settles_that_epoch(stage: Stage, server: EffectServer) -> None:
    """A tool that gives up on its thread: the answer still counts, and a later send of the thread does not leave."""
    wire = Wire("httpx", stage, server)
    with httpx.Client(base_url=server.url, transport=wire.transport(httpx.HTTPTransport())) as client:
        outcome: list[Any] = []
        gone = threading.Event()
        answered = threading.Event()

        @stage.guard.tool(effect="write", name="send")
        def send() -> None:
            def work() -> None:
                outcome.append(client.post("/messages").status_code)
                answered.set()
                gone.wait(5)
                try:
                    client.post("/more")
                except ReplayRefused as error:
                    outcome.append(error.reason)

            thread = threading.Thread(target=readmit.bind(work))
            thread.start()
            answered.wait(5)
            outcome.append(thread)
            raise TimeoutError

        with pytest.raises(TimeoutError):
            send()
        gone.set()
        outcome[1].join(5)
    assert outcome[0] == 200
    assert outcome[2] == "effect_unknown"
    assert [r.path for r in server.requests] == ["/messages"]


def test_an_answer_that_comes_late(stage: Stage, server: EffectServer) -> None:
    wire = Wire("httpx", stage, server)
    release = threading.Event()

    class Slow(httpx.BaseTransport):
        """Answers when it is told to."""

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            release.wait(5)
            return httpx.Response(200, json={})

    with httpx.Client(transport=wire.transport(Slow()), base_url="http://slow") as client:
        threads: list[threading.Thread] = []

        @stage.guard.tool(effect="write", name="send")
        def send() -> None:
            def work() -> None:
                client.post("/messages")

            thread = threading.Thread(target=readmit.bind(work))
            threads.append(thread)
            thread.start()
            while not readmit.current().sends:
                pass
            raise TimeoutError

        with pytest.raises(TimeoutError):
            send()
        occurrence = stage.waiting().occurrence_id
        assert stage.guard.show(occurrence).effects().state == "unknown"
        release.set()
        threads[0].join(5)
    assert [e.evidence.rule for e in events(stage, Observed, occurrence)] == ["http.2xx"]
    assert stage.guard.show(occurrence).effects().state == "committed"


async def test_it_stays_given_up_however_often_it_tries(wire: Wire) -> None:
    client = wire.client()

    async def send() -> None:
        (waiting,) = wire.stage.guard.pending()
        wire.stage.guard.declare_unknown(waiting.occurrence_id, epoch=1, by="ann")
        for n in range(3):
            with pytest.raises(ReplayRefused, match="epoch 1 has ended or was given up"):
                await client.post(json={"n": n})
        raise ValueError

    with pytest.raises(ValueError):
        await wire.tool(send)()
    assert wire.server.requests == []
