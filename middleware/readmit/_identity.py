"""Which occurrence is this call? Rules are tried in order; the first that finds an occurrence decides (DESIGN §3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from readmit._digest import digest_bytes
from readmit._fold import Head
from readmit._model import EffectState, Identity


class Call(NamedTuple):
    """What one call brings to its identity.

    `framework` is an id that is unique by the framework's own word; `done` are the occurrences that this pass of the
    run has already answered, which an equal later call of the same pass is not.
    """

    scope: str
    principal: str | None
    tool: str
    signature: str
    digest: str
    parameters: Mapping[str, str]
    key: str | None = None
    framework: str | None = None
    response: str | None = None
    call_id: str | None = None
    run: str | None = None
    number: int = 0
    done: frozenset[str] = frozenset()

    @property
    def slot(self) -> str:
        """Scope, principal and tool."""
        return slot(self.scope, self.principal, self.tool)

    @property
    def equal(self) -> str:
        """Where equal calls meet."""
        return equal_calls(self.slot, self.digest, self.key)

    def names(self) -> dict[Identity, str]:
        """The identities the call carries, in the order of the rules."""
        names = {}
        if self.key is not None:
            names[Identity.KEY] = "key:" + digest_bytes(self.tool, self.key)
        if self.framework is not None:
            names[Identity.FRAMEWORK] = "framework:" + digest_bytes(self.scope, self.framework)
        if (
            self.run is not None and self.key is None
        ):  # a key is no part of the digest: the n-th call would be of any key
            names[Identity.RUN] = "run:" + digest_bytes(self.scope, self.run, self.tool, self.digest, str(self.number))
        return names


@lru_cache(maxsize=1024)
def slot(scope: str, principal: str | None, tool: str) -> str:
    """Scope, principal and tool in one name."""
    return digest_bytes("slot", scope, _optional(principal), tool)[:32]


def equal_calls(slot: str, digest: str, key: str | None) -> str:
    """Slot, digest and key in one name: denials and abandonments are found under it."""
    return f"{slot}.{digest}" if key is None else f"{slot}.{digest}.{digest_bytes(key)[:32]}"


def _optional(text: str | None) -> bytes:
    return b"\0" if text is None else b"\1" + text.encode("utf-8", "surrogatepass")


class Found(NamedTuple):
    """What the journal holds about a call.

    `named` has, for each name that was asked for, how often it was taken and the newest occurrence under it;
    `open` the open occurrences with its slot, signature and digest, oldest first; `other_signature` open ones of the
    slot under another signature.
    """

    named: Mapping[str, tuple[int, Head | None]]
    open: Sequence[Head] = ()
    other_signature: Sequence[Head] = ()

    def taken(self, name: str) -> int:
        """How often a name was taken."""
        return self.named[name][0] if name in self.named else 0


class Resolution(NamedTuple):
    """The occurrence of a call: `head` is None for a new one; `conflict` names what disagrees.

    `names` are to be registered for it, each with the ordinal that makes two racing processes collide; of two that mint
    the same call without a name, the second finds an open occurrence that it had not seen.
    """

    identity: Identity
    head: Head | None
    names: tuple[tuple[str, int], ...] = ()
    conflict: str | None = None
    changed: bool = False  # other arguments, before any dispatch: what was permitted is stale


def resolve(call: Call, found: Found) -> Resolution:
    """Finds the occurrence of a call among what the journal holds."""
    names = call.names()
    if not (found.named or found.open or found.other_signature):
        return Resolution(Identity.MINTED, None, tuple([(name, 1) for name in names.values()]))
    ordinals = {name: taken for name, (taken, _) in found.named.items()}

    def fresh(keep: Identity | None = None) -> tuple[tuple[str, int], ...]:
        """Names under which nothing is found yet, and the key's when it starts over."""
        return tuple((n, ordinals.get(n, 0) + 1) for rule, n in names.items() if not ordinals.get(n, 0) or rule is keep)

    for rule, name in names.items():
        head = found.named.get(name, (0, None))[1]
        if head is None:
            continue
        if rule is Identity.FRAMEWORK and _other_key(call, head):
            return Resolution(rule, head, conflict="key")
        if rule is Identity.RUN or head.digest == call.digest:
            # A key that could start over is taken again: of a repeat and a new start at the same moment one wins.
            return Resolution(rule, head, fresh(rule if rule is Identity.KEY and _without_effect(head) else None))
        if head.opened.tool == call.tool and not head.admissions and not head.denied and not head.abandoned:
            return Resolution(rule, head, fresh(), changed=True)
        if rule is Identity.KEY and _without_effect(head) and not head.denied and not head.abandoned:
            return Resolution(Identity.MINTED, None, fresh(Identity.KEY))
        return Resolution(rule, head, conflict=differing(call, head))
    for head in found.other_signature:
        if (call.key is None or head.opened.key is None) and not head.closed and _could_be(call, head):
            return Resolution(Identity.OPEN, head, conflict="signature")
    if head := _open_candidate(call, found.open):
        return Resolution(Identity.OPEN, head, fresh())
    return Resolution(Identity.MINTED, None, fresh())


def _other_key(call: Call, head: Head) -> bool:
    return call.key is not None and head.opened.key is not None and call.key != head.opened.key


def differing(call: Call, head: Head) -> str:
    """The parameters whose digests differ between a call and an occurrence; `signature` when the names do."""
    mine, theirs = call.parameters, head.parameters
    if set(mine) != set(theirs):
        return "signature"
    return ", ".join(sorted(p for p in mine if mine[p] != theirs[p])) or "tool"


def _without_effect(head: Head) -> bool:
    """Whether a key may start over with other arguments: `rejected`, `not_sent`, `reconciled(absent)`."""
    effect = head.effects()
    if (
        head.in_flight
        or effect.state not in (EffectState.REJECTED, EffectState.NOT_SENT, EffectState.RECONCILED)
        or effect.present
    ):
        return False
    strong = effect.strength is not None and effect.strength.rank >= head.accept.rank
    return strong or (effect.state is EffectState.RECONCILED and effect.by_person)


def _could_be(call: Call, head: Head) -> bool:
    """Whether an occurrence under another signature of the tool may be this call.

    It is another one only if a parameter that both know and treat alike differs.
    """
    if _treatment(call.signature) != _treatment(head.opened.signature):
        return True
    mine, theirs = call.parameters, head.parameters
    return all(mine[p] == theirs[p] for p in mine.keys() & theirs.keys())


def _treatment(signature: str) -> list[str]:
    """How parameters are turned into digests: the version of the encoding, `key=` and `digest_with=`."""
    version, marks = signature.partition("(")[0], signature.rpartition(")")[2].split()
    return [version, *(m for m in marks if not m.startswith("exclude="))]


def _open_candidate(call: Call, candidates: Sequence[Head]) -> Head | None:
    """Rule 4. Never where either side has a business key."""
    if call.key is not None:
        return None
    fits = [h for h in candidates if _folds(call, h)]
    agreeing = [h for h in fits if call.call_id is not None and call.call_id in _call_ids(h)]
    return next(iter(agreeing or fits), None)


def _folds(call: Call, head: Head) -> bool:
    if head.closed or head.opened.key is not None or head.id in call.done:
        return False
    if call.response is not None and call.response in {head.opened.response, *(j.response for j in head.joined)}:
        return False
    same_run = call.run in {head.opened.run, *(j.run for j in head.joined)}
    return same_run or head.uncertain


def _call_ids(head: Head) -> set[str | None]:
    return {head.opened.call_id, *(j.call_id for j in head.joined)}
