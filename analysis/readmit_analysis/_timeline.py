"""What happened in one occurrence: epochs and sends, and the lanes recovery, authority and effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from readmit_analysis._finding import Finding
from readmit_analysis._sql import statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["Lane", "Timeline", "TimelineEvent", "timeline"]

_RANK = {"committed": 4, "unknown": 3, "in flight": 3, "rejected": 2, "not_sent": 1}
_SETTLED = ("committed", "rejected", "not_sent", "reconciled", "compensated")
_AUTHORITY = {"login": "login", "approve": "approval", "deny": "denial", "revoke": "revocation"}


class Lane(StrEnum):
    """The rows of a timeline, from top to bottom."""

    EPOCH = "epochs"
    SEND = "sends"
    RECOVERY = "recovery"
    AUTHORITY = "authority"
    EFFECT = "effect"


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One thing on a lane.

    Attributes:
        lane: Where it belongs.
        label: A word or two.
        state: What colours it: an effect state, a recovery state, a decision.
        start_ns: Nanoseconds since 1970.
        end_ns: The end, or None for something without extent, or without an end in the traces (`is_open`).
        detail: More, for a tooltip.
        is_open: It has an extent and its end is not known.
        trace_id: The span it was read from.
        span_id: The span it was read from.
    """

    lane: Lane
    label: str
    state: str
    start_ns: int
    end_ns: int | None = None
    detail: str = ""
    is_open: bool = False
    trace_id: str = ""
    span_id: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The events of one occurrence in order of lane and time.

    Attributes:
        occurrence_id: The occurrence, or None outside of `readmit`.
        tool: The tool's name.
        events: All events.
    """

    occurrence_id: str | None
    tool: str
    events: tuple[TimelineEvent, ...]

    def lane(self, lane: Lane) -> tuple[TimelineEvent, ...]:
        """The events of one lane."""
        return tuple(event for event in self.events if event.lane is lane)


Rows = list[dict[str, Any]]


class _Change(NamedTuple):
    at: int
    state: str
    label: str
    row: Mapping[str, Any]


def timeline(con: DuckDBPyConnection, occurrence: str | Finding) -> Timeline:
    """Build the timeline of an occurrence, or of a finding that has none.

    Raises:
        KeyError: Nothing in these traces belongs to it.
    """
    if isinstance(occurrence, Finding) and occurrence.occurrence_id is None:
        span_ids = [span.span_id for span in occurrence.spans]
        attempts = _rows(con, "calls", span_ids=span_ids)
        acts = _sign_ins(con, attempts)
    else:
        occurrence_id = occurrence.occurrence_id if isinstance(occurrence, Finding) else occurrence
        span_ids = []
        attempts = _rows(con, "epochs", occurrence_id=occurrence_id)
        acts = _rows(con, "acts", occurrence_id=occurrence_id)
    sends = _rows(con, "sends", span_ids=[*span_ids, *(row["span_id"] for row in attempts)])
    if not (attempts or acts or sends):
        raise KeyError(f"nothing in these traces belongs to {occurrence}")
    events = [
        *_epoch_lane(attempts, acts),
        *_send_lane(sends),
        *_intervals(Lane.RECOVERY, _recovery_changes(attempts, acts)),
        *_authority_lane(attempts, acts),
        *_intervals(Lane.EFFECT, _effect_changes(attempts, acts)),
    ]
    tool = next((row["tool"] for row in attempts if row["tool"]), "")
    return Timeline(occurrence.occurrence_id if isinstance(occurrence, Finding) else occurrence, tool, tuple(events))


def _rows(con: DuckDBPyConnection, query: str, **parameters: Any) -> Rows:
    result = con.execute(statement("timeline", query), parameters)
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _sign_ins(con: DuckDBPyConnection, attempts: Rows) -> Rows:
    if not attempts:
        return []
    first, last = attempts[0], attempts[-1]
    end_ns = last["end_ns"] or last["start_ns"]
    rows = _rows(con, "sign_ins", first_ns=first["start_ns"], last_ns=end_ns, span_id=first["span_id"])
    blank = dict.fromkeys(("decision", "refusal", "effect_state", "recovery_state", "recovery_kind", "permit_state"))
    return [{**blank, **row, "act": "login", "permit_source": "login"} for row in rows]


def _epoch_lane(attempts: Rows, acts: Rows) -> Iterator[TimelineEvent]:
    for number, row in enumerate(attempts, start=1):
        label = row["label"] if row["label"] != "execution" else f"execution {number}"
        yield TimelineEvent(
            Lane.EPOCH,
            label if row["kind"] == "executed" else f"{label}: no span",
            row["effect_state"] or "no effect",
            row["start_ns"],
            row["end_ns"],
            detail=_words(row["decision"], row["because"], row["came_after"] and f"after {row['came_after']}"),
            is_open=row["end_ns"] is None,
            trace_id=row["trace_id"],
            span_id=row["span_id"],
        )
    for row in acts:
        if row["decision"] in ("return", "wait", "reconcile", "refuse"):
            label = f"refuse: {row['refusal']}" if row["refusal"] else row["decision"]
            yield _mark(Lane.EPOCH, label, row["decision"], row)
        elif row["act"] in ("abandon", "accept", "declare_unknown"):
            yield _mark(Lane.EPOCH, row["act"].replace("_", " "), row["act"], row)


def _send_lane(sends: Rows) -> Iterator[TimelineEvent]:
    for row in sends:
        outcome = str(row["status_code"] or row["error_type"] or "no answer").rpartition(".")[2]
        again = f"resend {row['resend_count']}" if row["resend_count"] else None
        yield replace(
            _mark(Lane.SEND, f"{row['method']} {outcome}", row["effect_state"] or "no effect", row),
            detail=_words(row["effect_rule"], again),
        )


def _authority_lane(attempts: Rows, acts: Rows) -> Iterator[TimelineEvent]:
    for row in acts:
        if row["act"] in _AUTHORITY:
            yield _mark(Lane.AUTHORITY, _AUTHORITY[row["act"]], row["permit_state"] or "granted", row)
    for row in attempts:
        if row["permit_source"]:
            state = row["permit_state"] or "granted"
            yield _mark(Lane.AUTHORITY, f"{row['permit_source']} {state}", state, row)


def _recovery_changes(attempts: Rows, acts: Rows) -> Iterator[_Change]:
    for row in attempts:
        if row["label"] == "execution":  # outside readmit a new attempt is all that is known of the recovery
            yield _Change(row["start_ns"], "clear", "clear", row)
        if row["recovery_state"]:
            yield _recovery_change(row["end_ns"] or row["start_ns"], row)
    for row in acts:
        if row["recovery_state"]:
            yield _recovery_change(row["start_ns"], row)


def _recovery_change(at: int, row: Mapping[str, Any]) -> _Change:
    state = row["recovery_state"]
    return _Change(at, state, _words(state, row["recovery_kind"] if state == "suspended" else None), row)


def _effect_changes(attempts: Rows, acts: Rows) -> Iterator[_Change]:
    folded = ""
    for row in attempts:
        if row["end_ns"] is None:  # a crash, or a lost span
            folded = max(folded, "unknown", key=lambda state: _RANK.get(state, 0))
            yield _Change(row["start_ns"], folded, folded, row)
            continue
        if _RANK.get(folded, 0) < _RANK["unknown"]:
            yield _Change(row["start_ns"], "in flight", "in flight", row)
        folded = max(folded, row["effect_state"] or "", key=lambda state: _RANK.get(state, 0))
        yield _Change(row["end_ns"], folded or "no effect", folded or "no effect", row)
    for row in acts:
        told = row["act"] in ("reconcile", "compensate", "declare_unknown")
        learned = row["act"] == "admit" and row["effect_state"] in _SETTLED
        if row["effect_state"] and (told or learned):
            yield _Change(row["start_ns"], row["effect_state"], row["effect_state"], row)


def _intervals(lane: Lane, changes: Iterable[_Change]) -> Iterator[TimelineEvent]:
    """Turn changes of a state into stretches of it; the last one is open."""
    current: TimelineEvent | None = None
    for at, state, label, row in sorted(changes, key=lambda change: change.at):
        if current is not None and (current.state, current.label) == (state, label):
            continue
        if current is not None:
            yield replace(current, end_ns=at, is_open=False)
        current = TimelineEvent(lane, label, state, at, None, "", True, row["trace_id"], row["span_id"])
    if current is not None:
        yield current


def _mark(lane: Lane, label: str, state: str, row: Mapping[str, Any]) -> TimelineEvent:
    return TimelineEvent(lane, label, state, row["start_ns"], trace_id=row["trace_id"], span_id=row["span_id"])


def _words(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)
