"""The first answer, given again where a repeat of its request may not leave: an auth flow, a redirect, a retry loop.

Whoever repeats a request gets what came of it, as if it had gone round once more: the first response with the body that
was read, or the first error. Their loops end by their own rules, and the caller sees what really happened.
"""

from __future__ import annotations

import weakref
from functools import cache
from typing import Any

from readmit._epoch import Send
from readmit._errors import Refused
from readmit._model import Outcome
from readmit._steps import Done
from readmit.http._body import Body
from readmit.http._request import library_of

_PATIENCE = 16  # times; a loop that nothing but another answer ends gets the refusal itself


class First:
    """What became of a send: an error, or a response and the bytes of its body that have passed.

    A success is held weakly, since hardly anybody repeats one: else each would live until a collector comes.
    """

    def __init__(self, response: Any, error: BaseException | None, body: Body | None) -> None:
        self.error = error
        self._body = body
        held = response is None or not 200 <= response.status_code < 300
        self._response = (lambda: response) if held else weakref.ref(response)

    def again(self) -> Any:
        """The response once more, or None if its body is gone or still under way."""
        response = self._response()
        if response is None:
            return None
        raw = None if self._body is None else self._body.kept
        if not hasattr(response, "_content") and raw is None:
            return None
        library = library_of(response)
        assert library is not None, "a response of httpx or httpx2"
        delivered = response.__dict__.get("_request") is not None  # a client has seen it, and will see it again
        copy = object.__new__(_class(library) if delivered else type(response))
        copy.__dict__.update(response.__dict__)
        if not hasattr(response, "_content"):
            copy.__dict__.update(stream=library.ByteStream(raw), is_closed=False, is_stream_consumed=False)
        return copy


def give(former: Send | None, error: Refused) -> Done:
    """How a repeat ends that did not leave: as the send that it repeats did.

    Raises:
        Refused: `error`, where nothing is repeated, the first answer is gone, or the loop never ends.
    """
    first = None if former is None else former.first
    if former is None or first is None or former.given_again >= _PATIENCE:
        raise error
    if first.error is not None:
        former.given_again += 1
        return Done(Outcome.RAISED, error=first.error)
    response = first.again()
    if response is None:
        raise error
    former.given_again += 1
    return Done(Outcome.RETURNED, response)


@cache
def _class(library: Any) -> type[Any]:
    """A response that stays what it was: the client that gets it twice writes down nothing new, and follows nothing."""

    def fixed(name: str) -> property:
        return property(lambda self: self.__dict__[name], lambda self, value: None)

    body = {
        "__doc__": library.Response.__doc__,
        "__module__": library.Response.__module__,
        "request": property(library.Response.request.fget, lambda self, value: None),
        "history": fixed("history"),
        "next_request": fixed("next_request"),
        "has_redirect_location": property(lambda self: False),
    }
    return type("Response", (library.Response,), body)
