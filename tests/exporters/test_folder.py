"""Files that are torn, shared, removed or inherited lose no good line."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from readmit_exporters._folder import LineFile
from tests.exporters.otlp_lines import spans_in, spans_of

PROGRAM = """
import os, sys
import readmit_exporters
from opentelemetry import trace

exporters = readmit_exporters.configure(files=sys.argv[1])
tracer = trace.get_tracer("readmit")

def spans(count):
    for _ in range(count):
        with tracer.start_as_current_span("execute_tool charge"):
            pass

"""


def run(folder: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + code, str(folder)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_torn_file_is_mended_when_it_is_opened_again(tmp_path: Path) -> None:
    with LineFile(tmp_path) as file:
        file.write('{"resourceSpans":[]}\n')
        path = file.path
    with path.open("a") as torn:
        torn.write('{"resourceSpans":[{"resou')
    with LineFile(tmp_path) as file:
        assert file.path == path
        file.write('{"resourceSpans":[1]}\n')
        file.write('{"resourceSpans":[2]}\n')

    lines = path.read_text().splitlines()
    assert [json.loads(line)["resourceSpans"] for line in (lines[0], *lines[2:])] == [[], [1], [2]]
    assert lines[1] == '{"resourceSpans":[{"resou'


def test_what_is_written_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask lets through; a folder that was there, perhaps shared on purpose, keeps its mode."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)
    for folder, mode in ((tmp_path / "new" / "traces", 0o700), (shared, 0o755)):
        run(folder, "os.umask(0); spans(1)")
        (file,) = folder.iterdir()
        assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(file.stat().st_mode)) == (mode, 0o600)


def test_a_living_file_of_the_same_name_is_left_alone(tmp_path: Path) -> None:
    with LineFile(tmp_path) as one, LineFile(tmp_path) as two:
        assert one.path != two.path
        assert two.path.name == f"{one.path.stem}-2.jsonl"
    with LineFile(tmp_path) as again:
        assert again.path == one.path


def test_a_full_disk_tears_one_line_and_the_next_is_whole(tmp_path: Path) -> None:
    """The limit on the size of a file stands in for the disk: the write is cut short in the same way."""
    run(
        tmp_path,
        """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
spans(3)
assert exporters.flush()
size = sum(os.path.getsize(entry) for entry in os.scandir(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
spans(4)
assert not exporters.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
spans(5)
assert exporters.flush()
""",
    )
    (file,) = tmp_path.iterdir()
    lines = file.read_text().splitlines()
    assert len(lines) == 3
    assert len(lines[1]) == 100
    assert len(spans_of([lines[0], lines[2]])) == 8


def test_a_removed_file_is_made_anew(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
import shutil
spans(2)
assert exporters.flush()
shutil.rmtree(sys.argv[1])
spans(3)
assert exporters.flush()
""",
    )
    assert len(spans_in(tmp_path)) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_a_file_of_its_own(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
spans(2)
assert exporters.flush()
child = os.fork()
spans(3)
assert exporters.flush()
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
spans(1)
""",
    )
    counts = sorted(len(spans_of(path.read_text().splitlines())) for path in tmp_path.iterdir())
    assert counts == [3, 6]
    assert len({span["spanId"] for span in spans_in(tmp_path)}) == 9
