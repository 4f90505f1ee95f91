from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from readmit_analysis import Coverage, Progress, Traces, load
from tests.analysis.documents import attribute, document, line, span, tempo

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SAMPLES = Path(__file__).parent / "samples"


def numbers(traces: Traces) -> list[int]:
    return sorted(int(span_id, 16) for (span_id,) in traces.sql("SELECT span_id FROM spans").fetchall())


def read(*paths: Path) -> tuple[list[int], Coverage]:
    with load(*paths) as traces:
        return numbers(traces), traces.coverage


def reasons(coverage: Coverage) -> list[tuple[str, str, int | None, int]]:
    return [(reject.path.name, reject.reason, reject.line, reject.records) for reject in coverage.rejects]


class TestDialects:
    @pytest.mark.parametrize("indent", [None, 2])
    @pytest.mark.parametrize("dialect", [lambda value: value, tempo], ids=["otlp", "tempo"])
    def test_lines_documents_and_downloads(self, tmp_path: Path, dialect: Any, indent: int | None) -> None:
        value = dialect(document(span(1, parentSpanId="00000000000000ff"), span(2)))
        (tmp_path / "t.json").write_text(json.dumps(value, indent=indent))
        with load(tmp_path) as traces:
            rows = traces.sql(
                "SELECT span_id, parent_span_id, kind, service, scope FROM spans ORDER BY span_id"
            ).fetchall()
        assert rows == [
            ("0000000000000001", "00000000000000ff", "internal", "svc", "lib"),
            ("0000000000000002", None, "internal", "svc", "lib"),
        ]
        assert traces.coverage.rejects == ()

    def test_hex_and_base64_of_one_span_are_one_span(self, tmp_path: Path) -> None:
        value = document(span(1))
        upper = json.dumps(document({**span(1), "traceId": span(1)["traceId"].upper()}))
        (tmp_path / "a.jsonl").write_text(f"{json.dumps(value)}\n{upper}\n")
        (tmp_path / "b.json").write_text(json.dumps(tempo(value)))
        with load(tmp_path) as traces:
            assert (traces.coverage.spans, traces.coverage.copies) == (1, 2)
            assert [finding.verdict for finding in traces.findings()] == ["export_duplicate"]

    def test_numbers_as_numbers_or_text(self, tmp_path: Path) -> None:
        spans = [
            span(1, startTimeUnixNano=1_544_712_660_000_000_001, status={"code": 2, "message": "no"}, kind=3),
            span(
                2,
                startTimeUnixNano="1544712660000000001",
                status={"code": "STATUS_CODE_ERROR"},
                kind="SPAN_KIND_CLIENT",
            ),
            span(3, startTimeUnixNano=1.5e18, status={"code": "STATUS_CODE_OK"}, kind="SPAN_KIND_SERVER"),
            span(4, startTimeUnixNano="0", endTimeUnixNano="", status={}, kind=0),
            span(5, startTimeUnixNano="soon", endTimeUnixNano="9" * 30, status=None, kind=None),
        ]
        (tmp_path / "t.jsonl").write_text(json.dumps(document(*spans)))
        with load(tmp_path) as traces:
            rows = traces.sql("SELECT start_ns, status, kind FROM spans ORDER BY span_id").fetchall()
        assert rows == [
            (1_544_712_660_000_000_001, "error", "client"),
            (1_544_712_660_000_000_001, "error", "client"),
            (1_500_000_000_000_000_000, "ok", "server"),
            (None, "unset", "unspecified"),
            (None, "unset", None),
        ]
        assert traces.coverage.unfinished == 2

    def test_values_stay_as_they_were_written(self, tmp_path: Path) -> None:
        values = [
            attribute("a", intValue="12345678901234567890"),
            attribute("b", intValue=2),
            attribute("c", boolValue=True),
            attribute("d", doubleValue=1.5),
            attribute("e", arrayValue={"values": [{"stringValue": "x"}, {"intValue": "1"}]}),
            attribute("f", kvlistValue={"values": [{"key": "k", "value": {"stringValue": "v"}}]}),
            attribute("a", stringValue="a second one with the same key"),
            {"key": None, "value": None},
            "nonsense",
        ]
        (tmp_path / "t.jsonl").write_text(json.dumps(document(span(1, attributes=values))))
        with load(tmp_path) as traces:
            picked = [
                traces.sql(f"SELECT attribute(attributes, '{key}') FROM spans").fetchall()[0][0] for key in "abcdefg"
            ]
        assert picked[:4] == ["12345678901234567890", "2", "true", "1.5"]
        assert json.loads(picked[4]) == {"values": [{"stringValue": "x"}, {"intValue": "1"}]}
        assert json.loads(picked[5]) == {"values": [{"key": "k", "value": {"stringValue": "v"}}]}
        assert picked[6] is None

    def test_late_types_are_not_cast(self, tmp_path: Path) -> None:
        """Types inferred from the first 20,480 records would make `true` 1.0 and 1.5 two."""

        def call(number: int, **value: Any) -> str:
            found = [attribute("gen_ai.tool.name", stringValue="t"), attribute("gen_ai.tool.call.arguments", **value)]
            return json.dumps(document(span(number, attributes=found)))

        first = [call(number, intValue=1) for number in range(1, 20_500)]
        late = [call(30_001, boolValue=True), call(30_002, doubleValue=1.5), call(30_003, stringValue="1")]
        (tmp_path / "t.jsonl").write_text("\n".join([*first, *late]))
        with load(tmp_path) as traces:
            rows = traces.sql("SELECT DISTINCT arguments, arguments_key FROM tool_calls").fetchall()
        assert sorted(text for text, _ in rows) == ["1", "1", "1.5", "true"]
        assert len({key for _, key in rows}) == 4


class TestPacked:
    @pytest.mark.parametrize("pack", [gzip.compress, zstd.compress], ids=["gz", "zst"])
    def test_told_by_content_and_in_several_frames(self, tmp_path: Path, pack: Any) -> None:
        frames = [f"{line(1, 2)}\n".encode(), f"{line(3)}\n".encode()]
        (tmp_path / "no-suffix").write_bytes(b"".join(map(pack, frames)))
        assert read(tmp_path)[0] == [1, 2, 3]

    @pytest.mark.parametrize("pack", [gzip.compress, zstd.compress], ids=["gz", "zst"])
    def test_cut_short(self, tmp_path: Path, pack: Any) -> None:
        """The last file of a process that was killed is always cut short."""
        whole = [f"{line(number)}\n".encode() for number in range(1, 4)]
        (tmp_path / "t").write_bytes(b"".join(map(pack, whole)) + pack(f"{line(4)}\n".encode())[:-9])
        found, coverage = read(tmp_path)
        assert found[:3] == [1, 2, 3]
        assert "ends early" in " ".join(reason for _, reason, _, _ in reasons(coverage))

    def test_a_plain_file_under_a_packed_name(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl.gz").write_text(line(1))
        assert read(tmp_path)[0] == [1]

    def test_damaged(self, tmp_path: Path) -> None:
        (tmp_path / "t.gz").write_bytes(
            gzip.compress(f"{line(1)}\n".encode()) + b"\x1f\x8b\x08\x00 this is not deflate"
        )
        found, coverage = read(tmp_path)
        assert found == [1]
        assert len(coverage.rejects) == 1


class TestDamage:
    def test_a_torn_last_line_keeps_its_whole_spans(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl").write_text(f"{line(1)}\n{line(2, 3, 4)[:-60]}")
        found, coverage = read(tmp_path)
        assert found == [1, 2, 3]
        assert reasons(coverage) == [("t.jsonl", "torn: the record breaks off", 2, 1)]
        assert coverage.rejects[0].spans_kept == 2

    def test_a_fragment_and_then_an_append_on_the_same_line(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl").write_text(f"{line(1)}\n{line(2)[:70]}{line(3)}\n{line(4)}\n")
        found, coverage = read(tmp_path)
        assert found == [1, 3, 4]
        assert reasons(coverage) == [("t.jsonl", "torn: the record breaks off", 2, 1)]

    def test_a_torn_pretty_document(self, tmp_path: Path) -> None:
        text = json.dumps(document(*map(span, range(1, 6))), indent=2)
        (tmp_path / "t.json").write_text(text[: text.index('"span 4"')])
        found, coverage = read(tmp_path)
        assert found == [1, 2, 3]
        assert coverage.rejects[0].spans_kept == 3

    def test_zeros_after_a_power_failure(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl").write_bytes(f"{line(1)}\n".encode() + bytes(5000) + f"\n{line(2)}\n".encode())
        found, coverage = read(tmp_path)
        assert found == [1, 2]
        assert [reason for _, reason, _, _ in reasons(coverage)] == ["not JSON"]

    @pytest.mark.parametrize("escape", ["\\ud800", "\\udc00 \\\\ud800", "\t", "\x01"])
    def test_text_that_strict_parsers_refuse(self, tmp_path: Path, escape: str) -> None:
        (tmp_path / "t.jsonl").write_text(line(1).replace("span 1", f"span {escape}") + "\n" + line(2) + "\n")
        found, coverage = read(tmp_path)
        assert found == [1, 2]
        assert coverage.rejects == ()

    def test_bytes_that_are_no_utf_8(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl").write_bytes(line(1).encode().replace(b"span 1", b"span \xff\xfe") + b"\n")
        assert read(tmp_path)[0] == [1]

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
    def test_files_that_went_through_other_shells(self, tmp_path: Path, encoding: str) -> None:
        (tmp_path / "t.jsonl").write_bytes(f"{line(1)}\r\n{line(2)}\r\n".encode(encoding))
        found, coverage = read(tmp_path)
        assert (found, coverage.rejects) == ([1, 2], ())

    def test_mixed_with_a_program_s_own_output(self, tmp_path: Path) -> None:
        (tmp_path / "out.log").write_text(f"starting\n{line(1)}\n[1, 2]\nINFO {line(2)}\n{{}}\ndone\n")
        found, coverage = read(tmp_path)
        assert found == [1, 2]
        assert sorted(reasons(coverage)) == [
            ("out.log", "JSON, but not OTLP traces", 3, 2),
            ("out.log", "not JSON", 1, 3),
        ]

    def test_hostile_nesting(self, tmp_path: Path) -> None:
        deep = "[" * 200_000 + "]" * 200_000
        torn = '{"resourceSpans":' * 5_000
        (tmp_path / "t.jsonl").write_text(f'{line(1)}\n{{"resourceSpans":{deep}}}\n{torn}\n{line(2)}\n')
        found, coverage = read(tmp_path)
        assert found == [1, 2]
        assert coverage.rejects

    def test_a_line_larger_than_the_buffers(self, tmp_path: Path) -> None:
        big = span(1, attributes=[attribute("x", stringValue="y" * (17 << 20))])
        (tmp_path / "t.jsonl").write_text(f"{json.dumps(document(big))}\n{line(2)}\n")
        found, coverage = read(tmp_path)
        assert (found, coverage.rejects) == ([1, 2], ())

    def test_fields_of_the_wrong_type(self, tmp_path: Path) -> None:
        values = [
            document(span(1, attributes={"a": 1}), span(2, events=5, links="x")),
            {"resourceSpans": [{"scopeSpans": [{"spans": [7, None, "x", span(3)]}]}, 5, None]},
            {"resourceSpans": [{"scopeSpans": None}], "batches": "x"},
        ]
        (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, values)))
        with load(tmp_path) as traces:
            assert numbers_with_ids(traces) == [1, 2, 3]


def numbers_with_ids(traces: Traces) -> list[int]:
    rows = traces.sql("SELECT span_id FROM spans WHERE span_id IS NOT NULL ORDER BY span_id").fetchall()
    return [int(span_id, 16) for (span_id,) in rows]


class TestForeign:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "empty"),
            (b" \n\t\n", "empty"),
            (b"hello\n", "not JSON"),
            (b'{"a": 1}\n{"b": 2}\n', "JSON, but not OTLP traces"),
            (b'{"resourceLogs": []}\n', "OTLP logs or metrics, not traces"),
            (b'{"resource_spans": []}\n', "OTLP in snake_case: not read yet"),
            (b'{"data": [{"traceID": "1", "spans": []}]}', "Jaeger JSON or another tool's export: not read yet"),
            (b'[{"traceId": "1", "localEndpoint": {}}]', "Zipkin JSON: not read yet"),
            (b"\x0a\xa8\x01\x0a\x3b\x00", "not text (OTLP protobuf is not read yet)"),
            (b"PAR1\x15\x04", "Parquet: not read yet"),
            (b"SQLite format 3\x00", "an SQLite database, not traces"),
        ],
    )
    def test_named_and_the_rest_is_read(self, tmp_path: Path, content: bytes, reason: str) -> None:
        (tmp_path / "a").write_bytes(content)
        (tmp_path / "b.jsonl").write_text(line(1))
        found, coverage = read(tmp_path)
        assert found == [1]
        assert [(name, why) for name, why, _, _ in reasons(coverage)] == [("a", reason)]

    def test_no_spans_is_no_reject(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text('{"resourceSpans": []}')
        found, coverage = read(tmp_path)
        assert (found, coverage.rejects) == ([], ())

    def test_published_samples(self) -> None:
        with load(SAMPLES) as traces:
            rows = traces.sql("SELECT path, count(*) FROM spans GROUP BY ALL").fetchall()
        assert {Path(path).name: count for path, count in rows} == {
            "duckdb-otlp-malformed.jsonl": 1,
            "duckdb-otlp-traces_nulls.jsonl": 3,
            "duckdb-otlp-traces_simple.jsonl": 3,
            "jaeger-otlp-span-links.json": 1,
            "opentelemetry-proto-trace.json": 1,
        } or traces.coverage.copies
        assert {name for name, _, _, _ in reasons(traces.coverage)} == {
            "LICENSE.duckdb-otlp",
            "README.md",
            "duckdb-otlp-empty.jsonl",
            "duckdb-otlp-malformed.jsonl",
            "duckdb-otlp-multifile_malformed_traces.jsonl",
            "duckdb-otlp-otlp_traces.pb",
            "duckdb-otlp-whitespace.jsonl",
            "jaeger-otlp-span-links.json",
        }


class TestPaths:
    def test_each_file_once_whatever_leads_to_it(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "t.jsonl").write_text(line(1))
        (tmp_path / "link.jsonl").symlink_to(tmp_path / "sub" / "t.jsonl")
        with load(tmp_path, tmp_path / "sub", str(tmp_path / "*.jsonl"), str(tmp_path / "**" / "*.jsonl")) as traces:
            assert (traces.coverage.files, traces.coverage.copies) == (1, 0)

    def test_names_that_look_like_globs(self, tmp_path: Path) -> None:
        (tmp_path / "t[1]*.jsonl").write_text(line(1))
        (tmp_path / "t1x.jsonl").write_text(line(2))
        assert read(tmp_path / "t[1]*.jsonl")[0] == [1]

    def test_hidden_files_of_a_directory_are_left_out(self, tmp_path: Path) -> None:
        (tmp_path / ".t.jsonl").write_text(line(1))
        assert read(tmp_path)[0] == []
        assert read(tmp_path / ".t.jsonl")[0] == [1]

    def test_nothing_there(self, tmp_path: Path) -> None:
        found, coverage = read(tmp_path / "nowhere", tmp_path / "no*.jsonl")
        assert found == []
        assert [reject.reason for reject in coverage.rejects] == ["nothing found at this path"] * 2
        assert "spans=0" in repr(coverage)

    def test_progress_names_files_and_bytes(self, tmp_path: Path) -> None:
        (tmp_path / "t.jsonl").write_text(line(1))
        seen: list[Progress] = []
        load(tmp_path, progress=seen.append).close()
        assert seen == [Progress(0, len(line(1)), tmp_path / "t.jsonl")]
