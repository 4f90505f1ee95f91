"""What people do: findings, acceptances, the end of an occurrence, and the list that they work through.

Every act is recorded with who did it (`by`) and through what (`via`), is a span of its own, and writes exactly one
dimension. None of them runs a tool.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from readmit import _findings, _outcome
from readmit._acts import acceptable, at_rest, awaited, doubtful, epoch_of, equal, named, standing, stated, unmoved
from readmit._effect import receipt
from readmit._errors import OperatorError
from readmit._fold import Head
from readmit._model import Abandoned, Accepted, Compensated, DeclaredUnknown, EffectState, RecoveryKind
from readmit._verdicts import Verdicts
from readmit.journal._forks import Lock

_undoing = Lock()
"""Held while an effect is undone: a hook that two threads ask at once would undo it twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One occurrence that waits for somebody.

    Attributes:
        occurrence_id: what `show` and the other calls take.
        tool: the tool's name.
        scope: the scope in which it was called.
        principal: who it was called for; of a request that waits, who it would permit.
        epoch: the newest epoch; findings and acceptances name it.
        state: `in_flight`, or what is known of the effect; empty before the first epoch.
        recovery: `suspended` or `satisfied` with its kind, or `clear`.
        age: since it was opened.
        request_id: the approval request that waits for a verdict.
        shown: what it asks for, in the tool's own words (`Approval(show=…)`).
        remedies: what can end it.
    """

    occurrence_id: str
    tool: str
    scope: str
    principal: str | None
    epoch: int
    state: str
    recovery: str
    age: timedelta
    request_id: str | None
    shown: str
    remedies: tuple[str, ...]


class Operator(Verdicts):
    """The acts of people on one journal."""

    def pending(self) -> list[Pending]:
        """Every occurrence that is open, oldest first, with what can end it.

        Raises:
            JournalUnavailable: the journal cannot be read.

        Example:
            >>> for waiting in guard.pending():
            ...     print(waiting.tool, waiting.state, waiting.age)
        """
        ports = self.ports()
        now, alive = ports.clock(), ports.journal.alive
        return [_pending(h, now, alive=any(alive(a.owner) for a in h.in_flight)) for h in ports.journal.open()]

    def reconcile(
        self,
        occurrence_id: str,
        finding: _findings.Finding | None = None,
        *,
        epoch: int | None = None,
        by: str | None = None,
        via: str = "api",
    ) -> _findings.Finding:
        """Records what was found out about the effect; without a finding the tool's own hook is asked.

        Args:
            occurrence_id: the occurrence.
            finding: `Present(receipt)`, `Absent(authoritative=…)` or `Unclear(why)`.
            epoch: the newest epoch when the question was asked, as `pending` showed it; the newest now by default.
            by: who found it; needed with a finding.
            via: through what they act.

        Returns:
            The finding.

        Raises:
            OperatorError: no such occurrence or epoch; no hook in this process; authoritative absence while an epoch
                is in flight.
            ReadmitError: the finding, or the hook's answer, is none of the three.
            ValueError: `by` is empty.
        """
        head = self._held(occurrence_id)
        tool, fence = head.opened.tool, epoch_of(head, head.last_epoch if epoch is None else epoch)
        question = _question(head, fence)
        if finding is None:
            spec = self.spec_of(tool)
            if spec is None or spec.declaration.reconcile is None:
                raise OperatorError(
                    f"No reconcile hook of {tool} is loaded in this process: pass what you found, with by="
                )
            finding, by, via = awaited(spec.declaration.reconcile(question)), None, "hook"
        else:
            named(by)
        answer = _findings.checked(finding, tool)
        check = at_rest if isinstance(answer, _findings.Absent) and answer.authoritative else None
        event = _outcome.reconciled(answer, question, at=self.ports().clock(), by=by, via=via)
        self._record("reconcile", head, event, check=check)
        return answer

    def accept(self, occurrence_id: str, *, epoch: int, by: str, statement: str, via: str = "api") -> None:
        """Accepts that the epochs up to `epoch` may have had their effect: one repeat may follow. Grants nothing.

        Nothing runs by itself: the program has to make the call again.

        Args:
            occurrence_id: the occurrence.
            epoch: the newest epoch, as `pending` showed it.
            by: who accepts it.
            statement: what they accept, in so many words.
            via: through what they act.

        Raises:
            OperatorError: no such occurrence or epoch, an epoch is in flight, or one is newer and was not looked at;
                what it did is known, or the call was denied.
            ValueError: `by` or `statement` is empty.
        """
        named(by)
        stated(statement)
        head, ports = self._held(occurrence_id), self.ports()
        event = Accepted(
            at=ports.clock(), id=ports.new_id(), epoch=epoch_of(head, epoch), by=by, statement=statement, via=via
        )
        self._record("accept", head, event, check=acceptable(epoch))

    def compensate(self, occurrence_id: str, *, epoch: int, by: str, via: str = "api") -> None:
        """The effect was undone, and nothing can still arrive. A `compensate=` hook, where loaded, undoes it first.

        In one process the hook runs once. Two people who act at the same moment in two processes both run it: give the
        question's idempotency key to the service that undoes.

        Args:
            occurrence_id: the occurrence.
            epoch: the newest epoch, as `pending` showed it.
            by: who undid it.
            via: through what they act.

        Raises:
            OperatorError: no such occurrence or epoch, an epoch is in flight, or one is newer and was not looked at; or
                what `epoch` may have done was undone before.
            ValueError: `by` is empty.
        """
        named(by)
        with _undoing.held():
            self._compensate(occurrence_id, epoch, by, via)

    def _compensate(self, occurrence_id: str, epoch: int, by: str, via: str) -> None:
        head = self._held(occurrence_id)
        fence, check = epoch_of(head, epoch), standing(epoch)
        check(head)
        spec = self.spec_of(head.opened.tool)
        hook = None if spec is None else spec.compensate
        if hook is not None:
            awaited(hook(_question(head, fence)))
        event = Compensated(at=self.ports().clock(), fence=fence, by=by, via=via)
        try:
            self._record("compensate", head, event, check=check)
        except OperatorError as error:
            if hook is None:
                raise
            raise OperatorError(f"{error} The compensate hook has run; that it did is not recorded.") from error

    def declare_unknown(self, occurrence_id: str, *, epoch: int, by: str, via: str = "api") -> None:
        """Gives up on an epoch that hangs: its effect is unknown, and its owner is fenced.

        Args:
            occurrence_id: the occurrence.
            epoch: the epoch that hangs.
            by: who gives it up.
            via: through what they act.

        Raises:
            OperatorError: the epoch is not in flight.
            ValueError: `by` is empty.
        """
        named(by)
        head = self._held(occurrence_id)
        if epoch not in {a.epoch for a in head.in_flight}:
            raise OperatorError(f"Epoch {epoch} of occurrence {head.id} is not in flight.")
        event = DeclaredUnknown(at=self.ports().clock(), epoch=epoch, by=by, via=via)
        self._record("declare_unknown", head, event)

    def abandon(self, occurrence_id: str, *, by: str, statement: str = "", via: str = "api") -> None:
        """Closes an occurrence for good; a later equal call is a new one, and names it. A repeat is inert.

        Args:
            occurrence_id: the occurrence.
            by: who closes it.
            statement: needed where the effect is unknown, or there but undelivered: the next equal call names it.
            via: through what they act.

        Raises:
            OperatorError: an epoch is in flight: declare it unknown first.
            ValueError: `by` is empty, or the statement is missing where one is needed.
        """
        named(by)
        head = self._held(occurrence_id)
        if head.abandoned is not None:
            return
        at_rest(head)
        effect = head.effects()
        grave = effect.state is EffectState.UNKNOWN or (effect.present and bool(head.debts()))
        if grave:
            stated(statement)
        names = ((f"abandoned:{equal(head)}", 0),) if grave else ()
        event = Abandoned(at=self.ports().clock(), by=by, statement=statement, via=via)
        self._record("abandon", head, event, names=names, check=unmoved(head.last_epoch))


def _question(head: Head, fence: int) -> _findings.Question:
    return _findings.Question(
        head.id, head.opened.tool, head.idempotency_key, None, fence, receipt(head.effect), head.opened.key
    )


def _pending(head: Head, now: int, *, alive: bool) -> Pending:
    opened, effect = head.opened, head.effects()
    waiting = [s for s in head.waiting if not head.answered(s)]
    request = next((s for s in waiting if s.suspension is RecoveryKind.CONFIRMATION), None)
    remedies: list[str] = ["sign_in" if s.suspension is RecoveryKind.CHALLENGE else "approve" for s in waiting]
    if head.in_flight and alive:
        remedies.append("declare_unknown")
    elif doubtful(head):  # a denial is terminal: nothing runs again, whatever is accepted
        remedies += ["reconcile", *([] if head.denied else ["accept"]), "compensate", "abandon"]
    else:
        remedies.append("abandon")
    kinds = ", ".join(sorted({str(s.suspension) for s in head.waiting}))
    return Pending(
        occurrence_id=head.id,
        tool=opened.tool,
        scope=opened.scope,
        principal=request.binding.subject if request is not None and request.binding is not None else opened.principal,
        epoch=head.last_epoch,
        state="in_flight" if head.in_flight and alive else str(effect.state or ""),
        recovery=f"{head.recovery_state}" + (f" ({kinds})" if kinds else ""),
        age=timedelta(microseconds=max(0, now - opened.at) // 1000),
        request_id=request.id if request is not None else None,
        shown=request.shown if request is not None else "",
        remedies=tuple(remedies),
    )
