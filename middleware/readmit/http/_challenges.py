"""Challenges of a response: every value of every header, raw and parsed."""

from __future__ import annotations

from collections.abc import Iterable

from readmit._model import Challenge

HEADERS = ("www-authenticate", "proxy-authenticate")
_ALWAYS = frozenset({401, 403, 407})
Fields = Iterable[tuple[bytes, bytes]]


def met(status: int, fields: Fields) -> tuple[Challenge, ...]:
    """The challenges of a response.

    A 401, 403 or 407 is one even without a header: its `raw` is the status.

    Args:
        status: the response's status.
        fields: its header fields, as bytes, in order.

    Returns:
        The challenges in the order of the header fields; none for a success.

    Example:
        >>> [c.scheme for c in met(401, [(b"WWW-Authenticate", b'Bearer realm="a, b", Basic realm=x')])]
        ['Bearer', 'Basic']
    """
    if 200 <= status < 300:
        return ()
    found: list[Challenge] = []
    for name, value in fields:
        header = name.decode("latin-1").lower()
        if header in HEADERS:
            found += read(value.decode("latin-1"), header)
    if not found and status in _ALWAYS:
        return (Challenge(raw=f"HTTP {status}", header=""),)
    return tuple(found)


def challenged(status: int, fields: Fields) -> bool:
    """Whether `met` would find any."""
    if status in _ALWAYS:
        return True
    return not 200 <= status < 300 and any(name.lower() in _NAMES for name, _ in fields)


_NAMES = frozenset(header.encode() for header in HEADERS)


def read(raw: str, header: str) -> list[Challenge]:
    """The challenges of one field value; one with an empty scheme if nothing in it can be read (RFC 9110 §11.3)."""
    from authchallenge import parse_challenges  # most processes never meet a challenge

    parsed = parse_challenges(raw)
    if not parsed:
        return [Challenge(raw=raw, header=header)]
    return [
        Challenge(
            raw=raw,
            scheme=challenge.scheme,
            parameters=(*((("token68", challenge.token68),) if challenge.token68 else ()), *challenge.params.items()),
            header=header,
        )
        for challenge in parsed
    ]
