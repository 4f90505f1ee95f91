"""The public names as a person meets them: in `help()`, in an editor, in a traceback."""

from __future__ import annotations

import inspect
import pickle

import pytest

import readmit

FUNCTIONS = [
    *("tool", "pending", "show", "approve", "deny", "revoke", "authenticated"),
    *("reconcile", "accept", "compensate", "declare_unknown", "abandon"),
]
ERRORS = [e for n in readmit.__all__ if isinstance(e := getattr(readmit, n), type) and issubclass(e, Exception)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_default_guard_has_the_text_of_the_guards_own(name: str) -> None:
    function, method = getattr(readmit, name), getattr(readmit.Guard, name)
    assert function.__doc__ is method.__doc__
    assert list(inspect.signature(function).parameters) == list(inspect.signature(method).parameters)[1:]
    for parameter in inspect.signature(function).parameters:
        assert f"{parameter}: " in (inspect.getdoc(function) or ""), f"{parameter} is not explained"


def test_the_decorator_shows_what_it_takes() -> None:
    parameters = inspect.signature(readmit.tool).parameters
    assert list(parameters) == [
        *("effect", "contract", "key", "approval", "exclude", "digest_with"),
        *("reconcile", "compensate", "classify", "name", "mode"),
    ]
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert parameters["effect"].default is inspect.Parameter.empty, "the dangerous choice has no default"
    assert "contract: 'Contract' = Contract()" in str(inspect.signature(readmit.tool))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_is_called_by_its_public_name(error: type[Exception]) -> None:
    assert getattr(readmit, error.__name__) is error
    assert pickle.loads(pickle.dumps(error)) is error
    assert error.__module__ == "readmit", "a traceback says readmit.X"
