"""Heads and events as rows of the SQLite journal."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import msgspec

from readmit._fold import Head, fold
from readmit._identity import slot as slot_of
from readmit._model import AnyEvent, Opened
from readmit.journal._port import Change, Query, Stale

_SINCE = "SELECT place, events FROM events WHERE occurrence = ? AND place > ? ORDER BY place"
_ADD = "INSERT INTO events VALUES (?, ?, ?)"
_TAKE = "INSERT INTO names VALUES (?, ?, ?)"
_TAKE_NEXT = "INSERT INTO names SELECT ?1, ?2 + coalesce(max(ordinal), 0) + 1, ?3 FROM names WHERE name = ?1"
_NEWEST = "SELECT * FROM (SELECT name, ordinal, occurrence FROM names WHERE name = ?{} ORDER BY ordinal DESC LIMIT 1)"
_TAKEN_SINCE = "SELECT name FROM names WHERE name = ? AND ordinal > ?"
_EQUAL = "heads WHERE slot = ?1 AND signature = ?2 AND digest = ?3"
_OTHERS = "heads WHERE slot = ?1 AND signature"
_OPEN_NOW = (
    f"SELECT occurrence FROM {_EQUAL} UNION ALL SELECT occurrence FROM {_OTHERS} < ?2"
    f" UNION ALL SELECT occurrence FROM {_OTHERS} > ?2"
)
_OPEN = "INSERT OR IGNORE INTO heads VALUES (?, ?, ?, ?)"
_CLOSE = f"DELETE FROM {_EQUAL} AND occurrence = ?4"
_OCCURRENCES = "SELECT DISTINCT occurrence FROM events WHERE occurrence BETWEEN ? AND ? ORDER BY 1 LIMIT 20"
_NAMES = "SELECT DISTINCT name FROM names WHERE name BETWEEN ? AND ? ORDER BY 1 LIMIT 20"
_KEPT = 1024  # heads
_log = logging.getLogger("readmit")
Key = tuple[str, str, str, str]  # slot, signature, digest, occurrence
_encode = msgspec.json.Encoder().encode


class Altered(Exception):
    """What the file holds of an occurrence is not what was written."""


class Matches(NamedTuple):
    """Ids of what a query finds: names with their last ordinal, open occurrences that are equal, others of the slot."""

    named: dict[str, tuple[int, str]]
    equal: list[str]
    other_signature: list[str]


class Plan(NamedTuple):
    """What is to be written, and the heads that it leaves."""

    heads: list[Head]
    events: list[tuple[str, int, str]]  # with the place of the first
    names: list[tuple[str, int, str]]  # ordinal 0: the next
    closed: list[Key]
    opened: list[Key]
    minted: list[tuple[Key, tuple[str, ...]]]  # with the open ones that were seen
    unless: list[tuple[str, int]]


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
        """One head as the file has it, with version 0 if it has none: what is at hand, and what came after.

        Raises:
            Altered, msgspec.MsgspecError: it is not what was written.
        """
        head = self._open.get(occurrence) or Head(id=occurrence)
        rows = c.execute(_SINCE, (occurrence, head.version)).fetchall()
        return fold(head, *_unbroken(head, rows)) if rows else head

    def plan(self, c: sqlite3.Cursor, changes: Sequence[Change]) -> Plan:
        """What the changes come to. Where a head was behind the file, the place of its next event is taken there.

        Raises:
            Stale: a version is not the expected one.
        """
        plan = Plan([], [], [], [], [], [], [])
        written: dict[str, Head] = {}
        for change in changes:
            occurrence, expected, events = change.occurrence_id, change.expected, change.events
            before = written.get(occurrence) or self._before(c, change)
            if expected is None and not before.version and not any(isinstance(e, Opened) for e in events):
                _log.error("Occurrence %s is not in this journal: %r is not recorded.", occurrence, events)
                plan.heads.append(before)
                continue
            if expected is not None and before.version != expected:
                raise Stale(f"version {before.version}, not {expected}")
            if change.check is not None:
                change.check(before)
            if events:
                plan.events.append((occurrence, before.version + 1, _encode(events).decode()))
            plan.unless.extend(change.unless)
            for name, ordinal in change.names:
                plan.names.append((name, ordinal, occurrence))
            head = written[occurrence] = fold(before, *events)
            plan.heads.append(head)
            if expected == 0:
                plan.minted.append((_key(head), change.beside))
            _index(plan, before, head)
        return plan

    def _before(self, c: sqlite3.Cursor, change: Change) -> Head:
        """The head to write on. What is at hand is read again for a check only: were it behind, its place is taken."""
        occurrence, expected = change.occurrence_id, change.expected
        if change.check is not None:
            return self.read(c, occurrence)
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
    """Carries a plan out, inside a transaction; one that is a single row needs none.

    Raises:
        sqlite3.IntegrityError: a place or a name is taken.
        Stale: a name was taken, or an occurrence opened, that was not seen.
    """
    execute = c.execute
    for (slot, signature, digest, _), beside in plan.minted:
        for (occurrence,) in execute(_OPEN_NOW, (slot, signature, digest)).fetchall():
            if occurrence not in beside:
                raise Stale(f"{occurrence} was opened meanwhile")
    if plan.unless:
        names = [value for seen in plan.unless for value in seen]
        if taken := execute(_taken_since(len(plan.unless)), names).fetchone():
            raise Stale(f"{taken[0]} was taken meanwhile")
    for name in plan.names:
        execute(_TAKE if name[1] else _TAKE_NEXT, name)
    for key in plan.closed:
        execute(_CLOSE, key)
    for row in plan.opened:
        execute(_OPEN, row)
    for events in plan.events:
        execute(_ADD, events)


def single(plan: Plan) -> bool:
    """Whether it is one row and nothing to look at: SQLite makes a transaction of it."""
    return len(plan.events) == 1 and not (plan.names or plan.closed or plan.opened or plan.unless)


def matches(c: sqlite3.Cursor, query: Query) -> Matches:
    """What the file holds about a call, all of it true at one time."""
    named: dict[str, tuple[int, str]] = {}
    equal: list[str] = []
    others: list[str] = []
    rows = c.execute(_lookup(len(query.names)), (query.slot, query.signature, query.digest, *query.names)).fetchall()
    for what, number, occurrence in rows:
        if what == 1:
            equal.append(occurrence)
        elif what == 2:
            others.append(occurrence)
        else:
            named[what] = number, occurrence
    return Matches(named, equal, others)


def beginning(c: sqlite3.Cursor, kind: str, prefix: str) -> list[str]:
    """Ids that begin with a text: those of occurrences, or what names of a kind hold."""
    before = "" if kind == "occurrence" else f"{kind}:"
    query = _OCCURRENCES if kind == "occurrence" else _NAMES
    rows = c.execute(query, (before + prefix, before + prefix + "\U0010ffff")).fetchall()
    return [text.removeprefix(before) for (text,) in rows]


def _unbroken(head: Head, rows: Sequence[tuple[int, str]]) -> list[AnyEvent]:
    """The events of rows that follow on a head.

    Raises:
        Altered: one is missing, or the occurrence does not begin with how it was opened.
        msgspec.MsgspecError: a row cannot be read.
    """
    events: list[AnyEvent] = []
    for place, text in rows:
        if place != head.version + len(events) + 1:
            raise Altered(f"what was written at place {head.version + len(events) + 1} is gone")
        events += _decoder()(text)
    if head.version == 0 and not (events and isinstance(events[0], Opened)):
        raise Altered("it does not begin with how it was opened")
    return events


@lru_cache
def _lookup(names: int) -> str:
    return " UNION ALL ".join(
        (
            f"SELECT 1, 0, occurrence FROM {_EQUAL}",
            f"SELECT 2, 0, occurrence FROM {_OTHERS} < ?2",
            f"SELECT 2, 0, occurrence FROM {_OTHERS} > ?2",
            *(_NEWEST.format(n + 4) for n in range(names)),
        )
    )


@cache
def _decoder() -> Callable[[str], tuple[AnyEvent, ...]]:
    """Made when something is read: to know all events takes as long as a few calls."""
    return msgspec.json.Decoder(tuple[AnyEvent, ...]).decode


@lru_cache
def _taken_since(names: int) -> str:
    return " UNION ALL ".join([_TAKEN_SINCE] * names)


def _index(plan: Plan, before: Head, head: Head) -> None:
    """Keeps `heads` as it is: a row for each occurrence that is open, under its present digest."""
    was, now = before.version > 0 and not before.closed, not head.closed
    if was and now and (head.identity is before.identity or head.digest == before.digest):
        return
    if was:
        plan.closed.append(_key(before))
    if now:
        plan.opened.append(_key(head))


def _key(head: Head) -> Key:
    opened = head.opened
    return slot_of(opened.scope, opened.principal, opened.tool), opened.signature, head.digest, head.id
