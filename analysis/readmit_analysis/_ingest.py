"""OTLP JSON into the table `raw_spans`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from readmit_analysis._arguments import arguments_key
from readmit_analysis._clean import clean
from readmit_analysis._coverage import Reject
from readmit_analysis._extra import MissingExtra, require
from readmit_analysis._files import Compression, Torn, TraceFile, chunks
from readmit_analysis._shape import OTLP_DOCUMENT
from readmit_analysis._sql import statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

__all__ = ["Progress", "ingest"]

_LARGEST_OBJECT = 16 << 20  # bytes; DuckDB sets two such buffers aside for every thread
_BATCH = 8192  # argument texts
_GROUP = 128 << 20  # bytes read in one statement, so that the progress moves


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading is: bytes as stored, done and in all, and the file at hand."""

    done: int
    total: int
    path: Path


def ingest(
    con: DuckDBPyConnection, files: Iterable[TraceFile], *, progress: Callable[[Progress], None] | None = None
) -> list[Reject]:
    """Read files into `raw_spans`, with the table `files` beside it that says which row came from where.

    Every file is tried the fast way first: DuckDB reads the lines itself. A file that holds anything but whole OTLP
    lines is read again the careful way.

    Returns:
        What could not be read.
    """
    for name in ("macros", "raw_spans", "files"):
        con.execute(statement("reader", name))
    rejects: list[Reject] = []
    chosen = list(files)
    done, total = 0, sum(file.size for file in chosen)
    with tempfile.TemporaryDirectory(prefix="readmit-analysis-") as folder:
        for group in _groups(chosen):
            if progress:
                progress(Progress(done, total, group[0].path))
            for file in _fast(con, group):
                rejects += _careful(con, file, Path(folder) / "clean.jsonl")
            done += sum(file.size for file in group)
    con.execute("DELETE FROM raw_spans WHERE problem IS NOT NULL")
    con.execute(statement("reader", "superseded"))
    _keys(con)
    return rejects


def _groups(files: list[TraceFile]) -> Iterator[list[TraceFile]]:
    group: list[TraceFile] = []
    for file in files:
        if group and (file.compression != group[0].compression or sum(f.size for f in group) + file.size > _GROUP):
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def _fast(con: DuckDBPyConnection, group: list[TraceFile]) -> list[TraceFile]:
    """Let DuckDB read the lines of several files at once; returns those that must be read the careful way."""
    duckdb = require("duckdb", purpose="reading traces")
    lines = [file for file in group if _looks_like_lines(file) and _whole(file)]
    others = [file for file in group if file not in lines]
    if not lines:
        return others
    try:
        _read(con, [str(file.path) for file in lines], lines[0].compression, _LARGEST_OBJECT)
    except duckdb.Error:
        if len(lines) == 1:
            return [*others, *lines]
        return others + [file for one in lines for file in _fast(con, [one])]
    bad = con.execute("SELECT DISTINCT read_path FROM raw_spans WHERE problem IS NOT NULL").fetchall()
    con.execute("DELETE FROM raw_spans WHERE read_path IN (SELECT read_path FROM raw_spans WHERE problem IS NOT NULL)")
    damaged = {str(path) for (path,) in bad}
    for file in lines:
        if str(file.path) not in damaged:
            _note(con, str(file.path), file.path)
    return others + [file for file in lines if str(file.path) in damaged]


def _looks_like_lines(file: TraceFile) -> bool:
    """Whether the fast way is worth a try: text that starts with an object, under a name that is no glob to DuckDB."""
    if set(str(file.path)) & set("*?[]{}"):
        return False
    return file.compression is not Compression.NONE or file.head.lstrip()[:12].startswith((b'{"', b'{ "'))


def _whole(file: TraceFile) -> bool:
    """Whether a packed file can be unpacked to its end: DuckDB stops at a damaged frame without a word."""
    try:
        for _ in chunks(file) if file.compression is not Compression.NONE else ():
            pass
    except (Torn, MissingExtra, OSError):
        return False
    return True


def _careful(con: DuckDBPyConnection, file: TraceFile, target: Path) -> tuple[Reject, ...]:
    try:
        cleaned = clean(file, target)
    except OSError as error:
        return (Reject(file.path, f"cannot be read: {error.strerror or error}", records=0),)
    if not cleaned.documents:
        return cleaned.rejects
    _read(con, [str(target)], Compression.NONE, max(_LARGEST_OBJECT, cleaned.longest + 1024))
    read_path = f"{file.path} (cleaned)"
    refused = con.execute(
        "SELECT count(*) FROM raw_spans WHERE read_path = ? AND problem IS NOT NULL", [str(target)]
    ).fetchone()
    con.execute("UPDATE raw_spans SET read_path = ? WHERE read_path = ?", [read_path, str(target)])
    _note(con, read_path, file.path)
    if refused and refused[0]:
        return (*cleaned.rejects, Reject(file.path, "not JSON that DuckDB accepts", records=refused[0]))
    return cleaned.rejects


def _read(con: DuckDBPyConnection, paths: list[str], compression: Compression, max_object: int) -> None:
    # Releases of DuckDB differ in their word for "not packed"; told by the name it is right, or the careful way helps.
    packed = "auto_detect" if compression is Compression.NONE else str(compression)
    con.execute(
        statement("reader", "otlp_json"),
        {"paths": paths, "shape": OTLP_DOCUMENT, "compression": packed, "max_object": max_object},
    )


def _note(con: DuckDBPyConnection, read_path: str, path: Path) -> None:
    con.execute("INSERT INTO files SELECT ?, ?, (SELECT count(*) FROM files)", [read_path, str(path)])


def _keys(con: DuckDBPyConnection) -> None:
    """Give every distinct argument text of a tool span its comparable key."""
    con.execute(statement("reader", "argument_keys"))
    texts = con.cursor().execute("SELECT DISTINCT arguments_type, arguments FROM raw_spans WHERE arguments IS NOT NULL")
    while batch := texts.fetchmany(_BATCH):
        kinds, values = [kind for kind, _ in batch], [value for _, value in batch]
        keys = [arguments_key(kind, value) for kind, value in batch]
        con.execute(
            "INSERT INTO argument_keys SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[]), unnest($3::VARCHAR[])",
            [kinds, values, keys],
        )
