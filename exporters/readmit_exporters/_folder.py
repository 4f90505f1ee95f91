"""A folder of OTLP JSON lines, one file a process."""

from __future__ import annotations

import contextlib
import io
import os
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter

if sys.platform != "win32":
    import fcntl


class FolderSpanExporter(SpanExporter):
    """Writes each batch as one line with the official OTLP JSON file exporter.

    The file is `spans-{host}-{process id}.jsonl`, made with the first batch. A child after a fork gets a file of its
    own, and so does a process whose file was removed under it. Like every span exporter it is called by one thread at
    a time. Spans hold names, URLs and errors: like the journal, the folder that is made here is 0700 and the files are
    0600. A folder that is there already keeps its mode.

    Args:
        folder: where the files go; made if it is missing.

    Raises:
        ImportError: the extra `otlp` is not installed.
        OSError: the folder cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from opentelemetry.exporter.otlp.json.file import FileSpanExporter
        except ImportError as error:
            raise ImportError(
                "configure(files=...) needs the OTLP JSON file exporter: pip install 'readmit[otlp]'"
            ) from error
        self._make: type[FileSpanExporter] = FileSpanExporter
        self._folder = folder
        self._file: LineFile | None = None
        self._inner: FileSpanExporter | None = None
        _make_writable(folder)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append one line. A failed write is reported by the official exporter and never raised."""
        if self._inner is None or self._file is None or not self._file.is_ours():
            self._open()
        assert self._inner is not None
        return self._inner.export(spans)

    def shutdown(self) -> None:
        """Close the file."""
        if self._inner is not None:
            self._inner.shutdown()
        if self._file is not None:
            self._file.close()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is buffered here."""
        return True

    def _open(self) -> None:
        if self._file is not None:
            self._file.close()
        _make(self._folder)
        self._file = LineFile(self._folder)
        self._inner = self._make(stream=cast("IO[str]", self._file))


class LineFile(io.TextIOBase):
    """An append-only text file that holds whole lines, except the one that a kill or a full disk cut short.

    A torn line is ended before the next is written, also when the file is opened again: otherwise the good line behind
    the fragment would be lost with it. Unbuffered: a line is one write, and a fork copies no half-written buffer.

    Args:
        folder: where the file goes. The name is that of this host and process; where a living process of the same
            name holds it (containers that share a folder and a host name), a number follows.
    """

    def __init__(self, folder: Path) -> None:
        self._pid = os.getpid()
        self.path, self._fd = _claim(folder, f"spans-{_host()}-{self._pid}")
        self._torn = _ends_torn(self._fd)

    def write(self, line: str, /) -> int:
        """Append one line at once."""
        rest = memoryview((("\n" if self._torn else "") + line).encode())
        self._torn = True
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        self._torn = False
        return len(line)

    def is_ours(self) -> bool:
        """Whether this process opened the file and it still has a name."""
        return self._pid == os.getpid() and not self.closed and os.fstat(self._fd).st_nlink > 0

    def close(self) -> None:
        """Close the file and let go of its name."""
        if not self.closed:
            os.close(self._fd)
        super().close()


def _make(folder: Path) -> None:
    if not folder.parent.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _make_writable(folder: Path) -> None:
    try:
        _make(folder)
    except FileExistsError as error:
        raise NotADirectoryError(f"files={str(folder)!r} is a file: name a folder, it is made if missing.") from error
    except OSError as error:
        raise type(error)(
            error.errno, f"the folder for traces cannot be made ({error.strerror}); name another", str(folder)
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"files={str(folder)!r} cannot be written by this user: name another folder.")


def _claim(folder: Path, stem: str) -> tuple[Path, int]:
    number = 1
    while True:
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        if _lock(fd):
            return path, fd
        os.close(fd)
        number += 1


def _lock(fd: int) -> bool:
    if sys.platform == "win32":
        return True  # the process id is enough
    # A file system without locks leaves us with the process id, which is unique on one machine.
    with contextlib.suppress(OSError):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _ends_torn(fd: int) -> bool:
    if os.fstat(fd).st_size == 0:
        return False
    os.lseek(fd, -1, os.SEEK_END)
    return os.read(fd, 1) != b"\n"


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname()) or "host"
