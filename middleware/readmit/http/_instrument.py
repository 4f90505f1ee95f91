"""`instrument` and `uninstrument`: a client that exists, or a whole library."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import wrapt

from readmit._contract import Contract
from readmit.http._phases import reports
from readmit.http._transport import AsyncGuardedTransport, Effect, Guarded, GuardedTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from readmit._guard import Guard

T = TypeVar("T")
_LIBRARIES = ("httpx", "httpx2")
_CLIENTS = ("Client", "AsyncClient")
_CHOOSE = "_transport_for_url"  # every request of a client asks it, also those of clients that were made before
_ORIGINAL = "_readmit_original"
_WATCHED = "_readmit_watched"


def instrument(
    client_or_module: T, *, effect: Effect = "write", contract: Contract | None = None, guard: Guard | None = None
) -> T:
    """Guards what a client sends, or watches every client of a library.

    Doing it again changes nothing but what is declared. A transport that sends through one of httpx's own, as those
    that retry do, is guarded there: each of its sends is seen.

    Args:
        client_or_module: a `Client` or `AsyncClient` of httpx or httpx2: all its effectful requests are guarded,
            outside tools each as a call of its own. Or the module `httpx` or `httpx2`: every client of it, made before
            or after, is guarded inside tools and only observed outside (model clients retry their POSTs).
        effect: `read` for a client whose requests have no effect on the world.
        contract: what the service promises.
        guard: by default the one of `configure`.

    Returns:
        What was given.

    Raises:
        TypeError: for anything else.

    Example:
        >>> import httpx
        >>> client = instrument(httpx.Client(), contract=Contract(rejected=(401,)))
    """
    if isinstance(client_or_module, ModuleType):
        _instrument_library(_library(client_or_module), effect=effect, contract=contract, guard=guard)
        return client_or_module
    client: Any = client_or_module
    made = _transport_class(client)

    def guarded(transport: Any) -> Any:
        if isinstance(transport, Guarded):
            if hasattr(transport, _ORIGINAL):
                transport.declare(effect=effect, contract=contract, guard=guard)
            return transport
        if below := _below(transport, asynchronous=made.asynchronous):
            for name, inner in below.items():
                setattr(transport, name, guarded(inner))
            return transport
        new = made(transport, effect=effect, contract=contract, guard=guard)
        setattr(new, _ORIGINAL, transport)
        return new

    _each_transport(client, guarded)
    return client_or_module


def uninstrument(client_or_module: T) -> T:
    """Takes back what `instrument` did; a `GuardedTransport` that was put there by hand stays.

    Args:
        client_or_module: as for `instrument`.

    Returns:
        What was given.

    Raises:
        TypeError: for anything else.
    """
    if isinstance(client_or_module, ModuleType):
        library = _library(client_or_module)
        for name in _CLIENTS:
            cls = getattr(library, name)
            if _ORIGINAL in vars(cls):
                setattr(cls, _CHOOSE, getattr(cls, _ORIGINAL))
                delattr(cls, _ORIGINAL)
        return client_or_module
    made = _transport_class(client_or_module)

    def original(transport: Any) -> Any:
        if not isinstance(transport, Guarded):
            for name, inner in _below(transport, asynchronous=made.asynchronous).items():
                setattr(transport, name, original(inner))
        return getattr(transport, _ORIGINAL, transport)

    _each_transport(client_or_module, original)
    return client_or_module


def _below(transport: Any, *, asynchronous: bool) -> dict[str, Any]:
    """The transports of httpx that a wrapper sends through, by its attributes; none for one of httpx itself."""
    if reports(transport):
        return {}
    sends = "handle_async_request" if asynchronous else "handle_request"
    held: dict[str, Any] = getattr(transport, "__dict__", {})
    ways = {name: inner for name, inner in held.items() if hasattr(type(inner), sends)}
    several = any(hasattr(type(inner), sends) for value in held.values() for inner in _inside(value))
    known = all(isinstance(inner, Guarded) or reports(inner) for inner in ways.values())
    return ways if known and not several else {}  # one way out that is not seen is too many


def _inside(value: Any) -> Iterable[Any]:
    """What a list or a dictionary holds."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple | set | frozenset | deque) else ()


def _holds_guard(transport: Any, depth: int = 4) -> bool:
    """Whether a transport sends through one that is guarded: that one knows what its client was told."""
    if isinstance(transport, Guarded):
        return True
    held = getattr(transport, "__dict__", {}) if depth else {}
    below = [inner for name, value in held.items() if name != _WATCHED for inner in (value, *_inside(value))]
    return any(_sends(inner) and _holds_guard(inner, depth - 1) for inner in below)


def _sends(value: Any) -> bool:
    return hasattr(type(value), "handle_request") or hasattr(type(value), "handle_async_request")


def _each_transport(client: Any, change: Callable[[Any], Any]) -> None:
    client._transport = change(client._transport)
    for pattern, transport in client._mounts.items():
        if transport is not None:
            client._mounts[pattern] = change(transport)


def _transport_class(client: object) -> type[GuardedTransport] | type[AsyncGuardedTransport]:
    for name in _LIBRARIES:
        library = sys.modules.get(name)
        if library is not None and isinstance(client, library.Client):
            return GuardedTransport
        if library is not None and isinstance(client, library.AsyncClient):
            return AsyncGuardedTransport
    raise TypeError(_fitting(client))


def _library(module: ModuleType) -> ModuleType:
    if module.__name__ not in _LIBRARIES:
        raise TypeError(_fitting(module))
    return module


def _fitting(given: object) -> str:
    return (
        f"instrument({given!r}): give it a Client or an AsyncClient of httpx or httpx2, or the module httpx or httpx2; "
        "for anything else that sends through a transport of httpx, put a readmit.GuardedTransport around it"
    )


def _instrument_library(library: Any, *, effect: Effect, contract: Contract | None, guard: Guard | None) -> None:
    for name, made in zip(_CLIENTS, (GuardedTransport, AsyncGuardedTransport), strict=True):
        cls = getattr(library, name)
        original = vars(cls).get(_ORIGINAL) or vars(cls)[_CHOOSE]
        setattr(cls, _ORIGINAL, original)

        def choose(wrapped: Any, instance: Any, args: Any, kwargs: Any, made: type[Guarded] = made) -> Any:
            return _watched(wrapped(*args, **kwargs), made, effect=effect, contract=contract, guard=guard)

        setattr(cls, _CHOOSE, wrapt.FunctionWrapper(original, choose))


def _watched(
    transport: Any, made: type[Guarded], *, effect: Effect, contract: Contract | None, guard: Guard | None
) -> Any:
    """The guarded form of a transport, made once."""
    if _holds_guard(transport):
        return transport
    known = getattr(transport, _WATCHED, None)
    if known is None or known.inner is not transport:
        known = made(transport, effect=effect, contract=contract, guard=guard)
        known.lonely = False
        setattr(transport, _WATCHED, known)
    known.declare(effect=effect, contract=contract, guard=guard)
    return known
