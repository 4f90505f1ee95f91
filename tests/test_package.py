"""The shape of the distribution: layers, re-exports, version, extras, pins."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = [ROOT / "middleware/readmit", ROOT / "exporters/readmit_exporters", ROOT / "analysis/readmit_analysis"]
INITS = [path for package in PACKAGES for path in sorted(package.rglob("__init__.py"))]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

PURE = [
    *("_model", "_canonical", "_digest", "_result", "_identity", "_contract", "_evidence", "_effect", "_authority"),
    *("_fold", "_admission", "_correlate", "_call", "_epoch", "_outcome", "_findings", "_steps"),
]
FORBIDDEN = ["opentelemetry", "sqlite3", "duckdb", "wrapt", "httpx", "httpx2", "httpcore", "httpcore2", "psycopg"]


def pure_modules() -> list[str]:
    """The modules of the pure core; everything that they import is held to the same rule."""
    gone = [name for name in PURE if not (PACKAGES[0] / f"{name}.py").exists()]
    assert not gone, f"these are gone, and no longer tested: {gone}"
    return [f"readmit.{name}" for name in PURE]


def test_the_pure_core_reaches_no_driver(tmp_path: Path) -> None:
    """Import-linter follows every import statement, also indirect ones and those inside functions."""
    config = tmp_path / "layers.ini"
    config.write_text(
        "[importlinter]\nroot_package = readmit\ninclude_external_packages = True\n\n"
        "[importlinter:contract:core]\nname = The core is pure\ntype = forbidden\n"
        "source_modules =\n    " + "\n    ".join(pure_modules()) + "\n"
        "forbidden_modules =\n    " + "\n    ".join(FORBIDDEN) + "\n"
    )
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", command, "--config", str(config), "--no-cache"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


LOAD_WITHOUT_INIT = """
import importlib, pathlib, sys, types

root = pathlib.Path(sys.argv[1])
for init in root.rglob("__init__.py"):
    name = ".".join(init.parent.relative_to(root.parent).parts)
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [str(init.parent)]
for name in sys.argv[2:]:
    importlib.import_module(name)
print(sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_the_pure_core_loads_without_a_driver() -> None:
    """The same at run time, with every `__init__` left out: those re-export the drivers beside the ports."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD_WITHOUT_INIT, str(PACKAGES[0]), *pure_modules()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(ast.literal_eval(done.stdout))
    assert "readmit" in loaded
    assert sorted(loaded & set(FORBIDDEN)) == []


@pytest.mark.parametrize("path", INITS, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_init_only_re_exports_in_sorted_order(path: Path) -> None:
    body = ast.parse(path.read_text("utf-8")).body
    exported: list[str] = []
    bound: set[str] = set()
    for node in body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.ImportFrom(module="__future__" | "typing"):
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=listed, orelse=[ast.ImportFrom() as later]):
                assert [name.name for name in later.names] == ["__getattr__"]
                for one in listed:
                    assert isinstance(one, ast.ImportFrom)
                    bound |= {name.asname or name.name for name in one.names}
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                bound |= {name.asname or name.name for name in names}
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                exported = ast.literal_eval(value)
            case _:
                pytest.fail(f"{path.relative_to(ROOT)}:{node.lineno} does more than re-export")
    assert exported == sorted(exported)
    assert set(exported) <= bound, "a name in __all__ is not imported"
    assert {name for name in bound if not name.startswith("_")} <= set(exported), "a public name is not in __all__"


def test_what_is_imported_later_is_there_and_nothing_else() -> None:
    import readmit
    from readmit import _later

    for name, module in _later._WHERE.items():
        assert getattr(readmit, name) is getattr(importlib.import_module(f"readmit.{module}"), name)
        assert name in readmit.__all__
    with pytest.raises(AttributeError, match="module 'readmit' has no attribute 'Bach'"):
        _ = readmit.Bach  # type: ignore[attr-defined]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_is_typed(package: Path) -> None:
    assert (package / "__init__.py").exists()
    assert (package / "py.typed").exists()


def test_the_version_is_said_once() -> None:
    source = PACKAGES[0] / "_version.py"
    found = re.search(r'^__version__ = "(.+)"$', source.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["hatch"]["version"]["path"] == str(source.relative_to(ROOT))
    again = [
        path
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path != source and f'"{found[1]}"' in path.read_text("utf-8")
    ]
    assert again == []


def test_all_means_all() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    users = sorted(set(extras) - {"all", "test", "lint"})
    assert extras["all"] == [f"readmit[{','.join(users)}]"]


def test_pins_cover_the_test_command_and_name_no_host() -> None:
    lines = (ROOT / "tests/constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.match(r"[a-z0-9-]+==\S+( ; .+)?$", line) for line in pins)
    assert not any("://" in line or "index" in line for line in lines)
    pinned = {line.partition("==")[0] for line in pins}
    extras = PYPROJECT["project"]["optional-dependencies"]
    wanted = [
        *PYPROJECT["project"]["dependencies"],
        *(line for extra in ("cli", "otlp", "analysis", "test", "lint") for line in extras[extra]),
    ]
    names = {re.split(r"[\[>=]", line)[0] for line in wanted}
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in names} <= pinned  # as the packaging specification has it
