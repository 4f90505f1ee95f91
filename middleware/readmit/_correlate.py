"""Which result belongs to which call? A pure function of everything that has arrived, never of its order (DESIGN §10).

Call ids are not unique: providers leave them empty, give one to several calls, and use them again in a later turn. An
occurrence id is; a result that carries one reserves its slot first. One without goes to the slot that remains under its
call id, if that is a single one: nothing is paired by position, by time or by likeness.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from readmit._canonical import Unencodable, encode
from readmit._digest import digest_bytes
from readmit._errors import ReadmitError


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call of a model's response that waits for its result.

    Args:
        occurrence_id: names the call, and no other.
        tool: the tool's name.
        digest: of the arguments: equal calls are of one tool and one digest.
        call_id: as the provider gave it; empty and None are no id.
        position: in the response, from 0; results are listed in this order.
    """

    occurrence_id: str
    tool: str
    digest: str
    call_id: str | None = None
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """A result as it arrived, from a tool, a person or the host application.

    Args:
        payload: the result; anything that has a canonical encoding (what tools can take as arguments).
        occurrence_id: of its call, where whoever sends it knows that.
        call_id: as the provider gave it; empty and None are no id.

    Raises:
        TypeError: the payload has no canonical encoding, so that no two results could be compared.
    """

    payload: Any
    occurrence_id: str | None = None
    call_id: str | None = None
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        try:
            text = encode(self.payload)
        except Unencodable as error:
            raise TypeError(
                f"The result of {self.occurrence_id or self.call_id or 'a call without an id'} holds a "
                f"{error.offender.__qualname__}, which has no canonical encoding: two of it could not be compared. "
                "Hand over what goes to the model: a text, or a structure of texts and numbers."
            ) from None
        object.__setattr__(self, "digest", digest_bytes("result", text))


class Conflict(NamedTuple):
    """One thing that does not fit.

    Attributes:
        why: `two_results`, `no_call`, `unknown_occurrence` or `ids_disagree`.
        occurrence_id: the call that it is about, if it is about one.
        call_id: under which it arrived.
        digests: of the payloads that stand against each other, sorted.
    """

    why: str
    occurrence_id: str | None
    call_id: str | None
    digests: tuple[str, ...]

    def __str__(self) -> str:
        about = f"occurrence {self.occurrence_id}" if self.occurrence_id else f"call id {self.call_id or 'none'}"
        return f"{about}: {_SAID[self.why]} (payloads {', '.join(d[:16] for d in self.digests)})"


_SAID = {
    "two_results": "results that differ",
    "no_call": "a result for which no call is left, and which equals none that is bound",
    "unknown_occurrence": "a result of an occurrence that does not wait here",
    "ids_disagree": "a result whose call id is that of another call than its occurrence id",
}


class CorrelationConflict(ReadmitError):
    """Results contradict each other or the calls: nothing may be handed to the model before a person has looked.

    Attributes:
        conflicts: every one of them, in an order that does not depend on that of the results.
    """

    __module__ = "readmit"

    def __init__(self, conflicts: Sequence[Conflict] = ()) -> None:
        super().__init__(conflicts)
        self.conflicts: tuple[Conflict, ...] = tuple(conflicts)

    def __str__(self) -> str:
        return (
            f"{'; '.join(map(str, self.conflicts))}. Nothing was delivered: take the wrong one away, or name its call."
        )


class Correlation(NamedTuple):
    """What belongs to what.

    Attributes:
        bound: results by occurrence id, in the order of the calls.
        pending: calls that still wait, in their order.
        unpaired: results that came and fit several calls: kept, and given to none.
        inert: equal duplicates of what is bound.
        known: pending calls whose effects are known, since as many results came as there are: which is whose is not.
    """

    bound: Mapping[str, CallResult]
    pending: tuple[PendingCall, ...]
    unpaired: tuple[CallResult, ...] = ()
    inert: tuple[CallResult, ...] = ()
    known: tuple[str, ...] = ()


def correlate(calls: Iterable[PendingCall], results: Iterable[CallResult]) -> Correlation:
    """Binds results to the calls that they answer.

    Give it everything that has arrived so far, each time: the answer is the same for every order of arrival, and the
    bindings are the same if results arrive again.

    Args:
        calls: all calls of the batch, answered or not.
        results: all results that have arrived.

    Returns:
        What is bound, what waits, what could not be paired.

    Raises:
        CorrelationConflict: results that contradict each other, belong to no call, or whose ids disagree. It lists the
            digests of both payloads.
        ValueError: two calls have one occurrence id.

    Example:
        >>> calls = [PendingCall(occurrence_id=o, tool="pay", digest="d", call_id="c1") for o in ("o1", "o2")]
        >>> first, second = CallResult(payload="paid", occurrence_id="o2"), CallResult(payload="sent", call_id="c1")
        >>> {o: result.payload for o, result in correlate(calls, [second, first]).bound.items()}
        {'o1': 'sent', 'o2': 'paid'}
    """
    ordered = sorted(calls, key=lambda call: (call.position, call.occurrence_id))
    waiting = {call.occurrence_id: call for call in ordered}
    if len(waiting) < len(ordered):
        twice = [o for o, n in Counter(call.occurrence_id for call in ordered).items() if n > 1]
        raise ValueError(f"Two calls have one occurrence id: {', '.join(sorted(twice))}")
    arrived = sorted(results, key=lambda result: (result.digest, result.occurrence_id or "", result.call_id or ""))
    binding = _Binding(ordered)
    anonymous: dict[str, list[CallResult]] = defaultdict(list)
    for result in arrived:
        if result.occurrence_id is not None:
            binding.identified(waiting.get(result.occurrence_id), result)
        else:
            anonymous[result.call_id or ""].append(result)
    by_call_id: dict[str, list[PendingCall]] = defaultdict(list)
    for call in ordered:
        by_call_id[call.call_id or ""].append(call)
    for call_id in sorted(anonymous.keys() - {""}):
        binding.anonymous(by_call_id.get(call_id, []), anonymous[call_id])
    if "" in anonymous:  # no id at all: only what then remains of the whole batch can be meant
        binding.anonymous(ordered, anonymous[""])
    return binding.answer(ordered)


class _Binding:
    """Slots while they are filled."""

    def __init__(self, calls: Iterable[PendingCall]) -> None:
        self._call_ids = {call.call_id for call in calls}
        self._bound: dict[str, CallResult] = {}
        self._inert: list[CallResult] = []
        self._unpaired: list[CallResult] = []
        self._known: set[str] = set()
        self._conflicts: set[Conflict] = set()

    def identified(self, call: PendingCall | None, result: CallResult) -> None:
        """A result that names its occurrence."""
        if call is None:
            self._against("unknown_occurrence", result.occurrence_id, result.call_id, [result])
        elif result.call_id and call.call_id != result.call_id and (call.call_id or result.call_id in self._call_ids):
            self._against("ids_disagree", call.occurrence_id, result.call_id, [result])
        elif (bound := self._bound.setdefault(call.occurrence_id, result)) is not result:
            if bound.digest == result.digest:
                self._inert.append(result)
            else:
                self._against("two_results", call.occurrence_id, call.call_id, [bound, result])

    def anonymous(self, calls: Sequence[PendingCall], results: Sequence[CallResult]) -> None:
        """Results that name no occurrence, and the calls that they can be of."""
        free = [call for call in calls if call.occurrence_id not in self._bound]
        bound = [self._bound[call.occurrence_id] for call in calls if call.occurrence_id in self._bound]
        known, payloads = {result.digest for result in bound}, {result.digest: result for result in results}
        if len(payloads) > len(free):  # so some are duplicates of what is bound, or belong to nothing
            payloads = {digest: result for digest, result in payloads.items() if digest not in known}
        if len(payloads) > len(free):
            why = "two_results" if len(free) + len(bound) == 1 else "no_call"
            call_id = results[0].call_id or None
            occurrence = (free or list(calls))[0].occurrence_id if why == "two_results" else None
            self._against(why, occurrence, call_id, [*payloads.values(), *bound])
            return
        if len(free) == 1 and payloads:
            (result,) = payloads.values()
            self._bound[free[0].occurrence_id] = result
            self._inert += [r for r in results if r is not result]
            return
        fresh = [result for result in results if result.digest in payloads]
        self._inert += [result for result in results if result.digest not in payloads]
        self._unpaired += fresh
        new = [result.digest for result in fresh if result.digest not in known]  # others may be of what is bound
        if len(free) in (len(new), len(set(new))) and len({(c.tool, c.digest) for c in free}) == 1:
            self._known |= {call.occurrence_id for call in free}

    def _against(self, why: str, occurrence: str | None, call_id: str | None, results: Iterable[CallResult]) -> None:
        self._conflicts.add(Conflict(why, occurrence, call_id, tuple(sorted({r.digest for r in results}))))

    def answer(self, ordered: Sequence[PendingCall]) -> Correlation:
        """Everything that was found."""
        if self._conflicts:
            raise CorrelationConflict(sorted(self._conflicts, key=lambda c: tuple(str(part) for part in c)))
        return Correlation(
            bound={c.occurrence_id: self._bound[c.occurrence_id] for c in ordered if c.occurrence_id in self._bound},
            pending=tuple(call for call in ordered if call.occurrence_id not in self._bound),
            unpaired=tuple(self._unpaired),
            inert=tuple(self._inert),
            known=tuple(call.occurrence_id for call in ordered if call.occurrence_id in self._known),
        )
