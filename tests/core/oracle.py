"""The table of DESIGN §5, written again as ordered rows over plain facts. It shares no code with the core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from readmit import Contract
from readmit._model import Justification, PermitSource, Refusal, Request
from tests.core.permits import Authority, PermitFact, Recovery
from tests.core.situations import PRINCIPAL, Effect

_RANK = {"testimony": 0, "contract": 1, "protocol": 2, "proof": 3}
APPROVALS = (PermitSource.APPROVAL, PermitSource.OPERATOR, PermitSource.POLICY)


class Expected(NamedTuple):
    """A decision, as plainly as it can be said."""

    decision: str
    reason: str = ""
    permits: frozenset[str] = frozenset()
    acceptance: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One situation of the table."""

    contract: Contract
    effect: Effect
    accepted: bool  # a person accepted what the newest epoch left
    authority: Authority
    recovery: Recovery
    request: Request

    # -- effect -----------------------------------------------------------------------------------------------------

    @property
    def weak(self) -> bool:
        """Evidence below the strength that the contract accepts."""
        strength = self.effect.strength
        return strength is not None and not self.effect.person and _RANK[strength] < _RANK[self.contract.accept]

    @property
    def state(self) -> str:
        """An absence that is too weak settles nothing."""
        return "unknown" if self.effect.state == "absent" and self.weak else self.effect.state

    @property
    def present(self) -> bool:
        return not self.effect.read and self.state in ("committed", "present")

    @property
    def alike(self) -> bool:
        """Rows 12 to 15: unknown, or evidence that is too weak."""
        return self.state == "unknown" or self.weak

    @property
    def key_holds(self) -> bool:
        lifetime = self.contract.key_lifetime_ns
        if self.contract.idempotency_key is not None and lifetime is not None:
            young = lifetime > 3600 * 10**9
            return young and self.contract.accept not in self.effect.unkeyed and self.effect.same_key
        return self.effect.client == "key"

    @property
    def by_client(self) -> bool:
        """Without a key of the tool's own contract, the clients' contracts speak."""
        own = self.contract.idempotency_key is not None and self.contract.key_lifetime is not None
        return self.effect.client == "idempotent" and not own

    @property
    def acceptance(self) -> str | None:
        return self.effect.accepts or ("acc" if self.accepted else None)

    # -- authority --------------------------------------------------------------------------------------------------

    @property
    def challenged(self) -> int | None:
        """The epoch of the newest challenge."""
        return None if self.recovery.challenge is None else self.effect.epochs - self.recovery.challenge

    def worth(self, permit: PermitFact) -> Refusal | None:
        if permit.claimed and not self.effect.proved_not_sent:
            return Refusal.PERMIT_CONSUMED
        lasting = permit.refusal in (Refusal.PERMIT_MISSING, Refusal.PERMIT_EXPIRED)
        if self.request.principal != PRINCIPAL and not lasting:
            return Refusal.WRONG_PRINCIPAL
        return permit.refusal

    def of(self, source: PermitSource) -> list[PermitFact]:
        facts = self.authority.facts
        if source is PermitSource.LOGIN:  # one that came before the challenge answers nothing
            return [p for p in facts if p.source is source and not p.early]
        return [p for p in facts if p.source in APPROVALS]

    @property
    def required(self) -> list[PermitSource]:
        withheld = self.request.withheld_by is not None or bool(self.authority.revoked)
        wanted = [PermitSource.APPROVAL] if self.request.approval or withheld else []
        return [*wanted, *([PermitSource.LOGIN] if self.challenged is not None else [])]

    def gate(self) -> Refusal | None:
        """What row 7 says, or None where it lets pass."""
        for source in self.required:
            permits = self.of(source)
            if not any(self.worth(p) is None for p in permits):
                return (self.worth(permits[-1]) if permits else None) or Refusal.PERMIT_MISSING
        return None

    def claims(self) -> frozenset[str]:
        return frozenset(i for s in self.required for i in [p.id for p in self.of(s) if self.worth(p) is None][-1:])

    def granted_since(self) -> str | None:
        """The newest valid permit that was granted after the compensation."""
        good = [p.id for p in self.authority.facts if not p.early and self.worth(p) is None]
        return good[-1] if good else None

    # -- recovery ---------------------------------------------------------------------------------------------------

    @property
    def unanswered(self) -> bool:
        challenge = self.recovery.challenge == 0 and not self.of(PermitSource.LOGIN)
        answered = any(p.source is PermitSource.APPROVAL and p.id == "approval" for p in self.authority.facts)
        asked = self.recovery.asked
        return challenge or asked == "open" or (asked == "request" and not answered)


Row = tuple[str, Callable[[Case], bool], Callable[[Case], Expected]]


def refuse(reason: Refusal) -> Callable[[Case], Expected]:
    return lambda c: Expected("refuse", reason)


def admit(justification: Justification) -> Callable[[Case], Expected]:
    return lambda c: Expected("admit", justification, c.claims())


def _return(case: Case) -> Expected:
    known = case.effect.result and case.request.principal == PRINCIPAL
    return Expected("return") if known else Expected("refuse", Refusal.ALREADY_COMMITTED)


def _compensated(case: Case) -> Expected:
    permit = case.granted_since()
    if permit is None:
        return Expected("refuse", Refusal.PERMIT_MISSING)
    return Expected("admit", Justification.COMPENSATED, case.claims() | {permit})


def _accepted(case: Case) -> Expected:
    return Expected("admit", Justification.AMBIGUITY_ACCEPTED, case.claims(), case.acceptance)


J, R = Justification, Refusal
TABLE: tuple[Row, ...] = (
    ("1", lambda c: c.request.conflict is not None, refuse(R.CONFLICT)),
    ("2", lambda c: c.present, _return),
    ("3 abandoned", lambda c: c.recovery.verdict == "abandoned", refuse(R.ABANDONED)),
    ("3 contradictory", lambda c: c.recovery.verdict == "contradictory", refuse(R.CONFLICT)),
    ("3 denied", lambda c: c.recovery.verdict == "denied", refuse(R.DENIED)),
    ("4 reentrant", lambda c: c.effect.flying and c.request.reentrant, refuse(R.REENTRANT)),
    ("4 waited", lambda c: c.effect.flying and c.request.owner_alive and c.request.waited, refuse(R.IN_FLIGHT)),
    ("4", lambda c: c.effect.flying and c.request.owner_alive, lambda c: Expected("wait")),
    (
        "5",
        lambda c: not c.effect.read and c.state == "unknown" and c.request.reconcilable and not c.request.asked,
        lambda c: Expected("reconcile", str(c.effect.epochs)),
    ),
    ("6", lambda c: c.unanswered, refuse(R.RECOVERY_PENDING)),
    ("7", lambda c: c.gate() is not None, lambda c: Expected("refuse", c.gate() or "")),
    ("8", lambda c: c.effect.epochs == 0, admit(J.FIRST_ATTEMPT)),
    ("9", lambda c: c.effect.read, admit(J.SIDE_EFFECT_FREE)),
    ("10 absent", lambda c: c.state == "absent" and not c.weak, admit(J.RECONCILED_ABSENT)),
    ("10 not_sent", lambda c: c.state == "not_sent" and not c.weak, admit(J.NOT_SENT)),
    ("10 rejected", lambda c: c.state == "rejected" and not c.weak, admit(J.REJECTED)),
    ("11", lambda c: c.state == "compensated" and not c.weak, _compensated),
    ("12", lambda c: c.alike and (c.contract.idempotent or c.by_client), admit(J.IDEMPOTENT)),
    ("13", lambda c: c.alike and c.key_holds, admit(J.IDEMPOTENCY_KEY)),
    ("14", lambda c: c.alike and c.acceptance is not None, _accepted),
    ("15", lambda c: c.alike and c.effect.blind < c.contract.blind_retries, admit(J.BOUNDED_RETRY)),
    ("16", lambda c: True, refuse(R.EFFECT_UNKNOWN)),
)
"""Rows in order: a name, when it matches, what it decides."""


def expected(case: Case) -> tuple[str, Expected]:
    """The first row that matches, and what it says."""
    for name, matches, says in TABLE:
        if matches(case):
            return name, says(case)
    raise AssertionError(case)
