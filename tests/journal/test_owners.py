"""Dead or alive: seen through a lock that nobody has to give back."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

from readmit._model import EffectState
from readmit.journal import SQLiteJournal
from readmit.journal._owners import Owners
from tests.journal.facts import evidence, observed
from tests.journal.processes import run, started


def test_a_killed_process_is_dead_at_once_and_its_token_is_swept_up(tmp_path: Path) -> None:
    path, tokens = tmp_path / "readmit.db", tmp_path / "readmit.db-owners"
    with started("holder", "in_flight", path) as theirs:
        journal = SQLiteJournal(path)
        (head,) = journal.open()
        (flying,) = head.in_flight
        assert journal.alive(flying.owner)
        assert {p.name for p in tokens.iterdir()} == {journal.owner, flying.owner}
        theirs.kill()
        theirs.wait()
        assert not journal.alive(flying.owner)
        assert {p.name for p in tokens.iterdir()} == {journal.owner}
        journal.close()

    with started("holder", "in_flight", path.with_name("other.db")) as theirs:
        theirs.kill()
        theirs.wait()
        journal = SQLiteJournal(path.with_name("other.db"))  # nobody asked about that token
        assert [p.name for p in path.with_name("other.db-owners").iterdir()] == [journal.owner]
        journal.close()


def test_a_token_is_never_swept_up_while_it_is_taken(tmp_path: Path) -> None:
    """Many take tokens and let go of them while others look and sweep: who has one is alive for everybody."""
    journal, tokens = tmp_path / "readmit.db", tmp_path / "readmit.db-owners"
    tokens.mkdir()
    wrong: list[str] = []
    over = threading.Event()

    def take() -> None:
        while not over.is_set():
            owners = Owners(journal)
            owners.claim()
            if not (tokens / owners.token).exists() or not Owners(journal).alive(owners.token):
                wrong.append(owners.token)
            owners.release()

    def sweep() -> None:
        looker = Owners(journal)
        while not over.is_set():
            for path in list(tokens.iterdir()):
                looker.alive(path.name)

    threads = [threading.Thread(target=t) for t in (take, take, take, sweep, sweep)]
    for thread in threads:
        thread.start()
    over.wait(2.0)
    over.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    last = Owners(journal)
    last.claim()
    assert [p.name for p in tokens.iterdir()] == [last.token]
    last.release()
    assert list(tokens.iterdir()) == []


def test_two_who_look_at_once_do_not_take_each_other_for_the_owner(tmp_path: Path) -> None:
    token = tmp_path / "readmit.db-owners" / "dead"
    token.parent.mkdir()
    token.touch()
    with token.open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)  # as `alive` holds it for a moment
        assert not Owners(tmp_path / "readmit.db").alive("dead")


# -- forks ------------------------------------------------------------------------------------------------------------


def test_a_forked_child_has_a_token_of_its_own(tmp_path: Path) -> None:
    with started("forker", "holds", tmp_path) as parent:
        child, tokens = (tmp_path / "child").read_text(), (tmp_path / "tokens").read_text().split()
        journal = SQLiteJournal(tmp_path / "readmit.db")
        assert len(set(tokens)) == 2
        assert [journal.alive(t) for t in tokens] == [True, True]
        parent.kill()
        parent.wait()
        assert [journal.alive(t) for t in tokens] == [False, True]  # the child lives on
        run("forker", "kill", child)
        assert [journal.alive(t) for t in tokens] == [False, False]
        journal.append([evidence("parents", observed(EffectState.COMMITTED))], durable=True)
        journal.close()


def test_forks_in_the_middle_of_everything(tmp_path: Path) -> None:
    run("forker", "many", tmp_path)
    acknowledged = (tmp_path / "acknowledged").read_text().split()
    assert len(acknowledged) == len(set(acknowledged)) > 100
    journal = SQLiteJournal(tmp_path / "readmit.db")
    assert sorted(h.id for h in journal.open()) == sorted(acknowledged)
    assert journal._file.get().execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert list((tmp_path / "readmit.db-owners").iterdir()) == [tmp_path / "readmit.db-owners" / journal.owner]
    journal.close()


def test_a_fork_while_a_thread_opens_the_journal(tmp_path: Path) -> None:
    run("forker", "opening", tmp_path)


def test_a_journal_in_memory_is_copied(tmp_path: Path) -> None:
    run("forker", "memory", tmp_path)
