"""One call wires a collector, a folder, or both, and no span goes missing or twice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import readmit_exporters
from readmit_exporters import configure
from tests.exporters.otlp_lines import spans_in
from tests.exporters.receiver import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False)
    yield provider
    provider.shutdown()


def make_spans(provider: trace.TracerProvider, count: int) -> list[str]:
    tracer = provider.get_tracer("readmit")
    ids = []
    for number in range(count):
        with tracer.start_as_current_span("execute_tool charge", attributes={"readmit.epoch": number}) as span:
            ids.append(f"{span.get_span_context().span_id:016x}")
    return ids


def run(code: str, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60)
    if check:
        assert done.returncode == 0, done.stderr
    return done


def test_a_collector_gets_every_span_once(receiver: Receiver, provider: TracerProvider) -> None:
    exporters = configure(endpoint=receiver.url, headers={"X-Api-Key": "k"}, tracer_provider=provider)
    made = make_spans(provider, 1100)

    assert exporters.flush()
    assert sorted(receiver.span_ids) == sorted(made)
    assert receiver.paths == {"/v1/traces"}
    assert {each["x-api-key"] for each in receiver.headers} == {"k"}
    assert exporters.endpoint == f"{receiver.url}/v1/traces"
    assert (exporters.provider, exporters.files) == (provider, None)


def test_a_folder_gets_every_span_once_in_one_file(tmp_path: Path, provider: TracerProvider) -> None:
    exporters = configure(files=tmp_path / "deep" / "traces", tracer_provider=provider)
    assert exporters.files is not None
    assert list(exporters.files.iterdir()) == []
    made = make_spans(provider, 1100)

    assert exporters.flush()
    spans = spans_in(exporters.files)
    assert sorted(span["spanId"] for span in spans) == sorted(made)
    assert len(list(exporters.files.iterdir())) == 1
    assert spans[0]["attributes"] == [{"key": "readmit.epoch", "value": {"intValue": "0"}}]


def test_both_get_the_same_spans(receiver: Receiver, tmp_path: Path, provider: TracerProvider) -> None:
    exporters = configure(endpoint=receiver.url, files=tmp_path, tracer_provider=provider)
    made = make_spans(provider, 700)

    assert exporters.flush()
    assert sorted(receiver.span_ids) == sorted(made) == sorted(span["spanId"] for span in spans_in(tmp_path))


def test_a_second_call_doubles_nothing(receiver: Receiver, tmp_path: Path, provider: TracerProvider) -> None:
    headers = {"X-Api-Key": "k"}
    configure(files=tmp_path, tracer_provider=provider)
    configure(files=str(tmp_path), endpoint=receiver.url, headers=headers, tracer_provider=provider)
    again = configure(
        files=tmp_path / ".", endpoint=f"{receiver.url}/v1/traces", headers=headers, tracer_provider=provider
    )
    made = make_spans(provider, 10)

    assert again.flush()
    assert sorted(receiver.span_ids) == sorted(made) == sorted(span["spanId"] for span in spans_in(tmp_path))


def test_two_collectors_get_the_spans_once_each(receiver: Receiver, provider: TracerProvider) -> None:
    with receiving() as other:
        exporters = [configure(endpoint=each.url, tracer_provider=provider) for each in (receiver, other)]
        made = make_spans(provider, 10)
        assert all(each.flush() for each in exporters)
        assert sorted(receiver.span_ids) == sorted(made) == sorted(other.span_ids)


def test_it_can_be_wired_again_after_shutdown(tmp_path: Path, provider: TracerProvider) -> None:
    first = configure(files=tmp_path, tracer_provider=provider)
    made = make_spans(provider, 3)
    first.shutdown()
    first.shutdown()
    assert not first.flush()
    second = configure(files=tmp_path, tracer_provider=provider)
    made += make_spans(provider, 3)

    assert second.flush()
    assert sorted(span["spanId"] for span in spans_in(tmp_path)) == sorted(made)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_dead_collector_costs_spans_and_never_a_call(
    tmp_path: Path, provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with receiving() as receiver:
        dead = receiver.url
    both = configure(endpoint=dead, files=tmp_path, tracer_provider=provider)
    made = make_spans(provider, 20)

    started = time.monotonic()
    assert not both.flush(timeout=0.5)
    assert time.monotonic() - started < 5
    assert sorted(span["spanId"] for span in spans_in(tmp_path)) == sorted(made)


def test_flush_is_honest_about_a_collector_that_refuses(receiver: Receiver, provider: TracerProvider) -> None:
    receiver.status = 400
    exporters = configure(endpoint=receiver.url, tracer_provider=provider)
    make_spans(provider, 5)
    assert not exporters.flush()

    receiver.status = 200
    made = make_spans(provider, 5)
    assert exporters.flush()
    assert sorted(receiver.span_ids) == sorted(made)


AT_EXIT = """
import sys
import readmit_exporters
from opentelemetry import trace

endpoint, folder, how = sys.argv[1:]
readmit_exporters.configure(endpoint=endpoint, files=folder, service_name="shop")
tracer = trace.get_tracer("readmit")
for _ in range(1100):
    with tracer.start_as_current_span("execute_tool charge"):
        pass
if how == "sys.exit":
    sys.exit(0)
if how == "exception":
    raise KeyError("boom")
"""


@pytest.mark.parametrize("how", ["end", "sys.exit", "exception"])
def test_without_a_provider_one_is_made_and_a_normal_exit_loses_nothing(
    receiver: Receiver, tmp_path: Path, how: str
) -> None:
    run(AT_EXIT, receiver.url, str(tmp_path), how, check=how != "exception")
    assert len(set(receiver.span_ids)) == len(receiver.spans) == 1100
    assert receiver.services == {"shop"}
    assert {span["spanId"] for span in spans_in(tmp_path)} == set(receiver.span_ids)


DEAD_AT_EXIT = """
import sys
import readmit_exporters
from opentelemetry import trace

readmit_exporters.configure(endpoint=sys.argv[1])
for _ in range(1100):
    with trace.get_tracer("readmit").start_as_current_span("execute_tool charge"):
        pass
"""


def test_a_dead_collector_holds_the_exit_up_for_one_batch_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    with receiving() as receiver:
        dead = receiver.url
    done = run(DEAD_AT_EXIT, dead)
    assert 1 <= done.stderr.count("Transient error") <= 2, "one batch is tried twice in 3 s, three are tried more often"
    assert done.stderr.count("were lost at the exit") == 3


EXISTING = """
import logging, sys
import readmit_exporters
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

logging.basicConfig(format="%(message)s")
provider, seen = TracerProvider(), InMemorySpanExporter()
provider.add_span_processor(SimpleSpanProcessor(seen))
trace.set_tracer_provider(provider)
exporters = readmit_exporters.configure(files=sys.argv[1], service_name="shop")
assert exporters.provider is provider is trace.get_tracer_provider()
with trace.get_tracer("app").start_as_current_span("app"):
    pass
assert exporters.flush()
print(len(seen.get_finished_spans()))
"""


def test_the_applications_provider_is_used_and_keeps_its_own_exporter(tmp_path: Path) -> None:
    done = run(EXISTING, str(tmp_path))
    assert done.stdout.strip() == "1"
    assert len(spans_in(tmp_path)) == 1
    assert "service_name='shop' has no effect" in done.stderr


def test_neither_endpoint_nor_files_says_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"endpoint='http://localhost:4318'.*files='traces'"):
        configure()


def test_headers_need_an_endpoint(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="write endpoint="):
        configure(files=tmp_path, headers={"X-Api-Key": "k"})


@pytest.mark.parametrize("endpoint", ["", "localhost:4318", "collector", "ftp://collector/", "http://"])
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="is not an http or https URL"):
        configure(endpoint=endpoint)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("https://c/api/public/otel", "https://c/api/public/otel/v1/traces"),
        ("https://c/v1/traces", "https://c/v1/traces"),
        ("https://c/otlp/v1/traces/?tenant=1", "https://c/otlp/v1/traces?tenant=1"),
    ],
)
def test_the_base_url_is_completed(endpoint: str, url: str, provider: TracerProvider) -> None:
    assert configure(endpoint=endpoint, tracer_provider=provider).endpoint == url


def test_a_provider_without_processors_is_refused_before_anything_is_wired(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="NoOpTracerProvider takes no span processors"):
        configure(files=tmp_path / "traces", tracer_provider=trace.NoOpTracerProvider())
    assert not (tmp_path / "traces").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, provider: TracerProvider) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(NotADirectoryError, match="is a file: name a folder"):
        configure(files=file, tracer_provider=provider)
    with pytest.raises(OSError, match="cannot be made") as raised:
        configure(files=file / "below", tracer_provider=provider)
    assert str(file / "below") in str(raised.value)


MISSING = """
import sys
sys.modules["opentelemetry.exporter.otlp." + sys.argv[1]] = None
import readmit_exporters
try:
    readmit_exporters.configure(**{sys.argv[2]: "http://localhost:4318"})
except ImportError as error:
    print(error)
from opentelemetry import trace
assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
"""


@pytest.mark.parametrize(("module", "argument"), [("json.file", "files"), ("proto.http.trace_exporter", "endpoint")])
def test_a_missing_extra_is_named(module: str, argument: str) -> None:
    assert "pip install 'readmit[otlp]'" in run(MISSING, module, argument).stdout


def test_the_package_itself_imports_no_exporter() -> None:
    code = "import sys, readmit_exporters; print([m for m in sys.modules if 'exporter.otlp' in m or m == 'requests'])"
    assert run(code).stdout.strip() == "[]"


def test_the_public_names() -> None:
    assert readmit_exporters.__all__ == ["Exporters", "configure"]
