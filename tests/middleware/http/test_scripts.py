"""Whatever a server does in whatever order: one effect at most, and nothing is called harmless that was not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import readmit
from readmit.testing import (
    ANSWERED,
    BROKEN_BODY,
    CHALLENGED,
    CHALLENGED_LATE,
    FAILED,
    INVALID,
    LOST,
    RESET,
    Behaviour,
    EffectServer,
    redirected,
)
from tests.middleware.http.test_resend import auth_of
from tests.middleware.http.wires import NO_CERTIFICATES, Wire
from tests.middleware.stage import Stage

BEHAVIOURS = [
    ANSWERED,
    BROKEN_BODY,
    CHALLENGED,
    CHALLENGED_LATE,
    FAILED,
    INVALID,
    LOST,
    RESET,
    redirected("/elsewhere"),
    redirected("/elsewhere", commits=False),
    Behaviour(commits=False, then="close"),
    Behaviour(commits=False, status=409),
    Behaviour(commits=False, status=503),
    Behaviour(commits=False, status=429),
]
scripts = st.lists(st.sampled_from(BEHAVIOURS), max_size=4)
HARMLESS = {"not_sent", "rejected"}


def told(call: Callable[..., Any], *args: Any) -> bool:
    """Whether the caller knows by now that the effect is there: then a further call is meant."""
    try:
        call(*args)
    except readmit.Refused as refused:
        return refused.reason == "already_committed"
    except httpx.HTTPError:
        return False
    return True


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=scripts, second=scripts, tries=st.integers(1, 3), calls=st.integers(1, 3), login=st.booleans())
def test_one_effect_at_most(
    first: list[Behaviour], second: list[Behaviour], tries: int, calls: int, login: bool, caplog: Any
) -> None:
    caplog.set_level(logging.ERROR, "readmit")
    stage = Stage()
    with EffectServer() as server:
        server.script("/messages", first)
        server.script("/elsewhere", second)
        auth = auth_of(Wire("httpx", stage, server), "old", "new")
        with httpx.Client(base_url=server.url, auth=auth, follow_redirects=True, verify=NO_CERTIFICATES) as client:
            readmit.instrument(client, guard=stage.guard)

            @stage.guard.tool(effect="write", name="send")
            def send(text: str) -> None:
                for left in range(tries, 0, -1):
                    try:
                        client.post("/messages", json={"text": text}).raise_for_status()
                        return
                    except httpx.HTTPError:
                        if left == 1:
                            raise

            for _ in range(calls):
                if told(send, "hello"):
                    break
                states = {head.effects().state for head in stage.heads()}
                assert not server.effects or states - HARMLESS, "all is called harmless, and it was not"
                if login:
                    stage.guard.authenticated(principal=None)
            assert len(server.effects) <= 1


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=scripts, second=scripts, calls=st.integers(1, 4), login=st.booleans())
def test_one_effect_at_most_outside_tools(
    first: list[Behaviour], second: list[Behaviour], calls: int, login: bool, caplog: Any
) -> None:
    """A retry loop around `client.post` that goes on until it has an answer that says yes."""
    caplog.set_level(logging.ERROR, "readmit")
    stage = Stage()
    with EffectServer() as server:
        server.script("/messages", first)
        server.script("/elsewhere", second)
        auth = auth_of(Wire("httpx", stage, server), "old", "new")
        with httpx.Client(base_url=server.url, auth=auth, follow_redirects=True, verify=NO_CERTIFICATES) as client:
            readmit.instrument(client, guard=stage.guard)
            for _ in range(calls):
                if told(lambda: client.post("/messages", json={"text": "hello"}).raise_for_status()):
                    break
                if login:
                    stage.guard.authenticated(principal=None)
        assert len(server.effects) <= 1
