from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.middleware.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A guard with a journal in memory."""
    stage = Stage()
    yield stage
    stage.guard.close()


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Stage]:
    """A guard with a journal in a file, which can be started again."""
    stage = Stage(tmp_path / "readmit.db")
    yield stage
    stage.guard.close()
