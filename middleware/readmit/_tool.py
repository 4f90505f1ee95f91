"""The guarded tool: a function, coroutine, generator or async generator that asks for admission before it runs."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import wrapt
from opentelemetry.trace import Span

from readmit import _drive
from readmit._call import GuardedCall, Site, Steps
from readmit._context import UNNAMED, Frame, entered, frame
from readmit._declare import ToolSpec
from readmit._digest import digest_bytes
from readmit._epoch import Epoch
from readmit._identity import Call
from readmit._steps import Done, Execute
from readmit._telemetry import OpenTelemetrySpans, current_span

if TYPE_CHECKING:
    from readmit._guard import Guard

F = TypeVar("F", bound=Callable[..., Any])
Arguments = Mapping[str, Any]
_log = logging.getLogger("readmit")


class _BoundTool(wrapt.BoundFunctionWrapper[..., Any]):
    """A guarded method: copied and pickled as a bound method is."""

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
    steps, journal, active = _begin(guard, spec, arguments, frame())
    return _drive.drive(steps, journal, _drive.call_body(active, _ready(spec, function)))


async def _coroutine(guard: Guard, spec: ToolSpec, arguments: Arguments, function: Callable[[], Any]) -> Any:
    steps, journal, active = _begin(guard, spec, arguments, frame())
    return await _drive.drive_async(steps, journal, _drive.await_body(active, function))


def _generator(guard: Guard, spec: ToolSpec, arguments: Arguments, function: Callable[[], Any]) -> Any:
    """The call belongs to where it is made, also if it is iterated elsewhere; the epoch begins at the first `next`."""
    here = frame()
    return _drive.drive_generator(lambda: _begin(guard, spec, arguments, here), function)


def _async_generator(guard: Guard, spec: ToolSpec, arguments: Arguments, function: Callable[[], Any]) -> Any:
    here = frame()
    return _drive.drive_async_generator(lambda: _begin(guard, spec, arguments, here), function)


def _ready(spec: ToolSpec, function: Callable[[], Any]) -> Callable[[], Any]:
    """A plain function that hands out a coroutine or a generator has done nothing yet: its return proves nothing."""

    def called() -> Any:
        value = function()
        if type(value) in _DONE or not (
            inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)
        ):
            return value
        if inspect.iscoroutine(value) or inspect.isgenerator(value):
            value.close()
        raise TypeError(
            f"{spec.declaration.name} is a plain function and returned a {type(value).__name__}, which has not run "
            "yet: decorate the coroutine or generator function itself"
        )

    return called


_DONE = frozenset({str, int, float, bool, dict, list, tuple, bytes, type(None)})


# -- one call -----------------------------------------------------------------------------------------------------


def _begin(guard: Guard, spec: ToolSpec, arguments: Arguments, here: Frame) -> _drive.Begun:
    if spec.reads:
        span = guard.spans.read(spec.declaration.name, _read_attributes(guard, spec, arguments, here))
        return _drive.Begun(_read(guard.spans, span), None, lambda _: _reading(span, here, spec.declaration.name))
    call = _call(guard, spec, arguments, here)

    @contextmanager
    def active(epoch: Epoch | None) -> Iterator[None]:
        """Where the epoch's body runs: its frame and its span are current."""
        assert epoch is not None, "only a read-only call runs without an epoch"
        with entered(epoch.frame(here)), current_span(epoch.span.span):
            yield

    return _drive.Begun(call.steps(), call.ports.journal, active)


@contextmanager
def _reading(span: Span, here: Frame, tool: str) -> Iterator[None]:
    """Where the body of a read-only tool runs: its span is current, and what it sends is known to be its own."""
    with entered(replace(here, reading=tool)), current_span(span):
        yield


def _call(guard: Guard, spec: ToolSpec, arguments: Arguments, here: Frame) -> GuardedCall:
    declaration = guard.declared(spec)
    ports = guard.ports(observe=declaration.observe)
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
    return GuardedCall(ports, declaration, call, Site(here.run, here.epochs), arguments)


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
        _warn_once(spec, error, "The call runs, since nothing is blocked here; in enforce mode it would not.")
    return None, digest_bytes("no digest", guard.new_id()), {}


def _warn_once(spec: ToolSpec, error: Exception, what: str) -> None:
    if not spec.warned:
        spec.warned = True
        _log.warning("%s %s", f"{error}".replace(" Nothing was run.", "") or repr(error), what)


def _read_attributes(guard: Guard, spec: ToolSpec, arguments: Arguments, here: Frame) -> dict[str, Any]:
    """What the span of a read-only call says: no epoch and no admission, it stands outside the table."""
    guard.check_journal()
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": spec.declaration.name,
        "readmit.operation": "execute",
        "readmit.mode": guard.mode_of(spec),
    }
    if (scope := here.scope or guard.scope_name) != UNNAMED:
        attributes["gen_ai.conversation.id"] = scope
    if here.call_id is not None:
        attributes["gen_ai.tool.call.id"] = here.call_id
    try:
        attributes["readmit.input.digest"] = spec.binder.digest(arguments, secret=guard.digest_secret).digest
    except Exception as error:  # a digest only names the call here: the read does not depend on it
        _warn_once(spec, error, "The read runs; its span has no digest.")
    return attributes


def _read(spans: OpenTelemetrySpans, span: Span) -> Steps:
    """A read-only call: no journal, no epoch, no waiting."""
    done: Done = yield Execute(None)
    spans.read_ended(span, done.error)
    return done
