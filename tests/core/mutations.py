"""Rules of DESIGN §3 to §5, each broken by one small change of the core's text."""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """One rule, broken: in `file` the text `old`, which stands there once, becomes `new`; `seen_by` must fail."""

    rule: str
    file: str
    old: str
    new: str
    seen_by: str


TABLE = "test_admission_table.py"


def explored(scenario: str) -> str:
    """The exploration of one scenario."""
    return f"test_exploration.py::test_nothing_that_can_happen_breaks_a_rule[{scenario}]"


MUTATIONS = (
    Mutation(
        "a challenge needs a valid login (row 7)",
        "_authority.py",
        "    if head.challenge is not None:\n        sources.append",
        "    if False:\n        sources.append",
        TABLE,
    ),
    Mutation(
        "nothing runs while a condition is unanswered (row 6)",
        "_admission.py",
        "if not head.answered(s) and _current(s, request)]",
        "if False]",
        TABLE,
    ),
    Mutation(
        "a login says nothing about the effect",
        "_admission.py",
        "    if not epochs:  # row 8",
        "    if not epochs or any(g.permit.after_epoch >= head.last_epoch for _, g in head.grants):  # row 8",
        explored("challenges"),
    ),
    Mutation(
        "an approval has one use",
        "_authority.py",
        "if permit.uses is not None and claims >= permit.uses:",
        "if permit.uses is not None and claims > permit.uses:",
        explored("approval of an idempotent tool"),
    ),
    Mutation(
        "a claim is given back at strength proof alone",
        "_effect.py",
        "and self.evidence.strength is Strength.PROOF",
        "",
        explored("approval of an idempotent tool"),
    ),
    Mutation(
        "an approval is bound to the target's state",
        "_authority.py",
        'return "target" if bound.target != request.target else ""',
        'return ""',
        TABLE,
    ),
    Mutation(
        "the denial of an equal call withholds ambient authority",
        "_authority.py",
        "if request.approval or request.withheld_by is not None or head.revocations:",
        "if request.approval or head.revocations:",
        TABLE,
    ),
    Mutation(
        "a denial is terminal (row 3)",
        "_admission.py",
        "    if head.denied:\n        return Refuse(Refusal.DENIED",
        "    if False:\n        return Refuse(Refusal.DENIED",
        explored("keys of two principals, with approval"),
    ),
    Mutation(
        "only an older request is superseded",
        "_fold.py",
        "return frozenset(asked[:-1])",
        "return frozenset(asked)",
        explored("keys of two principals, with approval"),
    ),
    Mutation(
        "nothing runs on the permit of a request that was denied",
        "_authority.py",
        "if permit.request in head.denials:",
        "if False:",
        explored("keys of two principals, with approval"),
    ),
    Mutation(
        "absence never overrides committed evidence",
        "_effect.py",
        "        if epoch.evidence is not None and epoch.stands(undone):",
        "        if epoch.evidence is not None and epoch.stands(undone)"
        ' and not any(isinstance(e, Reconciled) and e.finding == "absent" for _, e in recorded):',
        TABLE,
    ),
    Mutation(
        "a later refused connection never settles an earlier unknown",
        "_effect.py",
        "    for evidence in reversed(known):\n",
        "    for evidence in known[-1:]:\n",
        TABLE,
    ),
    Mutation(
        "committed beside rejected is unknown",
        "_effect.py",
        "    if EffectState.COMMITTED in states and len(states) > 1:\n",
        "    if False:\n",
        explored("every fate"),
    ),
    Mutation(
        "cancellation after dispatch is unknown",
        "_effect.py",
        'said or unknown("tool.cancelled")',
        'said or Evidence(state=EffectState.NOT_SENT, strength=Strength.CONTRACT, rule="tool.cancelled")',
        explored("every fate"),
    ),
    Mutation(
        "an exception says nothing about a send that was seen to leave",
        "_effect.py",
        "    if not elements:\n        return said or nothing",
        "    if not elements or said:\n        return said or nothing",
        explored("every fate"),
    ),
    Mutation(
        "a normal return lifts unknown to committed",
        "_effect.py",
        "    if sends and all(e.state is EffectState.COMMITTED for e in sends):",
        "    if sends:",
        explored("every fate"),
    ),
    Mutation(
        "a compensation needs a permit granted since (row 11)",
        "_admission.py",
        "        if not later:\n",
        "        if not later:\n            return Admit(Justification.COMPENSATED)\n        if not later:\n",
        TABLE,
    ),
    Mutation(
        "a commit recorded after a compensation stands",
        "_effect.py",
        "fence >= self.admitted.epoch and place > self.committed_at for",
        "fence >= self.admitted.epoch for",
        TABLE,
    ),
    Mutation(
        "an acceptance lapses once a later epoch may have sent (row 14)",
        "_admission.py",
        "        if acceptance.epoch >= newest and not later:",
        "        if True:",
        explored("one caller, people settle"),
    ),
    Mutation(
        "a key justifies a replay only while the service keeps it (row 13)",
        "_admission.py",
        "not 0 <= age < (contract.key_lifetime_ns or 0) or",
        "",
        explored("keys"),
    ),
    Mutation(
        "a key justifies a replay only while it is the same key (row 13)",
        "_admission.py",
        "    return Justification.IDEMPOTENCY_KEY if _same_key(head, epochs) else None",
        "    return Justification.IDEMPOTENCY_KEY",
        TABLE,
    ),
    Mutation(
        "the bound of blind retries (row 15)",
        "_admission.py",
        "    if blind < contract.blind_retries:",
        "    if contract.blind_retries:",
        explored("bounded retries"),
    ),
    Mutation(
        "in its own call stack a call is refused (row 4)",
        "_admission.py",
        "    if in_flight and request.reentrant:",
        "    if False:",
        TABLE,
    ),
    Mutation(
        "one epoch in flight (row 4)",
        "_admission.py",
        "    if in_flight and request.owner_alive:\n        if request.waited",
        "    if in_flight and request.owner_alive and not contract.idempotent:\n        if request.waited",
        explored("idempotent"),
    ),
    Mutation(
        "a joined caller starts no epoch (row 4)",
        "_call.py",
        "            case Admit() if self._waiting is not None:\n",
        "            case Admit() if False:\n",
        explored("all through guarded clients"),
    ),
    Mutation(
        "an admission is written on the version it was decided on",
        "_call.py",
        "        expected = self.head.version - len(self.opening)\n",
        "        expected = self.head.version - len(self.opening) or None\n",
        explored("nobody helps"),
    ),
    Mutation(
        "an occurrence is closed only when its result was delivered",
        "_fold.py",
        "        return self._debts\n",
        "        return {}\n",
        explored("every fate"),
    ),
    Mutation(
        "after an unknown outcome an equal call folds (rule 4)",
        "_identity.py",
        "    if head.closed or head.opened.key is not None or head.id in call.done:",
        "    if head.closed or head.opened.key is not None or head.id in call.done or not head.in_flight:",
        explored("nobody helps"),
    ),
    Mutation(
        "two calls of one response are two occurrences (rule 4)",
        "_identity.py",
        "    if call.response is not None and call.response in {",
        "    if False and call.response in {",
        explored("framework ids"),
    ),
    Mutation(
        "a key does not give one order the result of another (rules 1 and 3)",
        "_identity.py",
        "self.run is not None and self.key is None",
        "self.run is not None",
        explored("keys in a run"),
    ),
    Mutation(
        "a key starts over only where nothing happened",
        "_identity.py",
        "        if rule is Identity.KEY and _without_effect(head) and",
        "        if rule is Identity.KEY and",
        explored("business keys"),
    ),
    Mutation(
        "a finding stands in for no epoch after its fence",
        "_effect.py",
        "(e.admitted.epoch > covered or e.in_flight)]",
        "(not covered or e.in_flight)]",
        explored("one caller, people settle"),
    ),
    Mutation(
        "an absence below the accepted strength settles nothing (row 10)",
        "_effect.py",
        "f.strength.rank >= accept.rank",
        "True",
        TABLE,
    ),
    Mutation(
        "a verdict that comes before the first admission is written makes it stale",
        "_call.py",
        "tuple([(n, found.taken(n)) for n in (denied, abandoned)])",
        "()",
        explored("people settle"),
    ),
    Mutation(
        "two equal first calls that race cannot both be minted",
        "_call.py",
        "beside = self.seen.beside if",
        'beside = type("All", (), {"__contains__": lambda *_: True})() if',
        explored("nobody helps"),
    ),
)
