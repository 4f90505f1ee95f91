"""When are the arguments of two tool calls the same? Pure."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

__all__ = ["arguments_key"]

_SENTINEL = re.compile(r"""^[\s"'<]*(not specified|unknown|none|null|n/a)?[\s"'>]*$""", re.IGNORECASE)
_HIDDEN = re.compile(
    r"""[\[<({*]\s*(redacted|scrubbed|filtered|masked|truncated|omitted)\b|["']\*{3,}["']""", re.IGNORECASE
)


def arguments_key(kind: str | None, text: str | None) -> str | None:
    """A key that is equal exactly when the arguments are, or None where they cannot be known.

    The order of object keys and the white space of JSON do not matter; `1`, `1.0`, `true` and `"1"` stay four values.
    None for what is absent, a placeholder, blanked by a scrubber, or cut off: two unknowns are not equal.

    Args:
        kind: Which OTLP value held it: `string`, `int`, `double`, `bool`, `bytes`, `array`, `kvlist`.
        text: The value as it was written.

    Example:
        >>> arguments_key("string", '{"a": 1, "b": [2]}') == arguments_key("string", '{"b":[2],"a":1}')
        True
        >>> arguments_key("string", "<not specified>") is None
        True
    """
    if kind is None or text is None or _SENTINEL.match(text) or _HIDDEN.search(text):
        return None
    if kind in ("int", "double", "bool", "bytes"):
        return _digest(f"{kind}:{text}")
    try:
        value = _DECODER.decode(text)
        return _digest("json:" + _canonical(value if kind == "string" else _unwrapped({f"{kind}Value": value})))
    except (ValueError, TypeError, LookupError, RecursionError):
        cut_off = kind != "string" or text.lstrip().startswith(("{", "["))
        return None if cut_off else _digest(f"text:{text}")


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its pairs, so that a repeated key is not dropped."""


class _Number(str):
    """A JSON number as it was written: no rounding, no merging of 1 and 1.0."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_float=_Number, parse_int=_Number, parse_constant=_Number, strict=False
)


def _canonical(value: Any) -> str:
    if isinstance(value, _Pairs):
        return "{" + ",".join(f"{json.dumps(key)}:{_canonical(item)}" for key, item in sorted(value, key=_by_key)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return str(value) if isinstance(value, _Number) else json.dumps(value)


def _by_key(pair: tuple[str, Any]) -> str:
    return pair[0]


def _unwrapped(value: Any) -> Any:
    """An OTLP AnyValue as the JSON it stands for."""
    fields = dict(value)
    if "kvlistValue" in fields:
        pairs = [dict(pair) for pair in dict(fields["kvlistValue"]).get("values", [])]
        return _Pairs((str(pair["key"]), _unwrapped(pair.get("value", _Pairs()))) for pair in pairs)
    if "arrayValue" in fields:
        return [_unwrapped(item) for item in dict(fields["arrayValue"]).get("values", [])]
    if "intValue" in fields:
        return _Number(fields["intValue"])
    return next(iter(fields.values()), None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
