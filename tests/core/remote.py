"""The other side: a service that acts, and the ways in which one execution can go. The truth of the tests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from readmit import NotSent, Rejected
from readmit._epoch import Epoch, Send
from readmit._model import Challenge, EffectState, Evidence, Outcome, SendStarted, Strength
from readmit._steps import Done


class Known(Enum):
    """What somebody who sees all that the caller sees can say of the effect."""

    DONE = "done"
    NOTHING = "nothing"
    DOUBT = "doubt"


class Seen(NamedTuple):
    """One guarded send: its request, what was seen of it (None: no answer), and whether it was challenged."""

    request: str
    evidence: Evidence | None = None
    challenged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One way in which a tool's body can go."""

    acts: bool  # whether the service does its thing
    known: Known
    sends: tuple[Seen, ...] = ()
    outcome: Outcome = Outcome.RAISED
    error: type[BaseException] = TimeoutError
    text: str = ""  # what a normal return says instead of the receipt
    started: bool = True


def _seen(state: EffectState, strength: Strength, rule: str, request: str = "pay") -> Seen:
    return Seen(request, Evidence(state=state, strength=strength, rule=rule))


_OK = _seen(EffectState.COMMITTED, Strength.PROTOCOL, "http.2xx")
_422 = _seen(EffectState.REJECTED, Strength.PROTOCOL, "http.4xx")
_REFUSED = _seen(EffectState.NOT_SENT, Strength.PROOF, "http.not_connected")
_401 = _seen(EffectState.UNKNOWN, Strength.TESTIMONY, "http.challenge")._replace(challenged=True)
_401_FIRST = _seen(EffectState.REJECTED, Strength.CONTRACT, "http.challenge")._replace(challenged=True)
_NO_ANSWER = Seen("pay")
_RETURNED = Outcome.RETURNED

FATES: dict[str, Fate] = {
    "ok": Fate(acts=True, known=Known.DONE, sends=(_OK,), outcome=_RETURNED),
    "ok at the second try": Fate(acts=True, known=Known.DONE, sends=(_NO_ANSWER, _OK), outcome=_RETURNED),
    "ok beside a 422": Fate(
        acts=True, known=Known.DONE, sends=(_422._replace(request="notify"), _OK), outcome=_RETURNED
    ),
    "unseen ok": Fate(acts=True, known=Known.DONE, outcome=_RETURNED),
    "lost": Fate(acts=True, known=Known.DOUBT, sends=(_NO_ANSWER,)),
    "lost on the way": Fate(acts=False, known=Known.DOUBT, sends=(_NO_ANSWER,)),
    "refused": Fate(acts=False, known=Known.NOTHING, sends=(_REFUSED,), error=ConnectionRefusedError),
    "422": Fate(acts=False, known=Known.NOTHING, sends=(_422,), error=ValueError),
    "401": Fate(acts=False, known=Known.DOUBT, sends=(_401,), error=PermissionError),
    "401 before it acts": Fate(acts=False, known=Known.NOTHING, sends=(_401_FIRST,), error=PermissionError),
    "200 then raised": Fate(acts=True, known=Known.DONE, sends=(_OK,), error=ValueError),
    "half": Fate(acts=True, known=Known.DOUBT, sends=(_OK, _422._replace(request="notify")), error=ValueError),
    "refused then lost": Fate(acts=True, known=Known.DOUBT, sends=(_REFUSED, _NO_ANSWER)),
    "raised": Fate(acts=False, known=Known.DOUBT, error=ValueError),
    "raised before any send": Fate(acts=False, known=Known.NOTHING, error=ValueError),
    "raised after": Fate(acts=True, known=Known.DOUBT, error=ValueError),
    "says not sent": Fate(acts=False, known=Known.NOTHING, error=NotSent),
    "says rejected": Fate(acts=False, known=Known.NOTHING, error=Rejected),
    "says rejected, was lost": Fate(acts=True, known=Known.DOUBT, sends=(_NO_ANSWER,), error=Rejected),
    "cancelled": Fate(acts=True, known=Known.DOUBT, outcome=Outcome.CANCELLED, error=KeyboardInterrupt),
    "cancelled first": Fate(
        acts=False, known=Known.NOTHING, outcome=Outcome.CANCELLED, error=KeyboardInterrupt, started=False
    ),
    "error text": Fate(acts=True, known=Known.DOUBT, outcome=_RETURNED, text="Error: the gateway timed out"),
    "error text of nothing": Fate(
        acts=False, known=Known.DOUBT, outcome=_RETURNED, text="Error: the gateway timed out"
    ),
}
"""Every fate by its name.

Those that act without sends are for tools whose effects are not all seen; the one that raised before any send is known
to have done nothing only where all effects go through guarded clients.
"""


def live_through(fate: Fate, epoch: Epoch, at: int, result: str, *, keyed: bool) -> Done:
    """What the body of a tool leaves behind: the sends a guarded transport would have put down, and how it ended."""
    for number, seen in enumerate(fate.sends, 1):
        key = epoch.idempotency_key if keyed else None
        started = SendStarted(at=at, epoch=epoch.number, send=number, route="POST /pay", request=seen.request, key=key)
        send = Send(started, 0)
        send.journalled = False
        send.evidence = [] if seen.evidence is None else [seen.evidence]
        send.challenges = (Challenge(raw="Bearer", scheme="bearer"),) if seen.challenged else ()
        epoch.sends.append(send)
    if fate.outcome is Outcome.RETURNED:
        return Done(Outcome.RETURNED, fate.text or result)
    return Done(fate.outcome, error=fate.error(), started=fate.started)
