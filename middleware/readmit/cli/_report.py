"""What a command says once an act is recorded."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from readmit._guard import Guard
from readmit.cli import _view
from readmit.cli._consent import Act
from readmit.cli._exit import Exit
from readmit.cli._session import Session, plain
from readmit.cli._text import clean


def recorded(session: Session, guard: Guard, act: Act, via: str, occurrences: list[str], **ids: Any) -> int:
    """Says that an act was recorded, and how each occurrence stands now."""
    views = [_view.look(guard, one) for one in occurrences]
    document = {
        "operation": act.operation,
        "by": act.by,
        "via": via,
        **ids,
        "occurrences": [
            {
                "occurrence_id": view.head.id,
                "recovery": view.head.recovery_state,
                "effect": view.head.effects().state,
                "open": not view.head.closed,
                "remedies": list(view.pending.remedies) if view.pending else [],
                "next_call": {"decision": view.next_call.decision, "why": view.next_call.why or None},
            }
            for view in views
        ],
    }
    text = Text.assemble(
        ("recorded ", "green"), (act.operation, "bold"), f" by {clean(act.by or 'nobody named')} via {via}"
    )
    if permit := ids.get("permit_id"):
        text.append(f", permit {permit}")
    lines: list[RenderableType] = [text]
    for view in views:
        stands = Text(f"{clean(view.head.opened.tool)} {view.short[view.head.id]}: {_stands(view)}")
        lines.append(Padding(Text.assemble(stands, "\n", (clean(view.next_call.said), "bold")), (0, 0, 0, 2)))
    session.answer(plain(document), Group(*lines))
    return Exit.DONE


def _stands(view: _view.View) -> str:
    head = view.head
    if view.pending is None:
        return f"effect {view.said}; closed"
    return f"recovery {head.recovery_state}, effect {view.said}; what can end it: {', '.join(view.pending.remedies)}"
