"""The file: what is made, what is refused, and what is said when it cannot be used."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import readmit
from readmit import JournalUnavailable
from readmit._model import EffectState
from readmit.journal import SQLiteJournal, _file
from tests.journal.facts import admitted, ended, evidence, first, observed, opened, query
from tests.journal.processes import environment, started

AS_ROOT = os.geteuid() == 0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "readmit.db"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def crashed(path: Path) -> Path:
    """A copy of a journal as a crash leaves it: its log is not written back."""
    there = path.with_name("copy")
    there.mkdir()
    for each in path.parent.glob("readmit.db*"):
        if each.is_file():
            shutil.copy(each, there)
    return there / path.name


def refused(path: Path, *words: str) -> None:
    """Opening fails with these words, and a guarded call sends nothing."""
    with pytest.raises(JournalUnavailable) as said:
        SQLiteJournal(path)
    for word in (str(path), "configure(journal=…)", *words):
        assert word in str(said.value)
    sent: list[int] = []
    guard = readmit.Guard(journal=path)

    @guard.tool(effect="write", name="pay")
    def pay(cents: int) -> None:
        sent.append(cents)

    with pytest.raises(JournalUnavailable):
        pay(5)
    assert sent == []
    guard.close()


# -- what is made -----------------------------------------------------------------------------------------------------


def test_everything_is_for_the_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        journal = SQLiteJournal(path)
        journal.append([first("o1", opened())], durable=True)
    finally:
        os.umask(before)
    assert {p.name: oct(mode(p)) for p in path.parent.iterdir()} == {
        "readmit.db": "0o600",
        "readmit.db-wal": "0o600",
        "readmit.db-shm": "0o600",
        "readmit.db-owners": "0o700",
    }
    assert [oct(mode(p)) for p in (path.parent / "readmit.db-owners").iterdir()] == ["0o600"]
    journal.close()
    assert sorted(p.name for p in path.parent.iterdir()) == ["readmit.db", "readmit.db-owners"]
    assert list((path.parent / "readmit.db-owners").iterdir()) == []


def test_the_log_really_is_a_write_ahead_log(path: Path) -> None:
    journal = SQLiteJournal(path)
    other = sqlite3.connect(path)
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert other.execute("PRAGMA application_id").fetchone() == (_file.APPLICATION_ID,)
    assert other.execute("PRAGMA user_version").fetchone() == (_file.VERSION,)
    other.close()
    journal.close()


def test_one_journal_under_two_names_has_one_set_of_owners(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    one, other = SQLiteJournal(path), SQLiteJournal(link)
    assert one.name == other.name == str(path)
    assert one.alive(other.owner)
    one.close()
    other.close()
    assert sorted(p.name for p in path.parent.iterdir()) == ["link.db", "readmit.db", "readmit.db-owners"]


def test_a_journal_moved_with_its_log_goes_on(path: Path) -> None:
    journal = SQLiteJournal(path)
    journal.append([first("o1", opened())], durable=True)
    left = crashed(path)
    journal.close()
    journal = SQLiteJournal(left)
    assert journal.load("o1") is not None
    journal.close()


def test_an_empty_file_is_a_new_journal(path: Path) -> None:
    path.touch(mode=0o600)
    journal = SQLiteJournal(path)
    assert list(journal.open()) == []
    journal.close()


def test_many_open_one_new_file_at_once(path: Path) -> None:
    code = (
        "import sys; from readmit.journal import SQLiteJournal; sys.stdin.read(1); "
        "j = SQLiteJournal(sys.argv[1]); list(j.open()); j.close()"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, path], env=environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(6)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"!")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 6, said


# -- what is refused --------------------------------------------------------------------------------------------------


def foreign(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)"),
        ("PRAGMA application_id = 7", "CREATE TABLE events (x)"),
        ("PRAGMA user_version = 3",),
        ("PRAGMA journal_mode = WAL", "CREATE TABLE theirs (x)"),
    ],
    ids=["tables", "marked", "numbered", "wal"],
)
def test_a_file_of_another_program_is_left_as_it_is(path: Path, statements: tuple[str, ...]) -> None:
    foreign(path, *statements)
    before = content(path.parent)
    refused(path, "another program", "nothing in it was changed")
    assert content(path.parent) == before


def test_a_file_that_another_program_has_open_is_left_as_it_is(path: Path) -> None:
    theirs = sqlite3.connect(path, isolation_level=None)
    theirs.execute("PRAGMA journal_mode = WAL")
    theirs.execute("CREATE TABLE theirs (x)")
    before = content(path.parent)
    assert sorted(before) == ["readmit.db", "readmit.db-shm", "readmit.db-wal"]
    with pytest.raises(JournalUnavailable):
        SQLiteJournal(path)
    assert content(path.parent) == before
    theirs.close()


def test_a_newer_journal_is_left_as_it_is(path: Path) -> None:
    SQLiteJournal(path).close()
    foreign(path, f"PRAGMA user_version = {_file.VERSION + 1}")
    before = content(path.parent)
    refused(
        path,
        f"of version {_file.VERSION + 1}",
        f"knows up to {_file.VERSION}",
        "update readmit",
        "nothing in it was changed",
    )
    assert content(path.parent) == before


def test_a_journal_from_before_the_release_is_left_as_it_is(path: Path) -> None:
    SQLiteJournal(path).close()
    foreign(path, "PRAGMA user_version = 1")
    before = content(path.parent)
    refused(path, "of version 1", "before readmit was released", "put the file aside", "nothing in it was changed")
    assert content(path.parent) == before


def test_a_version_that_is_only_in_the_log_is_seen(path: Path) -> None:
    journal = SQLiteJournal(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA user_version = 3")
    with pytest.raises(JournalUnavailable, match="of version 3"):
        SQLiteJournal(path)
    other.close()
    journal.close()


@pytest.mark.parametrize("after", range(6))
def test_a_file_that_another_process_is_just_making_is_no_foreign_one(path: Path, after: int) -> None:
    """Between any two looks at it the other one writes its marks, or has to wait until all looks were taken."""

    class Interrupted:
        """A connection during whose work the file is made."""

        def __init__(self) -> None:
            self.real, self.left = sqlite3.connect(path, isolation_level=None), after

        @property
        def in_transaction(self) -> bool:
            return self.real.in_transaction

        def execute(self, statement: str) -> sqlite3.Cursor:
            if self.left == 0:
                other = sqlite3.connect(path, isolation_level=None, timeout=0)
                with contextlib.suppress(sqlite3.OperationalError):
                    _file._make(other, path)
                other.close()
            self.left -= 1
            return self.real.execute(statement)

    between = Interrupted()
    _file.recognised(between, path)  # type: ignore[arg-type]
    between.real.close()
    SQLiteJournal(path).close()


@pytest.mark.parametrize("text", [b"x", b"not a journal\n" * 100, bytes(5000)], ids=["short", "text", "zeros"])
def test_a_file_that_is_no_database_is_left_as_it_is(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    refused(path, "nothing in it was changed")
    assert content(path.parent) == {"readmit.db": text}


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    refused(tmp_path, "is a folder")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere" / "readmit.db", "No such file or directory", "make the file and its folder writable")
    assert not (tmp_path / "nowhere").exists()


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder with a journal in it that may only be read: by its mode, or for root, who may do all, by its mount."""
    folder = tmp_path / "folder"
    folder.mkdir()
    if not AS_ROOT:
        SQLiteJournal(folder / "readmit.db").close()
        (folder / "readmit.db").chmod(0o444)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    with disk(folder):
        SQLiteJournal(folder / "readmit.db").close()
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        yield folder


@contextmanager
def disk(folder: Path, size: str = "1m") -> Iterator[None]:
    """A disk of its own, mounted on a folder."""
    if not AS_ROOT or not shutil.which("mount"):
        pytest.skip("only root can mount a disk of its own for this test")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this system lets nobody mount a disk: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("name", ["readmit.db", "new.db"])
def test_where_one_may_only_read_nothing_is_opened(read_only: Path, name: str) -> None:
    before = content(read_only)
    refused(read_only / name, "cannot be opened", "make the file and its folder writable")
    assert content(read_only) == before


def test_where_no_owner_can_be_named_nothing_is_opened(path: Path) -> None:
    path.with_name("readmit.db-owners").write_text("in the way")
    refused(path, "has no place for the locks of its owners")


def test_without_file_locks_only_a_journal_in_memory_works(path: Path) -> None:
    code = """
import os, sys
sys.modules["fcntl"] = None
del os.register_at_fork, os.fork
import readmit
from readmit.journal import SQLiteJournal
SQLiteJournal(":memory:").close()
try:
    SQLiteJournal(sys.argv[1])
except readmit.JournalUnavailable as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, path], env=environment(), capture_output=True, text=True)
    assert done.stderr == ""
    assert "needs Linux or macOS. Use configure(journal=':memory:')" in done.stdout
    assert not path.exists()


# -- what goes wrong later --------------------------------------------------------------------------------------------


def test_a_full_database_refuses_and_goes_on_when_there_is_room(path: Path) -> None:
    journal = SQLiteJournal(path)
    (before,) = journal.append([first("o1", opened(), admitted(journal.owner))], durable=True)
    connection = journal._file.get().connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(JournalUnavailable, match="make room on its disk"):
        for number in range(1000):
            journal.append([first(f"more{number}", opened(f"more{number}"))], durable=True)
    assert not connection.in_transaction
    assert journal.load("o1") == before
    assert journal.load(f"more{number}") is None

    connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    journal.append([first(f"more{number}", opened(f"more{number}"))], durable=True)
    journal.close()


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    with disk(folder):
        yield folder


def test_a_full_disk_loses_nothing_and_is_left_when_there_is_room(tiny: Path) -> None:
    journal = SQLiteJournal(tiny / "readmit.db")
    acknowledged: list[str] = []
    with pytest.raises(JournalUnavailable, match=r"make room on its disk|free space"):
        for number in range(1000):
            journal.append([first(f"o{number:03}", opened(f"d{number}"), admitted(journal.owner))], durable=True)
            acknowledged.append(f"o{number:03}")
    assert 10 < len(acknowledged) < 1000
    subprocess.run(["mount", "-o", "remount,size=8m", tiny], check=True)

    journal.append([evidence("o000", ended())], durable=False)
    assert [h.id for h in journal.open()] == acknowledged
    journal.close()
    journal = SQLiteJournal(tiny / "readmit.db")
    assert [h.id for h in journal.open()] == acknowledged
    journal.close()


def test_a_journal_that_another_process_holds_is_waited_for_and_then_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_file, "PATIENCE", 0.2)
    journal = SQLiteJournal(path)
    with started("holder", "writing", path) as holder:
        with pytest.raises(JournalUnavailable, match="another process has held it"):
            journal.append([first("o1", opened())], durable=True)
        assert journal.find(query()).open == []  # reading does not wait
        holder.communicate("go on\n", timeout=60)
    journal.append([first("o1", opened())], durable=True)
    journal.close()


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[200:] = os.urandom(len(data) - 200)
    path.write_bytes(data)


def test_a_damaged_file_is_said_to_be_damaged(path: Path) -> None:
    journal = SQLiteJournal(path)
    for number in range(50):
        journal.append([first(f"o{number}", opened(f"d{number}"))], durable=False)
    journal.close()
    damaged(path)

    with pytest.raises(JournalUnavailable, match="restore a copy"):
        journal = SQLiteJournal(path)
        journal.append([first("o99", opened("d99"))], durable=True)
    with pytest.raises(JournalUnavailable, match="restore a copy"):
        journal = SQLiteJournal(path)
        list(journal.open())


def test_an_event_that_nobody_wrote_is_not_skipped(path: Path) -> None:
    journal = SQLiteJournal(path)
    journal.append([first("o1", opened())], durable=False)
    foreign(path, """INSERT INTO events VALUES ('o1', 2, '[{"kind":"invented","at":1}]')""")
    with pytest.raises(JournalUnavailable, match="cannot be read: Invalid value 'invented'"):
        journal.load("o1")
    journal.append([first("o2", opened("d2"))], durable=False)  # others go on
    foreign(path, "INSERT INTO events VALUES ('o2', 2, x'00')")
    with pytest.raises(JournalUnavailable, match="cannot be read"):
        journal.load("o2")
    journal.close()


def test_a_constraint_that_is_no_race_is_no_reason_to_try_again(path: Path) -> None:
    journal = SQLiteJournal(path)
    foreign(path, "CREATE TRIGGER no BEFORE INSERT ON events BEGIN SELECT raise(ABORT, 'not here'); END")
    with pytest.raises(JournalUnavailable, match="not here"):
        journal.append([first("o1", opened())], durable=True)
    journal.close()


def test_a_closed_journal_says_so(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = SQLiteJournal(path)
    journal.append([first("o1", opened(), admitted(journal.owner))], durable=True)
    journal.close()
    journal.close()
    for use in (
        lambda: journal.load("o1"),
        lambda: journal.find(query()),
        lambda: journal.append([evidence("o1", ended())], durable=False),
    ):
        with pytest.raises(JournalUnavailable, match="was closed"):
            use()
    journal.note(evidence("o1", ended()))
    assert "Ended of occurrence o1 is not recorded" in caplog.text


# -- the log does not grow for ever -----------------------------------------------------------------------------------


def test_the_log_is_written_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readmit.journal._connection._CHECKPOINT", 50)
    journal = SQLiteJournal(path)
    sizes = set()
    for number in range(400):
        journal.append([first(f"o{number}", opened(f"d{number}"), admitted(journal.owner))], durable=False)
        sizes.add(path.with_name("readmit.db-wal").stat().st_size)
    assert max(sizes) < 60 * 8 * 4200  # 50 transactions and the one that starts over, some pages each
    assert path.stat().st_size > 100_000
    assert len(list(journal.open())) == 400
    journal.close()


def test_a_log_that_killed_processes_left_long_is_written_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_file, "LOG_LIMIT", 200_000)
    journal = SQLiteJournal(path)
    for number in range(100):
        journal.append([first(f"o{number}", opened(f"d{number}"))], durable=False)
    left = crashed(path)
    journal.close()
    assert left.with_name("readmit.db-wal").stat().st_size > _file.LOG_LIMIT
    size = left.stat().st_size

    journal = SQLiteJournal(left)
    journal.append([first("o100", opened("d100"))], durable=True)
    assert left.stat().st_size > size
    assert len(list(journal.open())) == 101
    journal.close()
    assert not left.with_name("readmit.db-wal").exists()


def test_a_checkpoint_that_was_cut_off_is_finished(path: Path) -> None:
    journal = SQLiteJournal(path)
    for number in range(50):
        journal.append([first(f"o{number}", opened(f"d{number}"))], durable=False)
    left = crashed(path)
    journal.close()
    with path.open("rb") as whole, left.open("r+b") as cut:
        cut.write(whole.read(4096))  # the first page, which says how many there are, and none of the others
    journal = SQLiteJournal(left)
    assert len(list(journal.open())) == 50
    journal.close()


@pytest.mark.parametrize(
    "text",
    [
        "[{",
        "[]",
        '[{"kind": "opened"}]',
        '[{"kind": "left", "at": 1, "call": "c"}]',
        '[{"kind": "left", "at": 1, "call": "c"}, {"kind": "left", "at": 1, "call": "c"}]',
        '[{"kind": "no such event", "at": 1}]',
        None,
    ],
)
def test_an_occurrence_that_cannot_be_read_hides_no_other(
    path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[int] = []

    def pay(cents: int) -> None:
        sent.append(cents)
        raise TimeoutError

    guard = readmit.Guard(journal=path)
    guarded = guard.tool(effect="write", name="pay")(pay)
    for cents in (1, 2):
        with pytest.raises(TimeoutError):
            guarded(cents)
    spoilt, whole = (waiting.occurrence_id for waiting in guard.pending())
    guard.close()
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        if text is None:
            file.execute("DELETE FROM events WHERE occurrence = ?", (spoilt,))
        else:
            file.execute("UPDATE events SET events = ? WHERE occurrence = ? AND place = 1", (text, spoilt))
    guard = readmit.Guard(journal=path)
    again = guard.tool(effect="write", name="pay")(pay)
    assert [waiting.occurrence_id for waiting in guard.pending()] == [whole]
    assert spoilt in caplog.text and "holds something else" in caplog.text
    with pytest.raises(JournalUnavailable):
        again(1)
    with pytest.raises(readmit.ReplayRefused):
        again(2)
    assert sent == [1, 2]
    guard.close()


def test_an_occurrence_from_whose_middle_something_was_taken_is_not_read_as_whole(path: Path) -> None:
    with contextlib.closing(SQLiteJournal(path)) as journal:
        journal.append([first("o1", opened(), admitted(journal.owner))], durable=True)
        journal.append([evidence("o1", observed(EffectState.COMMITTED))], durable=False)
        journal.append([evidence("o1", ended())], durable=False)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        assert file.execute("DELETE FROM events WHERE occurrence = 'o1' AND place = 3").rowcount == 1
    with contextlib.closing(SQLiteJournal(path)) as journal:
        with pytest.raises(JournalUnavailable, match="at place 3 is gone"):
            journal.load("o1")
        with pytest.raises(JournalUnavailable, match="at place 3 is gone"):
            journal.find(query())
