"""Where a call is made: scope, principal, run, key, and the epochs around it. Pure; carried by context variables."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

if TYPE_CHECKING:
    from readmit._epoch import Epoch

P = ParamSpec("P")
R = TypeVar("R")


class Run:
    """One pass through a logical run: counts equal calls from 1, and gives a number back that came to nothing."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.done: set[str] = set()
        self._taken: dict[tuple[str, str], set[int]] = {}
        self._lock = threading.Lock()

    def take(self, tool: str, digest: str) -> int:
        """The smallest free number for this tool and digest."""
        with self._lock:
            taken = self._taken.setdefault((tool, digest), set())
            number = next(n for n in range(1, len(taken) + 2) if n not in taken)
            taken.add(number)
            return number

    def give_back(self, tool: str, digest: str, number: int) -> None:
        """After a call that failed or was refused."""
        with self._lock:
            self._taken[tool, digest].discard(number)


class Frame(msgspec.Struct, frozen=True):
    """The surroundings of a call. `scope` None: the guard's own; `epochs` innermost last."""

    scope: str | None = None
    principal: str | None = None
    run: Run | None = None
    key: str | None = None
    call_id: str | None = None
    response: str | None = None
    framework: str | None = None
    epochs: tuple[Epoch, ...] = ()
    reading: str | None = None  # the tool without effect, by its declaration, whose body runs innermost


UNNAMED = "default"  # the scope of calls for which nobody named one
FRAME: ContextVar[Frame | None] = ContextVar("readmit_frame", default=None)
_ROOT = Frame()


def frame() -> Frame:
    """The present frame."""
    return FRAME.get() or _ROOT


def has_context() -> bool:
    """Whether this thread or task was given a frame at all."""
    return FRAME.get() is not None


@contextmanager
def entered(new: Frame) -> Iterator[Frame]:
    """Makes a frame the present one."""
    token = FRAME.set(new)
    try:
        yield new
    finally:
        FRAME.reset(token)


def _text(value: object, what: str) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} is a text that is not empty, not {value!r}")


@contextmanager
def scope(name: str, *, principal: str | None = None) -> Iterator[None]:
    """Names the conversation, user or tenant inside which equal calls can be one.

    Without ids two waiters cannot be told apart, and of two equal calls in a later model response only one folds into
    one open occurrence: a business key or a framework's ids close that gap.

    Args:
        name: the scope, for instance a conversation's id. It is put on spans as `gen_ai.conversation.id`.
        principal: who the calls act for; permits belong to a principal. A scope inside another keeps its principal.

    Raises:
        ValueError: the name, or the principal, is empty or not a text.

    Example:
        >>> with scope("conversation-7", principal="ann"):
        ...     frame().scope
        'conversation-7'
    """
    _text(name, "the name of a scope")
    if principal is not None:
        _text(principal, "a principal")
    here = frame()
    with entered(replace(here, scope=name, principal=here.principal if principal is None else principal)):
        yield


@contextmanager
def run(id: str) -> Iterator[None]:
    """A logical run: entering it again gives calls that were completed in it their recorded results.

    Args:
        id: of the logical run (thread and checkpoint, task id), not of the engine's attempt.

    Raises:
        ValueError: the id is empty or not a text.

    Example:
        >>> with run("task-42"):
        ...     frame().run.id
        'task-42'
    """
    _text(id, "the id of a run")
    with entered(replace(frame(), run=Run(id))):
        yield


@contextmanager
def occurrence(*, key: str) -> Iterator[None]:
    """Gives the guarded calls inside a business key, in the name space of each tool.

    Args:
        key: what the business calls this intent: an order's number, a payment's id. Permanent.

    Raises:
        ValueError: the key is empty or not a text.

    Example:
        >>> with occurrence(key="order-1001"):
        ...     frame().key
        'order-1001'
    """
    _text(key, "the key of an occurrence")
    with entered(replace(frame(), key=key)):
        yield


@contextmanager
def identified(
    *, call_id: str | None = None, response: str | None = None, framework: str | None = None
) -> Iterator[None]:
    """For integrations: the ids a framework gives the one guarded call inside.

    Args:
        call_id: the model's call id; never identity by itself.
        response: the id of the model response that lists the call. Two calls of one response are two occurrences, so
            it needs `framework` beside it: without, a call of it that is executed again would be a new occurrence.
        framework: an id that is unique by the framework's own word, or response, position and call id in one.

    Raises:
        ValueError: `response` without `framework`.
    """
    if response is not None and framework is None:
        raise ValueError(
            f"response={response!r} without framework=: name the call inside the response too, by the framework's own "
            "id or by response, position and call id in one. Executed again, it would be taken for another call."
        )
    with entered(replace(frame(), call_id=call_id, response=response, framework=framework)):
        yield


def bind(function: Callable[P, R]) -> Callable[P, R]:
    """Carries the present scope, run and epoch into a plain thread or an executor.

    Args:
        function: what the other thread will call.

    Returns:
        A function that runs in a copy of the present context, each time it is called.

    Raises:
        TypeError: for a coroutine function: a task carries the context it is made in.

    Example:
        >>> with scope("conversation-7"):
        ...     job = bind(lambda: frame().scope)
        >>> job()
        'conversation-7'
    """
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"bind({function!r}): bind is for plain functions; a task carries the context it is made in")
    context = copy_context()

    def bound(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)

    return bound
