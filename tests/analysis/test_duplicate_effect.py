from __future__ import annotations

from pathlib import Path

import pytest

from readmit_analysis import Findings, load
from tests.analysis.scene import MS, SECOND, Scene, span_id

ARGS = '{"to": "ada", "text": "hi"}'
SAME = '{"text":"hi","to":"ada"}'
OTHER = '{"to": "bob", "text": "hi"}'
CALL = "call_7fT2kPq9aXw1"


def found(path: Path, verdict: str = "duplicate_effect") -> list[tuple[str, list[str]]]:
    with load(path) as traces:
        return shape(traces.findings(verdict))


def shape(findings: Findings) -> list[tuple[str, list[str]]]:
    return [(str(finding.confidence), [span.span_id for span in finding.spans]) for finding in findings]


def ok(
    scene: Scene, tool: str = "send", arguments: str | None = ARGS, *, sends: int | None = 200, **options: object
) -> str:
    with scene.tool(tool, arguments, **options) as span:  # type: ignore[arg-type]
        if sends:
            scene.send(sends)
    return span_id(span)


def lost(scene: Scene, tool: str = "send", arguments: str | None = ARGS, **options: object) -> str:
    with scene.tool(tool, arguments, error="httpx.ReadTimeout", **options) as span:  # type: ignore[arg-type]
        scene.send(None, error="httpx.ReadTimeout")
    return span_id(span)


class TestForeignCalls:
    def test_a_call_repeated_after_its_answer_was_lost(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            first = lost(scene)
            scene.chat()
            second = ok(scene, arguments=SAME)
        assert found(tmp_path) == [("likely", [first, second])]

    def test_in_separate_traces_of_one_conversation(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            first = lost(scene, conversation="c1")
            scene.wait(3600 * SECOND)
            second = ok(scene, conversation="c1")
            ok(scene, conversation="c2")
        assert found(tmp_path) == [("likely", [first, second])]

    def test_in_separate_traces_without_a_conversation_close_in_time(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            first = lost(scene)
            scene.wait(5 * SECOND)
            second = ok(scene)
            scene.wait(5 * SECOND)
            ok(scene)
        assert found(tmp_path) == [("likely", [first, second])]

    def test_far_apart_in_time_nothing_connects_them(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            lost(scene)
            scene.wait(3600 * SECOND)
            ok(scene)
        assert found(tmp_path) == []

    def test_a_tool_without_traced_requests_may_be_a_read(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            first = ok(scene, "get_weather", sends=None, error="TimeoutError")
            second = ok(scene, "get_weather", sends=None)
        assert found(tmp_path) == [("cannot_tell", [first, second])]

    def test_only_safe_requests_below_is_a_read(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            with scene.tool("get_weather", ARGS, error="ReadTimeout"):
                scene.send(None, method="GET", error="ReadTimeout")
            with scene.tool("get_weather", ARGS):
                scene.send(200, method="GET")
        assert found(tmp_path) == []

    def test_one_call_id_run_twice_at_the_same_time(self, tmp_path: Path) -> None:
        """A queue hands out the call again while the first is still running."""
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run") as run:
            scene.chat()
            with scene.tool("send", ARGS, call_id=CALL) as first:
                scene.send()
                with scene.tool("send", ARGS, call_id=CALL, parent=run) as second:
                    scene.send()
        assert found(tmp_path) == [("likely", [span_id(first), span_id(second)])]

    def test_two_ids_without_a_turn_in_between_may_be_one_response(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            scene.chat()
            first, second = ok(scene, call_id="u1"), ok(scene, call_id="u2")
        assert found(tmp_path) == [("cannot_tell", [first, second])]

    def test_the_recorded_output_does_not_list_the_second(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            scene.chat(gen_ai__output__messages='[{"parts":[{"type":"tool_call","id":"u1"}]}]')
            first, second = ok(scene, call_id="u1"), ok(scene, call_id="u2")
        assert found(tmp_path) == [("likely", [first, second])]

    def test_the_recorded_output_lists_both(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            scene.chat(gen_ai__output__messages='[{"parts":[{"id":"u1"},{"id":"u2"}]}]')
            first, second = ok(scene, call_id="u1"), ok(scene, call_id="u2")
        assert found(tmp_path) == []
        assert found(tmp_path, "legitimate_repeat") == [("likely", [first, second])]

    def test_siblings_below_one_outer_span_are_executions(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS, call_id=CALL):
            first, second = lost(scene, arguments=None), ok(scene, arguments=None)
        assert found(tmp_path) == [("likely", [first, second])]

    def test_a_refused_connection_in_between_settles_nothing(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            first = lost(scene)
            with scene.tool("send", ARGS, error="httpx.ConnectError"):
                scene.send(None, error="httpx.ConnectError")
            third = ok(scene)
        assert found(tmp_path) == [("likely", [first, third])]

    def test_after_a_challenge_it_cannot_tell(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            with scene.tool("send", ARGS, error="HTTPStatusError") as first:
                scene.send(401)
            second = ok(scene)
        assert found(tmp_path) == [("cannot_tell", [span_id(first), second])]

    def test_one_id_after_the_model_saw_the_success_cannot_tell(self, tmp_path: Path) -> None:
        """Replayed history runs an approved call again; or the provider hands out one id twice."""
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            first = ok(scene, call_id=CALL)
            scene.chat()
            second = ok(scene, call_id=CALL)
        assert found(tmp_path) == [("cannot_tell", [first, second])]


class TestForeignLookAlikes:
    def test_a_model_turn_saw_the_success(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            first = ok(scene, call_id="c1")
            scene.chat(gen_ai__input__messages='[{"parts":[{"type":"tool_call_response","id":"c1"}]}]')
            second = ok(scene, call_id="c2")
        assert found(tmp_path) == []
        assert found(tmp_path, "legitimate_repeat") == [("likely", [first, second])]

    def test_a_turn_that_did_not_read_the_result_excuses_nothing(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            first = ok(scene, call_id="c1")
            scene.chat(gen_ai__input__messages='[{"parts":[{"type":"text","content":"go on"}]}]')
            second = ok(scene, call_id="c1")
        assert found(tmp_path) == [("likely", [first, second])]

    @pytest.mark.parametrize("arguments", [None, "", "<not specified>", '{"to":"[REDACTED]"}', '{"to": "ada", "te'])
    def test_unknown_arguments_are_not_equal(self, tmp_path: Path, arguments: str | None) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            lost(scene, arguments=arguments)
            ok(scene, arguments=arguments)
        assert found(tmp_path) == []

    def test_one_id_with_other_arguments(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            first = lost(scene, call_id="call_0")
            scene.chat()
            second = ok(scene, arguments=OTHER, call_id="call_0")
        assert found(tmp_path) == []
        assert found(tmp_path, "id_reuse") == [("confirmed", [first, second])]

    def test_exported_twice(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            one = ok(scene, call_id=CALL)
        (tmp_path / "copy.jsonl").write_bytes((tmp_path / "t.jsonl").read_bytes())
        assert found(tmp_path) == []
        assert [(c, one in spans) for c, spans in found(tmp_path, "export_duplicate")] == [("confirmed", True)]

    def test_nested_layers(self, tmp_path: Path) -> None:
        with (
            Scene(tmp_path / "t.jsonl") as scene,
            scene.tool("send", ARGS, call_id=CALL) as outer,
            scene.tool("app.tools.send", SAME) as inner,
        ):
            scene.send()
        assert found(tmp_path) == []
        assert found(tmp_path, "layered_spans") == [("confirmed", [span_id(outer), span_id(inner)])]

    def test_twins_to_the_nanosecond(self, tmp_path: Path) -> None:
        with (
            Scene(tmp_path / "t.jsonl") as scene,
            scene.span("run") as run,
            scene.tool("send", ARGS, call_id=CALL, lasts=0) as one,
            scene.tool("send", ARGS, call_id=CALL, parent=run) as two,
        ):
            pass
        assert found(tmp_path) == []
        assert found(tmp_path, "layered_spans") == [("likely", [span_id(one), span_id(two)])]

    def test_overlap_by_the_clocks_of_two_hosts(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "a.jsonl") as here, here.span("run") as run:
            ok(here, call_id="u1", lasts=500 * MS)
            with Scene(tmp_path / "b.jsonl", service="worker", host="host-2", seed=2) as there:
                ok(there, call_id="u2", parent=run)
        assert found(tmp_path) == []

    def test_equal_calls_of_many_users(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            for _ in range(5):
                ok(scene)
                scene.wait(SECOND)
        assert found(tmp_path) == []

    def test_rejected_first(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            with scene.tool("send", ARGS, error="HTTPStatusError") as first:
                scene.send(422)
            second = ok(scene)
        assert found(tmp_path) == []
        assert found(tmp_path, "justified_replay") == [("likely", [span_id(first), second])]

    def test_another_agent_s_turn_is_not_the_one_that_saw(self, tmp_path: Path) -> None:
        agent = {"gen_ai.operation.name": "invoke_agent"}
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run") as run, scene.span("invoke_agent a", agent):
            first = ok(scene)
            with scene.span("invoke_agent b", agent, parent=run):
                scene.chat()
            second = ok(scene)
        assert found(tmp_path) == [("cannot_tell", [first, second])]


class TestSends:
    def resend(self, tmp_path: Path, first: int | None, second: int | None = 200, **attributes: object) -> Findings:
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS):
            scene.send(first, error=None if first else "httpx.ReadError")
            scene.send(second, **attributes)  # type: ignore[arg-type]
        with load(tmp_path) as traces:
            return traces.findings()

    def test_a_retry_loop_after_a_lost_answer(self, tmp_path: Path) -> None:
        (finding,) = self.resend(tmp_path, None)
        assert (finding.verdict, finding.confidence, finding.tool) == ("duplicate_effect", "likely", "send")
        assert len(finding.spans) == 2

    def test_the_client_counts_it_as_a_resend(self, tmp_path: Path) -> None:
        (finding,) = self.resend(tmp_path, 500, http__request__resend_count=1)
        assert finding.confidence == "likely"
        assert "the client counted it as a resend" in finding.reasons

    def test_after_a_challenge_it_cannot_tell(self, tmp_path: Path) -> None:
        duplicate, authority = self.resend(tmp_path, 401)
        assert (duplicate.verdict, duplicate.confidence) == ("duplicate_effect", "cannot_tell")
        assert (authority.verdict, authority.confidence) == ("replay_on_authority_alone", "cannot_tell")

    @pytest.mark.parametrize("status", [400, 404, 409, 412, 422])
    def test_a_repeat_that_collides_with_its_first_attempt(self, tmp_path: Path, status: int) -> None:
        duplicate, unsettled = self.resend(tmp_path, None, status, http__request__resend_count=1)
        assert (duplicate.verdict, duplicate.confidence) == ("duplicate_effect", "cannot_tell")
        assert any("happened once" in reason for reason in duplicate.reasons)
        assert unsettled.verdict == "unsettled_effect"

    @pytest.mark.parametrize(("status", "justification"), [(429, "rejected"), (422, "rejected")])
    def test_a_settled_first_request(self, tmp_path: Path, status: int, justification: str) -> None:
        (finding,) = self.resend(tmp_path, status)
        assert (finding.verdict, finding.justification) == ("justified_replay", justification)

    def test_many_messages_to_one_address(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send_all", ARGS):
            for _ in range(4):
                scene.send(200)
        assert found(tmp_path) == []

    def test_token_requests_and_reads_take_no_part(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS):
            for _ in range(2):
                scene.send(500, url="https://id.test/oauth/token")
                scene.send(500, method="GET")
        assert found(tmp_path) == []

    def test_a_client_instrumented_twice_sent_once(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS):
            attributes = {"http.request.method": "POST", "url.full": "http://api.test/messages"}
            with scene.span("POST", attributes, error="ReadError"):
                scene.send(None, error="ReadError")
        assert found(tmp_path) == []

    def test_a_downstream_service_s_requests_are_not_the_call_s(self, tmp_path: Path) -> None:
        downstream = "http://db.test/x"
        with (
            Scene(tmp_path / "a.jsonl") as here,
            here.tool("send", ARGS),
            here.span("POST", {"http.request.method": "POST", "url.full": "http://api.test/m"}) as client,
            Scene(tmp_path / "b.jsonl", service="api", seed=2) as there,
        ):
            there.send(500, url=downstream, parent=client)
            there.send(200, url=downstream, parent=client)
        with load(tmp_path) as traces:
            rows = traces.sql("SELECT effectful_sends FROM tool_calls").fetchall()
        assert rows == [(1,)]


class TestEpochs:
    def test_observed_and_committed_twice(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            with scene.epoch("o1", 1, effect="committed", mode="observe"):
                pass
            with scene.epoch(
                "o1", 2, effect="committed", mode="observe", decision="observed", refusal="already_committed"
            ):
                pass
        with load(tmp_path) as traces:
            (finding,) = traces.findings("duplicate_effect")
        assert (finding.confidence, finding.occurrence_id, len(finding.spans)) == ("confirmed", "o1", 2)
        assert "already_committed" in (finding.not_benign_because or "")

    def test_observed_after_unknown(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            with scene.epoch("o1", 1, effect="unknown", mode="observe"):
                pass
            with scene.epoch("o1", 2, effect="committed", mode="observe", decision="observed", before="unknown"):
                pass
        assert [confidence for confidence, _ in found(tmp_path)] == ["likely"]

    def test_observed_after_an_epoch_that_died(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            with scene.epoch("o1", 1, effect=None, mode="observe", executes=False):
                pass
            with scene.epoch("o1", 2, effect="committed", mode="observe", decision="observed", before="unknown"):
                pass
        assert [(confidence, len(spans)) for confidence, spans in found(tmp_path)] == [("likely", 2)]

    @pytest.mark.parametrize("justification", ["idempotency_key", "ambiguity_accepted", "idempotent", "bounded_retry"])
    def test_a_justified_replay_is_none(self, tmp_path: Path, justification: str) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            with scene.epoch("o1", 1, effect="unknown"):
                pass
            with scene.epoch("o1", 2, effect="committed", justification=justification, before="unknown"):
                pass
        assert found(tmp_path) == []
        with load(tmp_path) as traces:
            (finding,) = traces.findings("justified_replay")
        assert (finding.confidence, finding.justification, len(finding.spans)) == ("confirmed", justification, 2)

    def test_a_justification_that_the_evidence_refutes(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            with scene.epoch("o1", 1, effect="committed"):
                pass
            with scene.epoch("o1", 2, effect="committed", justification="not_sent"):
                pass
        assert [confidence for confidence, _ in found(tmp_path)] == ["confirmed"]
        assert found(tmp_path, "justified_replay") == []

    @pytest.mark.parametrize("effect", ["rejected", "not_sent"])
    def test_observed_after_no_effect(self, tmp_path: Path, effect: str) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            with scene.epoch("o1", 1, effect=effect, mode="observe"):
                pass
            with scene.epoch(
                "o1", 2, effect="committed", mode="observe", decision="observed", refusal="permit_missing"
            ):
                pass
        assert found(tmp_path) == []

    def test_after_a_compensation(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            with scene.epoch("o1", 1, effect="committed"):
                pass
            scene.act("compensate", "o1", effect__state="compensated")
            with scene.epoch("o1", 2, effect="committed", justification="compensated", before="compensated"):
                pass
        assert found(tmp_path) == []

    def test_emitted_from_the_journal_too(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "live.jsonl") as scene, scene.epoch("o1", 1, effect="unknown"):
            pass
        with Scene(tmp_path / "journal.jsonl") as scene, scene.epoch("o1", 1, effect="committed", from_journal=True):
            scene.wait(MS)
        with load(tmp_path) as traces:
            assert traces.findings("duplicate_effect") == []
            assert traces.sql("SELECT effect_state, from_journal FROM epochs").fetchall() == [("committed", True)]
            reasons = {reason for finding in traces.findings("export_duplicate") for reason in finding.reasons}
        assert "some were emitted again from the journal" in reasons

    def test_the_live_span_wins_where_both_are_equally_late(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "a_live.jsonl") as scene, scene.epoch("o1", 1, effect="committed"):
            pass
        with Scene(tmp_path / "b_journal.jsonl") as scene, scene.epoch("o1", 1, effect="committed", from_journal=True):
            pass
        with load(tmp_path) as traces:
            assert traces.sql("SELECT from_journal FROM epochs").fetchall() == [(False,)]

    def test_one_number_twice(self, tmp_path: Path) -> None:
        """Two processes that do not share a journal."""
        for seed, name in enumerate(["a", "b"], start=1):
            with Scene(tmp_path / f"{name}.jsonl", seed=seed) as scene, scene.epoch("o1", 1, effect="committed"):
                scene.wait(seed)
        with load(tmp_path) as traces:
            (finding,) = traces.findings("duplicate_effect")
        assert finding.confidence == "confirmed"
        assert "one epoch number" in finding.why

    def test_a_refused_repeat_below_a_framework_s_span_is_no_execution(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            ours = {"readmit__occurrence__id": "o1", "readmit__effect__state": "unknown"}
            with (
                scene.tool("send_message", ARGS, call_id="c1", error="ReadTimeout"),
                scene.epoch("o1", 1, tool="app.send_message", effect="unknown", error="ReadTimeout"),
            ):
                scene.send(None, error="ReadTimeout", **ours)
            with scene.tool("send_message", ARGS, call_id="c2", error="ReplayRefused"):
                scene.act("admit", "o1", tool="app.send_message", admission__decision="refuse", effect__state="unknown")
        assert found(tmp_path) == []

    def test_an_equal_call_after_a_delivered_commit(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            for occurrence in ("o1", "o2"):
                with scene.epoch(occurrence, 1, effect="committed"):
                    pass
        assert found(tmp_path) == []
        assert [confidence for confidence, _ in found(tmp_path, "legitimate_repeat")] == ["confirmed"]

    def test_an_observed_resend_inside_an_epoch(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.epoch("o1", 1, effect="committed", mode="observe"):
            scene.send(None, error="ReadError", readmit__effect__state="unknown")
            scene.send(200, readmit__effect__state="committed", http__request__resend_count=1)
        with load(tmp_path) as traces:
            (finding,) = traces.findings("duplicate_effect")
        assert (finding.confidence, finding.occurrence_id) == ("likely", "o1")

    def test_a_resend_that_enforce_mode_let_pass_under_a_contract(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.epoch("o1", 1, effect="committed", contract="stripe"):
            scene.send(None, error="ReadError", readmit__effect__state="unknown")
            scene.send(200, readmit__effect__state="committed", http__request__resend_count=1)
        assert found(tmp_path) == []
        with load(tmp_path) as traces:
            assert [finding.justification for finding in traces.findings("justified_replay")] == ["contract"]
