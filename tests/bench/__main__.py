"""Every figure of *The spine* in one table: `python -m tests.bench`."""

from __future__ import annotations

from tests.bench import bench_calls, bench_digest, bench_import, bench_kernel
from tests.bench.figures import Figure, show


def digest() -> list[Figure]:
    """The digest of 200 bytes of arguments, binding included."""
    _, _, taken, *_ = bench_digest.measure(*bench_digest.CASES["200 B"])
    return [Figure("digest of 200 B of arguments, binding included", float(taken), 12, "µs", "best of 25")]


if __name__ == "__main__":
    show([*bench_calls.figures(), *bench_kernel.figures(), *digest(), *bench_import.figures()])
