"""The MCP client's own sign-in, with its real package: its auth flow posts the tool call again by itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlparse

import httpx2
import pytest
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

import readmit
from readmit import Contract, RecoveryPending
from readmit.testing import Behaviour, EffectServer
from tests.middleware.stage import Stage

CALLBACK = "http://localhost:1/callback"
CHECKS_FIRST = Contract(rejected=(401,), reads=("/register", "/token"))


class Storage:
    """Where the provider keeps what it was given."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def provider(url: str) -> OAuthClientProvider:
    """One whose user signs in at once."""
    asked: list[str] = []

    async def redirect(address: str) -> None:
        asked.extend(parse_qs(urlparse(address).query)["state"])

    async def signed_in() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code="code", state=asked[-1])

    return OAuthClientProvider(
        server_url=f"{url}/mcp",
        client_metadata=OAuthClientMetadata(client_name="test", redirect_uris=[AnyUrl(CALLBACK)]),
        storage=Storage(),
        redirect_handler=redirect,
        callback_handler=signed_in,
    )


def says(document: dict[str, Any], status: int = 200) -> Behaviour:
    return Behaviour(
        commits=False,
        status=status,
        headers=(("Content-Type", "application/json"),),
        body=json.dumps(document).encode(),
    )


def authorises(server: EffectServer, *, after: bool) -> None:
    """An MCP server that wants a sign-in for its first call, before or after it has acted, and who signs in."""
    url = server.url
    challenge = ("WWW-Authenticate", f'Bearer resource_metadata="{url}/resource"')
    server.script("/mcp", [Behaviour(commits=after, status=401, headers=(challenge,))])
    server.script("/resource", [says({"resource": f"{url}/mcp", "authorization_servers": [url]})])
    endpoints = {f"{name}_endpoint": f"{url}/{path}" for name, path in ENDPOINTS.items()}
    metadata = {"issuer": url, "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
    server.script("/.well-known/oauth-authorization-server", [says(metadata | endpoints)])
    registered = {"client_id": "id", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    server.script("/register", [says(registered, 201)])
    server.script("/token", [says({"access_token": "token", "token_type": "Bearer", "expires_in": 3600})])


ENDPOINTS = {"authorization": "authorize", "token": "token", "registration": "register"}


@pytest.fixture
async def client(server: EffectServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, auth=provider(server.url)) as client:
        yield client


def calling(stage: Stage, client: httpx2.AsyncClient) -> Any:
    @stage.guard.tool(effect="write", name="call")
    async def call() -> int:
        answer = await client.post("/mcp", json={"method": "tools/call"})
        return answer.raise_for_status().status_code

    return call


@pytest.mark.parametrize("after", [True, False], ids=["after it acted", "before it acts"])
async def test_a_sign_in_by_itself_repeats_nothing(
    stage: Stage, server: EffectServer, client: httpx2.AsyncClient, after: bool
) -> None:
    """It signs in and wants to post again; the caller gets the first answer, its challenges are kept."""
    readmit.instrument(client, guard=stage.guard)
    call = calling(stage, client)
    authorises(server, after=after)
    with pytest.raises(httpx2.HTTPStatusError, match="401"):
        await call()
    assert len([r for r in server.requests if r.path == "/mcp"]) == 1
    assert [effect.path for effect in server.effects] == ["/mcp"] * after
    with pytest.raises(RecoveryPending) as waiting:
        await call()
    assert [challenge.scheme.lower() for challenge in waiting.value.challenges] == ["bearer"]
    assert f"{server.url}/resource" in waiting.value.challenges[0].raw
    stage.guard.authenticated(principal=None)
    with pytest.raises(readmit.ReplayRefused):
        await call()
    assert [effect.path for effect in server.effects] == ["/mcp"] * after


async def test_a_service_that_checks_tokens_first_is_called_again(
    stage: Stage, server: EffectServer, client: httpx2.AsyncClient
) -> None:
    """Not blanket blocking: the contract says that the 401 came before the effect."""
    readmit.instrument(client, contract=CHECKS_FIRST, guard=stage.guard)
    authorises(server, after=False)
    assert await calling(stage, client)() == 200
    assert [effect.path for effect in server.effects] == ["/mcp"]
    assert [r.path for r in server.requests if r.method == "POST"] == ["/mcp", "/register", "/token", "/mcp"]
    assert stage.guard.pending() == []
