"""What people do about a refusal, by the name it has among the remedies, as events."""

from __future__ import annotations

from readmit._fold import Head, fold
from readmit._model import (
    Abandoned,
    Accepted,
    AnyEvent,
    Binding,
    Compensated,
    DeclaredUnknown,
    Granted,
    OwnerLost,
    Permit,
    PermitSource,
    Reconciled,
    RecoveryKind,
    Request,
    Strength,
    Suspended,
)
from tests.core.permits import POLICY
from tests.core.situations import NOW


def applied(remedy: str, head: Head, request: Request) -> tuple[Head, Request]:
    """The head and the request after somebody has done what the remedy says."""
    if not request.owner_alive:  # an operator call records that first
        for flying in head.in_flight:
            head = fold(head, OwnerLost(at=NOW, epoch=flying.epoch))
    for event in _events(remedy, head, request):
        head = fold(head, event)
    return head, request


def _events(remedy: str, head: Head, request: Request) -> list[AnyEvent]:
    last = head.last_epoch
    match remedy:
        case "sign_in":
            return [Granted(at=NOW, permit=_permit(PermitSource.LOGIN, head, request, "signed in"))]
        case "approve":
            open_ = next(
                (s.id for s in head.waiting if s.suspension is RecoveryKind.CONFIRMATION and not head.answered(s)), None
            )
            asked: list[AnyEvent] = []
            if open_ is None:
                open_ = "newly asked"
                asked = [Suspended(at=NOW, suspension=RecoveryKind.CONFIRMATION, id=open_, epoch=last)]
            return [*asked, Granted(at=NOW, permit=_permit(PermitSource.APPROVAL, head, request, open_))]
        case "reconcile":
            return [Reconciled(at=NOW, fence=last, finding="absent", strength=Strength.TESTIMONY, by="ann")]
        case "accept":
            return [Accepted(at=NOW, id="newly accepted", epoch=last, by="ann", statement="twice is fine")]
        case "compensate":
            return [Compensated(at=NOW, fence=last, by="ann")]
        case "abandon":
            return [Abandoned(at=NOW, by="ann", statement="by hand")]
        case "declare_unknown":
            return [DeclaredUnknown(at=NOW, epoch=a.epoch, by="ann") for a in head.in_flight]
        case _:
            raise AssertionError(f"a remedy that nobody knows: {remedy}")


def _permit(source: PermitSource, head: Head, request: Request, asked: str) -> Permit:
    login = source is PermitSource.LOGIN
    binding = Binding(
        subject=request.principal,
        digest="" if login else request.digest,
        executor=None if login else POLICY.executor,
        policy_version=None if login else POLICY.version,
        target=None if login else request.target,
        login=head.login,
    )
    return Permit(
        id=f"by {asked}",
        source=source,
        granted_by="ann",
        binding=binding,
        after_epoch=head.last_epoch,
        uses=None if login else 1,
        request=None if login else asked,
    )
