"""Optional imports: what to install when something is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["MissingExtra", "require"]


class MissingExtra(ImportError):
    """A package that this part of `readmit_analysis` needs is not installed; the message has the command that helps."""


def require(module: str, *, purpose: str) -> ModuleType:
    """Import an optional module.

    Args:
        module: The module's name, for instance `duckdb`.
        purpose: What it is needed for, in a few words for the error.

    Raises:
        MissingExtra: The module is not installed.

    Example:
        >>> require("json", purpose="reading").__name__
        'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtra(
            f"{purpose} needs {module}, which is not installed. Install it with: pip install 'readmit[analysis]'",
            name=module,
        ) from error
