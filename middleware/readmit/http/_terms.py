"""What the contracts of a client and of a tool promise together of one request."""

from __future__ import annotations

from dataclasses import dataclass

from readmit._contract import Contract
from readmit._model import Evidence
from readmit._places import Place, place


@dataclass(frozen=True, slots=True)
class Terms:
    """What the client's contract and the tool's promise together of one request."""

    contracts: tuple[Contract, ...]

    @classmethod
    def of(cls, client: Contract | None, tool: Contract | None) -> Terms:
        """The client's contract first: it knows the service."""
        return cls(tuple(dict.fromkeys(c for c in (client, tool) if c is not None)))

    @property
    def reads(self) -> tuple[str, ...]:
        """Methods and paths without effect."""
        return tuple(entry for c in self.contracts for entry in c.reads)

    @property
    def volatile(self) -> frozenset[str]:
        """Query parameters that are made anew for each attempt."""
        return frozenset(name for c in self.contracts for name in c.volatile)

    @property
    def rejected(self) -> frozenset[int]:
        """Statuses that the service gives only before it acts."""
        return frozenset(s for c in self.contracts for s in c.rejected if isinstance(s, int))

    @property
    def idempotent(self) -> bool:
        """Whether the same request twice has the effect of one."""
        return any(c.idempotent for c in self.contracts)

    @property
    def keyed(self) -> Contract | None:
        """The contract that says where an idempotency key goes: of two, one that says for how long it is kept.

        A key that justifies a repeat is the one that is sent.
        """
        keyed = [c for c in self.contracts if c.idempotency_key is not None]
        return next((c for c in keyed if c.key_lifetime is not None), next(iter(keyed), None))

    @property
    def receipt(self) -> Place | None:
        """Where the service's answer names the effect."""
        return next((place(c.receipt) for c in self.contracts if c.receipt is not None), None)

    def claim(self, error: BaseException) -> Evidence | None:
        """What they say of an exception."""
        return next((e for c in self.contracts if (e := c.claim(error)) is not None), None)
