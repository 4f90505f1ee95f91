"""The decorator: turns a function, coroutine, generator or async generator into a guarded tool."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import wrapt
from opentelemetry.trace import Span

from readmit import _drive
from readmit._call import Declaration, GuardedCall, Site, Steps
from readmit._context import entered, frame
from readmit._contract import Approval, Contract
from readmit._digest import Binder, DigestError
from readmit._epoch import Epoch
from readmit._identity import Call
from readmit._steps import Done, Execute
from readmit._telemetry import current_span, failed
from readmit.journal import Journal

if TYPE_CHECKING:
    from readmit._guard import Guard

F = TypeVar("F", bound=Callable[..., Any])
Effect = Literal["read", "write"]
Mode = Literal["enforce", "observe"]
_UNSTATED: Any = object()
_log = logging.getLogger("readmit")
_EFFECTS = "write effect='read' for a tool without effect on the world, effect='write' for any other"


def declare(
    function: Callable[..., Any],
    *,
    effect: Any,
    contract: Contract,
    key: str | Callable[[Mapping[str, Any]], str] | None,
    approval: Approval | bool,
    exclude: Iterable[str],
    digest_with: Mapping[str, Callable[[Any], Any]] | None,
    reconcile: Any,
    compensate: Any,
    classify: Any,
    name: str | None,
    mode: Mode | None,
) -> ToolSpec:
    """Checks what the decorator was given; every error says what to write instead."""
    plain = getattr(function, "__func__", function)
    called = name or f"{plain.__module__}.{plain.__qualname__}"
    if effect is _UNSTATED:
        raise TypeError(f"{called}: effect= is not stated; {_EFFECTS}")
    if effect not in get_args(Effect):
        raise ValueError(f"{called}: effect={effect!r}; {_EFFECTS}")
    if mode not in (None, *get_args(Mode)):
        raise ValueError(f"{called}: mode={mode!r}; write 'enforce' or 'observe'")
    if not isinstance(contract, Contract):
        raise TypeError(f"{called}: contract={contract!r}; write a readmit.Contract(…)")
    for hook, given in (("reconcile", reconcile), ("compensate", compensate), ("classify", classify)):
        if given is not None and not callable(given):
            raise TypeError(f"{called}: {hook}={given!r} is not callable; write a function")
    if reconcile is not None and inspect.signature(reconcile).return_annotation in (bool, "bool"):
        raise TypeError(f"{called}: a reconcile hook cannot answer with a bool; return Present(receipt), Absent(authoritative=…) or Unclear(why)")
    left_out = list(exclude)
    first = next(iter(inspect.signature(plain).parameters), None)
    if first is not None and (isinstance(function, classmethod) or first == "cls"):
        left_out.append(first)
    declaration = Declaration(
        name=called,
        read=effect == "read",
        contract=contract,
        fingerprint=contract.fingerprint,
        approval=Approval() if approval is True else (approval or None),
        reconcile=reconcile,
        classify=classify,
    )
    binder = Binder(plain, tool=called, exclude=left_out, key=key if isinstance(key, str) else None, digest_with=digest_with)
    return ToolSpec(declaration, binder, key, mode, compensate, (plain.__module__, plain.__qualname__))


class ToolSpec:
    """A declared tool: what the core needs of it, and how its arguments are read."""

    def __init__(
        self,
        declaration: Declaration,
        binder: Binder,
        key: str | Callable[[Mapping[str, Any]], str] | None,
        mode: Mode | None,
        compensate: Any,
        origin: tuple[str, str],
    ) -> None:
        self.declaration = declaration
        self.binder = binder
        self.key = key
        self.mode = mode
        self.compensate = compensate
        self.origin = origin
        self.warned = False

    @property
    def reads(self) -> bool:
        """Whether it stands outside the table: read-only, and nobody has to approve it."""
        return self.declaration.read and self.declaration.approval is None

    def key_of(self, arguments: Mapping[str, Any]) -> str | None:
        """The business key of one call.

        Raises:
            ValueError: for a key that is empty or not a text or an integer.
        """
        if self.key is None:
            return frame().key
        value = arguments[self.key] if isinstance(self.key, str) else self.key(arguments)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{self.declaration.name}: its key is {value!r}; a business key is a text that is not empty, or an integer")
        return value


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
        if instance is None and isinstance(function, staticmethod):
            given = args
        return enter(guard(), spec, spec.binder.bind(given, kwargs), lambda: wrapped(*args, **kwargs))

    return wrapt.FunctionWrapper(function, wrapper)  # type: ignore[return-value]


# -- the four kinds -----------------------------------------------------------------------------------------------


def _plain(guard: Guard, spec: ToolSpec, arguments: dict[str, Any], function: Callable[[], Any]) -> Any:
    steps, journal, active = _begin(guard, spec, arguments)
    return _drive.drive(steps, journal, _drive.call_body(active, _ready(spec, function)))


async def _coroutine(guard: Guard, spec: ToolSpec, arguments: dict[str, Any], function: Callable[[], Any]) -> Any:
    steps, journal, active = _begin(guard, spec, arguments)
    return await _drive.drive_async(steps, journal, _drive.await_body(active, function))


def _generator(guard: Guard, spec: ToolSpec, arguments: dict[str, Any], function: Callable[[], Any]) -> Any:
    steps, journal, active = _begin(guard, spec, arguments)
    return (yield from _drive.drive_generator(steps, journal, _drive.iterate_body(active, function)))


def _async_generator(guard: Guard, spec: ToolSpec, arguments: dict[str, Any], function: Callable[[], Any]) -> Any:
    steps, journal, active = _begin(guard, spec, arguments)
    return _drive.drive_async_generator(steps, journal, active, function)


def _begin(guard: Guard, spec: ToolSpec, arguments: dict[str, Any]) -> tuple[Steps, Journal | None, _drive.Active]:
    if spec.reads:
        span = guard.spans.read(spec.declaration.name, _read_attributes(guard, spec, arguments))
        return _read(span), None, lambda _: current_span(span)
    call = _call(guard, spec, arguments)
    return call.steps(), call.ports.journal, inside


def _ready(spec: ToolSpec, function: Callable[[], Any]) -> Callable[[], Any]:
    """A plain function that hands out a coroutine or a generator has done nothing yet: its return proves nothing."""

    def called() -> Any:
        value = function()
        if type(value) in _PLAIN or not (inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)):
            return value
        if inspect.iscoroutine(value) or inspect.isgenerator(value):
            value.close()
        raise TypeError(
            f"{spec.declaration.name} is a plain function and returned a {type(value).__name__}, which has not run yet: "
            "decorate the coroutine or generator function itself"
        )

    return called


_PLAIN = frozenset({str, int, float, bool, dict, list, tuple, bytes, type(None)})


def _call(guard: Guard, spec: ToolSpec, arguments: dict[str, Any]) -> GuardedCall:
    here = frame()
    ports, declaration = guard.ports(), guard.declared(spec)
    digest = spec.binder.digest(arguments, secret=guard.digest_secret)
    call = Call(
        scope=here.scope or guard.scope_name,
        principal=here.principal,
        tool=declaration.name,
        signature=spec.binder.signature,
        digest=digest.digest,
        parameters=digest.parameters,
        key=spec.key_of(arguments),
        framework=here.framework,
        response=here.response,
        call_id=here.call_id,
    )
    return GuardedCall(ports, declaration, call, Site(here.run, here.epochs), arguments)


@contextmanager
def inside(epoch: Epoch | None) -> Iterator[None]:
    """Where an epoch's body runs: its frame and its span are current."""
    if epoch is None:
        yield
        return
    with entered(epoch.frame(frame())), current_span(epoch.span.span):
        yield


def _read_attributes(guard: Guard, spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the span of a read-only call says: no epoch and no admission, it stands outside the table."""
    guard.check_journal()
    here = frame()
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": spec.declaration.name,
        "gen_ai.conversation.id": here.scope or guard.scope_name,
        "readmit.operation": "execute",
        "readmit.mode": guard.mode_of(spec),
    }
    if here.call_id is not None:
        attributes["gen_ai.tool.call.id"] = here.call_id
    try:
        attributes["readmit.input.digest"] = spec.binder.digest(arguments, secret=guard.digest_secret).digest
    except DigestError as error:
        if not spec.warned:
            spec.warned = True
            _log.warning("%s The read runs; its span has no digest.", error)
    return attributes


def _read(span: Span) -> Steps:
    """A read-only call: no journal, no epoch, no waiting."""
    done: Done = yield Execute(None)
    failed(span, done.error)
    span.end()
    if done.error is not None:
        raise done.error
    return done.value
