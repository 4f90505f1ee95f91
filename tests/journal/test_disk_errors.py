"""The disk says no, or the machine stops, at each write and fsync: nothing is sent on an intent that may be lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from readmit import ReplayRefused
from readmit._model import Refusal
from tests.journal.caller import Program, effects
from tests.journal.processes import run
from tests.journal.tracer import injected, needed

CALLS = 4


def told(folder: Path, fault: str, *, ends: int = 0) -> tuple[list[str], int]:
    """Some calls with a fault among their system calls: what they said, and how often the fault was injected."""
    log = folder / "trace"
    name = fault.split(":")[0]
    before = ["strace", "-f", "-o", str(log), "-e", f"trace={name}", "-e", f"inject={fault}"]
    done = run("caller", folder, "told", CALLS, before=before, ends=ends)
    return done.stdout.splitlines(), injected(log)


def consistent(folder: Path, lines: list[str]) -> None:
    """Whatever was said: what was acknowledged acted once, what was refused did not act, and the file is whole."""
    for number in range(CALLS):
        said = [line.split(" ", 1)[1] for line in lines if line.startswith(f"{number}.")]
        acted = effects(folder).count(f"order-{number}")
        assert acted <= 1
        if "paid 5" in said:
            assert acted == 1
        elif said and all(s.startswith("JournalUnavailable") for s in said):
            assert acted == 0
    acted = len(effects(folder))
    program = Program(folder)
    assert program.journal._file.get().execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for number in range(CALLS):  # and what is in doubt is not sent again
        before = effects(folder).count(f"order-{number}")
        try:
            program.pay(f"order-{number}", 5)
        except ReplayRefused as error:
            assert error.reason is Refusal.EFFECT_UNKNOWN
            assert effects(folder).count(f"order-{number}") == before
    program.close()


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[int]]:
    """The numbers of the system calls that the calls make, after the journal was opened."""

    @cache
    def of(name: str) -> list[int]:
        folder = tmp_path_factory.mktemp(name)
        log = folder / "trace"
        run("caller", folder, "told", CALLS, before=["strace", "-f", "-o", str(log), "-e", f"trace={name},write"])
        before, _, after = log.read_text().partition('"opened')
        first = before.count(f" {name}(") + 1
        return list(range(first, first + after.count(f" {name}(")))

    return of


@pytest.mark.parametrize("call", [1, 3])
def test_a_failed_fsync_refuses_the_call_and_the_next_one_goes_on(
    tmp_path: Path, numbers: Callable[[str], list[int]], call: int
) -> None:
    needed()
    # The first write to a new log syncs its head and the folder too, then come the calls' own.
    lines, fired = told(tmp_path, f"fdatasync:error=EIO:when={numbers('fdatasync')[call + 1]}")
    assert fired == 1
    failed = [line for line in lines if "JournalUnavailable" in line]
    assert len(failed) == 1
    assert "look at the disk" in failed[0]
    assert sorted(effects(tmp_path)) == [f"order-{n}" for n in range(CALLS)]  # the second try was let through
    consistent(tmp_path, lines)


def test_a_disk_that_never_syncs_sends_nothing(tmp_path: Path, numbers: Callable[[str], list[int]]) -> None:
    needed()
    lines, fired = told(tmp_path, f"fdatasync:error=EIO:when={numbers('fdatasync')[0]}+")
    assert fired > CALLS
    assert len([line for line in lines if "JournalUnavailable" in line]) == 2 * CALLS
    assert effects(tmp_path) == []


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_disk_that_cannot_be_written_sends_nothing(
    tmp_path: Path, numbers: Callable[[str], list[int]], error: str
) -> None:
    needed()
    lines, fired = told(tmp_path, f"pwrite64:error={error}:when={numbers('pwrite64')[0]}+")
    assert fired > CALLS
    assert len([line for line in lines if "JournalUnavailable" in line]) == 2 * CALLS
    assert effects(tmp_path) == []


# -- every one of them ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pwrite64", "fdatasync"])
@pytest.mark.parametrize("fault", ["error=ENOSPC", "error=EIO", "signal=KILL"])
def test_a_fault_at_every_system_call(
    tmp_path: Path, numbers: Callable[[str], list[int]], name: str, fault: str
) -> None:
    needed()
    for number in numbers(name):
        folder = tmp_path / f"at{number}"
        folder.mkdir()
        killed = fault == "signal=KILL"
        try:
            lines, fired = told(folder, f"{name}:{fault}:when={number}", ends=-9 if killed else 0)
        except AssertionError as error:
            raise AssertionError(f"{name} {number}: {error}") from error
        assert fired == 1 or killed
        consistent(folder, lines)


def test_the_words_of_an_error_name_the_file(tmp_path: Path, numbers: Callable[[str], list[int]]) -> None:
    needed()
    lines, _ = told(tmp_path, f"pwrite64:error=EIO:when={numbers('pwrite64')[0]}")
    (said,) = [line for line in lines if "JournalUnavailable" in line]
    assert re.search(rf"The journal {tmp_path}/readmit.db cannot be written: .*Effectful calls are not sent", said)
