"""What all acts of people have in common: they look at what is held, are recorded, and are spans of their own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from readmit._errors import OperatorError
from readmit._fold import Head
from readmit._identity import equal_calls, slot
from readmit._model import AnyEvent, EffectState, OwnerLost, Permit, PermitState
from readmit.journal import Change

if TYPE_CHECKING:
    from readmit._call import Ports
    from readmit._declare import ToolSpec

Names = tuple[tuple[str, int], ...]


class Acts:
    """The acts of people on one journal: what they are made of."""

    def ports(self) -> Ports:
        """What the guard is wired with."""
        raise NotImplementedError

    def spec_of(self, tool: str) -> ToolSpec | None:
        """A tool's declaration, where this process has it."""
        raise NotImplementedError

    def show(self, occurrence_id: str) -> Head:
        """One occurrence with all its events.

        Args:
            occurrence_id: the whole id, as `pending` and every refusal give it.

        Raises:
            OperatorError: the journal holds no such occurrence.
        """
        journal = self.ports().journal
        head = journal.load(occurrence_id)
        if head is None or not head.identity:
            raise OperatorError(
                f"The journal {journal.name} holds no occurrence {occurrence_id}. `pending` lists the open ones."
            )
        return head

    def _held(self, occurrence_id: str) -> Head:
        """An occurrence to act on. Epochs whose process is gone are recorded as such first."""
        ports, head = self.ports(), self.show(occurrence_id)
        gone = [a.epoch for a in head.in_flight if not ports.journal.alive(a.owner)]
        if not gone:
            return head
        lost = tuple(OwnerLost(at=ports.clock(), epoch=epoch) for epoch in gone)
        (head,) = ports.journal.append([Change(head.id, lost)], durable=False)
        return head

    def _record(
        self,
        operation: str,
        head: Head,
        event: AnyEvent,
        *,
        names: Names = (),
        permit: Permit | None = None,
        state: PermitState | None = None,
        check: Callable[[Head], None] | None = None,
    ) -> None:
        """Writes one event, durably, and tells it; `permit` and `state` are those that it is about."""
        (head,) = self.ports().journal.append([Change(head.id, (event,), names=names, check=check)], durable=True)
        attributes: dict[str, Any] = {}
        if permit is not None:
            attributes |= {"readmit.permit.id": permit.id, "readmit.permit.source": str(permit.source)}
        if state is not None:
            attributes["readmit.permit.state"] = str(state)
        if epoch := getattr(event, "epoch", getattr(event, "fence", 0)):
            attributes["readmit.epoch"] = epoch
        self.ports().spans.act(operation, head, attributes)


_NOTHING = (EffectState.NOT_SENT, EffectState.REJECTED)


def epoch_of(head: Head, epoch: int) -> int:
    """An epoch that somebody names.

    Raises:
        OperatorError: the occurrence has no such epoch.
    """
    if not 1 <= epoch <= head.last_epoch:
        has = f"epochs 1 to {head.last_epoch}" if head.last_epoch else "no epoch yet: nothing was sent"
        raise OperatorError(f"Occurrence {head.id} has no epoch {epoch}; it has {has}.")
    return epoch


def at_rest(head: Head) -> None:
    """Raises `OperatorError` while an epoch runs: what is on its way can still arrive."""
    if flying := [a.epoch for a in head.in_flight]:
        raise OperatorError(
            f"Epoch {flying[0]} of occurrence {head.id} is in flight: declare it unknown first, if it hangs."
        )


def unmoved(epoch: int) -> Callable[[Head], None]:
    """A check that an occurrence is at rest, and has no epoch that was not looked at."""

    def check(present: Head) -> None:
        at_rest(present)
        if present.last_epoch > epoch:
            raise OperatorError(
                f"Occurrence {present.id} has moved on to epoch {present.last_epoch}: look at it again."
            )

    return check


def standing(epoch: int) -> Callable[[Head], None]:
    """As `unmoved`, and that what the epochs up to this one did was not undone before."""
    moved = unmoved(epoch)

    def check(present: Head) -> None:
        moved(present)
        effect = present.effects()
        if effect.compensated_at and effect.covered >= epoch:
            raise OperatorError(
                f"Epochs 1 to {epoch} of occurrence {present.id} were compensated before: nothing was undone twice."
            )

    return check


def doubtful(head: Head) -> bool:
    """Whether the effect is unknown, or known too weakly for the contract."""
    effect = head.effects()
    weak = effect.state in _NOTHING and effect.strength is not None and effect.strength.rank < head.accept.rank
    return effect.state is EffectState.UNKNOWN or weak


def acceptable(epoch: int) -> Callable[[Head], None]:
    """As `unmoved`, and that there is something to accept: nobody is to believe that a repeat will be made."""
    moved = unmoved(epoch)

    def check(present: Head) -> None:
        moved(present)
        if present.denied:
            raise OperatorError(f"Occurrence {present.id} was denied: nothing runs again, whatever is accepted.")
        if not doubtful(present):
            effect = present.effects()
            raise OperatorError(
                f"What occurrence {present.id} did is known ({effect.state} {effect.finding}".rstrip()
                + "): there is nothing to accept."
            )

    return check


def named(by: str | None) -> None:
    """Raises `ValueError` if nobody is named."""
    if not isinstance(by, str) or not by.strip():
        raise ValueError("by= names the person or system that acts, and cannot be empty")


def stated(statement: str) -> None:
    """Raises `ValueError` if nothing is said."""
    if not isinstance(statement, str) or not statement.strip():
        raise ValueError("statement= says in so many words what is accepted, and cannot be empty")


def equal(head: Head, digest: str = "") -> str:
    """Where equal calls meet: those of the occurrence, or those with the arguments that a request showed."""
    opened = head.opened
    return equal_calls(slot(opened.scope, opened.principal, opened.tool), digest or head.digest, opened.key)


def awaited(answer: Any) -> Any:
    """An operator's call is plain code: an async hook gets a loop of its own, in a thread where one runs already."""
    if not inspect.isawaitable(answer):
        return answer

    async def wait() -> Any:
        return await answer

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1, "readmit-hook") as alone:
        return alone.submit(copy_context().run, asyncio.run, wait()).result()
