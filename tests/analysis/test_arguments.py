from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readmit_analysis._arguments import arguments_key

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(min_size=1, max_size=3), JSON, min_size=1, max_size=3)


@given(OBJECTS)
def test_order_and_white_space_do_not_matter(value: dict[str, object]) -> None:
    backwards = dict(reversed(value.items()))
    key = arguments_key("string", json.dumps(value))
    assert arguments_key("string", json.dumps(backwards, indent=2)) == key


@given(OBJECTS, OBJECTS)
def test_different_values_have_different_keys(one: dict[str, object], two: dict[str, object]) -> None:
    keys = [arguments_key("string", json.dumps(value)) for value in (one, two)]
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert (keys[0] == keys[1]) is same or keys == [None, None]


def test_values_that_casting_would_merge() -> None:
    texts = ['{"x":1}', '{"x":1.0}', '{"x":true}', '{"x":"1"}', '{"x":null}', '{"x":[1]}', '{"x":1,"x":2}', "{}", "[]"]
    texts += ['{"x":9007199254740993}', '{"x":9007199254740992}', '{"x":0.1}', '{"x":0.10000000000000000001}']
    assert len({arguments_key("string", text) for text in texts}) == len(texts)


def test_the_same_in_otlp_s_own_types() -> None:
    array = {"arrayValue": {"values": [{"boolValue": True}]}}
    nested = json.dumps({"values": [{"key": "b", "value": array}, {"key": "a", "value": {"intValue": "1"}}]})
    assert arguments_key("kvlist", nested) == arguments_key("string", '{"a":1,"b":[true]}')
    assert arguments_key("int", "1") != arguments_key("string", "x1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "null",
        "None",
        "<not specified>",
        "unknown",
        '""',
        "N/A",
        '{"a":',
        '["x"',
        '{"a":"[Scrubbed due to x]"}',
        '"***"',
        '{"key":"<redacted>"}',
    ],
)
def test_what_cannot_be_known_has_no_key(text: str) -> None:
    assert arguments_key("string", text) is None


@pytest.mark.parametrize("text", ["ls -la", '{"text":"the list was filtered"}', "{}", "*** hello"])
def test_what_is_known_has_one(text: str) -> None:
    assert arguments_key("string", text)


@pytest.mark.parametrize(("kind", "text"), [("kvlist", '{"values":[5]}'), ("array", "{"), ("kvlist", "x")])
def test_malformed_otlp_values_have_none(kind: str, text: str) -> None:
    assert arguments_key(kind, text) is None


def test_nothing_crashes_on_depth() -> None:
    assert arguments_key("string", "[" * 100_000) is None
    assert arguments_key("string", "[" * 5_000 + "]" * 5_000) is None
