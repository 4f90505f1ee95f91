"""Facts and states: the words of the domain, as data.

States are `StrEnum`; facts are frozen structs that the journal keeps as they are. Every event belongs to one occurrence
and writes one `Dimension`. Structs of msgspec stand where one would expect frozen dataclasses: they are as immutable,
are built about ten times quicker, and carry the tag by which the journal reads them back.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec


class EffectState(StrEnum):
    """What is known about the outside world."""

    NOT_SENT = "not_sent"
    REJECTED = "rejected"
    COMMITTED = "committed"
    UNKNOWN = "unknown"
    RECONCILED = "reconciled"
    COMPENSATED = "compensated"


class Strength(StrEnum):
    """How good a piece of effect evidence is: `proof` > `protocol` > `contract` > `testimony`."""

    PROOF = "proof"
    PROTOCOL = "protocol"
    CONTRACT = "contract"
    TESTIMONY = "testimony"

    @property
    def rank(self) -> int:
        """3 for `proof` down to 0 for `testimony`."""
        return _RANK[self]


_RANK = {Strength.PROOF: 3, Strength.PROTOCOL: 2, Strength.CONTRACT: 1, Strength.TESTIMONY: 0}


class RecoveryState(StrEnum):
    """Whether the occurrence waits for something, and whether that has been answered."""

    CLEAR = "clear"
    SUSPENDED = "suspended"
    SATISFIED = "satisfied"


class RecoveryKind(StrEnum):
    """Why execution stopped. A `failure` has no condition to wait for."""

    CHALLENGE = "challenge"
    CONFIRMATION = "confirmation"
    FAILURE = "failure"


class PermitSource(StrEnum):
    """Where authority comes from."""

    AMBIENT = "ambient"
    LOGIN = "login"
    APPROVAL = "approval"
    POLICY = "policy"
    OPERATOR = "operator"


class PermitState(StrEnum):
    """What has become of a permit."""

    GRANTED = "granted"
    DENIED = "denied"
    CONSUMED = "consumed"
    EXPIRED = "expired"
    STALE = "stale"
    REVOKED = "revoked"


class DeliveryState(StrEnum):
    """Whether the recorded result reached its reader."""

    NONE = "none"
    OFFERED = "offered"
    ACCEPTED = "accepted"


class Identity(StrEnum):
    """The rule that said which occurrence a call is."""

    KEY = "key"
    FRAMEWORK = "framework"
    RUN = "run"
    OPEN = "open"
    MINTED = "minted"


class Justification(StrEnum):
    """Why an epoch was admitted."""

    FIRST_ATTEMPT = "first_attempt"
    SIDE_EFFECT_FREE = "side_effect_free"
    NOT_SENT = "not_sent"
    REJECTED = "rejected"
    RECONCILED_ABSENT = "reconciled_absent"
    COMPENSATED = "compensated"
    IDEMPOTENT = "idempotent"
    IDEMPOTENCY_KEY = "idempotency_key"
    AMBIGUITY_ACCEPTED = "ambiguity_accepted"
    BOUNDED_RETRY = "bounded_retry"


class Refusal(StrEnum):
    """Why a call was not admitted."""

    CONFLICT = "conflict"
    ALREADY_COMMITTED = "already_committed"
    DENIED = "denied"
    ABANDONED = "abandoned"
    REENTRANT = "reentrant"
    IN_FLIGHT = "in_flight"
    RECOVERY_PENDING = "recovery_pending"
    PERMIT_MISSING = "permit_missing"
    PERMIT_EXPIRED = "permit_expired"
    PERMIT_STALE = "permit_stale"
    PERMIT_CONSUMED = "permit_consumed"
    WRONG_PRINCIPAL = "wrong_principal"
    WRONG_EXECUTOR = "wrong_executor"
    EFFECT_UNKNOWN = "effect_unknown"


class Outcome(StrEnum):
    """How an epoch's execution ended, seen from inside the process."""

    RETURNED = "returned"
    RAISED = "raised"
    CANCELLED = "cancelled"


class Dimension(StrEnum):
    """The lanes of a head. An event writes exactly one."""

    IDENTITY = "identity"
    ADMISSION = "admission"
    RECOVERY = "recovery"
    AUTHORITY = "authority"
    EFFECT = "effect"
    DELIVERY = "delivery"
    RECORD = "record"


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something immutable that an event carries."""


class Evidence(Fact, frozen=True, kw_only=True):
    """One piece of effect evidence: a state, how good it is, and the rule that read it."""

    state: EffectState
    strength: Strength
    rule: str


class Challenge(Fact, frozen=True, kw_only=True):
    """One authentication challenge, as it came (`raw`) and as it was read.

    Source: RFC 9110 §11.3. `parameters` keeps the order of the header.
    """

    raw: str
    scheme: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    header: str = "www-authenticate"


class Binding(Fact, frozen=True, kw_only=True):
    """For exactly what a permit holds; what an approval request showed to the person."""

    subject: str | None = None
    tool: str = ""
    digest: str = ""
    executor: str | None = None
    policy_version: str | None = None
    target: str | None = None
    login: str | None = None  # fingerprint of subject, issuer and scopes, not of the token


class Permit(Fact, frozen=True, kw_only=True):
    """One grant of authority. Times are nanoseconds since the Unix epoch; `after_epoch` is the one it followed."""

    id: str
    source: PermitSource
    granted_by: str
    binding: Binding
    after_epoch: int = 0
    not_before: int = 0
    expires: int | None = None
    uses: int | None = None  # None: any number of epochs
    request: str | None = None


class TraceContext(Fact, frozen=True, kw_only=True):
    """Where the span of an epoch sits. Hex ids; `parent_id` is empty for a root span."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    sampled: bool = True


class Request(Fact, frozen=True, kw_only=True):
    """What a call brings to the decision, apart from what the journal knows. Kept with every admission (I6)."""

    principal: str | None = None
    executor: str | None = None
    policy_version: str | None = None
    digest: str = ""
    read: bool = False
    approval: bool = False  # this call needs a person
    target: str | None = None
    reconcilable: bool = False  # a reconcile hook exists
    asked: bool = False  # and was asked in this pass
    owner_alive: bool = False
    reentrant: bool = False
    waited: bool = False  # the stated time to join was used up
    conflict: str | None = None  # what disagrees: a parameter's name, `signature`
    withheld_by: str | None = None  # the denied equal occurrence that keeps ambient authority away


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", gc=False):
    """Something that happened to one occurrence, at a time in nanoseconds since the Unix epoch."""

    dimension: ClassVar[Dimension]
    at: int


class Opened(Event, tag="opened", frozen=True, kw_only=True):
    """The occurrence was minted."""

    dimension: ClassVar[Dimension] = Dimension.IDENTITY
    scope: str
    tool: str
    signature: str
    digest: str
    parameters: dict[str, str]
    principal: str | None = None
    read: bool = False
    key: str | None = None
    call_id: str | None = None
    response: str | None = None
    run: str | None = None
    outer: str | None = None


class Joined(Event, tag="joined", frozen=True, kw_only=True):
    """A later call was resolved to the occurrence. With `call` it waits for the result and is owed a delivery."""

    dimension: ClassVar[Dimension] = Dimension.IDENTITY
    identity: Identity
    call: str | None = None
    owner: str | None = None
    takes_over: str | None = None
    call_id: str | None = None
    response: str | None = None
    run: str | None = None
    digest: str | None = None  # changed arguments, before any dispatch
    parameters: dict[str, str] | None = None


class Admitted(Event, tag="admitted", frozen=True, kw_only=True):
    """An epoch may start: the epoch, its claim and its justification."""

    dimension: ClassVar[Dimension] = Dimension.ADMISSION
    epoch: int
    call: str
    owner: str
    admission: str
    justification: Justification | None  # None: observed only
    request: Request
    contract: str  # fingerprint; the text is in the journal's documents
    accept: Strength = Strength.CONTRACT
    effects_through: str = "sends"
    permits: tuple[str, ...] = ()
    acceptance: str | None = None
    takes_over: str | None = None
    refusal: Refusal | None = None  # observe mode: what enforce mode would have said
    abandoned: str | None = None  # the abandoned equal occurrence this one knowingly follows
    trace: TraceContext | None = None


class Decided(Event, tag="decided", frozen=True, kw_only=True):
    """A call was answered without starting an epoch."""

    dimension: ClassVar[Dimension] = Dimension.ADMISSION
    admission: str
    decision: str
    refusal: Refusal | None = None
    detail: str = ""


class Suspended(Event, tag="suspended", frozen=True, kw_only=True):
    """Execution stopped and needs something: recovery evidence, which grants nothing."""

    dimension: ClassVar[Dimension] = Dimension.RECOVERY
    suspension: RecoveryKind
    id: str
    epoch: int
    challenges: tuple[Challenge, ...] = ()
    position: str = ""  # where it failed: connect, send, wait, body, tool
    conditions: tuple[str, ...] = ()
    binding: Binding | None = None  # what a confirmation shows
    lifetime: int | None = None  # nanoseconds a granted approval holds
    shown: str = ""  # the call, in the words that the tool has for a person


class Granted(Event, tag="granted", frozen=True, kw_only=True):
    """A permit was granted."""

    dimension: ClassVar[Dimension] = Dimension.AUTHORITY
    permit: Permit
    via: str = "api"


class Denied(Event, tag="denied", frozen=True, kw_only=True):
    """A person said no to a request."""

    dimension: ClassVar[Dimension] = Dimension.AUTHORITY
    request: str
    by: str
    via: str = "api"


class Revoked(Event, tag="revoked", frozen=True, kw_only=True):
    """A permit was taken back."""

    dimension: ClassVar[Dimension] = Dimension.AUTHORITY
    permit: str
    by: str
    via: str = "api"


class SendStarted(Event, tag="send_started", frozen=True, kw_only=True):
    """An effectful request is about to leave. Written before its first byte."""

    dimension: ClassVar[Dimension] = Dimension.EFFECT
    epoch: int
    send: int
    route: str  # digest of method and URL
    request: str  # digest of method, URL and body
    key: str | None = None  # digest of the idempotency key it carries
    key_lifetime: int | None = None  # nanoseconds the service declared to keep it
    idempotent: bool = False


class Observed(Event, tag="observed", frozen=True, kw_only=True):
    """Evidence about a send (or about the epoch, with `send` 0)."""

    dimension: ClassVar[Dimension] = Dimension.EFFECT
    epoch: int
    evidence: Evidence
    send: int = 0
    receipt: str = ""  # how the service names the effect, where the contract says that it does
    body: str = ""  # digest of a streamed request body, known when it had left whole


class Ended(Event, tag="ended", frozen=True, kw_only=True):
    """The epoch's execution ended. `claim` is what the tool itself said about its effect."""

    dimension: ClassVar[Dimension] = Dimension.EFFECT
    epoch: int
    call: str
    outcome: Outcome
    claim: Evidence | None = None
    unclear: str = ""  # a return that is no proof of success: the rule that saw it
    error: str = ""
    result: bytes | None = None
    unstorable: str = ""
    stray: bool = False  # meanwhile something was sent, or called, in a thread without context


class OwnerLost(Event, tag="owner_lost", frozen=True, kw_only=True):
    """The process that ran the epoch is gone."""

    dimension: ClassVar[Dimension] = Dimension.EFFECT
    epoch: int


class DeclaredUnknown(Event, tag="declared_unknown", frozen=True, kw_only=True):
    """An operator gave a hung epoch up, which fences it."""

    dimension: ClassVar[Dimension] = Dimension.EFFECT
    epoch: int
    by: str
    via: str = "api"


class Reconciled(Event, tag="reconciled", frozen=True, kw_only=True):
    """The outside world was asked. `fence` is the last epoch that existed when the question was asked."""

    dimension: ClassVar[Dimension] = Dimension.EFFECT
    fence: int
    finding: str  # present | absent | absent_for_now | unclear
    strength: Strength
    by: str | None = None  # None: the tool's reconcile hook
    receipt: str = ""
    result: bytes | None = None
    via: str = "api"


class Compensated(Event, tag="compensated", frozen=True, kw_only=True):
    """The effect was undone, and nothing can still arrive."""

    dimension: ClassVar[Dimension] = Dimension.EFFECT
    fence: int
    by: str
    via: str = "api"


class Delivered(Event, tag="delivered", frozen=True, kw_only=True):
    """The result reached the reader who was owed it."""

    dimension: ClassVar[Dimension] = Dimension.DELIVERY
    call: str


class Left(Event, tag="left", frozen=True, kw_only=True):
    """A caller left without its result; a later call takes over what it was owed."""

    dimension: ClassVar[Dimension] = Dimension.DELIVERY
    call: str


class ListedCall(Fact, frozen=True, kw_only=True):
    """A call of a model's response, as the response lists it."""

    occurrence: str
    tool: str
    digest: str
    call_id: str | None = None


class Listed(Event, tag="listed", frozen=True, kw_only=True):
    """A batch was opened: the calls of one model response, in its order."""

    dimension: ClassVar[Dimension] = Dimension.DELIVERY
    response: str
    calls: tuple[ListedCall, ...]


class Answered(Event, tag="answered", frozen=True, kw_only=True):
    """A result of a batch arrived, with the ids that came with it."""

    dimension: ClassVar[Dimension] = Dimension.DELIVERY
    payload: bytes
    occurrence: str | None = None
    call_id: str | None = None


class Charged(Event, tag="charged", frozen=True, kw_only=True):
    """The calls of a batch were counted against a budget: once."""

    dimension: ClassVar[Dimension] = Dimension.DELIVERY
    calls: int


class Invalidated(Event, tag="invalidated", frozen=True, kw_only=True):
    """The model provider has invalidated the response: calls of it that did nothing are void."""

    dimension: ClassVar[Dimension] = Dimension.DELIVERY


class Abandoned(Event, tag="abandoned", frozen=True, kw_only=True):
    """An operator closed the occurrence for good."""

    dimension: ClassVar[Dimension] = Dimension.RECORD
    by: str
    statement: str = ""
    via: str = "api"


class Accepted(Event, tag="accepted", frozen=True, kw_only=True):
    """A named person accepted the ambiguity of the epochs up to `epoch`, in so many words. Restores no authority."""

    dimension: ClassVar[Dimension] = Dimension.RECORD
    id: str
    epoch: int
    by: str
    statement: str
    via: str = "api"


AnyEvent = (
    Opened
    | Joined
    | Admitted
    | Decided
    | Suspended
    | Granted
    | Denied
    | Revoked
    | SendStarted
    | Observed
    | Ended
    | OwnerLost
    | DeclaredUnknown
    | Reconciled
    | Compensated
    | Delivered
    | Left
    | Listed
    | Answered
    | Charged
    | Invalidated
    | Abandoned
    | Accepted
)
