"""What is explored: how a tool is declared and called, what can happen to it, and what people can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from readmit import Approval, Contract
from readmit._call import Declaration
from readmit._findings import Finding, Question
from readmit._identity import Call

DEFAULT = Contract()


class Variant(NamedTuple):
    """One way to call the tool. In `framework` and `response` a star stands for the number of the call."""

    text: str = "a"  # the arguments
    key: str | None = None
    run: str | None = None
    framework: str | None = None
    response: str | None = None
    call_id: str | None = None
    principal: str | None = None

    @property
    def plain(self) -> bool:
        """Whether only rule 4 can find what it repeats."""
        return self.key is None and self.run is None and self.framework in (None, "*")

    def call(self, number: int) -> Call:
        def each(text: str | None) -> str | None:
            return str(number) if text == "*" else text

        digest = f"digest of {self.text}"
        return Call(
            scope="scope",
            principal=self.principal,
            tool="pay",
            signature="signature",
            digest=digest,
            parameters={"text": digest},
            key=self.key,
            framework=each(self.framework),
            response=each(self.response),
            call_id=self.call_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is explored: a tool, how it is called, what can happen to it and what people can do."""

    name: str
    contract: Contract = DEFAULT
    approval: Approval | None = None
    read: bool = False
    hook: bool = False
    variants: tuple[Variant, ...] = (Variant(),)
    fates: tuple[str, ...] = ("ok", "lost")
    acts: tuple[str, ...] = ()
    callers: int = 2
    calls: int = 4  # at most, in one history
    most_acts: int = 3  # at most, in one history
    gates: bool = True  # whether others can act between a decision and its being written
    late_notes: bool = False  # what may wait is known to its own process alone, until that writes it or dies
    remote: str = "plain"  # or `idempotent`, `keyed`
    depth: int = 8
    deeper: int = 10

    @property
    def declaration(self) -> Declaration:
        contract = self.contract
        return Declaration(
            name="pay",
            read=self.read,
            contract=contract,
            fingerprint=contract.fingerprint,
            approval=self.approval,
            reconcile=hook if self.hook else None,
        )


def hook(question: Question) -> Finding:
    """Stands for the tool's reconcile hook, which the world answers."""
    raise AssertionError(question)
