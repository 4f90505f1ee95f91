"""A program that races others for the same things, round by round, at the same moments."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

from readmit.journal import Change, SQLiteJournal, Stale
from tests.journal.facts import admitted, first, opened, query
from tests.journal.processes import ready, wait_for_word

TICK = 0.002  # seconds between two rounds


def race(journal: SQLiteJournal, me: str, rounds: int, start: float) -> Counter[str]:
    """In each round: mint the same call, then claim the same permit for the first epoch of the same occurrence."""
    told: Counter[str] = Counter()
    for number in range(rounds):
        digest, permit = f"d{number}", f"p{number}"
        while time.time() < start + number * TICK:
            pass
        found = journal.find(query(digest))
        if not found.open:
            try:
                journal.append([first(f"{me}-{number}", opened(digest))], durable=False)
                told["minted"] += 1
            except Stale:
                told["stale"] += 1
        (head,) = journal.find(query(digest)).open
        if not head.in_flight:
            claim = admitted(journal.owner, call=f"{me}-{number}", permits=(permit,))
            try:
                journal.append([Change(head.id, (claim,), expected=head.version)], durable=False)
                told["claimed"] += 1
            except Stale:
                told["stale"] += 1
    return told


if __name__ == "__main__":
    ready()
    start = float(wait_for_word())
    journal = SQLiteJournal(Path(sys.argv[1]))
    print(json.dumps(race(journal, sys.argv[2], int(sys.argv[3]), start)))
    journal.close()
