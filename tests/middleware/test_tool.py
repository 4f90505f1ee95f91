"""What the decorator keeps, what it refuses to take, and what it does with arguments that have no digest."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import pickle
import sys
import traceback
import typing
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

import readmit
from readmit import Absent, Approval, Contract, DigestError, Present, Question
from tests.middleware.stage import Stage, attributes

P = typing.ParamSpec("P")
HERE = "tests.middleware.test_tool"


@readmit.tool(effect="write")
def charge(order: str, cents: int = 100, *, currency: str = "EUR") -> str:
    """Charges an order."""
    return f"{order} {cents} {currency}"


# -- what it keeps ------------------------------------------------------------------------------------------------


def test_a_tool_looks_like_its_function() -> None:
    assert str(inspect.signature(charge)) == "(order: 'str', cents: 'int' = 100, *, currency: 'str' = 'EUR') -> 'str'"
    assert charge.__doc__ == "Charges an order."
    assert (charge.__name__, charge.__qualname__, charge.__module__) == ("charge", "charge", HERE)
    assert inspect.isfunction(charge)
    assert inspect.getsource(charge).startswith("@readmit.tool")
    assert typing.get_type_hints(charge)["cents"] is int


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters are of Python 3.12")
def test_type_parameters_are_kept(stage: Stage) -> None:
    space: dict[str, Any] = {"__name__": "generic"}
    exec("def first[T](items: list[T]) -> T: return items[0]", space)
    tool = stage.guard.tool(effect="write")(space["first"])
    assert [p.__name__ for p in tool.__type_params__] == ["T"]
    assert tool([3, 4]) == 3


def test_each_kind_is_still_its_kind(stage: Stage) -> None:
    guard = stage.guard

    @guard.tool(effect="write")
    async def coroutine() -> None: ...

    @guard.tool(effect="write")
    def generator() -> Any:
        yield

    @guard.tool(effect="write")
    async def async_generator() -> Any:
        yield

    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator)
    assert inspect.isasyncgenfunction(async_generator)
    assert not inspect.iscoroutinefunction(charge)


def test_a_tool_is_copied_and_pickled_as_a_function_is() -> None:
    """Frameworks copy agents with their tools deeply, and process pools pickle what they run."""
    assert copy.copy(charge) is charge
    assert copy.deepcopy({"tools": [charge]}) == {"tools": [charge]}
    assert pickle.loads(pickle.dumps(charge)) is charge


class Till:
    """Has no canonical encoding."""

    def __init__(self, name: str) -> None:
        self.name = name

    @readmit.tool(effect="write", exclude=("self",))
    def open(self, cents: int) -> str:
        return f"{self.name} {cents}"


def test_a_guarded_method_is_copied_and_pickled_with_its_object() -> None:
    bound: Any = Till("left").open
    for again in (copy.copy(bound), copy.deepcopy(bound), pickle.loads(pickle.dumps(bound))):
        assert again.__self__.name == "left"
        assert again.__func__.__qualname__ == "Till.open"


# -- methods ------------------------------------------------------------------------------------------------------


class Shop:
    """Guarded in each order of decorators, on a guard that a test gives it."""

    made: typing.ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        self.name = name


def guarded_shop(stage: Stage) -> type[Any]:
    tool = stage.guard.tool

    class Guarded(Shop):
        @tool(effect="write", digest_with={"self": lambda shop: shop.name})
        def method(self, cents: int) -> str:
            return f"{self.name} {cents}"

        @tool(effect="write")
        @classmethod
        def inner_class(cls, cents: int) -> str:
            return f"{cls.__name__} {cents}"

        @classmethod
        @tool(effect="write")
        def outer_class(cls, cents: int) -> str:
            return f"{cls.__name__} {cents}"

        @tool(effect="write")
        @staticmethod
        def inner_static(cents: int) -> str:
            return f"static {cents}"

        @staticmethod
        @tool(effect="write")
        def outer_static(cents: int) -> str:
            return f"static {cents}"

    class Child(Guarded):
        """Another class, whose calls mean something else."""

    Guarded.child = Child  # type: ignore[attr-defined]
    return Guarded


def digests(stage: Stage) -> list[str]:
    return [attributes(s)["readmit.input.digest"] for s in stage.spans("execute")]


def test_a_method_is_called_through_the_object_or_the_class(stage: Stage) -> None:
    guarded = guarded_shop(stage)
    assert guarded("left").method(5) == "left 5"
    assert guarded.method(guarded("left"), 5) == "left 5"
    assert guarded("right").method(5) == "right 5"
    same, again, other = digests(stage)
    assert same == again != other


@pytest.mark.parametrize("name", ["inner_class", "outer_class"])
def test_a_classmethod_in_either_order(stage: Stage, name: str) -> None:
    guarded = guarded_shop(stage)
    assert getattr(guarded, name)(5) == "Guarded 5"
    assert getattr(guarded("left"), name)(5) == "Guarded 5"
    assert getattr(guarded.child, name)(5) == "Child 5"
    same, again, other = digests(stage)
    assert same == again != other, "the class that it is called on is a part of the intent"


@pytest.mark.parametrize("name", ["inner_static", "outer_static"])
def test_a_staticmethod_in_either_order(stage: Stage, name: str) -> None:
    guarded = guarded_shop(stage)
    assert getattr(guarded, name)(5) == "static 5"
    assert getattr(guarded("left"), name)(5) == "static 5"
    assert len(set(digests(stage))) == 1


def test_a_plain_parameter_that_is_called_cls_says_something(stage: Stage) -> None:
    ran: list[str] = []

    @stage.guard.tool(effect="write", key=lambda arguments: "k")
    def enrol(cls: str) -> None:
        ran.append(cls)

    enrol("maths")
    with pytest.raises(readmit.OccurrenceConflict, match="cls"):
        enrol("physics")
    assert ran == ["maths"]


def test_self_must_be_encodable_or_left_out(stage: Stage) -> None:
    class Wallet:
        ran = False

        @stage.guard.tool(effect="write")
        def pay(self, cents: int) -> None:
            Wallet.ran = True

    with pytest.raises(DigestError) as raised:
        Wallet().pay(5)
    said = str(raised.value)
    assert "parameter 'self'" in said
    assert 'exclude=("self",)' in said
    assert "digest_with=" in said
    assert not Wallet.ran
    assert stage.guard.pending() == []


# -- arguments without a digest -----------------------------------------------------------------------------------


class Opaque:
    """Nothing says what two of these have in common."""


def test_a_write_whose_arguments_have_no_digest_is_not_run(stage: Stage) -> None:
    ran: list[object] = []

    @stage.guard.tool(effect="write", name="send")
    def send(to: str, connection: object) -> None:
        ran.append(connection)

    with pytest.raises(DigestError) as raised:
        send("ann", Opaque())
    assert str(raised.value).startswith("send: parameter 'connection' holds a value of type")
    assert 'exclude=("connection",)' in str(raised.value)
    assert ran == []
    assert stage.spans() == []


def test_a_read_whose_arguments_have_no_digest_runs_and_says_so_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    @stage.guard.tool(effect="read", name="look")
    def look(connection: object) -> str:
        return "seen"

    assert [look(Opaque()) for _ in range(3)] == ["seen"] * 3
    (said,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "look: parameter 'connection'" in said
    assert "exclude=" in said
    assert said.endswith("The read runs; its span has no digest.")
    assert "Nothing was run" not in said
    assert ["readmit.input.digest" in attributes(s) for s in stage.spans()] == [False] * 3


def test_a_read_runs_also_if_digest_with_raises(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    @stage.guard.tool(effect="read", digest_with={"row": lambda row: row["id"]})
    def look(row: dict[str, int]) -> str:
        return "seen"

    assert look({}) == look({}) == "seen"
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1


def test_what_digest_with_raises_names_the_parameter(stage: Stage) -> None:
    @stage.guard.tool(effect="write", digest_with={"row": lambda row: row["id"]})
    def send(row: dict[str, int]) -> None:
        raise AssertionError("it was run")

    with pytest.raises(KeyError) as raised:
        send({})
    assert any("'row'" in note and "nothing was run" in note for note in raised.value.__notes__)


def test_arguments_that_do_not_fit_fail_as_they_would_without_a_guard(stage: Stage) -> None:
    with pytest.raises(TypeError, match=r"charge\(\) missing 1 required positional argument: 'order'"):
        charge()  # type: ignore[call-arg]
    assert stage.guard.pending() == []


@pytest.mark.parametrize("key", ["", None, 1.5, True, b"k"])
def test_a_business_key_that_is_none_is_refused(stage: Stage, key: object) -> None:
    @stage.guard.tool(effect="write", key="order")
    def pay(order: Any) -> None:
        raise AssertionError("it was run")

    with pytest.raises(ValueError, match="a business key is a text that is not empty, or an integer"):
        pay(key)


# -- what it does not take ----------------------------------------------------------------------------------------


def plain(order: str) -> None:
    """A function to decorate."""


def told(function: Any = plain, **given: Any) -> str:
    """The error that a decoration ends with."""
    with pytest.raises((TypeError, ValueError)) as raised:
        readmit.Guard(journal=":memory:").tool(**given)(function)
    return str(raised.value)


STATED = "write effect='read' for a tool without effect on the world, effect='write' for any other"


def test_the_effect_has_no_default() -> None:
    assert told() == f"{HERE}.plain: effect= is not stated; {STATED}"


@pytest.mark.parametrize("effect", ["writes", "READ", None, True])
def test_a_misspelt_effect_says_what_to_write(effect: object) -> None:
    assert told(effect=effect) == f"{HERE}.plain: effect={effect!r}; {STATED}"


def test_without_parentheses() -> None:
    with pytest.raises(TypeError, match=r"write @readmit\.tool\(effect=…\) above <function plain"):
        readmit.tool(plain)  # type: ignore[arg-type, call-arg]
    with pytest.raises(TypeError, match=r"write @readmit\.tool\(effect=…\), not tool\('write'\)"):
        readmit.tool("write")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "dry"}, "mode='dry'; write 'enforce' or 'observe'"),
        ({"contract": Contract}, "write a readmit.Contract(…)"),
        ({"approval": "yes"}, "approval='yes'; write True, False or a readmit.Approval(…)"),
        ({"approval": Approval}, "write True, False or a readmit.Approval(…)"),
        ({"approval": None}, "write True, False or a readmit.Approval(…)"),
        ({"key": 7}, "key=7; write a parameter's name, or a function of the bound arguments"),
        ({"key": "ordre"}, "'ordre' is not a parameter of this tool; it has: order"),
        ({"exclude": "order"}, 'exclude=("order",)'),
        ({"exclude": ("ordre",)}, "'ordre' is not a parameter of this tool; it has: order"),
        ({"reconcile": True}, "reconcile=True is not callable; write a function"),
        ({"compensate": "refund"}, "compensate='refund' is not callable; write a function"),
        ({"classify": "committed"}, "classify='committed' is not callable; write a function"),
        ({"name": ""}, "name=''; a tool's name is a text that is not empty"),
    ],
)
def test_what_no_rule_knows_fails_at_decoration(given: dict[str, Any], said: str) -> None:
    assert said in told(effect="write", **given)


def boolean(question: Question) -> bool:
    return True


async def boolean_later(question: Question) -> bool:
    return True


def perhaps(question: Question) -> Present | bool:
    return True


@pytest.mark.parametrize("hook", [boolean, boolean_later, perhaps])
def test_a_reconcile_hook_that_promises_a_bool_fails_at_decoration(hook: Callable[..., Any]) -> None:
    async def tool() -> None: ...

    said = told(tool, effect="write", reconcile=hook)
    assert "return Present(receipt), Absent(authoritative=…) or Unclear(why)" in said


async def asked_later(arguments: Any) -> Any:
    return Absent(authoritative=True)


later: Any = asked_later


@pytest.mark.parametrize(
    "given", [{"reconcile": later}, {"approval": Approval(when=later)}, {"approval": Approval(target=later)}]
)
def test_an_async_hook_needs_an_async_tool(given: dict[str, Any]) -> None:
    assert "is async, but the tool is not async; write a plain function" in told(effect="write", **given)


def test_a_classifier_is_a_plain_function() -> None:
    async def tool() -> None: ...

    assert "is async, but a classifier reads a result" in told(tool, effect="write", classify=later)


@pytest.mark.parametrize("odd", [functools.partial(plain, "a"), Till, object()])
def test_only_functions_and_methods_are_decorated(odd: object) -> None:
    assert "is not a function or a method: write a def around it" in told(odd, effect="write")


def test_a_tool_is_guarded_once(stage: Stage) -> None:
    tool = stage.guard.tool(effect="write")
    for guarded in (tool(plain), Till("left").open):
        with pytest.raises(TypeError, match="is a guarded tool already"):
            tool(guarded)


def test_a_bound_method_and_a_wrapped_function_are_tools_like_others(stage: Stage) -> None:
    class Client:
        def __init__(self) -> None:
            self.sent: list[str] = []

        def send(self, to: str) -> str:
            self.sent.append(to)
            return to

    def logged(function: Callable[P, str]) -> Callable[P, str]:
        @functools.wraps(function)
        def inner(*args: P.args, **kwargs: P.kwargs) -> str:
            return function(*args, **kwargs)

        return inner

    client = Client()
    send = stage.guard.tool(effect="write", exclude=("self",))(client.send)
    assert send("ann") == "ann"
    assert client.sent == ["ann"]

    @stage.guard.tool(effect="write", key="order")
    @logged
    def pay(order: str) -> str:
        return "paid"

    assert [pay("a"), pay(order="a")] == ["paid", "paid"]
    assert len(stage.spans("execute")) == 2, "the second one got what was recorded"


# -- names --------------------------------------------------------------------------------------------------------


def test_two_functions_under_one_name_fail_at_decoration(stage: Stage) -> None:
    stage.guard.tool(effect="write", name="pay")(plain)
    with pytest.raises(ValueError, match=f"named 'pay': {HERE}.plain and {HERE}.boolean.*give one a name="):
        stage.guard.tool(effect="write", name="pay")(boolean)


def test_a_notebook_cell_runs_again(stage: Stage) -> None:
    """The second run makes another function of the same name; the first one's open occurrences are still found."""
    cell = "@tool(effect='write', name=None)\ndef pay(cents):\n    raise TimeoutError"
    for changed in (cell, cell + "  # an edit"):
        space: dict[str, Any] = {"__name__": "__main__", "tool": stage.guard.tool}
        exec(changed, space)
    with pytest.raises(TimeoutError):
        space["pay"](5)
    exec(cell, space)
    with pytest.raises(readmit.ReplayRefused):
        space["pay"](5)


def test_a_cell_that_changes_the_signature_does_not_pass_unseen(stage: Stage) -> None:
    space: dict[str, Any] = {"__name__": "__main__", "tool": stage.guard.tool}
    exec("@tool(effect='write')\ndef pay(cents): raise TimeoutError", space)
    with pytest.raises(TimeoutError):
        space["pay"](5)
    exec("@tool(effect='write')\ndef pay(cents, currency='EUR'): return 'paid'", space)
    with pytest.raises(readmit.OccurrenceConflict, match="signature"):
        space["pay"](5)
    assert space["pay"](6) == "paid"


def test_readmit_tool_belongs_to_the_default_guard_that_is_configured_later() -> None:
    tool = readmit.tool(effect="write", name="configured later")(plain)
    guard = readmit.configure(journal=":memory:")
    try:
        tool("a")
        assert guard.spec_of("configured later") is not None
    finally:
        readmit.configure(journal=":memory:").close()


# -- what the tool raises -----------------------------------------------------------------------------------------


class Declined(Exception):
    """The tool's own."""


def test_the_tools_own_exception_passes_unchanged(stage: Stage) -> None:
    error = Declined("card")
    error.add_note("of the tool")

    @stage.guard.tool(effect="write")
    def pay(cents: int) -> None:
        raise error

    with pytest.raises(Declined) as raised:
        pay(5)
    assert raised.value is error
    assert raised.value.__notes__ == ["of the tool"]
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    frames = traceback.extract_tb(raised.tb)
    assert [frames[0].name, frames[-1].name] == ["test_the_tools_own_exception_passes_unchanged", "pay"]
    assert len(frames) <= 9, "what lies between is a handful of frames"


@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_stop_iteration_of_a_plain_function_stays_one(stage: Stage, effect: typing.Literal["read", "write"]) -> None:
    @stage.guard.tool(effect=effect)
    def take(cents: int) -> int:
        return next(iter(()))

    with pytest.raises(StopIteration):
        take(5)


def test_a_chain_of_causes_is_kept(stage: Stage) -> None:
    @stage.guard.tool(effect="write")
    def pay(cents: int) -> None:
        try:
            raise KeyError("cents")
        except KeyError as missing:
            raise Declined("card") from missing

    with pytest.raises(Declined) as raised:
        pay(5)
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_plain_function_that_hands_out_a_coroutine_has_not_run(stage: Stage) -> None:
    async def body() -> None:
        raise AssertionError("it was run")

    @stage.guard.tool(effect="write", name="pay")
    def pay(cents: int) -> Any:
        return body()

    with pytest.raises(TypeError, match=r"pay is a plain function and returned a coroutine.*decorate the coroutine"):
        pay(5)
    assert stage.waiting().state == "unknown", "what the plain function did before is not known"


# -- hooks see the bound arguments --------------------------------------------------------------------------------


def test_hooks_are_given_the_bound_arguments(stage: Stage) -> None:
    seen: list[Mapping[str, Any]] = []

    def small(arguments: Mapping[str, Any]) -> bool:
        seen.append(arguments)
        return False

    approval = Approval(expires=timedelta(minutes=1), when=small)

    @stage.guard.tool(effect="write", approval=approval, key=lambda arguments: f"{arguments['order']}!")
    def pay(order: str, cents: int = 7) -> str:
        return "paid"

    assert pay("a") == "paid"
    assert [dict(a) for a in seen] == [{"order": "a", "cents": 7}]
