"""What a caller can get instead of a result.

The tree::

    ReadmitError
    ├── Refused                  the call was not admitted; nothing was sent by it
    │   ├── ApprovalRequired     authority: a person must approve this call, or denied it
    │   ├── RecoveryPending      recovery: a challenge is unanswered
    │   ├── ReplayRefused        effect: a repeat has no justification
    │   └── OccurrenceConflict   identity: the same call, with other arguments or another signature
    ├── JournalUnavailable       the journal cannot be opened or written
    ├── BatchIncomplete          calls of a batch still wait: there is nothing to deliver yet
    ├── BatchUndelivered         results of an earlier response were not delivered: deliver or drop them first
    ├── CorrelationConflict      results contradict each other, or the calls that they are to answer
    └── OperatorError            an operator's call does not fit what the journal holds

A call whose approval request still waits raises `ApprovalRequired` each time, with the same `request_id`; its `reason`
is `permit_missing` when it asks and `recovery_pending` from then on. Where a challenge waits too, it is
`RecoveryPending`, which has the `request_id` as well: without the sign-in an approval opens nothing.

`NotSent` and `Rejected` stand apart: tools raise them to say what they know.
"""

from __future__ import annotations

from typing import Any

from readmit._model import Challenge, RecoveryKind, Refusal


class ReadmitError(Exception):
    """Base of all errors of this library."""

    __module__ = "readmit"


class JournalUnavailable(ReadmitError):
    """The journal cannot be opened or written: an effectful call is not sent, a read-only call runs.

    The message names the journal, what failed, and what to do.

    Attributes:
        written: it is in the journal, but a power failure may undo it: nothing may be done on the strength of it.
    """

    __module__ = "readmit"

    written = False


class OperatorError(ReadmitError):
    """An operator's call names something the journal does not hold, or that has moved on since it was shown."""

    __module__ = "readmit"


class BatchIncomplete(ReadmitError):
    """Calls of a batch still wait for their results.

    Attributes:
        response: whose batch it is.
        waiting: the occurrence ids of the calls.
    """

    __module__ = "readmit"

    def __init__(self, response: str = "", waiting: tuple[str, ...] = ()) -> None:
        super().__init__(response, waiting)
        self.response: str = response
        self.waiting: tuple[str, ...] = waiting

    def __str__(self) -> str:
        return (
            f"{len(self.waiting)} calls of response {self.response} wait for their results "
            f"({', '.join(self.waiting)}): run them, or add what the host has found."
        )


class BatchUndelivered(ReadmitError):
    """Results of an earlier response were not delivered, and would be lost to the model.

    Attributes:
        responses: whose they are, oldest first.
        occurrence_ids: of their deliveries, as `readmit show` takes them.
    """

    __module__ = "readmit"

    def __init__(self, responses: tuple[str, ...] = (), occurrence_ids: tuple[str, ...] = ()) -> None:
        super().__init__(responses, occurrence_ids)
        self.responses: tuple[str, ...] = responses
        self.occurrence_ids: tuple[str, ...] = occurrence_ids

    def __str__(self) -> str:
        return (
            f"The results of {', '.join(self.responses)} were not delivered: deliver them first, "
            f"`Batch(response).deliver()`, or `drop` them with a statement. "
            f"[occurrence {', '.join(self.occurrence_ids)}]"
        )


class Refused(ReadmitError):
    """The call was not admitted, and nothing was sent by it.

    Attributes:
        occurrence_id: the occurrence, as `readmit show` takes it.
        tool: the tool's name.
        reason: why, one of `Refusal`.
        detail: which of several: a parameter's name, what went stale, the request's id.
        gates: every closed gate: recovery, authority, effect.
        remedies: what can open them: sign_in, approve, reconcile, accept, compensate, abandon, declare_unknown.
        request_id: the approval request that waits for a verdict, if one does.
    """

    __module__ = "readmit"

    def __init__(
        self,
        occurrence_id: str,
        tool: str,
        reason: Refusal,
        *,
        detail: str = "",
        gates: tuple[str, ...] = (),
        remedies: tuple[str, ...] = (),
        request_id: str | None = None,
        challenges: tuple[Challenge, ...] = (),
    ) -> None:
        super().__init__(occurrence_id, tool, reason)
        self.occurrence_id = occurrence_id
        self.tool = tool
        self.reason = reason
        self.detail = detail
        self.gates = gates
        self.remedies = remedies
        self.request_id = request_id
        self.challenges = challenges

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.__dict__))

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        said = _VERDICTS if self._contradicted else _SAID[self.reason]
        closed = f"; closed: {', '.join(self.gates)}" if self.gates else ""
        closed += ", each of which has to open" if len(self.gates) > 1 else ""
        todo = f"; what ends it: {', '.join(self.remedies)}" if self.remedies else ""
        request = f"; request {self.request_id} waits for a verdict" if self.request_id else ""
        return f"{self.tool}: {said}{detail}{closed}{todo}{request} [occurrence {self.occurrence_id}]"

    @property
    def for_model(self) -> str:
        """A plain text for a model: what is known, that repeating is impossible, who must act. Never an invitation."""
        said = _MODEL_VERDICTS if self._contradicted else _MODEL[self.reason]
        if self.reason is Refusal.RECOVERY_PENDING and isinstance(self, RecoveryPending):
            said = _SIGN_IN
        if "reconcile" in self.remedies and "effect" not in said:
            said += f" {_MODEL[Refusal.EFFECT_UNKNOWN]}"
        return f"{self.tool} was not run. {said} Reference: {self.occurrence_id}."

    @property
    def _contradicted(self) -> bool:
        """A conflict of two verdicts, not of two calls."""
        return self.reason is Refusal.CONFLICT and "authority" in self.gates


def _rebuild(cls: type[Refused], state: dict[str, Any]) -> Refused:
    error = cls(state["occurrence_id"], state["tool"], state["reason"])
    error.__dict__.update(state)
    return error


class ApprovalRequired(Refused):
    """A person must approve this call, or denied it; `request_id` is what `approve` and `deny` name."""

    __module__ = "readmit"


class RecoveryPending(Refused):
    """A challenge is unanswered: somebody has to sign in. `challenges` are for the host alone."""

    __module__ = "readmit"


class ReplayRefused(Refused):
    """The effect of an earlier attempt is there, unknown or in flight, and nothing justifies a repeat."""

    __module__ = "readmit"


class OccurrenceConflict(Refused):
    """One identity, different content: `detail` names the parameter that differs."""

    __module__ = "readmit"


def refused(occurrence_id: str, tool: str, reason: Refusal, **more: Any) -> Refused:
    """The member of the family that belongs to a reason; of `recovery_pending`, to what alone is waited for."""
    verdict = reason is Refusal.RECOVERY_PENDING and more.get("detail") == RecoveryKind.CONFIRMATION
    cls = ApprovalRequired if verdict else _CLASS.get(reason, ReplayRefused)
    return cls(occurrence_id, tool, reason, **more)


_CLASS: dict[Refusal, type[Refused]] = {
    Refusal.CONFLICT: OccurrenceConflict,
    Refusal.RECOVERY_PENDING: RecoveryPending,
    Refusal.PERMIT_MISSING: ApprovalRequired,
    Refusal.PERMIT_EXPIRED: ApprovalRequired,
    Refusal.PERMIT_STALE: ApprovalRequired,
    Refusal.PERMIT_CONSUMED: ApprovalRequired,
    Refusal.WRONG_PRINCIPAL: ApprovalRequired,
    Refusal.WRONG_EXECUTOR: ApprovalRequired,
    Refusal.DENIED: ApprovalRequired,
}

_SAID: dict[Refusal, str] = {
    Refusal.CONFLICT: "this call carries the identity of another one, and not its content: repeat what that one said, "
    "or give it one of its own",
    Refusal.ALREADY_COMMITTED: "the effect is already there and its result cannot be given again; do not repeat the "
    "call: once told, an equal one without a key= is another call",
    Refusal.DENIED: "a person denied this call",
    Refusal.ABANDONED: "an operator closed this call for good",
    Refusal.REENTRANT: "the call is already running further up in its own call stack",
    Refusal.IN_FLIGHT: "the first attempt has not ended, or ended without a result to share",
    Refusal.RECOVERY_PENDING: "the call is suspended until something is answered",
    Refusal.PERMIT_MISSING: "nobody has authorised this call yet",
    Refusal.PERMIT_EXPIRED: "the authorisation of this call has expired",
    Refusal.PERMIT_STALE: "what was authorised has changed since",
    Refusal.PERMIT_CONSUMED: "the authorisation of this call was used by an earlier attempt",
    Refusal.WRONG_PRINCIPAL: "the authorisation belongs to somebody else",
    Refusal.WRONG_EXECUTOR: "the authorisation belongs to another executor",
    Refusal.EFFECT_UNKNOWN: "an earlier attempt may have had its effect, and nothing justifies a repeat",
}

_VERDICTS = "its approval request was approved and denied, and nothing runs on either"
_MODEL_VERDICTS = "People disagree about it. A person has to settle that; it will not be run."
_SIGN_IN = "It waits for the user to sign in; nothing else moves it on."
_PERSON = "A person has to decide before it can go on; asking again changes nothing."
_MODEL: dict[Refusal, str] = {
    Refusal.CONFLICT: "It does not agree with an earlier call of the same identity. A person has to look at it.",
    Refusal.ALREADY_COMMITTED: "Its effect has already taken place. It cannot be repeated.",
    Refusal.DENIED: "A person denied it. It will not be run.",
    Refusal.ABANDONED: "An operator closed it. It will not be run.",
    Refusal.REENTRANT: "It is already running.",
    Refusal.IN_FLIGHT: "The first attempt has not been settled. Its outcome has to be found out by a person.",
    Refusal.RECOVERY_PENDING: f"It is suspended until the user has answered. {_PERSON}",
    Refusal.PERMIT_MISSING: f"It needs the approval of a person. {_PERSON}",
    Refusal.PERMIT_EXPIRED: f"Its approval has expired. {_PERSON}",
    Refusal.PERMIT_STALE: f"It changed after it was approved. {_PERSON}",
    Refusal.PERMIT_CONSUMED: f"Its approval was used by an earlier attempt. {_PERSON}",
    Refusal.WRONG_PRINCIPAL: f"Its approval belongs to somebody else. {_PERSON}",
    Refusal.WRONG_EXECUTOR: f"Its approval belongs to another executor. {_PERSON}",
    Refusal.EFFECT_UNKNOWN: "An earlier attempt may have taken effect. It cannot be repeated; a person must find out.",
}
