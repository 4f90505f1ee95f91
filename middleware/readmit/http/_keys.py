"""Where an idempotency key stands in a request: in a header, in a field of a JSON body, or where a callable puts it."""

from __future__ import annotations

from typing import Any

from readmit._contract import Contract
from readmit._places import place
from readmit.http._request import Facts, library_of


def carried(contract: Contract, facts: Facts) -> str | None:
    """The key that a request carries of its own; what a callable would put there is always ours."""
    spec = contract.idempotency_key
    if not isinstance(spec, str):
        return None
    return place(spec).find(facts.request.headers, facts.body()) or None


def can_carry(contract: Contract, facts: Facts) -> bool:
    """Whether a request has a place for our key: a body that is no JSON object has none."""
    spec = contract.idempotency_key
    if not isinstance(spec, str) or place(spec).kind == "header":
        return spec is not None
    body = facts.body()
    return body is not None and place(spec).put(body, "") is not None


def put(contract: Contract, request: Any, key: str) -> None:
    """Puts our key into a request; it has to be a copy whose headers are its own."""
    spec = contract.idempotency_key
    if isinstance(spec, str) and place(spec).kind == "header":
        request.headers[place(spec).name] = key
        return
    body = place(spec).put(request.content, key) if isinstance(spec, str) else spec and spec(request, key)
    if body is None:
        return
    if not isinstance(body, bytes):
        raise TypeError(f"{spec!r} returned {body!r}: return the new body as bytes, or None. Nothing was sent.")
    library = library_of(request)
    assert library is not None, "a request of httpx or httpx2"
    request.stream = library.ByteStream(body)
    request._content = body
    request.headers["content-length"] = str(len(body))
