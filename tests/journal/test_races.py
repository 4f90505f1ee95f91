"""Threads and processes on one file: one of them starts the epoch, one of them has the permit (I4, I5)."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from readmit._model import Admitted
from readmit.journal import SQLiteJournal
from tests.journal.caller import Program, effects
from tests.journal.processes import started
from tests.journal.racer import race

ROUNDS = 150


def one_of_each(path: Path, told: Counter[str]) -> None:
    """Each call was minted once and each permit claimed once, by somebody; and they did get in each other's way."""
    assert told["minted"] == told["claimed"] == ROUNDS
    assert told["stale"] > 0, "nobody raced: the test shows nothing"
    journal = SQLiteJournal(path)
    heads = list(journal.open())
    assert len({h.digest for h in heads}) == len(heads) == ROUNDS
    for head in heads:
        assert [a.epoch for a in head.admissions] == [1]
        assert [type(e) for _, e in head.admission] == [Admitted]
    journal.close()


def test_processes_race_for_calls_and_permits(tmp_path: Path) -> None:
    path, told = tmp_path / "readmit.db", Counter[str]()
    with contextlib.ExitStack() as stack:
        racers = [stack.enter_context(started("racer", path, f"r{n}", ROUNDS)) for n in range(4)]
        start = time.time() + 0.5
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{start}\n")
            racer.stdin.flush()
        for racer in racers:
            said, _ = racer.communicate(timeout=60)
            assert racer.returncode == 0, said
            told.update(json.loads(said))
    one_of_each(path, told)


@pytest.mark.parametrize("journals", ["one", "each"])
def test_threads_race_for_calls_and_permits(tmp_path: Path, journals: str) -> None:
    """On a journal of their own each, and all on one."""
    path, told = tmp_path / "readmit.db", Counter[str]()
    start = time.time() + 0.3
    opened = [SQLiteJournal(path) for _ in range(4 if journals == "each" else 1)]
    with ThreadPoolExecutor(4) as pool:
        for each in pool.map(lambda n: race(opened[n % len(opened)], f"t{n}", ROUNDS, start), range(4)):
            told.update(each)
    for journal in opened:
        journal.close()
    one_of_each(path, told)


# -- whole calls ------------------------------------------------------------------------------------------------------


def raced(folder: Path, tool: str, count: int) -> list[str]:
    """Processes that make the same call at the same time: what each was told."""
    with contextlib.ExitStack() as stack:
        racers = [stack.enter_context(started("caller", folder, "racing", tool)) for _ in range(count)]
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        said = [racer.communicate(timeout=60)[0] for racer in racers]
        assert [racer.returncode for racer in racers] == [0] * count, said
    return [lines.splitlines()[-1] for lines in said]


def test_of_processes_with_one_key_one_acts_and_all_have_the_result(tmp_path: Path) -> None:
    assert raced(tmp_path, "pay_once", 4) == ["paid 5"] * 4
    assert effects(tmp_path) == ["order-1"]


def test_of_processes_whose_call_stays_unknown_one_acts(tmp_path: Path) -> None:
    said = raced(tmp_path, "pay_badly", 4)
    assert effects(tmp_path) == ["order-1"]
    assert said.count("TimeoutError") == 1
    assert set(said) - {"TimeoutError"} <= {"effect_unknown", "in_flight"}


def test_of_processes_with_one_approval_one_acts(tmp_path: Path) -> None:
    program = Program(tmp_path)
    assert set(raced(tmp_path, "pay_approved", 2)) <= {"permit_missing", "recovery_pending"}
    assert effects(tmp_path) == []
    (pending,) = program.guard.pending()
    assert pending.request_id is not None
    program.guard.approve(pending.request_id, by="ann")
    assert raced(tmp_path, "pay_approved", 3) == ["paid 5"] * 3
    assert effects(tmp_path) == ["order-1"]
    program.close()


def test_of_threads_with_one_key_one_acts_and_all_have_the_result(tmp_path: Path) -> None:
    program = Program(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: program.pay_once("order-1", 5), range(8)))
    assert said == ["paid 5"] * 8
    assert effects(tmp_path) == ["order-1"]
    program.close()


def test_threads_that_do_different_things_all_get_through(tmp_path: Path) -> None:
    """Many durable writes at once share the fsyncs, and each is in the file when its call returns."""
    program = Program(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda n: program.pay(f"order-{n}", 5), range(200)))
    assert said == ["paid 5"] * 200
    assert sorted(effects(tmp_path)) == sorted(f"order-{n}" for n in range(200))
    assert list(program.journal.open()) == []
    program.close()
