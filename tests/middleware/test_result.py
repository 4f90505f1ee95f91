"""What a tool returned comes back with the very same types, or is refused; nothing in between."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pickle
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readmit._result import Unstorable, decode_result, encode_result
from tests.middleware import stored_types as types
from tests.middleware.awkward import NOON, OddZone
from tests.middleware.stored_types import Box, Customer, Half, Level, Loose, Money, Names, Receipt, Rights, Shape, State

NAMED = timezone(timedelta(hours=1), "Winter")


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in value and in every type, without help from the codec."""
    if type(one) is not type(other):
        return False
    match one:
        case float():
            return bool(one.hex() == other.hex())
        case list() | tuple():
            return len(one) == len(other) and all(map(same, one, other))
        case dict():
            return same(list(one.items()), list(other.items()))
        case set() | frozenset():
            rest = list(other)
            for item in one:
                found = next((n for n, candidate in enumerate(rest) if same(item, candidate)), None)
                if found is None:
                    return False
                del rest[found]
            return not rest
        case Decimal():
            return bool(one.as_tuple() == other.as_tuple())
        case datetime() | time():
            zones = type(one.tzinfo), str(one.tzinfo)
            if zones != (type(other.tzinfo), str(other.tzinfo)):
                return False
            return (one.replace(tzinfo=None), one.fold) == (other.replace(tzinfo=None), other.fold)
        case pydantic.BaseModel():
            return all(
                same(getattr(one, part), getattr(other, part))
                for part in ("__dict__", "__pydantic_extra__", "__pydantic_private__", "__pydantic_fields_set__")
            )
        case _ if dataclasses.is_dataclass(one):
            names = [field.name for field in dataclasses.fields(one)]
            return all(same(getattr(one, name), getattr(other, name)) for name in names)
        case _:
            return bool(one == other)


def visited() -> Customer:
    customer = Customer.model_validate(
        {"name": "Ada", "since": "2024-01-31T12:00:00Z", "pin": "1", "age": 36, "$b": []}
    )
    customer._visits = 7
    return customer


RESULTS: dict[str, Any] = {
    "nothing": None,
    "true": True,
    "one": 1,
    "one, float": 1.0,
    "minus zero": -0.0,
    "nan": math.nan,
    "infinities": [math.inf, -math.inf],
    "great integers": [2**64 - 1, 2**64, -(2**64), 10**5000],
    "text": "Grüße 🧾 \u2028 \0",
    "halves of an emoji": ["\ud83e", "\ud83e\uddfe", {"\ud83e": 1}],
    "bytes": [b"", b"\xff\x00"],
    "tuples": [(), (1, [2, (3,)])],
    "sets": [set(), {1, "a", (2, 3)}, frozenset(), frozenset({frozenset({1})})],
    "keys": {1: "a", "1": "b", None: "c", (1, 2): "d", 2.5: "e", b"x": "f"},
    "keys with a dollar": {"$tuple": [1]},
    "the order of keys": {"b": 1, "a": 2},
    "what looks like ours": {"$dict": {"$int": "ff"}},
    "dates": [date(2024, 2, 29), date.min, datetime.max, datetime.min, time.max],
    "clocks": [
        NOON,
        NOON.replace(fold=1),
        NOON.replace(tzinfo=UTC),
        NOON.replace(tzinfo=NAMED),
        time(12, tzinfo=NAMED),
    ],
    "odd offset": NOON.replace(tzinfo=timezone(timedelta(hours=-5, microseconds=1))),
    "zones": [datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")), time(1, tzinfo=ZoneInfo("UTC"))],
    "durations": [timedelta.max, timedelta.min, timedelta(microseconds=-1)],
    "decimals": [Decimal("1.0"), Decimal("1"), Decimal("-0"), Decimal("NaN"), Decimal("sNaN12"), Decimal("1E+500")],
    "uuid": UUID(int=7),
    "enums": [State.PAID, Level.LOW, Shape.CIRCLE, {State.OPEN: 1}],
    "flags": [Rights.READ, Rights.READ | Rights.WRITE, Rights(0)],
    "dataclass": Receipt("r-1", Decimal("9.90"), [("tea", 2)]),
    "frozen, slotted, nested": {Money(5): Money.Rate(-0.0)},
    "generic": Box([1]),
    "model": visited(),
    "models": [types.Strict(money=Money(1), inner=Customer(name="x")), Names(["a"])],
}


@pytest.mark.parametrize("value", RESULTS.values(), ids=RESULTS)
def test_results_come_back_with_the_same_types(value: Any) -> None:
    assert same(decode_result(encode_result(value)), value)


def test_another_process_reads_them() -> None:
    data = {name: encode_result(value).hex() for name, value in RESULTS.items()}
    program = (
        "import json, sys\n"
        "from readmit._result import decode_result, encode_result\n"
        "data = json.load(sys.stdin)\n"
        "again = {name: encode_result(decode_result(bytes.fromhex(one))).hex() for name, one in data.items()}\n"
        "json.dump(again, sys.stdout)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", program]
    other = subprocess.run(command, input=json.dumps(data), env=environment, capture_output=True, text=True, check=True)
    assert json.loads(other.stdout) == data


keys = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**63, max_value=2**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.sampled_from(["$int", "$", "$enum"])
    | st.binary()
    | st.dates()
    | st.datetimes(timezones=st.none() | st.timezones() | st.sampled_from([UTC, NAMED]))
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals().filter(lambda value: not value.is_snan())
    | st.sampled_from([State.PAID, Level.LOW, Rights.READ, Money(3)]),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
results = st.recursive(
    keys,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.sets(keys, max_size=3)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Box, inner)
    ),
    max_leaves=8,
)


@given(results)
def test_any_result_comes_back_with_the_same_types(value: Any) -> None:
    assert same(decode_result(encode_result(value)), value)


def test_pydantics_own_time_zone_comes_back() -> None:
    since = visited().since
    assert since is not None
    assert type(since.tzinfo) is not timezone
    assert same(decode_result(encode_result([since])), [since])


def test_what_is_stored_can_be_read_by_a_person() -> None:
    value = {"id": "r-1", "at": date(2024, 1, 31), "money": Money(5), "state": State.PAID}
    assert encode_result(value) == (
        b'1{"id":"r-1","at":{"$date":"2024-01-31"},"money":{"$dataclass":["tests.middleware.stored_types:Money",'
        b'{"cents":5,"currency":"EUR"}]},"state":{"$enum":["tests.middleware.stored_types:State","PAID"]}}'
    )


def test_the_same_set_gives_the_same_bytes() -> None:
    assert encode_result({"a", "b", 1, (2, 3)}) == b'1{"$set":["a","b",1,{"$tuple":[2,3]}]}'


def test_no_code_of_a_class_runs() -> None:
    data = [encode_result(Receipt("r-1", Decimal(1))), encode_result(Customer(name=" Ada "))]
    before = list(types.EVENTS)
    receipt, customer = map(decode_result, data)
    assert (type(receipt), type(customer), types.EVENTS) == (Receipt, Customer, before)


def test_what_comes_back_can_be_used() -> None:
    customer = decode_result(encode_result(visited()))
    assert customer == visited()
    assert customer.model_dump(exclude_unset=True) == visited().model_dump(exclude_unset=True)
    assert customer.label == "ADA"
    assert customer.model_copy(update={"name": "Eve"}).name == "Eve"
    assert decode_result(encode_result(Receipt("r", Decimal(1)))).label == "R"


def cached(value: Any) -> Any:
    assert value.label
    return value


def loop() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def loose() -> Loose:
    value = Loose(1)
    value.more = 2  # type: ignore[attr-defined]
    return value


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "object": (object, "'object' would not come back"),
    "nested": (lambda: [{"a": (object(),)}], "'object' would not come back"),
    "subclass of str": (lambda: types.Text("x"), "stored_types.Text' would not come back"),
    "subclass of dict": (lambda: OrderedDict(a=1), "OrderedDict' would not come back"),
    "class": (lambda: Receipt, "'type' would not come back"),
    "function": (lambda: deep, "'function' would not come back"),
    "generator": (lambda: (n for n in ""), "'generator' would not come back"),
    "exception": (lambda: ValueError("x"), "'ValueError' would not come back"),
    "bytearray": (lambda: bytearray(b"x"), "'bytearray' would not come back"),
    "local class": (types.local_class, "local_class.<locals>.Local' cannot be found again"),
    "cached property": (lambda: cached(Receipt("r", Decimal(1))), "holds more than its fields: 'label'"),
    "model, cached property": (lambda: cached(Customer(name="x")), "holds more than its fields: 'label'"),
    "slot beside the fields": (loose, "holds more than its fields: 'more'"),
    "field without a value": (lambda: Half(1), "has no value for its field 'later'"),
    "model, field without a value": (lambda: Customer.model_construct(), "has no value for its field 'name'"),
    "own way to make instances": (lambda: types.Handle(1), "has a __new__"),
    "odd time zone": (lambda: NOON.replace(tzinfo=OddZone()), "time zone of type 'OddZone'"),
    "contains itself": (loop, "nested too deeply or contains itself"),
    "too deep": (lambda: deep(200), "nested too deeply"),
    "unstorable field": (lambda: Box(object()), "'object' would not come back"),
    "large text": (lambda: "x" * 262_144, "larger than 262144 bytes"),
    "large list": (lambda: [None] * 300_000, "larger than 262144 bytes"),
    "large in all": (lambda: ["x" * 200_000] * 2, "larger than 262144 bytes"),
    "large bytes": (lambda: bytes(262_144), "larger than 262144 bytes"),
}


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED)
def test_what_would_not_come_back_is_refused(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(Unstorable) as refused:
        encode_result(make())
    assert why in refused.value.why


def test_the_limit_is_that_of_the_bytes() -> None:
    assert len(encode_result("12345", limit=8)) == 8
    with pytest.raises(Unstorable, match="larger than 7 bytes"):
        encode_result("12345", limit=7)
    with pytest.raises(Unstorable, match="larger than 8 bytes"):
        encode_result("1234ü", limit=8)


def test_a_class_of_the_same_name_is_not_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = Receipt("r", Decimal(1))
    data = encode_result(receipt)
    changed = dataclasses.make_dataclass("Receipt", ["id"], namespace={"__module__": types.__name__})
    monkeypatch.setattr(types, "Receipt", changed)
    with pytest.raises(Unstorable, match="cannot be found again"):
        encode_result(receipt)
    with pytest.raises(Unstorable, match="has other fields now"):
        decode_result(data)


def path(name: str) -> str:
    return f"{types.__name__}:{name}"


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ({"$dataclass": ["os:system", {}]}, "os:system is no dataclass now"),
        ({"$dataclass": ["no.such.module:Thing", {}]}, "the module of no.such.module:Thing cannot be imported"),
        ({"$dataclass": [path("Gone"), {}]}, "is no dataclass now"),
        ({"$dataclass": [path("Text"), {}]}, "is no dataclass now"),
        ({"$model": [path("Receipt"), {}, None, None, []]}, "is no model now"),
        ({"$dataclass": [path("Customer"), {}]}, "is no dataclass now"),
        ({"$enum": [path("EVENTS"), "append"]}, "is no enum now"),
        ({"$enum": [path("State"), "mro"]}, "has no member 'mro' now"),
        ({"$enum": ["subprocess:Popen", "x"]}, "subprocess:Popen is no enum now"),
        ({"$dataclass": [path("Money"), {"cents": 1}]}, "has other fields now"),
        ({"$dataclass": [path("Money"), {"cents": 1, "currency": "", "__class__": 1}]}, "has other fields now"),
        ({"$dataclass": [path("Handle"), {"id": 1}]}, "has other fields now"),
        ({"$dataclass": [1, {}]}, "damaged"),
        ({"$dataclass": []}, "damaged"),
        ({"$unheard": 1}, "damaged"),
        ({"$date": "yesterday"}, "damaged"),
        ({"$decimal": "x"}, "damaged"),
        ({"$time": ["12:00:00", 0, ["key", "No/Where"]]}, "damaged"),
        ({"$set": [[]]}, "damaged"),
    ],
)
def test_stored_bytes_are_not_trusted(stored: Any, why: str) -> None:
    with pytest.raises(Unstorable) as refused:
        decode_result(b"1" + json.dumps(stored).encode())
    assert why in refused.value.why


@pytest.mark.parametrize("data", [b"", b"1", b'1{"a"', b"1\xff", b"2{}", b"\x80\x04N.", b"1" + b"[" * 100_000])
def test_torn_and_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(Unstorable):
        decode_result(data)


def test_a_module_that_fails_to_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('no database')\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Unstorable, match="broken_module:Thing cannot be imported: RuntimeError: no database"):
        decode_result(b'1{"$dataclass":["broken_module:Thing",{}]}')


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(Unstorable("it is too large")))
    assert (type(error), error.why, str(error)) == (Unstorable, "it is too large", "it is too large")
