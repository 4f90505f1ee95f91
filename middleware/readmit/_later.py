"""Names of `readmit` that are imported when they are first used: most programs have no batches (PEP 562)."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_WHERE = {
    "Batch": "_batch",
    "CallOutput": "_delivery",
    "CallResult": "_correlate",
    "Conflict": "_correlate",
    "Correlation": "_correlate",
    "CorrelationConflict": "_correlate",
    "Delivery": "_delivery",
    "ModelCall": "_batch",
    "PendingCall": "_correlate",
    "correlate": "_correlate",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'readmit' has no attribute {name!r}")
    value = getattr(import_module(f"readmit.{_WHERE[name]}"), name)
    setattr(sys.modules["readmit"], name, value)
    return value
