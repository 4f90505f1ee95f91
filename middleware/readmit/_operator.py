"""What people do: verdicts, logins, findings, acceptances, and the list that they work through.

Every act is recorded with who did it (`by`) and through what (`via`), is a span of its own, and writes exactly one
dimension. None of them runs a tool.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from readmit import _findings, _outcome
from readmit._contract import nanoseconds
from readmit._digest import digest_bytes
from readmit._errors import OperatorError
from readmit._fold import Head
from readmit._identity import equal_calls, slot
from readmit._model import (
    Abandoned,
    Accepted,
    AnyEvent,
    Binding,
    Compensated,
    DeclaredUnknown,
    Denied,
    EffectState,
    Granted,
    OwnerLost,
    Permit,
    PermitSource,
    RecoveryKind,
    Revoked,
    Suspended,
)
from readmit.journal import Change

if TYPE_CHECKING:
    from readmit._call import Ports
    from readmit._telemetry import OpenTelemetrySpans
    from readmit._declare import ToolSpec

_log = logging.getLogger("readmit")
_CONTRADICTED = "Request %s was %s and is now %s: the two verdicts conflict, and nothing runs on either."


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One occurrence that waits for somebody.

    Attributes:
        occurrence_id: what `show` and the other calls take.
        tool, scope, principal: which call it is.
        epoch: the newest epoch; findings and acceptances name it.
        state: `in_flight`, or what is known of the effect; empty before the first epoch.
        recovery: `suspended` or `satisfied` with its kind, or `clear`.
        age: since it was opened.
        request_id: the approval request that waits for a verdict.
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
    remedies: tuple[str, ...]


class Operator:
    """The acts of people on one journal."""

    spans: OpenTelemetrySpans

    def ports(self) -> Ports:
        """What the guard is wired with."""
        raise NotImplementedError

    def spec_of(self, tool: str) -> ToolSpec | None:
        """A tool's declaration, where this process has it."""
        raise NotImplementedError

    # -- looking --------------------------------------------------------------------------------------------------

    def pending(self) -> list[Pending]:
        """Every occurrence that is open, oldest first, with what can end it.

        Raises:
            JournalUnavailable: the journal cannot be read.

        Example:
            >>> for waiting in guard.pending():
            ...     print(waiting.tool, waiting.state, waiting.age)
        """
        ports = self.ports()
        now = ports.clock()
        return [_pending(head, now, any(ports.journal.alive(a.owner) for a in head.in_flight)) for head in ports.journal.open()]

    def show(self, occurrence_id: str) -> Head:
        """One occurrence with all its events.

        Raises:
            OperatorError: the journal holds no such occurrence.
        """
        head = self.ports().journal.load(occurrence_id)
        if head is None or not head.identity:
            raise OperatorError(f"The journal {self.ports().journal.name} holds no occurrence {occurrence_id}. `pending` lists the open ones.")
        return head

    # -- authority ------------------------------------------------------------------------------------------------

    def approve(self, request_id: str, *, by: str, expires: timedelta | None = None, via: str = "api") -> str:
        """Grants one dispatch of exactly what a request showed. A repeat is inert, also after use.

        Args:
            request_id: of the request, as `pending` shows it; a click on an old one answers nothing newer.
            by: who approves.
            expires: how long it holds; by default what the tool's `Approval` says.

        Returns:
            The permit's id.

        Raises:
            OperatorError: there is no such request.
            ValueError: `by` is empty, or `expires` is not longer than zero.
        """
        _named(by)
        if expires is not None and expires <= timedelta(0):
            raise ValueError(f"expires={expires!r}: how long the approval holds must be longer than zero")
        head, request = self._request(request_id)
        if (granted := _granted(head, request_id)) is not None:
            return granted
        if request_id in head.denials:
            _log.warning(_CONTRADICTED, request_id, "denied", "approved")
        ports = self.ports()
        now = ports.clock()
        lifetime = nanoseconds(expires) if expires is not None else request.lifetime
        permit = Permit(
            id=ports.new_id(),
            source=PermitSource.APPROVAL,
            granted_by=by,
            binding=request.binding or Binding(),
            after_epoch=head.last_epoch,
            not_before=now,
            expires=None if lifetime is None else now + lifetime,
            uses=1,
            request=request_id,
        )

        def first(present: Head) -> None:
            if (other := _granted(present, request_id)) is not None:
                raise _Repeated(other)

        event = Granted(at=now, permit=permit, via=via)
        try:
            self._record("approve", head, event, names=((f"permit:{permit.id}", 0),), permit=permit, check=first)
        except _Repeated as repeated:
            return str(repeated)
        return permit.id

    def deny(self, request_id: str, *, by: str, via: str = "api") -> None:
        """Says no to a request: terminal for its occurrence. An equal later call can ask for an approval again.

        Raises:
            OperatorError: there is no such request.
        """
        _named(by)
        head, request = self._request(request_id)
        if request_id not in head.denials:
            if _granted(head, request_id) is not None:
                _log.warning(_CONTRADICTED, request_id, "approved", "denied")
            event = Denied(at=self.ports().clock(), request=request_id, by=by, via=via)
            shown = request.binding.digest if request.binding is not None else ""
            self._record("deny", head, event, names=((f"denied:{_equal(head, shown)}", 0),), state="denied")

    def revoke(self, permit_id: str, *, by: str, via: str = "api") -> None:
        """Takes a permit back, in every occurrence that holds it. What it was used for is not undone.

        Raises:
            OperatorError: there is no such permit.
        """
        _named(by)
        heads = self.ports().journal.named(f"permit:{permit_id}")
        if not heads:
            raise OperatorError(f"The journal holds no permit {permit_id}. `show` lists the permits of an occurrence.")
        for head in heads:
            if permit_id not in head.revocations:
                self._record("revoke", head, Revoked(at=self.ports().clock(), permit=permit_id, by=by, via=via), state="revoked")

    def authenticated(
        self, *, principal: str | None, scope: str | None = None, credential: Mapping[str, Any] | str | None = None, via: str = "api"
    ) -> str:
        """A sign-in: restores authority where a challenge took it, and says nothing about any effect.

        Args:
            principal: who signed in, as `scope(…, principal=…)` names them.
            scope: only in this scope; by default wherever the principal has open occurrences.
            credential: subject, issuer and scopes of what they hold; only a fingerprint is kept. Of a mapping just these
                three are read, so that a mere token refresh changes nothing.

        Returns:
            The permit's id, one for all the occurrences it was granted to.
        """
        ports = self.ports()
        now = ports.clock()
        permit_id = ports.new_id()
        holder = _fingerprint(credential)
        for head in ports.journal.open():
            if head.opened.principal != principal or (scope is not None and head.opened.scope != scope):
                continue
            permit = Permit(
                id=permit_id,
                source=PermitSource.LOGIN,
                granted_by=principal or "",
                binding=Binding(subject=principal, login=holder),
                after_epoch=head.last_epoch,
                not_before=now,
            )
            self._record("login", head, Granted(at=now, permit=permit, via=via), names=((f"permit:{permit_id}", 0),), permit=permit)
        return permit_id

    # -- effect ---------------------------------------------------------------------------------------------------

    def reconcile(
        self, occurrence_id: str, finding: _findings.Finding | None = None, *, epoch: int | None = None, by: str | None = None, via: str = "api"
    ) -> _findings.Finding:
        """Records what was found out about the effect; without a finding the tool's own hook is asked.

        Args:
            occurrence_id: the occurrence.
            finding: `Present(receipt)`, `Absent(authoritative=…)` or `Unclear(why)`.
            epoch: the newest epoch when the question was asked, as `pending` showed it; the newest now by default.
            by: who found it; needed with a finding.

        Raises:
            OperatorError: no such occurrence or epoch, or no hook in this process.
            ReadmitError: the finding, or the hook's answer, is none of the three.
        """
        head = self._held(occurrence_id)
        fence = self._epoch(head, head.last_epoch if epoch is None else epoch)
        key = digest_bytes("idempotency", head.id, str(head.compensations))[:32]
        question = _findings.Question(head.id, head.opened.tool, key, None, fence)
        if finding is None:
            spec = self.spec_of(head.opened.tool)
            if spec is None or spec.declaration.reconcile is None:
                raise OperatorError(f"No reconcile hook of {head.opened.tool} is loaded in this process: pass what you found, with by=")
            finding, by = _awaited(spec.declaration.reconcile(question)), None
            via = "hook"
        else:
            _named(by)
        answer = _findings.checked(finding, head.opened.tool)
        if isinstance(answer, _findings.Absent) and answer.authoritative:
            self._not_in_flight(head)  # what is on its way can still arrive
        event = _outcome.reconciled(answer, question, at=self.ports().clock(), by=by, via=via)
        self._record("reconcile", head, event)
        return answer

    def accept(self, occurrence_id: str, *, epoch: int, by: str, statement: str, via: str = "api") -> None:
        """Accepts that the epochs up to `epoch` may have had their effect: one repeat may follow. Restores no authority.

        Raises:
            OperatorError: no such occurrence or epoch, or a newer epoch exists that was not looked at.
            ValueError: `by` or `statement` is empty.
        """
        _named(by)
        _stated(statement)
        head = self._held(occurrence_id)
        self._not_in_flight(head)
        if self._epoch(head, epoch) < head.last_epoch:
            raise OperatorError(f"Occurrence {head.id} has moved on to epoch {head.last_epoch}: look at it again.")
        ports = self.ports()
        self._record("accept", head, Accepted(at=ports.clock(), id=ports.new_id(), epoch=epoch, by=by, statement=statement, via=via))

    def compensate(self, occurrence_id: str, *, epoch: int, by: str, via: str = "api") -> None:
        """The effect was undone, and nothing can still arrive. A tool's `compensate=` hook, where loaded, undoes it first.

        Raises:
            OperatorError: no such occurrence or epoch, or it is in flight: declare it unknown first; or what `epoch`
                may have done was undone before.
        """
        _named(by)
        head = self._held(occurrence_id)
        fence = self._epoch(head, epoch)
        self._not_in_flight(head)
        if head.effects().compensated_at and head.effects().covered >= fence:
            raise OperatorError(f"Epochs 1 to {fence} of occurrence {head.id} were compensated before: nothing was undone twice.")
        spec = self.spec_of(head.opened.tool)
        if spec is not None and spec.compensate is not None:
            key = digest_bytes("idempotency", head.id, str(head.compensations))[:32]
            _awaited(spec.compensate(_findings.Question(head.id, head.opened.tool, key, None, fence)))
        self._record("compensate", head, Compensated(at=self.ports().clock(), fence=fence, by=by, via=via))

    def declare_unknown(self, occurrence_id: str, *, epoch: int, by: str, via: str = "api") -> None:
        """Gives up on an epoch that hangs: its effect is unknown, and its owner is fenced.

        Raises:
            OperatorError: the epoch is not in flight.
        """
        _named(by)
        head = self._held(occurrence_id)
        if epoch not in {a.epoch for a in head.in_flight}:
            raise OperatorError(f"Epoch {epoch} of occurrence {head.id} is not in flight.")
        self._record("declare_unknown", head, DeclaredUnknown(at=self.ports().clock(), epoch=epoch, by=by, via=via))

    def abandon(self, occurrence_id: str, *, by: str, statement: str = "", via: str = "api") -> None:
        """Closes an occurrence for good. A repeat is inert.

        Args:
            statement: needed where the effect is unknown, or there but undelivered: the next equal call names it.

        Raises:
            OperatorError: an epoch is in flight: declare it unknown first.
            ValueError: the statement is missing where one is needed.
        """
        _named(by)
        head = self._held(occurrence_id)
        if head.abandoned is not None:
            return
        self._not_in_flight(head)
        effect = head.effects()
        grave = effect.state is EffectState.UNKNOWN or (effect.present and bool(head.debts()))
        if grave:
            _stated(statement)
        names = ((f"abandoned:{_equal(head)}", 0),) if grave else ()
        event = Abandoned(at=self.ports().clock(), by=by, statement=statement, via=via)

        def unmoved(present: Head) -> None:
            self._not_in_flight(present)
            if present.last_epoch != head.last_epoch:
                raise OperatorError(f"Occurrence {head.id} has moved on to epoch {present.last_epoch}: look at it again.")

        self._record("abandon", head, event, names=names, check=unmoved)

    # -- shared ---------------------------------------------------------------------------------------------------

    def _record(
        self,
        operation: str,
        head: Head,
        event: AnyEvent,
        *,
        names: tuple[tuple[str, int], ...] = (),
        permit: Permit | None = None,
        state: str = "granted",
        check: Callable[[Head], None] | None = None,
    ) -> None:
        (head,) = self.ports().journal.append([Change(head.id, (event,), names=names, check=check)], durable=True)
        attributes: dict[str, Any] = {}
        if permit is not None:
            attributes = {"readmit.permit.id": permit.id, "readmit.permit.source": str(permit.source)}
        if permit is not None or operation in ("deny", "revoke"):
            attributes["readmit.permit.state"] = state
        if epoch := getattr(event, "epoch", getattr(event, "fence", 0)):
            attributes["readmit.epoch"] = epoch
        self.spans.act(operation, head, attributes)

    def _request(self, request_id: str) -> tuple[Head, Suspended]:
        for head in self.ports().journal.named(f"request:{request_id}"):
            for suspension in head.suspensions:
                if suspension.id == request_id:
                    return head, suspension
        raise OperatorError(f"The journal holds no approval request {request_id}. `pending` shows the ones that wait.")

    def _held(self, occurrence_id: str) -> Head:
        """An occurrence to act on. Epochs whose process is gone are recorded as such first."""
        ports, head = self.ports(), self.show(occurrence_id)
        gone = [a.epoch for a in head.in_flight if not ports.journal.alive(a.owner)]
        if not gone:
            return head
        lost = tuple(OwnerLost(at=ports.clock(), epoch=epoch) for epoch in gone)
        (head,) = ports.journal.append([Change(head.id, lost)], durable=False)
        return head

    def _epoch(self, head: Head, epoch: int) -> int:
        if not 1 <= epoch <= head.last_epoch:
            raise OperatorError(f"Occurrence {head.id} has epochs 1 to {head.last_epoch}, not {epoch}.")
        return epoch

    def _not_in_flight(self, head: Head) -> None:
        if flying := [a.epoch for a in head.in_flight]:
            raise OperatorError(f"Epoch {flying[0]} of occurrence {head.id} is in flight: declare it unknown first, if it hangs.")


def _pending(head: Head, now: int, alive: bool) -> Pending:
    opened, effect = head.opened, head.effects()
    waiting = [s for s in head.waiting if not head.answered(s)]
    request = next((s.id for s in waiting if s.suspension is RecoveryKind.CONFIRMATION), None)
    remedies: list[str] = ["sign_in" if s.suspension is RecoveryKind.CHALLENGE else "approve" for s in waiting]
    if head.in_flight and alive:
        remedies.append("declare_unknown")
    elif effect.state is EffectState.UNKNOWN:  # a denial is terminal: nothing runs again, whatever is accepted
        remedies += ["reconcile", *([] if head.denials else ["accept"]), "compensate", "abandon"]
    else:
        remedies.append("abandon")
    kinds = ", ".join(sorted({str(s.suspension) for s in head.waiting}))
    return Pending(
        occurrence_id=head.id,
        tool=opened.tool,
        scope=opened.scope,
        principal=opened.principal,
        epoch=head.last_epoch,
        state="in_flight" if head.in_flight and alive else str(effect.state or ""),
        recovery=f"{head.recovery_state}" + (f" ({kinds})" if kinds else ""),
        age=timedelta(microseconds=max(0, now - opened.at) // 1000),
        request_id=request,
        remedies=tuple(remedies),
    )


class _Repeated(Exception):
    """Somebody else was quicker to approve the same request; holds that permit's id."""


def _granted(head: Head, request_id: str) -> str | None:
    return next((g.permit.id for _, g in head.grants if g.permit.request == request_id), None)


def _equal(head: Head, digest: str = "") -> str:
    opened = head.opened
    return equal_calls(slot(opened.scope, opened.principal, opened.tool), digest or head.digest, opened.key)


def _named(by: str | None) -> None:
    if not isinstance(by, str) or not by.strip():
        raise ValueError("by= names the person or system that acts, and cannot be empty")


def _stated(statement: str) -> None:
    if not isinstance(statement, str) or not statement.strip():
        raise ValueError("statement= says in so many words what is accepted, and cannot be empty")


def _fingerprint(credential: Mapping[str, Any] | str | None) -> str | None:
    if credential is None:
        return None
    if isinstance(credential, str):
        return digest_bytes("login", credential)[:16]
    parts = [str(credential.get("subject", "")), str(credential.get("issuer", ""))]
    scopes = credential.get("scopes", ())
    return digest_bytes("login", *parts, *sorted(scopes.split() if isinstance(scopes, str) else map(str, scopes)))[:16]


def _awaited(answer: Any) -> Any:
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
