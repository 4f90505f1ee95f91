"""The command line: the operator calls under their Python names, and `show`, `analyze` and `demo`."""

from __future__ import annotations

from readmit.cli._main import main

__all__ = ["main"]
