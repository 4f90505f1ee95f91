"""Every situation of an effect that the table is tried with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from readmit._model import Accepted, AnyEvent, Justification, Outcome, OwnerLost, Strength
from tests.core.situations import (
    ALL,
    COMMITTED,
    CONTRACT,
    DECLARED,
    HOUR,
    LOST,
    NOT_SENT,
    PROOF,
    PROTOCOL,
    REJECTED,
    RETURNED,
    START,
    TESTIMONY,
    Effect,
    admitted,
    ended,
    found,
    said,
    sent,
    undone,
)


def _effects() -> list[Effect]:
    unknown = Effect(name="lost, with a key", events=LOST, epochs=1, state="unknown")
    two = replace(unknown, epochs=2)
    second = (admitted(2), sent(epoch=2, key=True))
    hung = Effect(name="hung", events=(admitted(), sent(key=True), DECLARED), epochs=1, state="unknown")
    good = Accepted(at=START, id="good", epoch=1, by="ann", statement="it may be there twice")
    used = admitted(2, acceptance="good", justification=Justification.AMBIGUITY_ACCEPTED)

    def beyond(name: str, events: Sequence[AnyEvent], like: Effect = unknown, **facts: object) -> Effect:
        return replace(like, name=name, events=(*like.events, *events), **facts)  # type: ignore[arg-type]

    def only(name: str, events: Sequence[AnyEvent], state: str, **facts: object) -> Effect:
        return Effect(name=name, events=(admitted(), *events), epochs=1, state=state, **facts)  # type: ignore[arg-type]

    effects = [Effect(name="nothing yet")]
    for state in (NOT_SENT, REJECTED):
        for strength in Strength:
            proved = state is NOT_SENT and strength is PROOF
            effects.append(
                only(
                    f"{state}, {strength}",
                    (said(state, strength), ended()),
                    str(state),
                    strength=strength,
                    proved_not_sent=proved,
                )
            )
    refused = (sent(), said(NOT_SENT, PROOF, send=1), ended())
    effects += [
        only("refused connection", refused, "not_sent", strength=CONTRACT),
        only(
            "422",
            (sent(), said(REJECTED, PROTOCOL, send=1), ended()),
            "rejected",
            strength=CONTRACT,
            unkeyed=("proof",),
        ),
        only("returned", (RETURNED,), "committed", result=True),
        only("returned what cannot be stored", (ended(outcome=Outcome.RETURNED, unstorable="why"),), "committed"),
        only("200, then raised", (sent(), said(COMMITTED, PROTOCOL, send=1), ended()), "committed"),
        only(
            "half",
            (sent(), said(COMMITTED, PROTOCOL, send=1), sent(send=2), said(REJECTED, PROOF, send=2), ended()),
            "unknown",
            unkeyed=ALL,
        ),
        only(
            "error text", (ended(outcome=Outcome.RETURNED, unclear="tool.error_text", result=b'1"Error"'),), "unknown"
        ),
        only("cancelled", (ended(outcome=Outcome.CANCELLED),), "unknown"),
        only("raised", (ended(),), "unknown"),
        unknown,
        only("lost, without a key", (sent(), ended()), "unknown", unkeyed=ALL),
        only(
            "lost, idempotent by its client",
            (sent(idempotent=True), ended()),
            "unknown",
            unkeyed=ALL,
            client="idempotent",
        ),
        only("lost, a key of its client", (sent(key=True, key_lifetime=2 * HOUR), ended()), "unknown", client="key"),
        only("lost, an old key of its client", (sent(key=True, key_lifetime=HOUR // 2), ended()), "unknown"),
        only("owner lost", (OwnerLost(at=START, epoch=1),), "unknown"),
        only("declared unknown", (DECLARED,), "unknown"),
        only("declared unknown, returned late", (DECLARED, RETURNED), "committed", result=True),
        only("in flight", (), "unknown", flying=True),
        beyond("lost, then in flight", (admitted(2),), two, flying=True),
        beyond(
            "lost, then refused", (admitted(2), said(NOT_SENT, PROOF, epoch=2), ended(2)), two, proved_not_sent=True
        ),
        beyond("lost, then rejected", (admitted(2), said(REJECTED, PROOF, epoch=2), ended(2)), two),
        beyond(
            "lost, then returned",
            (admitted(2), ended(2, Outcome.RETURNED, result=b'1"r"')),
            two,
            state="committed",
            result=True,
        ),
        beyond(
            "lost, retried blindly, lost",
            (admitted(2, justification=Justification.BOUNDED_RETRY), ended(2)),
            two,
            blind=1,
        ),
        beyond("accepted, lost again", (good, used, ended(2)), two),
        beyond(
            "accepted, refused",
            (good, used, said(NOT_SENT, PROOF, epoch=2), ended(2)),
            two,
            accepts="good",
            proved_not_sent=True,
        ),
        beyond(
            "accepted, lost again, absent by the hook",
            (good, used, ended(2), found("absent", 2, CONTRACT)),
            two,
            state="absent",
            strength=CONTRACT,
        ),
        beyond("an older epoch accepted", (admitted(2), ended(2), good), two),
        only("absent for now", (ended(), found("absent_for_now", 1, TESTIMONY, by="ann")), "unknown"),
        only("unclear", (ended(), found("unclear", 1, TESTIMONY)), "unknown"),
        beyond(
            "absent, by a person",
            (found("absent", 1, TESTIMONY, by="ann"),),
            state="absent",
            person=True,
            strength=TESTIMONY,
        ),
        beyond("absent, by the hook", (found("absent", 1, CONTRACT),), state="absent", strength=CONTRACT),
        beyond("absent, lost again", (found("absent", 1, TESTIMONY, by="ann"), *second, ended(2)), two),
        beyond(
            "absent, and a late return",
            (found("absent", 1, TESTIMONY, by="ann"), RETURNED),
            hung,
            state="committed",
            result=True,
        ),
        beyond("present, by the hook", (found("present", 1, TESTIMONY),), state="present"),
        beyond(
            "present, by a person, with its result",
            (found("present", 1, TESTIMONY, by="ann", result=b'1"r"'),),
            state="present",
            result=True,
        ),
        beyond(
            "absent and present",
            (found("absent", 1, TESTIMONY, by="ann"), found("present", 1, TESTIMONY)),
            state="present",
        ),
        beyond("compensated", (undone(),), state="compensated", compensated=True),
        only("returned, compensated", (RETURNED, undone()), "compensated", compensated=True),
        beyond(
            "present, compensated, absent",
            (found("present", 1, TESTIMONY), undone(), found("absent", 1, CONTRACT)),
            state="compensated",
            compensated=True,
        ),
        beyond(
            "compensated, and a late return",
            (undone(), RETURNED),
            hung,
            state="committed",
            result=True,
            compensated=True,
        ),
        beyond("compensated, lost again", (undone(), *second, ended(2)), two, compensated=True),
        beyond("two lost, the first compensated", (*second, ended(2), undone()), two, compensated=True, same_key=False),
        beyond(
            "compensated, rejected",
            (undone(), admitted(2), said(REJECTED, CONTRACT, epoch=2), ended(2)),
            two,
            state="compensated",
            strength=CONTRACT,
            compensated=True,
        ),
    ]
    return effects


def _reads() -> list[Effect]:
    first = admitted(read=True)
    return [
        Effect(name="a read, nothing yet", read=True),
        Effect(name="a read, raised", events=(first, ended()), epochs=1, read=True),
        Effect(name="a read, returned", events=(first, RETURNED), epochs=1, read=True, result=True),
        Effect(name="a read, in flight", events=(first,), epochs=1, flying=True, read=True),
    ]


EFFECTS = tuple(_effects())
READS = tuple(_reads())
