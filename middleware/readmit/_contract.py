"""What a tool or a service promises about repeats: declared, never guessed from an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from hashlib import sha256
from typing import Any, Literal, get_args

import msgspec

from readmit._model import EffectState, Evidence, Strength
from readmit._places import place

PutsKey = Callable[[Any, str], bytes | None]
EffectsThrough = Literal["sends", "http", "tools", "mixed"]


class NotSent(Exception):
    """Raised by a tool that knows that nothing was sent; says nothing about a guarded send that was seen to leave.

    Example:
        >>> raise NotSent("the mailbox was not configured")
        Traceback (most recent call last):
        readmit.NotSent: the mailbox was not configured
    """

    __module__ = "readmit"


class Rejected(Exception):
    """Raised by a tool that knows that the service refused the request without any effect.

    Example:
        >>> raise Rejected("card declined")
        Traceback (most recent call last):
        readmit.Rejected: card declined
    """

    __module__ = "readmit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a tool or service promises, as data that a TOML file could hold.

    Args:
        name: shown on spans and in tables.
        idempotent: the same request twice has the effect of one.
        idempotency_key: where a stable key goes: a header (`Idempotency-Key`), a field of a JSON body
            (`json:/idempotency_key`), or a callable that is given a copy of the request and the key, and changes the
            copy's headers or URL or returns the new body.
        key_lifetime: how long the service keeps a key; without it a key justifies no replay.
        rejected: HTTP statuses or exception classes that the service gives only before it acts.
        not_sent: exception classes that prove that nothing was sent.
        reads: methods (`"GET"`) or paths (`"/search"`, trailing `*` allowed) without effect.
        effects_through: where an exception's evidence can come from, see the README.
        accept: the weakest strength at which `not_sent` and `rejected` admit a repeat.
        blind_retries: repeats of an unknown effect that policy allows for this low-risk tool.
        receipt: where the service's answer names the effect: `header:Location`, `json:/id`.
        volatile: query parameters that are made anew for each attempt, a time or a signature say: they make no other
            request of it.

    Raises:
        ValueError: for a value that no rule knows; names the argument and what it can be.

    Example:
        >>> Contract(name="payments", idempotency_key="Idempotency-Key", key_lifetime=timedelta(hours=24)).accept
        'contract'
    """

    name: str = ""
    idempotent: bool = False
    idempotency_key: str | PutsKey | None = None
    key_lifetime: timedelta | None = None
    rejected: tuple[int | type[BaseException], ...] = ()
    not_sent: tuple[type[BaseException], ...] = ()
    reads: tuple[str, ...] = ()
    effects_through: EffectsThrough = "sends"
    accept: Literal["proof", "protocol", "contract", "testimony"] = "contract"
    blind_retries: int = 0
    receipt: str | None = None
    volatile: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.effects_through not in get_args(EffectsThrough):
            raise ValueError(
                f"effects_through={self.effects_through!r}: write one of {', '.join(get_args(EffectsThrough))}"
            )
        if self.accept not in set(Strength):
            raise ValueError(f"accept={self.accept!r}: write one of {', '.join(Strength)}")
        if not isinstance(self.idempotent, bool):
            raise ValueError(f"idempotent={self.idempotent!r}: write True or False")
        if self.blind_retries < 0:
            raise ValueError("blind_retries counts repeats and cannot be negative")
        for name in ("rejected", "not_sent", "reads", "volatile"):
            if not isinstance(getattr(self, name), tuple):
                raise ValueError(f"{name}={getattr(self, name)!r}: write a tuple, ({getattr(self, name)!r},)")
        for named in (*self.reads, *self.volatile):
            if not isinstance(named, str) or not named:
                raise ValueError(f"{named!r} in reads= or volatile= names nothing: write a text")
        for given in (*self.rejected, *self.not_sent):
            if not isinstance(given, int) and not (isinstance(given, type) and issubclass(given, BaseException)):
                raise ValueError(f"{given!r} is neither a status nor an exception class: write 401 or CardError")
        if self.key_lifetime is not None and not isinstance(self.key_lifetime, timedelta):
            raise ValueError(f"key_lifetime={self.key_lifetime!r}: write a datetime.timedelta")
        if self.key_lifetime is not None and self.key_lifetime <= timedelta(0):
            raise ValueError("key_lifetime must be longer than zero")
        for where in (self.idempotency_key, self.receipt):
            if isinstance(where, str):
                place(where)
            elif where is not None and not (callable(where) and where is self.idempotency_key):
                raise ValueError(f"{where!r} is no place in a message: write header:Location, or json:/charge/id")
        for status in self.rejected:
            if isinstance(status, int) and not 300 <= status <= 599:
                raise ValueError(
                    f"rejected={status}: a status is refused between 300 and 599; write exception classes for the rest"
                )

    def __repr__(self) -> str:
        given = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return f"Contract({', '.join(f'{name}={value!r}' for name, value in given)})"

    @property
    def accepted_strength(self) -> Strength:
        """`accept`, as a strength that can be compared."""
        return Strength(self.accept)

    @property
    def key_lifetime_ns(self) -> int | None:
        """`key_lifetime` in nanoseconds."""
        return None if self.key_lifetime is None else nanoseconds(self.key_lifetime)

    def claim(self, error: BaseException) -> Evidence | None:
        """What an exception says about the effect by this contract; None when it says nothing."""
        not_sent: tuple[type[BaseException], ...] = (NotSent, *self.not_sent)
        rejected: tuple[type[BaseException], ...] = (Rejected, *(e for e in self.rejected if isinstance(e, type)))
        if isinstance(error, not_sent):
            return Evidence(state=EffectState.NOT_SENT, strength=Strength.CONTRACT, rule="tool.not_sent")
        if isinstance(error, rejected):
            return Evidence(state=EffectState.REJECTED, strength=Strength.CONTRACT, rule="tool.rejected")
        return None

    def document(self) -> bytes:
        """The contract as JSON; exception classes by their names. Equal contracts give equal bytes."""
        return msgspec.json.encode({f.name: _plain(getattr(self, f.name)) for f in fields(self)})

    @property
    def fingerprint(self) -> str:
        """16 hex digits over `document`."""
        return sha256(self.document()).hexdigest()[:16]

    @classmethod
    def from_document(cls, document: bytes) -> Contract:
        """Reads `document` back: exception classes, which decide nothing afterwards, are left out."""
        raw: dict[str, Any] = msgspec.json.decode(document)
        lifetime = raw.pop("key_lifetime")
        raw["rejected"] = tuple(s for s in raw["rejected"] if isinstance(s, int))
        raw["not_sent"] = ()
        raw["reads"] = tuple(raw["reads"])
        raw["volatile"] = tuple(raw.get("volatile", ()))
        if (raw["idempotency_key"] or "").startswith(_CALLS):
            raw["idempotency_key"] = _put_nothing
        return cls(**raw, key_lifetime=None if lifetime is None else timedelta(seconds=lifetime))


_CALLS = "call:"  # before the name of a callable in `document`


def _put_nothing(request: Any, key: str) -> None:
    """Stands for a callable that a document names: where the key was is no matter to what was decided."""


def nanoseconds(span: timedelta) -> int:
    """A span of time in nanoseconds, exactly."""
    return span // timedelta(microseconds=1) * 1000


def _plain(value: object) -> object:
    match value:
        case timedelta():
            return value.total_seconds()
        case tuple():
            return [_plain(v) for v in value]
        case type():
            return f"{value.__module__}.{value.__qualname__}"
        case _ if callable(value):
            return f"{_CALLS}{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"
        case _:
            return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A tool that a person must approve, one dispatch at a time.

    Args:
        expires: how long a granted approval holds.
        when: called with the bound arguments; a call for which it returns `False` needs no person, any other does.
        target: called with the bound arguments; returns the state the person saw (an ETag, a version). If it differs
            at dispatch the approval is stale.
        show: called with the bound arguments; returns the text by which a person knows what they approve. The journal
            keeps it, and `pending`, `show` and `approve` print it; without it they have only the arguments' digest.

    Raises:
        ValueError: `expires` is not longer than zero.

    Example:
        >>> Approval(when=lambda arguments: arguments["cents"] > 10_000).expires
        datetime.timedelta(seconds=3600)
    """

    expires: timedelta = timedelta(hours=1)
    when: Callable[[Mapping[str, Any]], bool] | None = None
    target: Callable[[Mapping[str, Any]], object] | None = None
    show: Callable[[Mapping[str, Any]], str] | None = None

    def __post_init__(self) -> None:
        if self.expires <= timedelta(0):
            raise ValueError(f"expires={self.expires!r}: how long an approval holds must be longer than zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the guard that decides is: its policy version and who executes."""

    version: str | None = None
    executor: str | None = None
