"""`kill -9` at every point of a call: at the next start the effect is known or unknown, never wrongly `not_sent`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from readmit import ReplayRefused
from readmit._model import EffectState, Refusal
from tests.journal.caller import POINTS, Program, effects
from tests.journal.processes import run, started, until

UNKNOWN = ("after_intent", "before_effect", "after_effect", "before_outcome")
KNOWN = ("after_outcome", "before_delivery", "after_return")


EVERY = [*((p, "plain") for p in POINTS), *((p, "async") for p in ("after_intent", "after_effect", "after_outcome"))]


@pytest.mark.parametrize(("point", "kind"), EVERY)
def test_killed_at_a_point(tmp_path: Path, point: str, kind: str) -> None:
    run("caller", tmp_path, "killed", kind, point, ends=-9)
    seen = effects(tmp_path)
    assert len(seen) == (POINTS.index(point) > POINTS.index("before_effect"))

    program = Program(tmp_path)
    occurrences = list(program.journal.open())
    for head in occurrences:  # I3
        assert head.effects().state is not EffectState.NOT_SENT

    if point in UNKNOWN:
        (pending,) = program.guard.pending()
        assert pending.state == "unknown"
        with pytest.raises(ReplayRefused) as refused:
            program.call(kind)
        assert refused.value.reason is Refusal.EFFECT_UNKNOWN
        assert refused.value.occurrence_id == pending.occurrence_id
        assert effects(tmp_path) == seen
    elif point in KNOWN:
        (head,) = occurrences
        assert head.effects().state is EffectState.COMMITTED
        assert program.call(kind) == "paid 5"  # the recorded result, once
        assert effects(tmp_path) == seen
        assert program.call(kind) == "paid 5"  # and the next one is another call
        assert effects(tmp_path) == [*seen, "order-1"]
    else:
        assert occurrences == []
        assert program.call(kind) == "paid 5"
        assert effects(tmp_path) == [*seen, "order-1"]
    program.close()


def test_an_operator_ends_what_a_crash_left_unknown(tmp_path: Path) -> None:
    run("caller", tmp_path, "killed", "plain", "after_effect", ends=-9)
    program = Program(tmp_path)
    (pending,) = program.guard.pending()
    program.guard.abandon(pending.occurrence_id, by="ann", statement="seen at the bank")
    assert program.guard.pending() == []
    program.close()


def test_the_epoch_of_a_live_process_is_waited_for_and_that_of_a_dead_one_is_unknown_at_once(tmp_path: Path) -> None:
    with started("caller", tmp_path, "slow") as theirs:
        program = Program(tmp_path, join_timeout=0.1)
        (pending,) = program.guard.pending()
        assert pending.state == "in_flight"
        with pytest.raises(ReplayRefused) as refused:
            program.pay_slowly("order-1", 5)
        assert refused.value.reason is Refusal.IN_FLIGHT

        theirs.kill()
        theirs.wait()
        (pending,) = program.guard.pending()
        assert pending.state == "unknown"
        with pytest.raises(ReplayRefused) as refused:
            program.pay_slowly("order-1", 5)
        assert refused.value.reason is Refusal.EFFECT_UNKNOWN
        program.close()
    assert effects(tmp_path) == ["order-1"]


def test_who_waits_for_a_live_process_gets_its_result(tmp_path: Path) -> None:
    with started("caller", tmp_path, "slow") as theirs, ThreadPoolExecutor(1) as pool:
        program = Program(tmp_path, join_timeout=60)
        ours = pool.submit(program.pay_slowly, "order-1", 5)
        (head,) = program.journal.open()
        until(lambda: (program.journal.load(head.id) or head).joined)
        assert theirs.stdin is not None
        theirs.stdin.write("go on\n")
        theirs.stdin.flush()
        assert ours.result(60) == "paid 5"
        program.close()
        assert theirs.wait(60) == 0
    assert effects(tmp_path) == ["order-1"]


def test_a_program_that_ends_by_itself_has_delivered(tmp_path: Path) -> None:
    for expected in (2, 4):
        run("caller", tmp_path, "told", 2)
        assert len(effects(tmp_path)) == expected
