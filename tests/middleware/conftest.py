from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.middleware.stage import Stage, check_epochs, check_words


@pytest.fixture(autouse=True)
def _spans_are_well_formed() -> Iterator[None]:
    """Whatever a test does on a stage: its spans use our words, and they and the journal agree."""
    Stage.made.clear()
    yield
    for stage in Stage.made:
        spans = stage.spans()
        check_words(spans)
        if any("readmit.epoch" in (s.attributes or {}) for s in spans):
            check_epochs(spans, stage.heads())
        stage.guard.close()
        stage.provider.shutdown()


@pytest.fixture
def stage() -> Stage:
    """A guard with a journal in memory."""
    return Stage()


@pytest.fixture
def filed(tmp_path: Path) -> Stage:
    """A guard with a journal in a file, which can be started again."""
    return Stage(tmp_path / "readmit.db")
