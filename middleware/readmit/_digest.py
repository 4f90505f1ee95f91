"""From a tool's arguments to their digest: bind, encode, hash.

`f(1)`, `f(x=1)` and `f(x=1, y=default)` are the same call and have the same digest; calls that differ in anything that
is not left out have different ones. The digest of a call covers the name of the tool and the *bound* arguments. The
format is versioned and the same in every process and release (see `readmit._canonical`).

A bare hash of a small argument can be guessed; with a secret the digests are HMACs.
"""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from readmit._canonical import BUILT_IN, ENCODERS, MAX_DEPTH, VERSION, Unencodable, encode
from readmit._signature import binding, describe

_CALL: Final = f"{chr(VERSION)}call:"
_PARAMETER: Final = f"{chr(VERSION)}parameter:"
_PARTS: Final = f"{chr(VERSION)}parts:".encode()
_SHORT: Final = 16  # hexadecimal digits of a parameter's digest: it names a difference, it decides nothing


class DigestError(TypeError):
    """An argument has no canonical encoding, so this call cannot be told from others, and it is not run.

    Args:
        tool: The name of the tool.
        parameter: The name of the parameter.
        offending: The type of the value, or of the value inside it, that has no encoding.
        suggestion: What to write as the function in `digest_with=`.
        too_deep: The value is nested too deeply or contains itself.
    """

    __module__ = "readmit"

    def __init__(
        self, tool: str, parameter: str, offending: str, suggestion: str = "fn", too_deep: bool = False
    ) -> None:
        super().__init__(tool, parameter, offending, suggestion, too_deep)
        self.tool = tool
        self.parameter = parameter
        self.offending = offending
        self.suggestion = suggestion
        self.too_deep = too_deep

    def __str__(self) -> str:
        what = (
            f"is nested deeper than {MAX_DEPTH} levels or contains itself (at a {self.offending!r})"
            if self.too_deep
            else f"holds a value of type {self.offending!r}, which has no canonical encoding"
        )
        return (
            f"{self.tool}: parameter {self.parameter!r} {what}. Nothing was run. If the effect does not depend on it, "
            f'leave it out with exclude=("{self.parameter}",); else say what identifies it with '
            f'digest_with={{"{self.parameter}": {self.suggestion}}}.'
        )


class _ParameterDigests(Mapping[str, str]):
    """Digests per parameter, made when they are asked for: many calls (reads, repeats) never need them."""

    __slots__ = ("_framed", "_head", "_known", "_secret")

    def __init__(self, head: str, framed: Mapping[str, str], secret: bytes | None) -> None:
        self._head = head
        self._framed = framed
        self._secret = secret
        self._known: dict[str, str] | None = None

    def _digests(self) -> dict[str, str]:
        head, framed, secret = self._head, self._framed, self._secret
        if self._known is None:  # two threads may both come here: what they need was read before it is let go
            self._known = {name: _hash(f"{head}{text}", secret)[:_SHORT] for name, text in framed.items()}
            self._framed, self._secret = {}, None
        return self._known

    def keys(self) -> KeysView[str]:
        return self._digests().keys()

    def __getitem__(self, name: str) -> str:
        return self._digests()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._digests())

    def __len__(self) -> int:
        return len(self._digests())

    def __repr__(self) -> str:
        return repr(self._digests())

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        return dict, (self._digests(),)  # neither arguments nor the secret leave the process


@dataclass(frozen=True, slots=True)
class InputDigest:
    """The digest of one call's arguments.

    Attributes:
        digest: SHA-256 (HMAC-SHA256 with a secret) over tool and arguments, hexadecimal.
        parameters: A short digest for every parameter, so that a conflict can name the one that differs.
    """

    digest: str
    parameters: Mapping[str, str] = field(hash=False)


class Binder:
    """Binds and digests the arguments of one tool; made once, used for each call.

    Args:
        function: The tool's function. A method is given as a plain function: `self` is a parameter.
        tool: The name of the tool.
        exclude: Parameters (or entries of `**kwargs`) that are no part of the digest: contexts, loggers, secrets. The
            name of a `**kwargs` parameter itself leaves out all of its entries.
        key: The parameter that is the business key; it is a part of the occurrence's name and not of the digest.
        digest_with: For a parameter a function from its value to what identifies it.

    Raises:
        ValueError: a name that is no parameter, or one that is named twice; or the function has no signature.

    Example:
        >>> binder = Binder(lambda order, cents=100: None, tool="charge")
        >>> one, other = binder.bind(("a",), {}), binder.bind((), {"cents": 100, "order": "a"})
        >>> binder.digest(one) == binder.digest(other)
        True
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        tool: str,
        exclude: Iterable[str] = (),
        key: str | None = None,
        digest_with: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{tool}: {function!r} has no signature that could be read; wrap it in a def") from error
        if isinstance(exclude, str):
            raise ValueError(f'{tool}: exclude= takes several names: write exclude=("{exclude}",)')
        excluded, keys = tuple(dict.fromkeys(exclude)), () if key is None else (key,)
        self.tool = tool
        self._with = dict(digest_with or {})
        self._left_out = frozenset((*excluded, *keys))
        self._names = frozenset(signature.parameters)
        self._entries = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)
        self._check(signature, [*excluded, *keys, *self._with], [*keys, *self._with])
        self._bind = binding(signature, getattr(function, "__qualname__", tool))
        self._digested = _heads(self._names - self._left_out)
        self._call, self._parameter = f"{_CALL}{encode(tool)}", f"{_PARAMETER}{encode(tool)}"
        self.signature: str = describe(signature, key=keys, exclude=excluded, digest_with=self._with)

    def _check(self, signature: inspect.Signature, named: list[str], single: list[str]) -> None:
        known = ", ".join(signature.parameters) or "none"
        for name in named:
            if name not in self._names and self._entries is None:
                raise ValueError(f"{self.tool}: {name!r} is not a parameter of this tool; it has: {known}")
            if named.count(name) > 1:
                raise ValueError(f"{self.tool}: {name!r} can be in only one of key=, exclude= and digest_with=")
            if name in single and name == self._entries:
                raise ValueError(f"{self.tool}: **{name} is no single value; name one of its entries")

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Give every parameter its value, defaults included.

        Entries of `**kwargs` get their own names; one that is named like a parameter gets `**` before it.

        Raises:
            TypeError: the arguments do not fit, in the words of Python's own call.
        """
        bound: dict[str, Any] = self._bind(*args, **kwargs)
        if self._entries is not None:
            for name, value in bound.pop(self._entries).items():
                bound[f"**{name}" if name in self._names or name.startswith("**") else name] = value
        return bound

    def digest(self, bound: Mapping[str, Any], *, secret: bytes | None = None) -> InputDigest:
        """Digest what `bind` returned.

        Args:
            bound: The bound arguments.
            secret: The key of the HMAC; without one it is a plain SHA-256.

        Raises:
            DigestError: an argument has no canonical encoding.
            Exception: whatever a function in `digest_with=` raises, with a note that names tool and parameter.
        """
        framed: dict[str, str] = {}
        functions = self._with
        for name, head in self._digested if self._entries is None else self._flat(bound):
            value = bound[name]
            try:
                if functions and name in functions:
                    value = functions[name](value)
                framed[name] = f"{head}{ENCODERS[type(value)](value, 0)}"
            except Unencodable as error:
                raise self._error(name, value, error) from None
            except RecursionError:
                raise DigestError(self.tool, name, type(value).__qualname__, too_deep=True) from None
            except Exception as error:
                error.add_note(f"{self.tool}: while digesting parameter {name!r}; nothing was run")
                raise
        whole = f"{self._call}{len(framed)}:{''.join(framed.values())}"
        return InputDigest(_hash(whole, secret), _ParameterDigests(self._parameter, framed, secret))

    def _flat(self, bound: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        names = bound.keys() - self._left_out
        return _heads(names & self._names if self._entries in self._left_out else names)

    def _error(self, name: str, value: Any, error: Unencodable) -> DigestError:
        offender = error.offender
        shown = f"{offender.__module__}.{offender.__qualname__}".removeprefix("builtins.")
        suggestion = "fn"
        if type(value) is offender and issubclass(offender, BUILT_IN) and not error.too_deep:
            base = next(base for base in BUILT_IN if issubclass(offender, base))
            suggestion = base.__name__ if base.__module__ in ("builtins", "decimal") else "str"
        return DigestError(self.tool, name, shown, suggestion, error.too_deep)


def digest_bytes(*parts: bytes | str, secret: bytes | None = None) -> str:
    """Digest a sequence of texts and byte strings so that no other sequence has the same digest.

    Args:
        parts: The parts, framed with kind and length: `"ab", "c"` differs from `"a", "bc"`, and `"a"` from `b"a"`.
        secret: The key of the HMAC; without one it is a plain SHA-256.

    Returns:
        64 hexadecimal digits.
    """
    state = sha256(_PARTS) if secret is None else hmac.new(secret, _PARTS, "sha256")
    for part in parts:
        kind, data = ("s", part.encode("utf-8", "surrogatepass")) if isinstance(part, str) else ("b", part)
        state.update(f"{kind}{len(data)}:".encode())
        state.update(data)
    return state.hexdigest()


def _heads(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, encode(name)) for name in sorted(names))


def _hash(text: str, secret: bytes | None) -> str:
    data = text.encode("utf-8", "surrogatepass")  # half an emoji is a value like any other
    return sha256(data).hexdigest() if secret is None else hmac.digest(secret, data, "sha256").hex()
