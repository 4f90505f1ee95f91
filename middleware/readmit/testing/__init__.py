"""For tests of guarded tools: a real server that counts effects."""

from __future__ import annotations

from readmit.testing._effect_server import (
    ANSWERED,
    BROKEN_BODY,
    CHALLENGED,
    CHALLENGED_LATE,
    CHALLENGES,
    FAILED,
    INVALID,
    LOST,
    RESET,
    STALLED,
    Behaviour,
    Effect,
    EffectServer,
    Received,
    closed_port,
    redirected,
)

__all__ = [
    "ANSWERED",
    "BROKEN_BODY",
    "Behaviour",
    "CHALLENGED",
    "CHALLENGED_LATE",
    "CHALLENGES",
    "Effect",
    "EffectServer",
    "FAILED",
    "INVALID",
    "LOST",
    "RESET",
    "Received",
    "STALLED",
    "closed_port",
    "redirected",
]
