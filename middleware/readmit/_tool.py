"""The guarded tool: a function, coroutine, generator or async generator that asks for admission before it runs."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import wrapt

from readmit import _drive
from readmit._answers import Begun
from readmit._call import GuardedCall, Site
from readmit._context import Frame, frame, has_context
from readmit._declare import ToolSpec
from readmit._digest import digest_bytes
from readmit._epoch import Epoch, any_in_flight, strayed
from readmit._identity import Call
from readmit._reading import Reading, warn_once
from readmit._telemetry import Inside

if TYPE_CHECKING:
    from readmit._guard import Guard

F = TypeVar("F", bound=Callable[..., Any])
Arguments = Mapping[str, Any]


class _BoundTool(wrapt.BoundFunctionWrapper[..., Any]):
    """A guarded method: copied and pickled as a bound method is."""

    _self_readmit = True

    def __copy__(self) -> _BoundTool:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        owner = getattr(self, "__self__", None)
        return self if owner is None else getattr(copy.deepcopy(owner, memo), self.__name__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        owner = getattr(self, "__self__", None)
        return self.__qualname__ if owner is None else (getattr, (owner, self.__name__))


class _Tool(wrapt.FunctionWrapper[..., Any]):
    """A guarded function: copied and pickled as a function is, which is by name."""

    __bound_function_wrapper__ = _BoundTool
    _self_readmit = True

    def __copy__(self) -> _Tool:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> _Tool:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__qualname__


def wrap(function: F, spec: ToolSpec, guard: Callable[[], Guard]) -> F:
    """The guarded tool: same signature, docstring and kind as the function."""
    plain = getattr(function, "__func__", function)
    if inspect.isasyncgenfunction(plain):
        enter: Callable[..., Any] = _async_generator
    elif inspect.iscoroutinefunction(plain):
        enter = _coroutine
    elif inspect.isgeneratorfunction(plain):
        enter = _generator
    else:
        enter = _plain

    def wrapper(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = args if instance is None else (instance, *args)
        return enter(guard(), spec, spec.binder.bind(given, kwargs), lambda: wrapped(*args, **kwargs))

    return _Tool(function, wrapper)  # type: ignore[return-value, no-any-return, unused-ignore]


# -- the four kinds -----------------------------------------------------------------------------------------------


def _plain(guard: Guard, spec: ToolSpec, arguments: Arguments, function: Callable[[], Any]) -> Any:
    if spec.reads:
        with Reading(guard, spec, arguments, frame()):
            return _ready(spec, function())
    steps, journal, active, _ = _begin(guard, spec, arguments, frame())
    return _drive.drive(steps, journal, _drive.call_body(active, lambda: _ready(spec, function())))


async def _coroutine(guard: Guard, spec: ToolSpec, arguments: Arguments, function: Callable[[], Any]) -> Any:
    if spec.reads:
        with Reading(guard, spec, arguments, frame()):
            return await function()
    steps, journal, active, collected = _begin(guard, spec, arguments, frame())
    return await _drive.drive_async(steps, journal, _drive.await_body(active, function), collected)


def _generator(guard: Guard, spec: ToolSpec, arguments: Arguments, function: Callable[[], Any]) -> Any:
    """The call belongs to where it is made, also if it is iterated elsewhere; the epoch begins at the first `next`."""
    here = frame()
    return _drive.drive_generator(lambda: _begin(guard, spec, arguments, here), function)


def _async_generator(guard: Guard, spec: ToolSpec, arguments: Arguments, function: Callable[[], Any]) -> Any:
    here = frame()
    return _drive.drive_async_generator(lambda: _begin(guard, spec, arguments, here), function)


def _ready(spec: ToolSpec, value: Any) -> Any:
    """A plain function that hands out a coroutine or a generator has done nothing yet: its return proves nothing."""
    if type(value) in _DONE or not (
        inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)
    ):
        return value
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        value.close()
    raise TypeError(
        f"{spec.declaration.name} is a plain function and returned a {type(value).__name__}, which has not run yet: "
        "decorate the coroutine or generator function itself"
    )


_DONE = frozenset({str, int, float, bool, dict, list, tuple, bytes, type(None)})


# -- one call -----------------------------------------------------------------------------------------------------


def _begin(guard: Guard, spec: ToolSpec, arguments: Arguments, here: Frame) -> Begun:
    if spec.reads:
        reading = Reading(guard, spec, arguments, here)
        return Begun(reading.steps(), None, lambda _: reading.inside, reading.collected)
    call = _call(guard, spec, arguments, here)

    def active(epoch: Epoch | None) -> Inside:
        assert epoch is not None, "only a read-only call runs without an epoch"
        return Inside(epoch.frame(here), epoch.span.span)

    return Begun(call.steps(), call.ports.journal, active, call.collected)


def _call(guard: Guard, spec: ToolSpec, arguments: Arguments, here: Frame) -> GuardedCall:
    declaration = guard.declared(spec)
    if not has_context() and any_in_flight():
        strayed("tools")
    ports = guard.ports_of_calls(observe=declaration.observe)
    key, digest, parameters = _named(guard, spec, arguments, here, observe=declaration.observe)
    call = Call(
        scope=here.scope or guard.scope_name,
        principal=here.principal,
        tool=declaration.name,
        signature=spec.binder.signature,
        digest=digest,
        parameters=parameters,
        key=key,
        framework=here.framework,
        response=here.response,
        call_id=here.call_id,
    )

    def digest_now() -> str:
        return spec.binder.digest(arguments, secret=guard.digest_secret).digest

    return GuardedCall(ports, declaration, call, Site(here.run, here.epochs), arguments, digest_now)


def _named(
    guard: Guard, spec: ToolSpec, arguments: Arguments, here: Frame, *, observe: bool
) -> tuple[str | None, str, Mapping[str, str]]:
    """Key and digests of a call; where nothing is blocked, a digest that equals no other if there is none."""
    try:
        digest = spec.binder.digest(arguments, secret=guard.digest_secret)
        return spec.key_of(arguments, here), digest.digest, digest.parameters
    except Exception as error:
        if not observe:
            raise
        warn_once(spec, error, "The call runs, since nothing is blocked here; in enforce mode it would not.")
    return None, digest_bytes("no digest", guard.new_id()), {}
