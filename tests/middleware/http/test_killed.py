"""The process is killed while its request is under way: the journal knows that something may have left."""

from __future__ import annotations

import httpx
import pytest

import readmit
from readmit import ReplayRefused
from readmit._model import SendStarted
from readmit.testing import EffectServer
from tests.middleware.http.test_keys import KEYED
from tests.middleware.http.wires import NO_CERTIFICATES, events, justifications
from tests.middleware.stage import Stage, killed

SCRIPT = """
import os, signal, sys
from datetime import timedelta
import httpx, readmit

journal, url, phase, keyed = sys.argv[1:]
guard = readmit.Guard(journal=journal)
contract = readmit.Contract(idempotency_key="Idempotency-Key", key_lifetime=timedelta(hours=24)) if keyed else None
client = readmit.instrument(httpx.Client(base_url=url), contract=contract, guard=guard)

def trace(name, info):
    if name == phase:
        os.kill(os.getpid(), signal.SIGKILL)

@guard.tool(effect="write", name="send")
def send(text):
    client.post("/messages", json={"text": text}, extensions={"trace": trace})

send("hello")
"""
LAST_BYTE, STATUS_LINE = "http11.send_request_body.complete", "http11.receive_response_headers.complete"


@pytest.mark.parametrize("phase", [LAST_BYTE, STATUS_LINE])
@pytest.mark.parametrize("keyed", [False, True], ids=["no key", "key"])
def test_what_may_have_left_is_not_sent_again(filed: Stage, phase: str, keyed: bool) -> None:
    with EffectServer(honours_keys=True) as server:
        killed(SCRIPT, str(filed.journal), server.url, phase, "yes" if keyed else "")
        server.wait(lambda s: len(s.effects) == 1)
        with httpx.Client(base_url=server.url, verify=NO_CERTIFICATES) as client:
            readmit.instrument(client, contract=KEYED if keyed else None, guard=filed.guard)

            @filed.guard.tool(effect="write", name="send")
            def send(text: str) -> int:
                return client.post("/messages", json={"text": text}).status_code

            (pending,) = filed.guard.pending()
            assert len(events(filed, SendStarted, pending.occurrence_id)) == 1
            if keyed:
                filed.clock.now = _later(filed, pending.occurrence_id)
                assert send("hello") == 200
                assert justifications(filed) == ["idempotency_key"]
                assert len({r.headers["idempotency-key"] for r in server.requests}) == 1
            else:
                with pytest.raises(ReplayRefused):
                    send("hello")
                assert len(server.requests) == 1
        assert len(server.effects) == 1


def _later(stage: Stage, occurrence: str) -> int:
    """The killed process had a real clock."""
    return stage.guard.show(occurrence).admissions[-1].at + 1_000_000
