"""What the pure core asks of the world: a generator yields these, a driver answers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from readmit._model import Outcome

if TYPE_CHECKING:
    from readmit._epoch import Epoch
    from readmit.journal._port import Change, Query


class Find(Struct, frozen=True):
    """Look a call up in the journal; answered with `Found`."""

    query: Query


class Load(Struct, frozen=True):
    """Read one occurrence; answered with its head, or None."""

    occurrence_id: str


class Append(Struct, frozen=True):
    """Write to the journal; answered with the new heads. May raise `Stale`."""

    changes: Sequence[Change]
    durable: bool


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
