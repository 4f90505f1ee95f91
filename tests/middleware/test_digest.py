"""The digest of a call: equal calls agree however they are spelled, and no two values share one."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import os
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readmit._canonical import MAX_DEPTH, Unencodable, encode
from readmit._digest import Binder, DigestError, digest_bytes
from tests.middleware.awkward import NOON, VALUES, OddZone, Order, Point

GOLDEN = Path(__file__).with_name("golden_digests.json")


def charge(order_id: str, cents: int = 100, *, memo: str = "") -> None: ...


def anything(*args: Any, **kwargs: Any) -> None: ...


def digest(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    binder = Binder(function, tool="shop.charge")
    return binder.digest(binder.bind(args, kwargs)).digest


def golden() -> dict[str, str]:
    """Every digest that a release must not change."""
    digests = {f"value {name}": digest(lambda value: None, value) for name, value in VALUES.items()}
    calls = Binder(charge, tool="shop.charge")
    bound = calls.bind(("o-1",), {"memo": "für Ada"})
    digests["call"] = calls.digest(bound).digest
    digests["call, secret"] = calls.digest(bound, secret=b"a secret").digest
    digests |= {f"parameter {name}": short for name, short in calls.digest(bound).parameters.items()}
    secret = calls.digest(bound, secret=b"a secret").parameters
    digests |= {f"parameter {name}, secret": short for name, short in secret.items()}
    digests["entries"] = digest(anything, 1, 2, args=3, kwargs=4, other=5)
    digests["bytes"] = digest_bytes("POST", b"\xff", "\ud83e", "")
    digests["bytes, secret"] = digest_bytes("POST", secret=b"a secret")
    return digests


# Golden vectors ------------------------------------------------------------------------------------------------------


def test_no_release_changes_a_digest() -> None:
    assert golden() == json.loads(GOLDEN.read_text("utf-8"))


@pytest.mark.parametrize("seed", ["0", "4711"])
def test_processes_agree_whatever_their_hash_seed(seed: str) -> None:
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.middleware.test_digest"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(other.stdout) == golden()


@given(st.lists(st.binary() | st.text(st.characters(exclude_categories=()))), st.data())
def test_digest_bytes_frames_its_parts(parts: list[bytes | str], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.sampled_from([*parts, b"", "", "s1:"]), max_size=len(parts) + 1))
    same = [(type(p), p) for p in parts] == [(type(p), p) for p in others]
    assert (digest_bytes(*parts) == digest_bytes(*others)) == same


def test_digest_bytes_by_example() -> None:
    assert digest_bytes("ab", "c") != digest_bytes("a", "bc")
    assert digest_bytes("a") != digest_bytes(b"a")
    assert digest_bytes() != digest_bytes("")
    assert digest_bytes("a") != digest_bytes("a", secret=b"k")
    assert len(digest_bytes()) == 64


# Equal calls ---------------------------------------------------------------------------------------------------------


def test_spellings_of_one_call_agree() -> None:
    one = digest(charge, "o-1")
    assert (
        one == digest(charge, order_id="o-1") == digest(charge, "o-1", 100) == digest(charge, memo="", order_id="o-1")
    )
    assert one != digest(charge, "o-1", 101)
    assert one != digest(charge, "o-1", memo="x")
    assert one != digest(charge, "o-1", 100.0)


def test_the_tool_counts() -> None:
    one, other = Binder(charge, tool="a"), Binder(charge, tool="b")
    bound = one.bind(("o-1",), {})
    assert one.digest(bound).digest != other.digest(bound).digest


def test_a_secret_changes_every_digest() -> None:
    binder = Binder(charge, tool="shop.charge")
    bound = binder.bind(("o-1",), {})
    plain, first, second = binder.digest(bound), binder.digest(bound, secret=b"1"), binder.digest(bound, secret=b"2")
    assert len({plain.digest, first.digest, second.digest}) == 3
    assert len({tuple(d.parameters.values()) for d in (plain, first, second)}) == 3
    assert first == binder.digest(bound, secret=b"1")


def test_parameters_name_the_difference() -> None:
    binder = Binder(charge, tool="shop.charge")
    one = binder.digest(binder.bind(("o-1",), {})).parameters
    other = binder.digest(binder.bind(("o-1", 200), {})).parameters
    assert [name for name in one if one[name] != other[name]] == ["cents"]
    assert {len(short) for short in one.values()} == {16}


def test_entries_of_kwargs_do_not_collide_with_parameters() -> None:
    def tool(x: int, /, *rest: int, y: int = 0, **more: Any) -> None: ...

    binder = Binder(tool, tool="t")
    bound = binder.bind((1,), {"x": 2, "rest": 3, "more": 4, "z": 5, "**z": 6})
    assert bound == {"x": 1, "rest": (), "y": 0, "**x": 2, "**rest": 3, "**more": 4, "z": 5, "****z": 6}
    assert len({digest(tool, 1, x=2), digest(tool, 2, x=1), digest(tool, 1, 2), digest(tool, 1, z=2)}) == 4
    assert digest(tool, 1, a=1, b=2) == digest(tool, 1, b=2, a=1)


def test_args_are_one_parameter() -> None:
    assert digest(anything, 1, 2) != digest(anything, (1, 2)) != digest(anything, [1, 2])
    assert list(Binder(anything, tool="t").digest({"args": (1,), "z": 1, "b": 2}).parameters) == ["args", "b", "z"]


def test_defaults_are_bound_as_they_are() -> None:
    def tool(tags: list[str] = [], *, when: Any = None) -> None: ...  # noqa: B006

    binder = Binder(tool, tool="t")
    assert binder.bind((), {})["tags"] is inspect.signature(tool).parameters["tags"].default


# The binder agrees with Python ---------------------------------------------------------------------------------------

NAMES = ["a", "b", "self", "bind", "args", "ß"]
KINDS = inspect._ParameterKind


@st.composite
def functions(draw: st.DrawFn) -> Callable[..., Any]:
    """A function of any signature that returns its locals."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    kinds = sorted(draw(st.lists(st.sampled_from(KINDS), min_size=len(names), max_size=len(names))))
    parts: list[str] = []
    seen: set[Any] = set()
    defaults = False
    for index, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        if kind in (KINDS.VAR_POSITIONAL, KINDS.VAR_KEYWORD) and kind in seen:
            continue
        if kind is KINDS.KEYWORD_ONLY and not seen & {KINDS.KEYWORD_ONLY, KINDS.VAR_POSITIONAL}:
            parts.append("*")
        star = {KINDS.VAR_POSITIONAL: "*", KINDS.VAR_KEYWORD: "**"}.get(kind, "")
        optional = not star and (draw(st.booleans()) or (defaults and kind < KINDS.VAR_POSITIONAL))
        defaults = defaults or optional
        parts.append(f"{star}{name}" + (f"={index}" if optional else ""))
        if kind is KINDS.POSITIONAL_ONLY and KINDS.POSITIONAL_ONLY not in kinds[index + 1 :]:
            parts.append("/")
        seen.add(kind)
    space: dict[str, Any] = {}
    exec(f"def made({', '.join(parts)}): return dict(locals())", space)
    made: Callable[..., Any] = space["made"]
    return made


@given(functions(), st.lists(st.integers(), max_size=5), st.dictionaries(st.sampled_from([*NAMES, "x"]), st.integers()))
def test_binding_is_that_of_python(function: Callable[..., Any], args: list[int], kwargs: dict[str, int]) -> None:
    binder = Binder(function, tool="t")
    try:
        expected = function(*args, **kwargs)
    except TypeError as error:
        with pytest.raises(TypeError) as refused:
            binder.bind(tuple(args), kwargs)
        assert str(refused.value) == str(error)
        with pytest.raises(TypeError):
            inspect.signature(function).bind(*args, **kwargs)
        return
    signature = inspect.signature(function)
    try:
        inspected = signature.bind(*args, **kwargs)
    except TypeError as error:  # inspect is stricter than the language: def f(a=0, /, **more) can be called as f(a=1)
        assert "positional" in str(error)
        assert {KINDS.POSITIONAL_ONLY, KINDS.VAR_KEYWORD} <= {p.kind for p in signature.parameters.values()}
    else:
        inspected.apply_defaults()
        assert inspected.arguments == expected
    entries = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)
    for name, value in expected.pop(entries, {}).items():
        expected[f"**{name}" if name in signature.parameters else name] = value
    assert binder.bind(tuple(args), kwargs) == expected


def test_other_callables_bind_too() -> None:
    assert Binder(partial(charge, "o-1", cents=5), tool="t").bind((), {"memo": "x"}) == {"cents": 5, "memo": "x"}
    assert Binder(Order("tea").__eq__, tool="t").bind((1,), {}) == {"other": 1}
    assert Binder(Point, tool="t").bind((1, 2), {}) == {"x": 1, "y": 2}


def test_the_error_of_a_call_that_does_not_fit_is_pythons_own() -> None:
    with pytest.raises(TypeError, match=r"^charge\(\) missing 1 required positional argument: 'order_id'$"):
        Binder(charge, tool="shop.charge").bind((), {})


# What is left out ----------------------------------------------------------------------------------------------------


def test_excluded_parameters_and_the_key_take_no_part() -> None:
    def tool(context: Any, order_id: str, cents: int) -> None: ...

    binder = Binder(tool, tool="t", exclude=("context",), key="order_id")
    one = binder.digest(binder.bind((object(), "o-1", 5), {}))
    assert one == binder.digest(binder.bind((object(), "o-2", 5), {}))
    assert one != binder.digest(binder.bind((object(), "o-1", 6), {}))
    assert list(one.parameters) == ["cents"]


def test_exclude_may_be_used_up_by_reading() -> None:
    assert Binder(charge, tool="t", exclude=iter(["memo"])).signature.endswith("exclude=memo")


def test_entries_can_be_left_out_one_by_one_or_all() -> None:
    one = Binder(anything, tool="t", exclude=("trace",))
    assert list(one.digest(one.bind((), {"a": 1, "trace": object()})).parameters) == ["a", "args"]
    every = Binder(anything, tool="t", exclude=("kwargs",))
    assert list(every.digest(every.bind((), {"a": object(), "kwargs": object()})).parameters) == ["args"]


def test_digest_with_says_what_identifies_a_value() -> None:
    binder = Binder(lambda user, n: None, tool="t", digest_with={"user": lambda user: user.id})
    one = binder.digest(binder.bind((SimpleNamespace(id=1), 2), {}))
    assert one == binder.digest(binder.bind((SimpleNamespace(id=1, seen="today"), 2), {}))
    assert one != binder.digest(binder.bind((SimpleNamespace(id=2), 2), {}))


def test_an_error_in_digest_with_passes_and_says_where() -> None:
    binder = Binder(charge, tool="shop.charge", digest_with={"memo": lambda memo: memo.id})
    with pytest.raises(AttributeError) as failed:
        binder.digest(binder.bind(("o-1",), {}))
    assert failed.value.__notes__ == ["shop.charge: while digesting parameter 'memo'; nothing was run"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exclude": ("ctx",)}, "shop.charge: 'ctx' is not a parameter of this tool; it has: order_id, cents, memo"),
        ({"exclude": "memo"}, 'write exclude=("memo",)'),
        ({"key": "order"}, "'order' is not a parameter"),
        ({"digest_with": {"order": str}}, "'order' is not a parameter"),
        ({"key": "memo", "exclude": ("memo",)}, "'memo' can be in only one of"),
        ({"digest_with": {"memo": str}, "exclude": ("memo",)}, "'memo' can be in only one of"),
    ],
)
def test_wrong_names_are_errors_at_decoration(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as refused:
        Binder(charge, tool="shop.charge", **options)
    assert words in str(refused.value)


def test_kwargs_are_no_single_value() -> None:
    with pytest.raises(ValueError, match="one of its entries"):
        Binder(anything, tool="t", key="kwargs")
    with pytest.raises(ValueError, match="one of its entries"):
        Binder(anything, tool="t", digest_with={"kwargs": dict})
    Binder(anything, tool="t", key="order_id")


def test_a_callable_without_a_signature_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"t: .* has no signature"):
        Binder(type, tool="t")


def test_the_signature_tells_what_the_digest_depends_on() -> None:
    def other(order_id: int, cents: float = 5.0, *, memo: str | None = None) -> int:
        return 1

    text = "v1(order_id, cents, *, memo)"
    assert Binder(charge, tool="t").signature == Binder(other, tool="t").signature == text
    assert Binder(anything, tool="t").signature == "v1(*args, **kwargs)"
    marked = Binder(charge, tool="t", key="order_id", exclude=("memo",), digest_with={"cents": str})
    assert marked.signature == f"{text} key=order_id exclude=memo digest_with=cents"


# What cannot be encoded ----------------------------------------------------------------------------------------------


class Text(str):
    hidden = 0


@pytest.mark.parametrize(
    ("value", "offending", "suggestion"),
    [
        (object(), "object", "fn"),
        ([1, {"a": object()}], "object", "fn"),
        (Text("x"), f"{__name__}.Text", "str"),
        ([Text("x")], f"{__name__}.Text", "fn"),
        (OrderedDict(a=1), "collections.OrderedDict", "dict"),
        (charge, "function", "fn"),
        (iter(()), "tuple_iterator", "fn"),
        (threading.Lock(), "_thread.lock", "fn"),
        (NOON.replace(tzinfo=OddZone()), f"{OddZone.__module__}.OddZone", "fn"),
        (dataclasses.make_dataclass("Local", []), "type", "fn"),
        (pydantic.SecretStr("x"), "pydantic.types.SecretStr", "fn"),
    ],
)
def test_what_has_no_encoding_is_named(value: Any, offending: str, suggestion: str) -> None:
    binder = Binder(charge, tool="shop.charge")
    with pytest.raises(DigestError) as refused:
        binder.digest(binder.bind(("o-1",), {"memo": value}))
    assert (refused.value.tool, refused.value.parameter) == ("shop.charge", "memo")
    assert (refused.value.offending, refused.value.suggestion) == (offending, suggestion)
    assert 'exclude=("memo",)' in str(refused.value)
    assert f'digest_with={{"memo": {suggestion}}}' in str(refused.value)


def test_numpy_scalars_are_refused_with_a_way_out() -> None:
    numpy = pytest.importorskip("numpy")
    binder = Binder(charge, tool="shop.charge")
    with pytest.raises(DigestError, match=r'digest_with={"cents": float}'):
        binder.digest(binder.bind(("o-1", numpy.float64(1)), {}))
    with pytest.raises(DigestError, match=r"'numpy\.int64'"):
        binder.digest(binder.bind(("o-1", numpy.int64(1)), {}))


def test_self_is_a_parameter() -> None:
    class Shop:
        def charge(self, cents: int) -> None: ...

    binder = Binder(Shop.charge, tool="Shop.charge")
    with pytest.raises(DigestError, match=r"parameter 'self' .* exclude=\(\"self\",\)"):
        binder.digest(binder.bind((Shop(), 5), {}))
    binder = Binder(Shop.charge, tool="Shop.charge", exclude=("self",))
    assert binder.digest(binder.bind((Shop(), 5), {})) == binder.digest(binder.bind((Shop(), 5), {}))


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append({"loop": loop})
    with pytest.raises(DigestError, match="contains itself"):
        digest(charge, loop)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_nesting_has_a_fixed_limit() -> None:
    assert len(digest(charge, nested(MAX_DEPTH))) == 64
    with pytest.raises(DigestError, match="nested deeper than 128 levels") as refused:
        digest(charge, nested(MAX_DEPTH + 1))
    assert refused.value.too_deep
    with pytest.raises(Unencodable):
        encode(nested(100_000))


def test_a_stack_that_ends_earlier_is_a_digest_error_too() -> None:
    def descend(levels: int) -> str:
        return descend(levels - 1) if levels else digest(charge, nested(MAX_DEPTH))

    with pytest.raises(DigestError):
        descend(sys.getrecursionlimit() - len(inspect.stack()) - 60)


def test_errors_survive_pickling() -> None:
    error = DigestError("shop.charge", "memo", "object", "fn", True)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), str(other), vars(other)) == (DigestError, str(error), vars(error))


# What a digest carries along -----------------------------------------------------------------------------------------


def test_digests_are_values() -> None:
    binder = Binder(charge, tool="shop.charge")
    one = binder.digest(binder.bind(("o-1",), {}), secret=b"a secret")
    other = pickle.loads(pickle.dumps(one))
    assert (other, hash(other)) == (one, hash(one))
    assert dict(one.parameters) == dict(other.parameters) == {n: one.parameters[n] for n in one.parameters}


def test_neither_arguments_nor_the_secret_leave_the_process() -> None:
    binder = Binder(charge, tool="shop.charge")
    one = binder.digest(binder.bind(("4111-1111",), {}), secret=b"a secret")
    for seen in (repr(one), pickle.dumps(one).decode("latin-1")):
        assert "4111" not in seen
        assert "a secret" not in seen


def test_threads_may_ask_for_the_parameters_at_once() -> None:
    binder = Binder(lambda **entries: None, tool="t")
    bound = binder.bind((), {f"p{n}": n for n in range(200)})
    expected = dict(binder.digest(bound).parameters)
    for _ in range(20):
        one = binder.digest(bound)
        with ThreadPoolExecutor(4) as pool:
            seen: list[dict[str, str]] = list(pool.map(dict, [one.parameters] * 4))
        assert seen == [expected] * 4


if __name__ == "__main__":
    print(json.dumps(golden(), indent=1))
