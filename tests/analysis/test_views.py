from __future__ import annotations

import json
from pathlib import Path

import pytest

from readmit_analysis import load
from tests.analysis.documents import attribute, document, span
from tests.analysis.scene import Scene

ARGS = '{"to": "ada"}'


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with load(path) as traces:
        return traces.sql(query).fetchall()


class TestContext:
    def test_the_conversation_of_a_span_above(self, tmp_path: Path) -> None:
        """As google-adk writes it: on the agent's span only."""
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("invoke_agent a", {"gen_ai.conversation.id": "c1"}):
            with scene.span("step"), scene.tool("send", ARGS):
                pass
            with scene.tool("send", ARGS, conversation="c2"):
                pass
        assert rows(tmp_path, "SELECT conversation_id FROM tool_calls ORDER BY start_ns") == [("c1",), ("c2",)]

    def test_the_only_conversation_of_a_trace(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.span("run"):
            scene.chat(gen_ai__conversation__id="c1")
            with scene.tool("send", ARGS):
                pass
        assert rows(tmp_path, "SELECT conversation_id, link FROM tool_calls") == [("c1", "conversation c1")]

    def test_parents_in_a_circle(self, tmp_path: Path) -> None:
        tool = [attribute("gen_ai.tool.name", stringValue="t")]
        one = span(1, traceId=span(9)["traceId"], parentSpanId=span(2)["spanId"], attributes=tool)
        two = span(2, traceId=span(9)["traceId"], parentSpanId=span(1)["spanId"], attributes=tool)
        own = span(3, parentSpanId=span(3)["spanId"], attributes=tool)
        (tmp_path / "t.jsonl").write_text(json.dumps(document(one, two, own)))
        with load(tmp_path) as traces:
            assert traces.coverage.spans == 3
            traces.findings()


class TestSends:
    @pytest.mark.parametrize(
        ("status", "error", "state", "rule"),
        [
            (200, None, "committed", "http.2xx"),
            (204, None, "committed", "http.2xx"),
            (400, None, "rejected", "http.4xx"),
            (422, None, "rejected", "http.4xx"),
            (429, None, "rejected", "http.4xx"),
            (401, None, "unknown", "http.challenge"),
            (403, None, "unknown", "http.challenge"),
            (409, None, "unknown", "http.other"),
            (408, None, "unknown", "http.other"),
            (307, None, "unknown", "http.other"),
            (503, None, "unknown", "http.other"),
            (None, "httpx.ReadTimeout", "unknown", "http.no_response"),
            (None, None, "unknown", "http.no_response"),
            (None, "httpx.ConnectError", "not_sent", "http.not_connected"),
            (None, "urllib3.exceptions.NewConnectionError", "not_sent", "http.not_connected"),
        ],
    )
    def test_what_an_answer_says(
        self, tmp_path: Path, status: int | None, error: str | None, state: str, rule: str
    ) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            scene.send(status, error=error)
        assert rows(tmp_path, "SELECT effect_state, effect_rule FROM sends") == [(state, rule)]

    def test_what_readmit_says_comes_first(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            scene.send(401, readmit__effect__state="rejected", readmit__effect__rule="http.challenge")
        assert rows(tmp_path, "SELECT effect_state, effect_rule FROM sends") == [("rejected", "http.challenge")]

    @pytest.mark.parametrize(
        ("method", "url", "effectful"),
        [
            ("POST", "http://api.test/messages", True),
            ("DELETE", "http://api.test/messages/1", True),
            ("GET", "http://api.test/messages", False),
            ("POST", "https://id.test/oauth2/token", False),
            ("POST", "https://api.openai.com/v1/responses", False),
            ("POST", "http://llm.local/v1/chat/completions", False),
            ("POST", "http://api.test/tokens", True),
        ],
    )
    def test_which_requests_may_have_an_effect(self, tmp_path: Path, method: str, url: str, effectful: bool) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            scene.send(200, method=method, url=url)
        assert rows(tmp_path, "SELECT effectful FROM sends") == [(effectful,)]

    def test_the_older_names_of_the_conventions(self, tmp_path: Path) -> None:
        old = {"http.method": "POST", "http.url": "http://api.test/m", "http.status_code": 200}
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS):
            scene.leaf("POST", old)
        found = "SELECT method, url, status_code, effect_state FROM sends"
        assert rows(tmp_path, found) == [("POST", "http://api.test/m", 200, "committed")]
        assert rows(tmp_path, "SELECT effect_state FROM tool_calls") == [("committed",)]

    def test_requests_of_a_model_client_belong_to_the_model(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("summarise", ARGS):
            with scene.span("chat m", {"gen_ai.operation.name": "chat"}):
                scene.send(200, url="http://models.local/generate")
            scene.send(200)
        assert rows(tmp_path, "SELECT url FROM sends") == [("http://api.test/messages",)]


class TestToolCalls:
    @pytest.mark.parametrize(
        ("statuses", "failed", "state"),
        [
            ([], False, "unseen"),
            ([200], False, "committed"),
            ([200], True, "committed"),
            ([422], True, "rejected"),
            ([503], True, "unknown"),
            ([503], False, "unknown"),
            ([422, 503], True, "unknown"),
            ([503, 200], False, "committed"),
        ],
    )
    def test_the_effect_of_a_call(self, tmp_path: Path, statuses: list[int], failed: bool, state: str) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS, error="ValueError" if failed else None):
            for number, status in enumerate(statuses):
                scene.send(status, url=f"http://api.test/{number}")
        assert rows(tmp_path, "SELECT effect_state FROM tool_calls") == [(state,)]

    @pytest.mark.parametrize(
        "attributes",
        [
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "send"},
            {"gen_ai.tool.name": "send"},
            {},
        ],
    )
    def test_what_counts_as_a_tool_span(self, tmp_path: Path, attributes: dict[str, str]) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            scene.leaf("execute_tool send", attributes)
        assert rows(tmp_path, "SELECT tool FROM tool_calls") == [("send",)]

    def test_placeholders_for_a_call_id_are_none(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene:
            for call_id in ("<not specified>", "unknown", "", "c1"):
                with scene.tool("send", ARGS, call_id=call_id):
                    pass
        assert rows(tmp_path, "SELECT call_id FROM tool_calls ORDER BY start_ns") == [
            (None,),
            (None,),
            (None,),
            ("c1",),
        ]

    def test_a_layer_lends_what_the_execution_lacks(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("send", ARGS, call_id="c1"), scene.tool("x.send", None):
            pass
        found = rows(tmp_path, "SELECT tool, outer_tool, call_id, arguments, layers FROM tool_calls")
        assert found == [("x.send", "send", "c1", ARGS, 1)]

    def test_a_tool_that_calls_itself_with_other_arguments_is_no_layer(self, tmp_path: Path) -> None:
        with Scene(tmp_path / "t.jsonl") as scene, scene.tool("plan", ARGS), scene.tool("plan", '{"to": "bob"}'):
            pass
        assert rows(tmp_path, "SELECT count(*) FROM tool_calls") == [(2,)]
