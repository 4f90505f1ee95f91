"""What a reconcile hook answers: present, absent, or unclear; never a bool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from readmit._errors import ReadmitError
from readmit._model import Strength

_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Present:
    """The effect is there.

    Args:
        receipt: how the service names it; one that echoes the idempotency key or the occurrence id is proof.
        result: what the call would have returned, if that is known: a repeat gets it.
    """

    receipt: str = ""
    result: Any = field(default=_NOTHING, kw_only=True)

    @property
    def has_result(self) -> bool:
        """Whether a result was given (None is one)."""
        return self.result is not _NOTHING


@dataclass(frozen=True, slots=True)
class Absent:
    """The effect is not there.

    Args:
        authoritative: True only if it also *can no longer arrive*; any other absence settles nothing.
    """

    authoritative: bool = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Unclear:
    """It could not be found out.

    Args:
        why: for the person who looks next.
    """

    why: str = ""


Finding = Present | Absent | Unclear


@dataclass(frozen=True, slots=True)
class Question:
    """What a reconcile hook is asked, and a compensate hook is told. No arguments are kept: an operator's has none.

    Attributes:
        occurrence_id: the occurrence whose effect is unknown.
        tool: the tool's name.
        idempotency_key: what the sends carried, if the tool or its client used it.
        arguments: the bound arguments of the call that asks; None when an operator asks from elsewhere.
        epoch: the last epoch that existed when the question was asked.
        receipt: how the service named the effect in an answer, where the contract says where it does; else empty.
        key: the business key of the call, where it has one.
    """

    occurrence_id: str
    tool: str
    idempotency_key: str
    arguments: Mapping[str, Any] | None
    epoch: int
    receipt: str = ""
    key: str | None = None


def checked(answer: object, tool: str) -> Finding:
    """The answer of a hook, or a clear error.

    Raises:
        ReadmitError: for anything but the three findings, a bool above all.
    """
    if isinstance(answer, Present | Absent | Unclear):
        return answer
    raise ReadmitError(
        f"The reconcile hook of {tool} returned {answer!r}. A bool cannot say what was found: return "
        "Present(receipt), Absent(authoritative=True) if it also can no longer arrive, or Unclear(why)."
    )


def present_strength(*, echoed: bool) -> Strength:
    """How good a receipt is: proof when it echoes our own ids, else somebody's word."""
    return Strength.PROOF if echoed else Strength.TESTIMONY
