"""What is worked out once and then kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class kept(Generic[T]):
    """A property of something that does not change, worked out when it is first asked for.

    `functools.cached_property` without its lock, which before Python 3.12 costs three times the work it saves here: two
    threads that ask at once both work it out, and get equal answers. Needs instances with a `__dict__`.

    Example:
        >>> class Circle:
        ...     radius = 2
        ...     @kept
        ...     def diameter(self) -> int:
        ...         return 2 * self.radius
        >>> circle = Circle()
        >>> circle.diameter, vars(circle)
        (4, {'diameter': 4})
    """

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self._name = work.__name__
        self.__doc__ = work.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> kept[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> kept[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._work(instance)
        return value
