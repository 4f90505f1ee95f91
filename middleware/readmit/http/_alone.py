"""A request outside any tool: a guarded call of its own, named by method and address."""

from __future__ import annotations

import dataclasses
import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from readmit._call import Declaration, GuardedCall, Ports, Site, Steps
from readmit._context import frame
from readmit._contract import Contract
from readmit._digest import digest_bytes
from readmit._epoch import Epoch, Send
from readmit._identity import Call
from readmit._model import Binding, EffectState, Granted, Permit, PermitSource, SendStarted
from readmit._telemetry import Inside
from readmit.http._request import Facts, Trail
from readmit.http._resend import unjustified
from readmit.http._terms import Terms
from readmit.http._within import refusal
from readmit.journal._port import Change

if TYPE_CHECKING:
    from readmit._guard import Guard

_log = logging.getLogger("readmit")


class LoneCall(GuardedCall):
    """Delivered when the answer's body has reached its reader, not when its status line has."""

    _due: tuple[str, str, Epoch | None] | None = None
    facts: Facts

    def steps(self) -> Steps:
        """As any call, once it is known not to be what httpx made of a request that may not be repeated."""
        if not self.tool.observe and (trail := self.facts.trail()) is not None:
            _check_trail(trail, self.facts, self.ports, self.tool.contract)
            _signed_in(trail, self.facts, self.ports, self.call.principal)
        return (yield from super().steps())

    def _deliver(self, occurrence_id: str, call: str, epoch: Epoch | None = None) -> None:
        self._due = occurrence_id, call, epoch

    def over(self, broken: BaseException | None) -> None:
        """The body was read, or lost: then the call stays open, and its repeat is refused."""
        if self._due is not None and broken is None:
            due, self._due = self._due, None
            super()._deliver(*due)


def alone(facts: Facts, guard: Guard, contract: Contract) -> LoneCall:
    """The call that a request outside any tool is.

    Its steps raise `ReplayRefused` if httpx made the request of one whose effect is unknown, by a redirect say.

    Raises:
        JournalUnavailable: it cannot be opened; nothing is sent.
    """
    here, observe = frame(), guard.mode == "observe"
    ports = guard.ports_of_calls(observe=observe)
    contract, fingerprint = _through_http(contract)
    body = facts.body()
    name = f"{facts.method} {facts.url}"
    unique = ports.new_id() if here.key is None else "streamed"  # a key finds its occurrence whatever is streamed
    sent: bytes | str = unique if body is None else body
    call = Call(
        scope=here.scope or guard.scope_name,
        principal=here.principal,
        tool=name,
        signature=digest_bytes("http", "query", "body"),
        digest=facts.digest(sent),
        parameters={
            "body": digest_bytes("body", sent, secret=guard.digest_secret),
            "query": digest_bytes("query", facts.query, secret=guard.digest_secret),
        },
        key=here.key,
    )
    declaration = Declaration(
        name=name,
        read=False,
        contract=contract,
        fingerprint=fingerprint,
        classify=_classify,
        observe=observe,
        reopens=body is not None,
    )
    made = LoneCall(ports, declaration, call, Site(here.run, here.epochs), {})
    made.facts = facts
    return made


@lru_cache(maxsize=256)
def _through_http(contract: Contract) -> tuple[Contract, str]:
    """All effects of a request go through the guarded client: what left speaks, and nothing else."""
    narrowed = dataclasses.replace(contract, effects_through="http")
    return narrowed, narrowed.fingerprint


def _classify(response: Any) -> EffectState:
    """Only a 2xx is a return that commits; with any other answer the send speaks."""
    return EffectState.COMMITTED if 200 <= response.status_code < 300 else EffectState.UNKNOWN


def _check_trail(trail: Trail, facts: Facts, ports: Ports, contract: Contract) -> None:
    """A redirect leads to another address: another occurrence, but the same intent."""
    if trail.request() is facts.request and not trail.send.streamed:
        return
    started = SendStarted(at=trail.send.started.at, epoch=0, send=0, route=facts.route(), request="", idempotent=False)
    again = Send(started, 0, streamed=facts.body() is None)
    again.fingerprint = facts.login()
    against = unjustified(trail.send, again, Terms.of(contract, None), contract.accepted_strength)
    if against is None:
        return
    error = refusal(trail.epoch, against)
    _log.warning("%s", error)
    head = ports.journal.load(trail.epoch.occurrence_id)
    assert head is not None, "the occurrence of a send is in the journal"
    shown = {"readmit.admission.decision": "refuse", "readmit.admission.refusal": str(error.reason)}
    ports.spans.act("admit", head, {**shown, "readmit.admission.detail": error.detail})
    raise error


def _signed_in(trail: Trail, facts: Facts, ports: Ports, principal: str | None) -> None:
    """An auth flow that was challenged sends again with other credentials: that is a login, and nothing but a login."""
    if not trail.send.challenges or trail.send.fingerprint == facts.login():
        return
    now, permit_id = ports.clock(), ports.new_id()
    permit = Permit(
        id=permit_id,
        source=PermitSource.LOGIN,
        granted_by="client",
        binding=Binding(subject=principal),
        after_epoch=trail.epoch.number,
        not_before=now,
    )
    change = Change(
        trail.epoch.occurrence_id, (Granted(at=now, permit=permit, via="http"),), names=((f"permit:{permit_id}", 0),)
    )
    (head,) = ports.journal.append([change], durable=False)
    shown = {"readmit.permit.id": permit_id, "readmit.permit.source": "login", "readmit.permit.state": "granted"}
    ports.spans.act("login", head, shown)


def inside(epoch: Epoch | None) -> Inside:
    """Where the request is sent: the epoch's frame and span are current."""
    assert epoch is not None, "a request of its own has an epoch"
    return Inside(epoch.frame(frame()), epoch.span.span)
