"""Which files to read, and how their bytes become text."""

from __future__ import annotations

import glob
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from readmit_analysis._coverage import Reject
from readmit_analysis._extra import require

__all__ = ["Compression", "Torn", "TraceFile", "chunks", "discover"]

CHUNK = 1 << 16  # of the stored bytes: one piece unpacks to some tens of megabytes at most
_GLOB = frozenset("*?[")


class Compression(StrEnum):
    """How a file is packed, told from its first bytes."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class TraceFile:
    """One file to read: where it is, its size in bytes, how it is packed, and its first bytes as stored."""

    path: Path
    size: int
    compression: Compression
    head: bytes


def discover(paths: Iterable[str | Path]) -> tuple[list[TraceFile], list[Reject]]:
    """Find the files behind paths, globs and directories; each file once, whatever number of ways leads to it.

    Args:
        paths: Files, globs (`**` too), directories (read with everything below, hidden names left out).

    Returns:
        The files in a stable order, and what could not be opened.
    """
    files: dict[Path, TraceFile] = {}
    rejects: list[Reject] = []
    for given in paths:
        found = list(_expand(Path(given)))
        if not found:
            why = "a folder without files" if Path(given).is_dir() else "nothing found at this path"
            rejects.append(Reject(Path(given), why, records=0))
        for path in found:
            real = path.resolve()
            if real in files:
                continue
            try:
                files[real] = _open(path)
            except OSError as error:
                rejects.append(Reject(path, f"cannot be opened: {error.strerror or error}", records=0))
    return list(files.values()), rejects


def _expand(given: Path) -> Iterator[Path]:
    if given.is_dir():
        below = (path for path in given.rglob("*") if path.is_file())
        yield from sorted(path for path in below if not (_hidden(path.relative_to(given)) or _beside_database(path)))
    elif given.exists():
        yield given
    elif _GLOB & set(str(given)):
        for match in sorted(glob.glob(str(given), recursive=True)):
            yield from _expand(Path(match))


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def _beside_database(path: Path) -> bool:
    """Whether a file only serves a database next to it: SQLite's `-wal` and `-shm`, the locks of a journal's owners."""
    for name in (path, path.parent):
        base, dash, kind = name.name.rpartition("-")
        if dash and kind in ("wal", "shm", "journal", "owners") and name.with_name(base).is_file():
            return True
    return False


def _open(path: Path) -> TraceFile:
    if not path.is_file():
        raise OSError(0, "not a regular file")
    with path.open("rb") as stream:
        head = stream.read(4096)
    packed = {b"\x1f\x8b": Compression.GZIP, b"\x28\xb5": Compression.ZSTD}.get(head[:2], Compression.NONE)
    return TraceFile(path, path.stat().st_size, packed, head)


class Torn(Exception):
    """The packed stream ends or breaks before its end; what came before was delivered."""


class _Unpacker(Protocol):
    """What zlib and zstd decoders have in common: one object a member or frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def chunks(file: TraceFile) -> Iterator[bytes]:
    """The unpacked bytes of a file, in pieces; several members or frames in a row are one stream.

    Raises:
        Torn: The packed stream is damaged or ends early. All that could be unpacked was delivered before.
        MissingExtra: The file is zstd and no decoder is installed.
    """
    with file.path.open("rb") as stream:
        stored = iter(lambda: stream.read(CHUNK), b"")
        if file.compression is Compression.NONE:
            yield from stored
        else:
            yield from _unpacked(stored, *_decoder(file.compression))


def _unpacked(stored: Iterator[bytes], new: Callable[[], _Unpacker], broken: type[Exception]) -> Iterator[bytes]:
    unpacker = new()
    fresh = True
    for piece in stored:
        while piece:
            if unpacker.eof:
                unpacker, fresh = new(), True
            try:
                data = unpacker.decompress(piece)
            except broken as error:
                raise Torn(f"the packed data is damaged ({error})") from error
            fresh = False
            if data:
                yield data
            piece = unpacker.unused_data if unpacker.eof else b""
    if not unpacker.eof and not fresh:
        raise Torn("the packed data ends early")


def _decoder(compression: Compression) -> tuple[Callable[[], _Unpacker], type[Exception]]:
    if compression is Compression.GZIP:
        return lambda: zlib.decompressobj(wbits=31), zlib.error
    zstd = require("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd", purpose="reading zstd")
    return zstd.ZstdDecompressor, zstd.ZstdError
