"""How a service names the effect, read from its answer."""

from __future__ import annotations

import logging
from typing import Any

from readmit._places import Place
from readmit.http._request import library_of

MOST = 1_048_576  # bytes of an answer that are looked at
_log = logging.getLogger("readmit")


def may_name(status: int) -> bool:
    """Whether an answer can name an effect: one that only leads elsewhere does not (RFC 9110 §15.4)."""
    return not 300 <= status < 400 or status == 303


def read(place: Place, response: Any) -> str:
    """What stands at a place of an answer whose body is in memory, or whose headers are enough."""
    return place.find(response.headers, response.content if place.kind == "json" else None)


class Awaited:
    """What is read from the body of an answer when that has passed.

    Args:
        place: in it.
        response: of httpx or httpx2; only its headers are kept.
    """

    def __init__(self, place: Place, response: Any) -> None:
        self._place = place
        self._library: Any = library_of(response)
        self._headers = response.headers

    def read(self, raw: bytes) -> str:
        """What stands there, by a body as it came: encoded as the headers say."""
        try:
            body: bytes = self._library.Response(200, headers=self._headers, content=raw).content
        except self._library.DecodingError:
            _log.debug("The body of an answer could not be decoded for its receipt.", exc_info=True)
            return ""
        return self._place.find({}, body)
