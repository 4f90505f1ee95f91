"""Run in an environment that holds the built wheel and nothing more: what the bare install must be able to do."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

IMPORT_MS = """
import sys, time
for name in sys.argv[1:-1]:
    __import__(name)
started = time.perf_counter()
__import__(sys.argv[-1])
print((time.perf_counter() - started) * 1000)
"""


def import_ms(*names: str) -> float:
    """Milliseconds that the last import takes after the others; the best of five processes."""
    command = [sys.executable, "-c", IMPORT_MS, *names]
    return min(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(5))


def main() -> None:
    """Import, look at what the wheel carries, and measure."""
    import readmit
    import readmit_analysis
    import readmit_exporters

    home = Path(sys.prefix)
    for package in (readmit, readmit_exporters, readmit_analysis):
        assert package.__file__ is not None
        assert Path(package.__file__).is_relative_to(home), f"{package.__file__} is not the wheel's"
        assert (Path(package.__file__).parent / "py.typed").exists()
    version = importlib.metadata.version("readmit")
    assert getattr(readmit, "__version__", version) == version
    analysis = Path(readmit_analysis.__file__).parent
    sql, notebooks = list(analysis.rglob("*.sql")), list(analysis.glob("notebooks/*.ipynb"))
    assert sql, "the wheel carries no detectors"
    assert notebooks, "the wheel carries no notebooks"
    try:
        readmit_exporters.configure(files="traces")
    except ImportError as error:
        assert "pip install 'readmit[otlp]'" in str(error)
    else:
        raise AssertionError("the bare install has exporters")
    print(f"readmit {version}: {len(sql)} SQL files, {len(notebooks)} notebooks")
    base = ("httpx", "opentelemetry.sdk.trace", "opentelemetry.instrumentation.httpx")
    print(f"import {', '.join(base)}: {sum(import_ms(*base[:n]) for n in (1, 2, 3)):.0f} ms")
    print(f"import readmit after them: {import_ms(*base, 'readmit'):.0f} ms")


if __name__ == "__main__":
    main()
