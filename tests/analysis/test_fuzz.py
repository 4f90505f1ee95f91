"""Whatever happens to a file, no good record is lost, and nothing crashes."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readmit_analysis import load
from readmit_analysis._salvage import Document, pieces
from tests.analysis.documents import line

# What a file holds: whole records, and rubbish that may follow them on the same line.
GOOD = st.integers(1, 99).map(lambda number: (line(number), number))
RUBBISH = st.one_of(
    st.integers(1, len(line(1)) - 1).map(lambda end: line(500)[:end]),
    st.sampled_from(
        ["", "{", "}", '"', "[1]", "null", '{"a": "', '{"resourceSpans":', '{"resourceSpans":[]}', "\\", "\x00\x00"]
    ),
    st.text(alphabet='{}[]":,\\ax1 \t\r', max_size=30),
).map(lambda text: (text, None))
END = st.sampled_from(["\n", "\r\n", "\n\n"])
FILES = st.lists(st.one_of(st.tuples(GOOD, END), st.tuples(RUBBISH, st.one_of(END, st.just("")))), max_size=12)


def written(parts: list[tuple[tuple[str, int | None], str]]) -> tuple[str, set[int]]:
    text = "".join(content + end for (content, _), end in parts)
    return text, {number for (_, number), _ in parts if number is not None}


@settings(max_examples=300, deadline=None)
@given(FILES)
def test_salvage_finds_every_whole_record(parts: list[tuple[tuple[str, int | None], str]]) -> None:
    text, expected = written(parts)
    found = [piece.text for piece in pieces(text) if isinstance(piece, Document)]
    for number in expected:
        assert any(line(number) in document for document in found)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FILES, st.sampled_from(["plain", "gzip"]), st.integers(0, 40))
def test_reading_finds_every_whole_record(
    parts: list[tuple[tuple[str, int | None], str]], packing: str, cut: int
) -> None:
    text, expected = written(parts)
    content = text.encode() + (line(600)[:cut]).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        path.write_bytes(gzip.compress(content) if packing == "gzip" else content)
        with load(path) as traces:
            rows = traces.sql("SELECT DISTINCT name FROM spans").fetchall()
            traces.findings()
    assert expected <= {int(name.removeprefix("span ")) for (name,) in rows}
    assert {int(name.removeprefix("span ")) for (name,) in rows} <= expected | {500}
