"""What an equal call would meet now: after an act, the sentence that a person is missing."""

from __future__ import annotations

from typing import NamedTuple

from readmit._admission import Admit, Decision, Reconcile, Refuse, Return, Wait, decide
from readmit._contract import Contract, Policy
from readmit._fold import Head
from readmit._model import Binding, Refusal, Request


class NextCall(NamedTuple):
    """What an equal call would meet: for scripts, and in a sentence."""

    decision: str  # admit, return, wait, refuse; new: another occurrence
    why: str
    said: str


def request(head: Head, *, alive: bool = False) -> Request:
    """An equal call, as far as the journal alone can tell: the target and the policy are those that were shown."""
    asked = head.confirmation
    shown = (asked.binding if asked is not None else None) or Binding()
    return Request(
        principal=head.opened.principal,
        digest=head.digest,
        read=head.opened.read,
        approval=asked is not None or any(a.request.approval for a in head.admissions[-1:]),
        target=shown.target,
        executor=shown.executor,
        policy_version=shown.policy_version,
        owner_alive=alive,
    )


def next_call(head: Head, contract: Contract, now: int, *, alive: bool) -> NextCall:
    """Decides an equal call as the program would, without its reconcile hook.

    Args:
        head: the occurrence.
        contract: that of its newest epoch.
        now: nanoseconds since the Unix epoch.
        alive: whether an epoch is in flight in a process that lives.
    """
    if head.closed and head.opened.key is None:  # a key finds it for good
        needs = ", and needs an approval" if head.denied else ""
        return NextCall("new", "closed", f"This one is closed: an equal call is a new occurrence{needs}.")
    asks = request(head, alive=alive)
    policy = Policy(version=asks.policy_version, executor=asks.executor)
    decision = decide(contract, head, head.grants, asks, policy, now)
    next_ = _said(decision)
    observed = head.admissions and head.admissions[-1].justification is None
    return next_._replace(said=f"Where calls are enforced: {next_.said}") if observed else next_


_BY_ITSELF = "Nothing runs by itself: the program has to make the call again"


def _said(decision: Decision) -> NextCall:
    match decision:
        case Admit():
            why = decision.justification
            return NextCall("admit", why, f"{_BY_ITSELF}, and it will then run ({why}).")
        case Return():
            return NextCall("return", "", f"{_BY_ITSELF}, and it then gets the recorded result; nothing is sent.")
        case Wait() | Reconcile():
            return NextCall("wait", "", "An equal call waits for the epoch that is in flight.")
        case Refuse(reason=Refusal.ALREADY_COMMITTED):
            text = (
                f"{_BY_ITSELF}, and it is then told that the effect is there; nothing is sent. "
                "Once told, an equal call without a key is a new one."
            )
            return NextCall("refuse", decision.reason, text)
        case Refuse(ask=True):
            text = (
                f"{_BY_ITSELF}: it is not run, and asks for an approval ({decision.reason}); once that is given, the "
                "next one is."
            )
            return NextCall("refuse", decision.reason, text)
        case Refuse():
            gates = f"; closed: {', '.join(decision.gates)}" if decision.gates else ""
            return NextCall("refuse", decision.reason, f"An equal call is still refused ({decision.reason}{gates}).")
