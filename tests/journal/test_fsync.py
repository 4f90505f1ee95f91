"""Durable before dispatch, and not more: one fsync for each admitted call, counted in the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journal.tracer import needed, syncs_between_marks

CALLS = 100


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_one_fsync_a_call(tmp_path: Path, kind: str) -> None:
    needed()
    assert syncs_between_marks(tmp_path, "counted", CALLS, kind) == CALLS


def test_the_count_sees_what_it_is_for(tmp_path: Path) -> None:
    """Controls: with the intent not made durable, and with the outcome made durable too, it is another number."""
    needed()
    for mode, least, most in (("careless", 0, 0), ("anxious", 2 * CALLS, 3 * CALLS)):
        folder = tmp_path / mode
        folder.mkdir()
        assert least <= syncs_between_marks(folder, "counted", CALLS, mode) <= most
