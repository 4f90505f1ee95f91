"""The careful way to read a file: good documents go, one a line, into a clean file; the rest is counted and named."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from readmit_analysis._coverage import Reject
from readmit_analysis._extra import MissingExtra
from readmit_analysis._files import Compression, Torn, TraceFile, chunks
from readmit_analysis._salvage import Document, is_document, one_line, pieces

__all__ = ["Cleaned", "clean"]

_BLOCK = 64 << 20  # characters of unreadable text that are kept in the hope that a document begins in them
_BINARY = frozenset(range(1, 32)) - frozenset(b"\t\n\v\f\r\x1b")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The outcome: how many documents are in the clean file, its longest line in bytes, and what was lost."""

    documents: int
    longest: int
    rejects: tuple[Reject, ...]


def clean(file: TraceFile, target: Path) -> Cleaned:
    """Write every readable OTLP document of a file to `target`, each on a line of its own.

    Args:
        file: The file; its content may be anything.
        target: Where the clean lines go; overwritten.

    Raises:
        OSError: The file cannot be read or the target cannot be written. Content never raises.
    """
    reason = _binary(file)
    if reason:
        return Cleaned(0, 0, (Reject(file.path, reason),))
    with target.open("w", encoding="utf-8", newline="\n") as out:
        work = _Work(file.path, out)
        for line in _lines(file, work):
            work.take(line)
        work.flush()
    if not work.documents and not work.lost:
        work.lose("empty", line=None, records=0)
    return Cleaned(work.documents, work.longest, tuple(work.lost.values()))


def _binary(file: TraceFile) -> str | None:
    if file.head.startswith(b"SQLite format 3\x00"):
        return "an SQLite database, not traces"
    if file.head.startswith(b"PAR1"):
        return "Parquet: not read yet"
    if file.compression is Compression.NONE and not _utf16(file.head) and _looks_binary(file.head):
        return "not text (OTLP protobuf is not read yet)"
    return None


def _looks_binary(head: bytes) -> bool:
    """Whether control characters say so; zeros do not: they are what a power failure leaves in a text."""
    starts_as_json = head.lstrip(b"\x00 \t\r\n\xef\xbb\xbf").startswith((b"{", b"["))
    return not starts_as_json and bool(_BINARY.intersection(head))


def _utf16(head: bytes) -> bool:
    return head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


@dataclass(slots=True)
class _Work:
    """What has been seen of one file so far."""

    path: Path
    out: IO[str]
    documents: int = 0
    longest: int = 0
    number: int = 0
    block: list[str] = field(default_factory=list)
    block_line: int = 0
    block_size: int = 0
    hopeful: bool = False
    lost: dict[str, Reject] = field(default_factory=dict)

    def take(self, line: str) -> None:
        """Look at the next line: a document by itself, or perhaps a part of one."""
        self.number += 1
        if _good(line):
            self.flush()
            self.write(one_line(line.strip()))
        elif self.block or line.strip():
            if not self.block:
                self.block_line = self.number
            self.block.append(line)
            self.block_size += len(line)
            self.hopeful = self.hopeful or "resourceSpans" in line or "batches" in line
            if self.block_size > _BLOCK and not self.hopeful:
                self.flush()

    def flush(self) -> None:
        """Look for documents in the lines that were none by themselves."""
        text, line, at = "".join(self.block), self.block_line, 0
        self.block, self.block_size, self.hopeful = [], 0, False
        for piece in pieces(text):
            if isinstance(piece, Document):
                self.write(piece.text)
                continue
            line += text.count("\n", at, piece.start)
            at = piece.start
            self.lose(piece.reason, line=line, spans_kept=piece.spans_kept)

    def write(self, document: str) -> None:
        self.out.write(document + "\n")
        self.documents += 1
        self.longest = max(self.longest, len(document) if document.isascii() else len(document.encode()))

    def lose(self, reason: str, *, line: int | None, records: int = 1, spans_kept: int = 0) -> None:
        """Count a lost record under its reason; the first one's line stands for all of them."""
        known = self.lost.get(reason, Reject(self.path, reason, line, 0))
        self.lost[reason] = replace(known, records=known.records + records, spans_kept=known.spans_kept + spans_kept)


def _good(line: str) -> bool:
    if not line.lstrip().startswith("{"):
        return False
    try:
        return is_document(json.loads(line, strict=False))
    except (ValueError, RecursionError):
        return False


def _lines(file: TraceFile, work: _Work) -> Iterator[str]:
    """The file's lines with their ends, decoded; what cannot be decoded is replaced, never dropped."""
    encoding = "utf-16" if _utf16(file.head) else "utf-8-sig"
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    rest: list[str] = []
    try:
        for piece in chunks(file):
            *whole, last = decoder.decode(piece).split("\n")
            for line in whole:
                yield "".join(rest) + line + "\n"
                rest = []
            rest.append(last)
    except (Torn, MissingExtra) as error:
        work.lose(str(error), line=None, records=0)
    tail = "".join(rest) + decoder.decode(b"", final=True)
    if tail:
        yield tail
