"""The durable record: its port, and the SQLite store."""

from __future__ import annotations

from readmit.journal._port import Change, Journal, Query, Stale
from readmit.journal._sqlite import SQLiteJournal

__all__ = ["Change", "Journal", "Query", "SQLiteJournal", "Stale"]
