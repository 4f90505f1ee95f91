"""HTTP: guarded transports for httpx and httpx2, and what their requests say about the effect."""

from __future__ import annotations

from readmit.http._instrument import instrument, uninstrument
from readmit.http._lookup import lookup
from readmit.http._transport import AsyncGuardedTransport, GuardedTransport

__all__ = ["AsyncGuardedTransport", "GuardedTransport", "instrument", "lookup", "uninstrument"]
