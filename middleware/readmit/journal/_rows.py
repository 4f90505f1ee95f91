"""Heads and events as rows of the SQLite journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from readmit._fold import Head, fold
from readmit._identity import slot
from readmit._model import AnyEvent
from readmit.journal._port import Change, Query, Stale

_SINCE = "SELECT event FROM events WHERE occurrence = ? AND place > ? ORDER BY place"
_ADD = "INSERT INTO events VALUES (?, ?, ?)"
_TAKE = "INSERT INTO names VALUES (?, ?, ?)"
_TAKE_NEXT = "INSERT INTO names SELECT ?1, ?2 + coalesce(max(ordinal), 0) + 1, ?3 FROM names WHERE name = ?1"
_NEWEST = "SELECT * FROM (SELECT name, ordinal, occurrence FROM names WHERE name = ?{} ORDER BY ordinal DESC LIMIT 1)"
_OCCURRENCES = "SELECT DISTINCT occurrence FROM events WHERE occurrence BETWEEN ? AND ? ORDER BY 1 LIMIT 20"
_NAMES = "SELECT DISTINCT name FROM names WHERE name BETWEEN ? AND ? ORDER BY 1 LIMIT 20"
_OPEN = "INSERT OR IGNORE INTO heads VALUES (?, ?, ?, ?)"
_CLOSE = "DELETE FROM heads WHERE slot = ? AND signature = ? AND digest = ? AND occurrence = ?"
_KEPT = 1024  # heads
Row = tuple[str, str, str, str]  # slot, signature, digest, occurrence
_encode = msgspec.json.Encoder().encode
_decode: Callable[[str], AnyEvent] = msgspec.json.Decoder(AnyEvent).decode


class Matches(NamedTuple):
    """Ids of what a query finds: names with their last ordinal, open occurrences that are equal, others of the slot."""

    named: dict[str, tuple[int, str]]
    equal: list[str]
    other_signature: list[str]


class Plan(NamedTuple):
    """What is to be written, and the heads that it leaves."""

    heads: list[Head]
    events: list[tuple[str, int, str]]
    names: list[tuple[str, int, str]]  # ordinal 0: the next
    closed: list[Row]
    opened: list[Row]


class Heads:
    """Heads folded from the file, with those of open occurrences at hand. The caller holds the journal's lock.

    What is at hand can be behind the file, where another process wrote; it is never wrong about what it has.
    """

    def __init__(self) -> None:
        self._open: dict[str, Head] = {}

    def forget(self, occurrences: Iterable[str]) -> None:
        """They are read from the file the next time."""
        for occurrence in occurrences:
            self._open.pop(occurrence, None)

    def read(self, c: sqlite3.Cursor, occurrence: str) -> Head:
        """One head as the file has it, with version 0 if it has none: what is at hand, and what came after."""
        head = self._open.get(occurrence) or Head(id=occurrence)
        rows = c.execute(_SINCE, (occurrence, head.version)).fetchall()
        return fold(head, *[_decode(text) for (text,) in rows]) if rows else head

    def plan(self, c: sqlite3.Cursor, changes: Sequence[Change]) -> Plan:
        """What the changes come to. Where a head was behind the file, the place of its next event is taken there.

        Raises:
            Stale: a version is not the expected one.
        """
        plan = Plan([], [], [], [], [])
        written: dict[str, Head] = {}
        for change in changes:
            occurrence, expected, events = change.occurrence_id, change.expected, change.events
            before = written.get(occurrence) or self._before(c, occurrence, expected)
            place = before.version
            if expected is not None and place != expected:
                raise Stale(f"version {place}, not {expected}")
            if change.check is not None:
                change.check(before)
            for event in events:
                place += 1
                plan.events.append((occurrence, place, _encode(event).decode()))
            for name, ordinal in change.names:
                plan.names.append((name, ordinal, occurrence))
            head = written[occurrence] = fold(before, *events)
            plan.heads.append(head)
            _index(plan, before, head)
        return plan

    def _before(self, c: sqlite3.Cursor, occurrence: str, expected: int | None) -> Head:
        """The head to write on. What is at hand is not read again: were it behind, its next place would be taken."""
        if expected == 0:
            return Head(id=occurrence)
        head = self._open.get(occurrence)
        return head if head is not None and expected in (None, head.version) else self.read(c, occurrence)

    def committed(self, heads: Sequence[Head]) -> None:
        """Keeps at hand what was written."""
        for head in heads:
            if head.closed:
                self._open.pop(head.id, None)
            else:
                self._open[head.id] = head
        if len(self._open) > _KEPT:
            self._open.clear()


def write(c: sqlite3.Cursor, plan: Plan) -> None:
    """Carries a plan out, inside a transaction; one that is a single event needs none.

    Raises:
        sqlite3.IntegrityError: a place or a name is taken.
    """
    for name in plan.names:
        c.execute(_TAKE if name[1] else _TAKE_NEXT, name)
    for row in plan.closed:
        c.execute(_CLOSE, row)
    for row in plan.opened:
        c.execute(_OPEN, row)
    if len(plan.events) == 1:
        c.execute(_ADD, plan.events[0])
    else:
        c.executemany(_ADD, plan.events)


def single(plan: Plan) -> bool:
    """Whether it is one event and nothing else: SQLite makes a transaction of it."""
    return len(plan.events) == 1 and not (plan.names or plan.closed or plan.opened)


def matches(c: sqlite3.Cursor, query: Query) -> Matches:
    """What the file holds about a call, all of it true at one time."""
    found = Matches({}, [], [])
    rows = c.execute(_lookup(len(query.names)), (query.slot, query.signature, query.digest, *query.names)).fetchall()
    for what, ordinal, occurrence in rows:
        if what == 1:
            found.equal.append(occurrence)
        elif what == 2:
            found.other_signature.append(occurrence)
        else:
            found.named[what] = ordinal, occurrence
    return found


def beginning(c: sqlite3.Cursor, kind: str, prefix: str) -> list[str]:
    """Ids that begin with a text: those of occurrences, or what names of a kind hold."""
    before = "" if kind == "occurrence" else f"{kind}:"
    query = _OCCURRENCES if kind == "occurrence" else _NAMES
    rows = c.execute(query, (before + prefix, before + prefix + "\U0010ffff")).fetchall()
    return [text.removeprefix(before) for (text,) in rows]


@lru_cache
def _lookup(names: int) -> str:
    return " UNION ALL ".join(
        (
            "SELECT 1, 0, occurrence FROM heads WHERE slot = ?1 AND signature = ?2 AND digest = ?3",
            "SELECT 2, 0, occurrence FROM heads WHERE slot = ?1 AND signature < ?2",
            "SELECT 2, 0, occurrence FROM heads WHERE slot = ?1 AND signature > ?2",
            *(_NEWEST.format(n + 4) for n in range(names)),
        )
    )


def _index(plan: Plan, before: Head, head: Head) -> None:
    """Keeps `heads` as it is: a row for each occurrence that is open, under its present digest."""
    was, now = before.version > 0 and not before.closed, not head.closed
    if was and now and (head.identity is before.identity or head.digest == before.digest):
        return
    if was:
        plan.closed.append(_row(before))
    if now:
        plan.opened.append(_row(head))


def _row(head: Head) -> Row:
    opened = head.opened
    return slot(opened.scope, opened.principal, opened.tool), opened.signature, head.digest, head.id
