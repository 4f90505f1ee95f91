"""The canonical encoding: no two values share one, and nothing that does not belong to a value changes it."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from itertools import combinations
from typing import Any

import pydantic
from hypothesis import example, given
from hypothesis import strategies as st

from readmit._canonical import encode
from readmit._digest import digest_bytes
from tests.middleware.awkward import NOON, VALUES, Colour, Order


def test_no_two_values_share_a_digest() -> None:
    seen: dict[str, str] = {}
    for name, value in VALUES.items():
        one = digest_bytes(encode(value))
        assert one not in seen, f"{name} and {seen[one]}"
        seen[one] = name


def test_no_encoding_is_the_beginning_of_another() -> None:
    encodings = [encode(value) for value in VALUES.values()]
    assert not [(a, b) for a, b in combinations(encodings, 2) if a.startswith(b) or b.startswith(a)]


def identity(value: Any) -> Any:
    """A reading of a value by other means than the encoding: two values are the same if these are equal."""
    kind = type(value).__name__
    match value:
        case float():
            return kind, value.hex()
        case list() | tuple():
            return kind, tuple(map(identity, value))
        case set() | frozenset():
            return kind, frozenset(Counter(map(identity, value)).items())
        case dict():
            return kind, frozenset(Counter((identity(key), identity(item)) for key, item in value.items()).items())
        case Decimal():
            return kind, value.as_tuple()
        case datetime():
            return kind, value.replace(tzinfo=None, fold=0), value.fold, value.utcoffset()
        case _:
            return kind, value


hashables = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.timedeltas()
    | st.uuids()
    | st.decimals().filter(lambda value: not value.is_snan()),  # a signalling NaN has no hash
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
values = st.recursive(
    hashables,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(hashables, inner, max_size=4) | st.tuples(inner),
    max_leaves=8,
)
close = st.sampled_from(["", "1", "i1;", "s1:a", "a", "b", b"", b"1", 0, 1, 1.0, True, None, Decimal(1)])
alike = st.recursive(
    close,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(close, inner, max_size=2),
    max_leaves=6,
)


@given(alike, alike)
@example(["a", "b"], ["as1:b"])
@example([["a"], "b"], [["a", "b"]])
@example({"a": 1}, {"a": 1.0})
def test_values_that_look_alike_are_told_apart(one: Any, other: Any) -> None:
    assert (encode(one) == encode(other)) == (identity(one) == identity(other))


@given(values, values)
def test_distinct_values_have_distinct_encodings(one: Any, other: Any) -> None:
    assert (encode(one) == encode(other)) == (identity(one) == identity(other))


@given(values)
def test_a_copy_has_the_same_encoding(value: Any) -> None:
    assert encode(copy.deepcopy(value)) == encode(value)


@given(st.dictionaries(hashables, values, max_size=5), st.randoms())
def test_the_order_of_a_dictionary_does_not_matter(value: dict[Any, Any], random: Any) -> None:
    pairs = list(value.items())
    random.shuffle(pairs)
    assert encode(dict(pairs)) == encode(value)


def test_decimals_do_not_depend_on_the_context() -> None:
    before = encode(Decimal("1E+20"))
    with localcontext() as context:
        context.capitals, context.prec = 0, 1
        assert encode(Decimal("1E+20")) == before


def test_an_enum_alias_is_its_member() -> None:
    assert encode(Colour.CRIMSON) == encode(Colour.RED)


def test_zones_without_a_key_count_by_their_offset() -> None:
    moment = pydantic.TypeAdapter(datetime).validate_python("2024-01-31T12:00:00+01:00")
    assert type(moment.tzinfo) is not timezone
    assert encode(moment) == encode(NOON.replace(tzinfo=timezone(timedelta(hours=1))))


def test_a_cached_property_does_not_change_a_digest() -> None:
    order = Order("tea")
    before = encode(order)
    assert order.label == "1 x tea"
    assert encode(order) == before


def test_the_class_of_a_declared_value_counts() -> None:
    same_fields = dataclasses.make_dataclass("Bestellung", [("item", str), ("count", int), ("note", str)])
    assert encode(same_fields("tea", 1, "")) != encode(Order("tea"))
