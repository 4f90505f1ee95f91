"""What the pure core asks of the world: a generator yields these, a driver answers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from readmit._model import Outcome

if TYPE_CHECKING:
    from readmit._epoch import Epoch
    from readmit._fold import Head
    from readmit._identity import Found
    from readmit.journal._port import Change, Journal, Query


class Find(Struct, frozen=True, gc=False):
    """Look a call up in the journal; answered with `Found`."""

    query: Query

    def answer(self, journal: Journal) -> Found:
        """What the journal answers."""
        return journal.find(self.query)


class Load(Struct, frozen=True, gc=False):
    """Read one occurrence; answered with its head, or None."""

    occurrence_id: str

    def answer(self, journal: Journal) -> Head | None:
        """What the journal answers."""
        return journal.load(self.occurrence_id)


class Append(Struct, frozen=True, gc=False):
    """Write to the journal; answered with the new heads. May raise `Stale`."""

    changes: Sequence[Change]
    durable: bool

    def answer(self, journal: Journal) -> list[Head]:
        """What the journal answers."""
        return journal.append(self.changes, durable=self.durable)


class Ask(Struct, frozen=True):
    """Call a hook of the user, sync or async, outside any lock; answered with what it returns."""

    function: Callable[..., Any]
    argument: Any


class Sleep(Struct, frozen=True):
    """Let some seconds pass."""

    seconds: float


class Execute(Struct, frozen=True):
    """Run the tool's body inside an epoch (None: without one); answered with `Done`. Asked at most once a call."""

    epoch: Epoch | None


class Done(Struct, frozen=True):
    """How the body ended. `started` is False when it was cancelled before its first line."""

    outcome: Outcome
    value: Any = None
    error: BaseException | None = None
    started: bool = True
    stream: bool = False  # a generator: its items were the result


Step = Find | Load | Append | Ask | Sleep | Execute
