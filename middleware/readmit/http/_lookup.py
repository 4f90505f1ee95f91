"""A reconcile hook that asks the service: one GET, and what its answer means."""

from __future__ import annotations

import inspect
import string
from collections.abc import Awaitable, Callable, Collection
from typing import Any
from urllib.parse import quote

from readmit._findings import Absent, Finding, Present, Question, Unclear
from readmit._places import Place, place

_BY_NAME = ("receipt", "occurrence_id", "idempotency_key", "tool", "epoch")
Reading = Callable[[Any], Finding | None]
Hook = Callable[[Question], Finding | Awaitable[Finding]]


def lookup(
    client: Any,
    url: str,
    *,
    present: Collection[int] = (200,),
    absent: Collection[int] = (),
    not_yet: Collection[int] = (404,),
    receipt: str | None = None,
    read: Reading | None = None,
) -> Hook:
    """A reconcile hook that asks with a `GET` whether the effect is there.

    What the client raises, and a status that is named nowhere, is `Unclear`: it settles nothing.

    Args:
        client: a `Client` of httpx or httpx2, or an `AsyncClient` for a tool that is async.
        url: with fields in braces: `receipt`, `occurrence_id`, `idempotency_key`, `tool`, `epoch`, or an argument of
            the tool; each is quoted, but for a URL that is nothing but `{receipt}` (a `Location`). Where a field has no
            value the answer is `Unclear`, and nothing is asked.
        present: statuses that say that the effect is there.
        absent: statuses that say that it is not there *and can no longer arrive*.
        not_yet: statuses that say that it is not there by now, which settles nothing.
        receipt: where the answer names the effect: `header:ETag`, `json:/id`; by default what was asked with.
        read: what an answer says, where its status is not enough; None leaves it to the status.

    Returns:
        The hook, for `tool(reconcile=…)`.

    Raises:
        ValueError: a status has two meanings, or `receipt` is no place in a message.

    Example:
        >>> import httpx
        >>> bank = httpx.Client(base_url="https://bank.example")
        >>> hook = lookup(bank, "/payments?reference={idempotency_key}", absent=(410,), receipt="json:/id")
    """
    meanings = [*present, *absent, *not_yet]
    if len(meanings) != len(set(meanings)):
        raise ValueError(f"present={present}, absent={absent}, not_yet={not_yet}: a status has one meaning")
    named = None if receipt is None else place(receipt)

    def finding(question: Question, answer: Any) -> Finding:
        if read is not None and (said := read(answer)) is not None:
            return said
        if answer.status_code in present:
            return Present(_named(named, answer) if named is not None else question.receipt)
        if answer.status_code in absent:
            return Absent(authoritative=True)
        if answer.status_code in not_yet:
            return Absent(authoritative=False)
        return Unclear(f"HTTP {answer.status_code}")

    def hook(question: Question) -> Finding | Awaitable[Finding]:
        try:
            address = _filled(url, question)
        except LookupError as missing:
            return Unclear(f"there is no {missing.args[0]} to ask with")
        asked = client.get(address)
        return _awaited(question, asked, finding) if inspect.isawaitable(asked) else finding(question, asked)

    return hook


async def _awaited(question: Question, asked: Awaitable[Any], finding: Callable[[Question, Any], Finding]) -> Finding:
    return finding(question, await asked)


def _named(where: Place, answer: Any) -> str:
    return where.find(answer.headers, answer.content)


def _filled(url: str, question: Question) -> str:
    """The address to ask at.

    Raises:
        LookupError: names a field that has no value.
    """
    values = {**(question.arguments or {}), **{name: getattr(question, name) for name in _BY_NAME}}
    if url == "{receipt}":
        return _value(values, "receipt")
    parts = []
    for text, field, _, _ in string.Formatter().parse(url):
        parts.append(text if field is None else text + quote(_value(values, field), safe=""))
    return "".join(parts)


def _value(values: dict[str, Any], field: str) -> str:
    found = values.get(field)
    if found is None or found == "":
        raise LookupError(field)
    return str(found)
