"""The commands that only look: `pending`, `show`, `analyze`, `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from readmit.cli import _ids, _tables, _view
from readmit.cli._exit import Exit, Stop, missing
from readmit.cli._session import Session

Given = Annotated[Session, Parameter(parse=False)]


def pending(*, session: Given) -> int:
    """List every open occurrence, oldest first, with what can end it.

    Ids are shortened to what no other of its kind in the journal begins with; every command takes them so.
    """
    with session.guard() as guard:
        entries = guard.pending()
        short = _ids.short(guard, "occurrence", [entry.occurrence_id for entry in entries])
        short |= _ids.short(guard, "request", [entry.request_id for entry in entries if entry.request_id is not None])
    session.answer([_view.waiting(entry) for entry in entries], _tables.pending_table(entries, short, session.more))
    return Exit.DONE


def show(id: str, /, *, session: Given) -> int:
    """Show one occurrence: how it stands, its events in their lanes, its permits, what can end it.

    Args:
        id: the occurrence, or a beginning of its id that no other has.
        session: of this command line.
    """
    with session.guard() as guard:
        view = _view.look(guard, _ids.occurrence(guard, id).id)
    session.answer(view.document(), _tables.story(view, width=session.out.width, more=session.more))
    return Exit.DONE


def analyze(*paths: Path, format: Literal["table", "json"] | None = None, session: Given) -> int:
    """Find duplicate effects, and what else went wrong, in the traces below files and folders.

    Args:
        paths: trace files, or folders that hold them.
        format: table for people, json for scripts; json also with --json.
        session: of this command line.
    """
    if not paths:
        raise Stop(Exit.USAGE, "Name what to analyse: trace files, or folders that hold them.")
    try:
        import duckdb  # noqa: F401

        from readmit_analysis.cli import analyze as run
    except ModuleNotFoundError as error:
        raise _extra(error) from error
    return run(
        paths,
        format=format or ("json" if session.as_json else "table"),
        console=None if session.as_json else session.out,
    )


def demo(*, directory: Path | None = None, session: Given) -> int:
    """Watch the main job done on real servers: a lost response, a renewed login, no second effect.

    Args:
        directory: where the journal and the traces go; a temporary folder by default, which is named at the end.
        session: of this command line.
    """
    from readmit.demo import run_demo

    try:
        report = run_demo(directory, quiet=session.as_json)
    except ModuleNotFoundError as error:
        raise _extra(error) from error
    except OSError as error:
        raise Stop(
            Exit.NOTHING, f"The demo cannot be played in {directory or 'a temporary folder'}: {error}"
        ) from error
    if session.as_json:
        session.answer(report.document(), "")
    return Exit.DONE if report.ok else Exit.NOTHING


def _extra(error: ModuleNotFoundError) -> Exception:
    """What to install, if it is a package of an extra that is missing; anything else is an error of ours."""
    for package, extra in (
        ("duckdb", "analysis"),
        ("readmit_analysis", "analysis"),
        ("opentelemetry.exporter", "otlp"),
    ):
        if (error.name or "").startswith(package):
            return missing(extra)
    return error
