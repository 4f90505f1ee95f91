"""The acts of people: recorded once confirmed, with who did it and through what."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import readmit as library
from readmit import Guard, ReplayRefused
from readmit.cli import _ids, main
from readmit.cli._key import make_key
from tests.cli.commands import Ran, at_terminal, readmit
from tests.cli.conftest import Scene


def act(scene: Scene, *arguments: str) -> Ran:
    """An act that a person confirms at a terminal."""
    return at_terminal(*arguments, "--journal", scene.journal, types=["yes"])


@pytest.fixture
def quick(scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """An act by a holder of the operator key, without the price of another process."""
    monkeypatch.setenv("READMIT_OPERATOR_KEY", make_key(scene.journal))

    def run(*arguments: str) -> Ran:
        code = main([*arguments, "--journal", str(scene.journal)])
        said = capsys.readouterr()
        return Ran(code, said.out + said.err)

    return run


def last(scene: Scene, occurrence_id: str) -> Any:
    """The newest event of an occurrence."""
    return scene.shown(occurrence_id)["events"][-1]


def test_approve_and_revoke(scene: Scene) -> None:
    done = act(scene, "approve", scene.request, "--by", "bob", "--expires", "30m")
    assert done.code == 0, done.out
    for word in (scene.request, scene.asking, "deploy.release", "ann", "30 min", "one dispatch of exactly this"):
        assert word in done.out
    permit = scene.shown(scene.asking)["permits"][0]
    assert (permit["source"], permit["granted_by"], permit["state"], permit["uses"]) == (
        "approval",
        "bob",
        "granted",
        1,
    )
    assert last(scene, scene.asking)["via"] == "cli:terminal"

    revoked = act(scene, "revoke", permit["permit_id"][:18], "--by", "bob")
    assert revoked.code == 0, revoked.out
    assert scene.asking in revoked.out
    assert scene.shown(scene.asking)["permits"][0]["state"] == "revoked"
    assert (last(scene, scene.asking)["kind"], last(scene, scene.asking)["via"]) == ("revoked", "cli:terminal")


def test_deny_is_terminal_and_a_later_yes_is_a_conflict(scene: Scene) -> None:
    assert act(scene, "deny", scene.request[:20], "--by", "bob").code == 0
    assert scene.shown(scene.asking)["open"] is False
    late = act(scene, "approve", scene.request, "--by", "eve")
    assert "nothing runs on either" in " ".join(late.out.split())


def test_reconcile_present_gives_the_result_to_the_next_call(scene: Scene) -> None:
    found = ("--present", "ch_1", "--result", '{"id": "ch_1"}')
    done = act(scene, "reconcile", scene.unknown, "--epoch", "1", "--by", "ann", *found)
    assert done.code == 0, done.out
    assert "found" in done.out and "present: ch_1" in done.out
    event = last(scene, scene.unknown)
    assert (event["finding"], event["receipt"], event["by"], event["via"]) == ("present", "ch_1", "ann", "cli:terminal")
    guard = Guard(journal=scene.journal)

    @guard.tool(effect="write", name="billing.charge")
    def charge(order: str) -> Any:
        raise AssertionError("must not run again")

    assert charge("o-1") == {"id": "ch_1"}
    guard.close()


@pytest.mark.parametrize(
    ("said", "finding", "state"),
    [
        (("--absent", "--authoritative"), "absent", "reconciled"),
        (("--absent", "--not-authoritative"), "absent_for_now", "unknown"),
        (("--unclear", "the list is down"), "unclear", "unknown"),
    ],
)
def test_reconcile_with_other_findings(
    scene: Scene, quick: Callable[..., Ran], said: tuple[str, ...], finding: str, state: str
) -> None:
    assert quick("reconcile", scene.unknown, "--epoch", "1", "--by", "ann", *said).code == 0
    assert last(scene, scene.unknown)["finding"] == finding
    assert scene.shown(scene.unknown)["effect"]["state"] == state


@pytest.mark.parametrize(
    "said",
    [
        (),
        ("--absent",),
        ("--authoritative",),
        ("--present", "x", "--absent", "--authoritative"),
        ("--present", "x", "--not-authoritative"),
        ("--unclear", "x", "--result", "1"),
        ("--present", "x", "--result", "{"),
    ],
)
def test_reconcile_needs_exactly_one_finding(scene: Scene, said: tuple[str, ...]) -> None:
    assert (
        main(["reconcile", scene.unknown, "--epoch", "1", "--by", "ann", *said, "--journal", str(scene.journal)]) == 2
    )


def test_accept_justifies_one_repeat(scene: Scene) -> None:
    done = act(scene, "accept", scene.unknown, "--epoch", "1", "--by", "ann", "--statement", "twice is fine")
    assert done.code == 0, done.out
    assert "TWICE" in done.out and "twice is fine" in done.out
    assert (last(scene, scene.unknown)["statement"], last(scene, scene.unknown)["via"]) == (
        "twice is fine",
        "cli:terminal",
    )
    guard = Guard(journal=scene.journal)

    @guard.tool(effect="write", name="billing.charge")
    def charge(order: str) -> str:
        return library.current().justification or ""

    assert charge("o-1") == "ambiguity_accepted"
    guard.close()


def test_compensate_and_abandon(scene: Scene, quick: Callable[..., Ran]) -> None:
    assert quick("compensate", scene.unknown, "--epoch", "1", "--by", "ann").code == 0
    assert scene.shown(scene.unknown)["effect"]["state"] == "compensated"
    done = quick("abandon", scene.asking, "--by", "ann", "--statement", "not wanted")
    assert done.code == 0, done.out
    assert (last(scene, scene.asking)["kind"], last(scene, scene.asking)["statement"]) == ("abandoned", "not wanted")
    assert scene.shown(scene.asking)["open"] is False


def test_abandon_of_an_unknown_effect_needs_a_statement(scene: Scene, quick: Callable[..., Ran]) -> None:
    done = quick("abandon", scene.unknown, "--by", "ann")
    assert done.code == 2
    assert "statement=" in done.out
    assert scene.shown(scene.unknown)["open"] is True


def test_authenticated_serves_what_the_principal_has_open(scene: Scene) -> None:
    nobody = act(scene, "authenticated", "--principal", "zoe")
    assert nobody.code == 1
    assert "would serve nothing" in nobody.out
    done = act(
        scene, "authenticated", "--principal", "ann", "--scope", "chat-1", "--subject", "ann@idp", "--issuer", "idp"
    )
    assert done.code == 0, done.out
    assert scene.asking in done.out and scene.unknown not in done.out
    event = last(scene, scene.asking)
    assert (event["kind"], event["via"], event["permit"]["source"]) == ("granted", "cli:terminal", "login")
    assert event["permit"]["binding"]["login"]


HANGS = """
import sys, readmit
guard = readmit.Guard(journal=sys.argv[1])

@guard.tool(effect="write", name="billing.charge")
def charge(order: str) -> None:
    print(readmit.current().occurrence_id, flush=True)
    sys.stdin.read()

charge("hangs")
"""


def test_declare_unknown_fences_an_epoch_in_flight(tmp_path: Path) -> None:
    journal = tmp_path / "readmit.db"
    with subprocess.Popen(
        [sys.executable, "-c", HANGS, str(journal)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        occurrence_id = process.stdout.readline().strip()
        (entry,) = readmit("pending", "--json", "--journal", journal).document
        assert (entry["state"], entry["remedies"]) == ("in_flight", ["declare_unknown"])
        done = at_terminal(
            *("declare_unknown", occurrence_id, "--epoch", "1", "--by", "ann", "--journal", journal), types=["yes"]
        )
        assert done.code == 0, done.out
        (entry,) = readmit("pending", "--json", "--journal", journal).document
        assert entry["state"] == "unknown"
        process.stdin.close()
        process.wait(timeout=30)


def test_what_does_not_fit_the_journal(scene: Scene, quick: Callable[..., Ran]) -> None:
    for code, *command in (
        (1, "approve", "nope", "--by", "ann"),
        (1, "revoke", "nope", "--by", "ann"),
        (1, "accept", scene.unknown, "--epoch", "7", "--by", "ann", "--statement", "x"),
        (1, "declare-unknown", scene.unknown, "--epoch", "1", "--by", "ann"),
        (2, "accept", scene.unknown, "--epoch", "1", "--by", " ", "--statement", "x"),
    ):
        done = quick(*command)
        assert done.code == code, done.out


AGAIN = "Nothing runs by itself: the program has to make the call again"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("approve", "{request}"), f"{AGAIN}, and it will then run (first_attempt)."),
        (("deny", "{request}"), "an equal call is a new occurrence, and needs an approval."),
        (("authenticated", "--principal", "ann"), "still refused (recovery_pending; closed: recovery, authority)."),
        (("accept", "{unknown}", "--epoch", "1", "--statement", "x"), f"{AGAIN}, and it will then run (ambiguity_acc"),
        (("reconcile", "{unknown}", "--epoch", "1", "--present", "r", "--result", "1"), "gets the recorded result"),
        (("reconcile", "{unknown}", "--epoch", "1", "--present", "r"), "it is then told that the effect is there"),
        (("reconcile", "{unknown}", "--epoch", "1", "--unclear", "r"), "still refused (effect_unknown; closed: eff"),
        (("compensate", "{unknown}", "--epoch", "1"), "it is not run, and asks for an approval (permit_missing)"),
        (("abandon", "{unknown}", "--statement", "x"), "This one is closed: an equal call is a new occurrence."),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_act_says_what_happens_next(
    scene: Scene, quick: Callable[..., Ran], arguments: tuple[str, ...], said: str
) -> None:
    by = () if arguments[0] == "authenticated" else ("--by", "bob")
    done = quick(*(a.format(request=scene.request, unknown=scene.unknown) for a in arguments), *by)
    assert done.code == 0, done.out
    assert said in " ".join(done.out.split())


def test_what_is_said_of_the_next_call_is_what_it_meets(scene: Scene, quick: Callable[..., Ran]) -> None:
    quick("approve", scene.request, "--by", "bob")
    guard = Guard(journal=scene.journal)

    @guard.tool(effect="write", name="deploy.release", approval=True)
    def release(version: str) -> str:
        return library.current().justification or ""

    with library.scope("chat-1", principal="ann"):
        assert release("1.2.3") == "first_attempt"
    guard.close()


def test_a_call_under_a_key_meets_a_closed_occurrence_again(tmp_path: Path) -> None:
    guard = Guard(journal=tmp_path / "readmit.db")
    seen: list[str] = []

    @guard.tool(effect="write", key="order", name="billing.charge")
    def charge(order: str) -> str:
        seen.append(library.current().occurrence_id)
        return order

    assert charge("o-1") == charge("o-1") == "o-1"
    guard.close()
    shown = Scene(tmp_path / "readmit.db", "", "", "", "").shown(seen[0])
    assert (len(seen), shown["open"], shown["next_call"]["decision"]) == (1, False, "return")


def test_every_command_takes_the_id_that_tables_show(scene: Scene, quick: Callable[..., Ran]) -> None:
    """A request that was answered and a permit of a closed occurrence are found as well."""
    guard = Guard(journal=scene.journal)
    short = {**_ids.short(guard, "request", [scene.request]), **_ids.short(guard, "occurrence", [scene.asking])}
    guard.close()
    assert quick("approve", short[scene.request], "--by", "bob").code == 0
    permit = scene.shown(scene.asking)["permits"][0]["permit_id"]
    assert quick("deny", short[scene.request], "--by", "bob").code == 0
    assert scene.shown(scene.asking)["open"] is False
    assert quick("revoke", permit[:18], "--by", "bob").code == 0
    assert quick("abandon", short[scene.asking], "--by", "bob").code == 0


def test_an_act_for_scripts_is_one_document(scene: Scene) -> None:
    done = act(scene, "accept", scene.unknown, "--epoch", "1", "--by", "ann", "--statement", "x", "--json")
    line = done.out.strip().splitlines()[-1]
    document = Ran(0, line[line.index("{") :]).document
    assert document["occurrences"][0].pop("remedies") == ["reconcile", "accept", "compensate", "abandon"]
    assert document == {
        "operation": "accept",
        "by": "ann",
        "via": "cli:terminal",
        "epoch": 1,
        "occurrences": [
            {
                "occurrence_id": scene.unknown,
                "recovery": "clear",
                "effect": "unknown",
                "open": True,
                "next_call": {"decision": "admit", "why": "ambiguity_accepted"},
            }
        ],
    }


def test_a_login_alone_admits_nothing(scene: Scene, quick: Callable[..., Ran]) -> None:
    assert quick("authenticated").code == 0
    guard = Guard(journal=scene.journal)

    @guard.tool(effect="write", name="billing.charge")
    def charge(order: str) -> None:
        raise AssertionError("must not run again")

    with pytest.raises(ReplayRefused):
        charge("o-1")
    guard.close()
