"""`configure`: one call that sends the application's spans somewhere."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider

from readmit_exporters._collector import collector_exporter, traces_url
from readmit_exporters._destination import Destination
from readmit_exporters._folder import FolderSpanExporter

_log = logging.getLogger("readmit.exporters")

# A file costs nothing to write often, and a killed process loses what waits.
_FILE_DELAY_MS = 1000


_lock = threading.Lock()
_wired: WeakKeyDictionary[trace.TracerProvider, dict[object, Destination]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporters:
    """What `configure` wired.

    Attributes:
        provider: the tracer provider whose spans are exported.
        endpoint: the URL that takes spans, or None.
        files: the folder of OTLP JSON lines, or None.
    """

    provider: trace.TracerProvider
    endpoint: str | None
    files: Path | None
    _destinations: tuple[Destination, ...] = field(repr=False)

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what waits, to every destination at once.

        Args:
            timeout: seconds to wait at most; sending goes on behind it.

        Returns:
            True if every destination took all that waited, in time. False also after `shutdown`.
        """
        lost = [each.exporter.lost for each in self._destinations]
        answers: list[bool] = []
        threads = [
            threading.Thread(target=lambda each=each: answers.append(each.processor.force_flush()), daemon=True)
            for each in self._destinations
        ]
        deadline = time.monotonic() + timeout
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        done = len(answers) == len(threads) and all(answers)
        return done and lost == [each.exporter.lost for each in self._destinations]

    def shutdown(self) -> None:
        """Send what waits and close. The SDK does it at a normal exit; `configure` can be called again afterwards."""
        for each in self._destinations:
            each.processor.shutdown()


def configure(
    *,
    endpoint: str | None = None,
    files: str | os.PathLike[str] | None = None,
    headers: Mapping[str, str] | None = None,
    service_name: str | None = None,
    tracer_provider: trace.TracerProvider | None = None,
) -> Exporters:
    """Send spans to a collector, to a folder of files, or to both.

    The application's tracer provider is used if there is one; else one is made and set. Spans are exported in batches
    from a thread of their own: a collector that is slow, wrong or dead costs spans, never a call. A normal exit sends
    what waits. A killed process loses what waited (up to 1 s for files, 5 s for a collector) and every span still open;
    the journal still holds its effectful epochs. Calling it again with the same destination adds
    nothing, so no span is exported twice.

    Args:
        endpoint: the collector's base URL (`http://localhost:4318`); `/v1/traces` is added unless it ends so already.
        files: a folder, made if missing; each process writes one file of OTLP JSON lines into it.
        headers: HTTP headers for the collector (an API key).
        service_name: the `service.name` of a tracer provider made here; by default `OTEL_SERVICE_NAME`.
        tracer_provider: the provider to use instead of the global one.

    Raises:
        ValueError: neither `endpoint` nor `files`; an endpoint that is no URL; headers without an endpoint.
        TypeError: the tracer provider takes no span processors.
        ImportError: the extra `otlp` is not installed.
        OSError: the folder cannot be made or written.

    Example:
        `readmit_exporters.configure(endpoint="http://localhost:4318", files="traces")`
    """
    if endpoint is None and files is None:
        raise ValueError(
            "configure() has nowhere to send spans: write endpoint='http://localhost:4318' for a collector, "
            "files='traces' for a folder of OTLP JSON lines, or both."
        )
    if headers and endpoint is None:
        raise ValueError("headers= go to a collector: write endpoint= too, or leave them out.")
    url = None if endpoint is None else traces_url(endpoint)
    folder = None if files is None else Path(files).resolve()
    with _lock:
        provider = _existing(tracer_provider)
        wired = {} if provider is None else _open_destinations(provider)
        makers = _makers(url, folder, headers or {})
        # All are made before one is wired: an error leaves nothing half done.
        chosen = {key: wired.get(key) or make() for key, make in makers.items()}
        if provider is None:
            provider = _new_provider(service_name)
        elif service_name is not None:
            _say_if_name_differs(provider, service_name)
        for key, destination in chosen.items():
            if key not in wired:
                provider.add_span_processor(destination.processor)
        _wired[provider] = wired | chosen
    return Exporters(provider=provider, endpoint=url, files=folder, _destinations=tuple(chosen.values()))


def _makers(
    url: str | None, folder: Path | None, headers: Mapping[str, str]
) -> dict[object, Callable[[], Destination]]:
    makers: dict[object, Callable[[], Destination]] = {}
    if url is not None:
        key = (url, frozenset((name.lower(), value) for name, value in headers.items()))
        makers[key] = lambda: Destination(collector_exporter(url, headers), name=url)
    if folder is not None:
        makers[folder] = lambda: Destination(FolderSpanExporter(folder), name=str(folder), delay=_FILE_DELAY_MS)
    return makers


def _open_destinations(provider: trace.TracerProvider) -> dict[object, Destination]:
    return {key: each for key, each in _wired.get(provider, {}).items() if not each.exporter.closed}


def _existing(given: trace.TracerProvider | None) -> TracerProvider | None:
    provider = given or trace.get_tracer_provider()
    if given is None and isinstance(provider, trace.ProxyTracerProvider):
        return None
    if not callable(getattr(provider, "add_span_processor", None)):
        raise TypeError(
            f"the tracer provider {type(provider).__qualname__} takes no span processors: "
            "pass tracer_provider=opentelemetry.sdk.trace.TracerProvider(), and give readmit.configure the same one."
        )
    # Duck-typed: some backends (Logfire) set a provider of their own that wraps the SDK's.
    return cast("TracerProvider", provider)


def _new_provider(service_name: str | None) -> TracerProvider:
    resource = Resource.create({} if service_name is None else {SERVICE_NAME: service_name})
    trace.set_tracer_provider(TracerProvider(resource=resource))
    # Asked again, because another thread may have set one in the meantime.
    provider = _existing(None)
    assert provider is not None
    return provider


def _say_if_name_differs(provider: trace.TracerProvider, service_name: str) -> None:
    resource = getattr(provider, "resource", None)
    name = resource.attributes.get(SERVICE_NAME) if isinstance(resource, Resource) else None
    if name != service_name:
        _log.warning(
            "service_name=%r has no effect: the application's tracer provider says service.name=%r. Set it there.",
            service_name,
            name,
        )
