"""Authority, as people give and take it: approvals, denials, revocations, logins. None says anything of an effect."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from readmit._acts import Acts, equal, named
from readmit._contract import nanoseconds
from readmit._digest import digest_bytes
from readmit._errors import OperatorError
from readmit._fold import Head
from readmit._model import Binding, Denied, Granted, Permit, PermitSource, PermitState, Revoked, Suspended

_log = logging.getLogger("readmit")
_CONTRADICTED = "Request %s was %s and is now %s: the two verdicts conflict, and nothing runs on either."
_SUPERSEDED = "Request %s was superseded by %s, which still needs a verdict of its own: this one answers nothing newer."


class Verdicts(Acts):
    """The acts that write authority."""

    def approve(self, request_id: str, *, by: str, expires: timedelta | None = None, via: str = "api") -> str:
        """Grants one dispatch of exactly what a request showed. A repeat is inert, also after use.

        Nothing runs by itself: the program has to make the call again, and that call uses the approval.

        Args:
            request_id: of the request, as `pending` shows it; a click on an old one answers nothing newer.
            by: who approves.
            expires: how long it holds; by default what the tool's `Approval` says.
            via: through what they act.

        Returns:
            The permit's id.

        Raises:
            OperatorError: there is no such request.
            ValueError: `by` is empty, or `expires` is not longer than zero.
        """
        named(by)
        if expires is not None and expires <= timedelta(0):
            raise ValueError(f"expires={expires!r}: how long the approval holds must be longer than zero")
        head, request = self._request(request_id)
        if (granted := _granted(head, request_id)) is not None:
            return granted.id
        if request_id in head.denials:
            _log.warning(_CONTRADICTED, request_id, "denied", "approved")
        _say_if_superseded(head, request_id)
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
                raise _Repeated(other.id)

        event = Granted(at=now, permit=permit, via=via)
        names = ((f"permit:{permit.id}", 0),)
        try:
            self._record("approve", head, event, names=names, permit=permit, state=PermitState.GRANTED, check=first)
        except _Repeated as repeated:
            return str(repeated)
        return permit.id

    def deny(self, request_id: str, *, by: str, via: str = "api") -> None:
        """Says no to a request: terminal for its occurrence. An equal later call can ask for an approval again.

        Args:
            request_id: of the request, as `pending` shows it; a click on an old one answers nothing newer.
            by: who denies.
            via: through what they act.

        Raises:
            OperatorError: there is no such request.
            ValueError: `by` is empty.
        """
        named(by)
        head, request = self._request(request_id)
        if request_id in head.denials:
            return
        granted = _granted(head, request_id)
        if granted is not None:
            _log.warning(_CONTRADICTED, request_id, "approved", "denied")
        _say_if_superseded(head, request_id)
        event = Denied(at=self.ports().clock(), request=request_id, by=by, via=via)
        shown = request.binding.digest if request.binding is not None else ""
        names = ((f"denied:{equal(head, shown)}", 0),)
        self._record("deny", head, event, names=names, permit=granted, state=PermitState.DENIED)

    def revoke(self, permit_id: str, *, by: str, via: str = "api") -> None:
        """Takes a permit back, in every occurrence that holds it. What it was used for is not undone.

        Args:
            permit_id: as `approve` and `authenticated` returned it, and `show` lists it.
            by: who takes it back.
            via: through what they act.

        Raises:
            OperatorError: there is no such permit.
            ValueError: `by` is empty.
        """
        named(by)
        heads = self.ports().journal.named(f"permit:{permit_id}")
        if not heads:
            raise OperatorError(f"The journal holds no permit {permit_id}. `show` lists the permits of an occurrence.")
        for head in heads:
            if permit_id not in head.revocations:
                event = Revoked(at=self.ports().clock(), permit=permit_id, by=by, via=via)
                permit = next((g.permit for _, g in head.grants if g.permit.id == permit_id), None)
                self._record("revoke", head, event, permit=permit, state=PermitState.REVOKED)

    def authenticated(
        self,
        *,
        principal: str | None,
        scope: str | None = None,
        credential: Mapping[str, Any] | str | None = None,
        via: str = "api",
    ) -> str:
        """A sign-in: restores authority where a challenge took it, and says nothing about any effect.

        Nothing runs by itself: the program has to make the call again, and it is refused while its effect is unknown.

        Args:
            principal: who signed in, as `scope(…, principal=…)` names them.
            scope: only in this scope; by default wherever the principal has open occurrences.
            credential: subject, issuer and scopes of what they hold; only a fingerprint is kept. Of a mapping just
                these three are read, so that a mere token refresh changes nothing.
            via: through what they signed in.

        Returns:
            The permit's id, one for all the occurrences it was granted to.
        """
        ports = self.ports()
        now, permit_id, holder = ports.clock(), ports.new_id(), _fingerprint(credential)
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
            event, names = Granted(at=now, permit=permit, via=via), ((f"permit:{permit_id}", 0),)
            self._record("login", head, event, names=names, permit=permit, state=PermitState.GRANTED)
        return permit_id

    def _request(self, request_id: str) -> tuple[Head, Suspended]:
        for head in self.ports().journal.named(f"request:{request_id}"):
            for suspension in head.suspensions:
                if suspension.id == request_id:
                    return head, suspension
        raise OperatorError(f"The journal holds no approval request {request_id}. `pending` shows the ones that wait.")


class _Repeated(Exception):
    """Somebody else was quicker to approve the same request; holds that permit's id."""


def _say_if_superseded(head: Head, request_id: str) -> None:
    if request_id in head.superseded and head.confirmation is not None:
        _log.warning(_SUPERSEDED, request_id, head.confirmation.id)


def _granted(head: Head, request_id: str) -> Permit | None:
    return next((g.permit for _, g in head.grants if g.permit.request == request_id), None)


def _fingerprint(credential: Mapping[str, Any] | str | None) -> str | None:
    if credential is None:
        return None
    if isinstance(credential, str):
        return digest_bytes("login", credential)[:16]
    parts = [str(credential.get("subject", "")), str(credential.get("issuer", ""))]
    scopes = credential.get("scopes", ())
    return digest_bytes("login", *parts, *sorted(scopes.split() if isinstance(scopes, str) else map(str, scopes)))[:16]
