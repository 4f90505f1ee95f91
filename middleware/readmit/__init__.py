"""Replay admission for effectful tool calls, seen through traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readmit._context import bind, occurrence, run, scope
from readmit._contract import Approval, Contract, NotSent, Rejected
from readmit._default import (
    abandon,
    accept,
    approve,
    authenticated,
    compensate,
    configure,
    declare_unknown,
    deny,
    pending,
    reconcile,
    revoke,
    show,
    tool,
)
from readmit._digest import DigestError
from readmit._epoch import Epoch, current
from readmit._errors import (
    ApprovalRequired,
    BatchIncomplete,
    BatchUndelivered,
    JournalUnavailable,
    OccurrenceConflict,
    OperatorError,
    ReadmitError,
    RecoveryPending,
    Refused,
    ReplayRefused,
)
from readmit._findings import Absent, Present, Question, Unclear
from readmit._guard import Guard
from readmit._operator import Pending
from readmit._version import __version__
from readmit.http import AsyncGuardedTransport, GuardedTransport, instrument, uninstrument

if TYPE_CHECKING:
    from readmit._batch import Batch, ModelCall
    from readmit._correlate import CallResult, Conflict, Correlation, CorrelationConflict, PendingCall, correlate
    from readmit._delivery import CallOutput, Delivery
else:
    from readmit._later import __getattr__ as __getattr__

__all__ = [
    "Absent",
    "Approval",
    "ApprovalRequired",
    "AsyncGuardedTransport",
    "Batch",
    "BatchIncomplete",
    "BatchUndelivered",
    "CallOutput",
    "CallResult",
    "Conflict",
    "Contract",
    "Correlation",
    "CorrelationConflict",
    "Delivery",
    "DigestError",
    "Epoch",
    "Guard",
    "GuardedTransport",
    "JournalUnavailable",
    "ModelCall",
    "NotSent",
    "OccurrenceConflict",
    "OperatorError",
    "Pending",
    "PendingCall",
    "Present",
    "Question",
    "ReadmitError",
    "RecoveryPending",
    "Refused",
    "Rejected",
    "ReplayRefused",
    "Unclear",
    "__version__",
    "abandon",
    "accept",
    "approve",
    "authenticated",
    "bind",
    "compensate",
    "configure",
    "correlate",
    "current",
    "declare_unknown",
    "deny",
    "instrument",
    "occurrence",
    "pending",
    "reconcile",
    "revoke",
    "run",
    "scope",
    "show",
    "tool",
    "uninstrument",
]
