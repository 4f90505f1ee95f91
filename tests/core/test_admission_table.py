"""The table of DESIGN §5: contract by effect by permits by recovery by request, against the table itself.

The rows stand in `oracle.py`, over plain facts; the heads are folded from real events. What must hold whatever the rows
say is asserted beside them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import product

import msgspec
import pytest

from readmit import Contract
from readmit._admission import Admit, Decision, Reconcile, Refuse, Return, Wait, decide
from readmit._fold import Head
from readmit._model import Accepted, Admitted, Refusal, Request
from tests.core.effects import EFFECTS, READS
from tests.core.oracle import TABLE, Case, Expected, expected
from tests.core.permits import PERMITS, POLICY, RECOVERIES, Authority, Recovery, grants
from tests.core.remedies import applied
from tests.core.situations import DIGEST, NOW, PRINCIPAL, START, Effect, head_of, opened

_HOUR = timedelta(hours=1)
CONTRACTS = {
    "default": Contract(),
    "idempotent": Contract(idempotent=True),
    "keys": Contract(idempotency_key="Idempotency-Key", key_lifetime=2 * _HOUR),
    "keys, kept too short": Contract(idempotency_key="Idempotency-Key", key_lifetime=_HOUR / 2),
    "keys, nobody says how long": Contract(idempotency_key="Idempotency-Key"),
    "one blind retry": Contract(blind_retries=1),
    "only proof": Contract(accept="proof"),
    "protocol": Contract(accept="protocol", idempotency_key="Idempotency-Key", key_lifetime=2 * _HOUR, blind_retries=1),
    "anybody's word": Contract(accept="testimony"),
}
_PLAIN = Request(
    principal=PRINCIPAL, digest=DIGEST, executor=POLICY.executor, policy_version=POLICY.version, owner_alive=True
)


def _request(**changes: object) -> Request:
    return msgspec.structs.replace(_PLAIN, **changes)


REQUESTS = {
    "plain": _request(),
    "approval": _request(approval=True),
    "a hook, not yet asked": _request(reconcilable=True),
    "approval, a hook that was asked": _request(approval=True, reconcilable=True, asked=True),
    "withheld": _request(withheld_by="denied"),
    "somebody else": _request(principal="bob"),
    "owner dead": _request(owner_alive=False),
    "waited": _request(waited=True, approval=True),
    "reentrant": _request(reentrant=True),
    "conflict": _request(conflict="cents", approval=True),
}
TERMINAL = {Refusal.CONFLICT, Refusal.DENIED, Refusal.ABANDONED, Refusal.REENTRANT}


@lru_cache(maxsize=4096)
def _head(effect: int, accepted: bool, authority: int, recovery: int) -> Head | None:
    """The head of one situation; None where the parts do not fit."""
    facts, permits, stopped = (*EFFECTS, *READS)[effect], PERMITS[authority], RECOVERIES[recovery]
    last = facts.epochs
    if (accepted or permits.claims) and not last:
        return None
    if stopped.challenge is not None and last - stopped.challenge < 1:
        return None
    early, late = grants(permits, last)
    events = list(facts.events)
    for i, event in enumerate(events):
        if isinstance(event, Admitted) and event.epoch == last and permits.claims:
            events[i] = msgspec.structs.replace(event, permits=permits.claims)
    acceptance = (Accepted(at=START, id="acc", epoch=last, by="ann", statement="twice is fine"),) if accepted else ()
    return head_of([opened(read=facts.read), *early, *events, *acceptance, *stopped.events(last), *late])


def cases(
    contracts: Iterable[Contract], effects: Sequence[int], permits: Sequence[int], requests: Iterable[Request]
) -> Iterator[tuple[Case, Head]]:
    """Every combination that fits."""
    requests, contracts = list(requests), list(contracts)
    for effect, accepted, authority, recovery in product(effects, (False, True), permits, range(len(RECOVERIES))):
        head = _head(effect, accepted, authority, recovery)
        if head is None:
            continue
        facts: Effect = (*EFFECTS, *READS)[effect]
        authority_facts: Authority = PERMITS[authority]
        stopped: Recovery = RECOVERIES[recovery]
        for contract, request in product(contracts, requests):
            asks = msgspec.structs.replace(request, read=facts.read) if facts.read else request
            yield Case(contract, facts, accepted, authority_facts, stopped, asks), head


def said(decision: Decision) -> Expected:
    """A decision, as the oracle puts it."""
    match decision:
        case Admit():
            ids = frozenset(p.permit.id for p in decision.permits)
            return Expected("admit", decision.justification, ids, decision.acceptance)
        case Refuse():
            return Expected("refuse", decision.reason)
        case Reconcile():
            return Expected("reconcile", str(decision.fence))
        case Wait():
            return Expected("wait")
        case Return():
            return Expected("return")


def holds(case: Case, row: str, decision: Decision) -> None:
    """What must be so whatever the rows say."""
    request = case.request
    if isinstance(decision, Admit):
        assert request.conflict is None
        assert not case.present
        assert not case.recovery.verdict
        assert not (case.effect.flying and (request.owner_alive or request.reentrant))
        assert not case.unanswered
        assert case.gate() is None
        if request.approval:
            assert decision.permits, "an approval tool without a permit"
        if case.state == "unknown" and case.contract == Contract() and not case.effect.client:
            assert decision.acceptance, "the default contract, unknown, nobody accepted it"
    if isinstance(decision, Refuse):
        assert decision.gates
        if decision.reason not in TERMINAL:
            assert decision.remedies, decision
        if row in ("6", "7", "11", "16"):
            shut = {"recovery": case.unanswered, "authority": case.gate() is not None, "effect": _effect_shut(case)}
            assert decision.gates == tuple(name for name, is_shut in shut.items() if is_shut), shut


def _effect_shut(case: Case) -> bool:
    """Whether rows 8 to 16 alone would refuse."""
    first = next(i for i, (name, _, _) in enumerate(TABLE) if name == "8")
    says = next(says for _, matches, says in TABLE[first:] if matches(case))
    return says(case).decision == "refuse"


def check(some: Iterable[tuple[Case, Head]], *, remedies_of_every: int = 0) -> Counter[str]:
    """Decides each and compares; counts which rows decided."""
    rows: Counter[str] = Counter()
    for number, (case, head) in enumerate(some):
        decision = decide(case.contract, head, head.grants, case.request, POLICY, NOW)
        row, wanted = expected(case)
        if said(decision) != wanted:
            raise AssertionError(_described(case, row, wanted, decision))
        try:
            holds(case, row, decision)
        except AssertionError as error:
            raise AssertionError(f"{error}: {_described(case, row, wanted, decision)}") from error
        if remedies_of_every and number % remedies_of_every == 0 and isinstance(decision, Refuse):
            _every_remedy_changes_something(case, head, decision)
        rows[row] += 1
    return rows


def _every_remedy_changes_something(case: Case, head: Head, refused: Refuse) -> None:
    for remedy in refused.remedies:
        after, request = applied(remedy, head, case.request)
        again = decide(case.contract, after, after.grants, request, POLICY, NOW)
        assert again != refused, f"{remedy} changes nothing: {_described(case, '', said(refused), refused)}"


def _described(case: Case, row: str, wanted: Expected, decision: Decision) -> str:
    parts = (case.effect.name, case.authority.name, case.recovery.name, "accepted" if case.accepted else "")
    return f"{parts}, {case.contract}, {case.request}: row {row} says {wanted}, got {decision}"


_NAMES = [e.name for e in (*EFFECTS, *READS)]
_EVERY_EFFECT = range(len(_NAMES))
_EVERY_PERMIT = range(len(PERMITS))
_SHORT_EFFECTS = [
    _NAMES.index(name)
    for name in (
        "nothing yet", "not_sent, proof", "rejected, contract", "returned", "lost, with a key", "lost, without a key",
        "in flight", "lost, retried blindly, lost", "accepted, refused", "absent, by a person", "absent, by the hook",
        "compensated", "two lost, the first compensated", "a read, raised",
    )
]  # fmt: skip
_SHORT_PERMITS = [
    i for i, p in enumerate(PERMITS)
    if p.name in {
        "none", "approved", "approval expired", "approval of other arguments", "approval revoked", "used",
        "login before", "login", "login and approval",
    }
]  # fmt: skip
_FAST = bool(os.environ.get("READMIT_FAST"))  # the mutation tests run this one many times


def test_every_row_of_the_table_decides() -> None:
    contracts = [CONTRACTS[name] for name in ("default", "idempotent", "protocol")]
    rows = check(cases(contracts, _SHORT_EFFECTS, _SHORT_PERMITS, REQUESTS.values()), remedies_of_every=211)
    assert set(rows) == {name for name, _, _ in TABLE}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_effects_under_every_contract(contract: str) -> None:
    """Every effect, with the permits that open the authority gate and those that do not."""
    requests = [REQUESTS[name] for name in ("plain", "a hook, not yet asked", "somebody else", "owner dead")]
    permits = [i for i, p in enumerate(PERMITS) if p.name in ("none", "login and approval")]
    check(cases([CONTRACTS[contract]], _EVERY_EFFECT, permits, requests), remedies_of_every=0 if _FAST else 29)


def test_permits_in_every_recovery() -> None:
    """Every permit in every recovery, with the effects that open the effect gate and those that do not."""
    effects = [
        _NAMES.index(n)
        for n in ("nothing yet", "not_sent, proof", "not_sent, contract", "raised", "compensated", "a read, raised")
    ]
    check(cases([Contract()], effects, _EVERY_PERMIT, REQUESTS.values()), remedies_of_every=0 if _FAST else 29)


def test_what_is_harmless_goes_through_without_a_person() -> None:
    """I8: a read, an idempotent tool after any doubt, what is proved not to have been sent."""
    nobody, harmless = [i for i, p in enumerate(PERMITS) if p.name == "none"], Counter[str]()
    idempotent = CONTRACTS["idempotent"]
    for case, head in cases([Contract(), idempotent], _EVERY_EFFECT, nobody, [_PLAIN]):
        doubt = case.effect.state == "unknown" and case.contract is idempotent
        if case.recovery.name in ("clear", "failure") and not case.effect.flying:
            decision = decide(case.contract, head, head.grants, case.request, POLICY, NOW)
            if case.effect.read or doubt or case.effect.name == "not_sent, proof":
                assert isinstance(decision, Admit) and not decision.permits, case
                harmless[case.effect.name] += 1
    assert len(harmless) > 10


@pytest.mark.slow
@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_whole_product(contract: str) -> None:
    check(cases([CONTRACTS[contract]], _EVERY_EFFECT, _EVERY_PERMIT, REQUESTS.values()))
