from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from readmit.testing import EffectServer
from tests.middleware.http.wires import KINDS, Wire
from tests.middleware.stage import Stage


@pytest.fixture
def server() -> Iterator[EffectServer]:
    with EffectServer() as server:
        yield server


@pytest.fixture(params=KINDS)
async def wire(request: pytest.FixtureRequest, stage: Stage, server: EffectServer) -> AsyncIterator[Wire]:
    """The scenario runs once with each kind of client."""
    wire = Wire(request.param, stage, server)
    async with wire.closing:
        yield wire
