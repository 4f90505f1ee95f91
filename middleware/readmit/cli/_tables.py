"""What `pending` and `show` look like at a terminal, from 80 columns on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from readmit._authority import Closed, PermitView
from readmit._fold import Head
from readmit._model import AnyEvent, Dimension
from readmit._operator import Pending
from readmit.cli._events import words
from readmit.cli._remedies import remedy
from readmit.cli._text import age, called, clean, since, when
from readmit.cli._view import View

_UNBROKEN = "\N{NO-BREAK SPACE}"
WIDE = 110  # columns from which every lane gets a column of its own
_COLOUR = {
    "unknown": "bold red",
    "in_flight": "bold yellow",
    "suspended": "yellow",
    "committed": "green",
    "reconciled": "green",
    "accepted": "green",
    "granted": "green",
    "satisfied": "green",
    "denied": "red",
    "revoked": "red",
    "stale": "red",
    "expired": "red",
}
_LANES = {  # name, colour, share of the width
    Dimension.RECOVERY: ("recovery", "yellow", 3),
    Dimension.AUTHORITY: ("authority", "blue", 3),
    Dimension.EFFECT: ("effect", "magenta", 4),
    Dimension.DELIVERY: ("delivery", "cyan", 2),
}
_ADMISSION = ("admission", "bold", 3)  # also identity and records, which no lane of evidence takes


def state(text: str) -> Text:
    """A state in its colour."""
    return Text(text, style=_COLOUR.get(text.partition(" ")[0], ""))


def pending_table(entries: Sequence[Pending], short: Mapping[str, str], more: str = "") -> RenderableType:
    """The list that people work through, oldest first; `short` has each id's text."""
    if not entries:
        return Text("Nothing is open: no occurrence waits for anybody.", style="green")
    table = _table()
    table.leading = 1
    ids = [len(short[entry.occurrence_id]) for entry in entries]  # never broken: people copy them
    ids += [len(f"request {short[entry.request_id]}") for entry in entries if entry.request_id is not None]
    table.add_column("occurrence\ntool\nscope, age\nrequest", overflow="fold", width=max(*ids, 24))
    table.add_column("effect, epoch\nrecovery", overflow="fold")
    table.add_column("what can end it\nwhat it asks for", overflow="fold")
    for entry in entries:
        scope = clean(entry.scope) + (f" · {clean(entry.principal)}" if entry.principal is not None else "")
        lasted = age(entry.age).replace(" ", _UNBROKEN)
        call = Text.assemble(
            (short[entry.occurrence_id], "bold"), f"\n{clean(entry.tool)}\n", (f"{scope}, {lasted}", "dim")
        )
        if entry.request_id is not None:
            call.append_text(Text.assemble("\nrequest ", (short[entry.request_id], "bold")))
        table.add_row(
            call,
            Text.assemble(_known(entry), "\n", state(entry.recovery)),
            Text.assemble(", ".join(entry.remedies), f"\n{clean(entry.shown)}".rstrip("\n")),
        )
    footer = Text(f"{len(entries)} open. The story of one, and the command for each remedy:")
    return Group(table, footer, _command(f"show ID{more}"))


def _command(words: str) -> Text:
    """A command as it can be copied: one line, however narrow the terminal is."""
    return Text(f"    {called()} {words}", style="cyan", no_wrap=True, overflow="ignore")


def _known(entry: Pending) -> Text:
    """What is known of the effect, and by which epoch."""
    return Text.assemble(state(entry.state), f", {entry.epoch}") if entry.epoch else Text("nothing sent")


def story(view: View, *, width: int, more: str = "") -> RenderableType:
    """One occurrence: how it stands, its events, its permits, what can end it. `more` goes to the end of commands."""
    parts: list[RenderableType] = [_header(view), _timeline(view, width)]
    if view.permits or view.head.denials:
        parts.append(_permits(view))
    parts.append(_ends(view, more))
    return Group(*parts)


def _table(title: str | None = None) -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        expand=True,
        pad_edge=False,
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
    )


def _header(view: View) -> Panel:
    head, opened = view.head, view.head.opened
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold", ratio=1)
    rows: list[tuple[str, str | Text]] = [
        ("occurrence", head.id),
        ("scope", opened.scope if opened.principal is None else f"{opened.scope} · principal {opened.principal}"),
        ("opened", f"{when(opened.at)}, {age(_span(opened.at, view.now))} ago; {'closed' if head.closed else 'open'}"),
        ("arguments", f"digest {head.digest[:16]}…" + (f", key {opened.key}" if opened.key else "")),
        ("contract", view.promised or "none yet"),
        ("recovery", _recovery(head)),
        ("authority", _authority(view)),
        ("effect", _effect(head)),
        ("delivery", _delivery(view)),
        ("next call", view.next_call.said),
    ]
    for name, value in rows:
        grid.add_row(name, value if isinstance(value, Text) else Text(clean(value)))
    epochs = f"{head.last_epoch} epoch{'' if head.last_epoch == 1 else 's'}"
    title = Text.assemble((clean(opened.tool), "bold"), f" · {epochs}")
    return Panel(grid, title=title, title_align="left", border_style="dim" if head.closed else "yellow")


def _span(start: int, end: int) -> timedelta:
    return timedelta(microseconds=max(0, end - start) // 1000)


def _recovery(head: Head) -> Text:
    waits = [f"{s.suspension} of epoch {s.epoch}" if s.epoch else str(s.suspension) for s in head.waiting]
    return Text.assemble(state(head.recovery_state), f" ({', '.join(waits)})" if waits else "")


def _authority(view: View) -> Text:
    gate = view.authority
    if isinstance(gate, Closed):
        why = gate.source if not gate.detail else f"{gate.source}: {gate.detail}"
        return Text.assemble(("closed", "yellow"), f" ({gate.refusal}, {why})")
    if not gate:
        return Text("open (ambient: each request brings its own)")
    return Text.assemble(("open", "green"), f" ({', '.join(permit.permit.source for permit in gate)})")


def _effect(head: Head) -> Text:
    effect = head.effects()
    if effect.state is None:
        return Text("nothing to know: no effect was tried")
    found = f" {effect.finding}" if effect.finding else ""
    strength = f", {effect.strength}" if effect.strength is not None and not effect.finding else ""
    return Text.assemble(state(effect.state), f"{found} ({effect.rule}{strength})")


def _delivery(view: View) -> Text:
    owed = len(view.head.debts())
    return Text.assemble(state(view.delivery), f" ({owed} owed)" if owed else "")


def _timeline(view: View, width: int) -> Table:
    table = _table("timeline")
    table.add_column("after", no_wrap=True, justify="right")
    lanes = (_ADMISSION, *_LANES.values())
    wide = width >= WIDE
    for name, colour, share in lanes if wide else ():
        table.add_column(name, header_style=colour, style=colour, overflow="fold", ratio=share)
    if not wide:
        table.add_column("lane", no_wrap=True)
        table.add_column("event", overflow="fold", ratio=1)
    for _, event in view.events:
        name, colour, _ = _LANES.get(event.dimension, _ADMISSION)
        text = Text(_shortly(words(event), view), style="" if event.dimension in _LANES else _weight(event))
        cells = [text if lane == name else Text() for lane, _, _ in lanes] if wide else [Text(name, style=colour), text]
        table.add_row(since(event.at, view.head.opened.at), *cells)
    return table


def _weight(event: AnyEvent) -> str:
    return "dim" if event.dimension is Dimension.IDENTITY else "bold"


def _shortly(text: str, view: View) -> str:
    """Ids inside an event's text as they are shown elsewhere on this page."""
    for whole, short in view.short.items():
        text = text.replace(whole, short)
    return text


def _permits(view: View) -> Table:
    table = _table("permits")
    short = view.short
    table.add_column("permit", no_wrap=True)
    table.add_column("source")
    table.add_column("granted by", overflow="fold", ratio=2)
    table.add_column("uses")
    table.add_column("expires", overflow="fold", ratio=2)
    table.add_column("state", overflow="fold", ratio=3)
    for permit in view.permits:
        table.add_row(*_permit_cells(permit, short))
    for request in sorted(view.head.denials):
        table.add_row(
            "-", "approval", "-", "-", "-", Text.assemble(state("denied"), f" request {short.get(request, request)}")
        )
    return table


def _permit_cells(view: PermitView, short: Mapping[str, str]) -> Iterable[str | Text]:
    permit = view.permit
    detail = f" ({view.detail})" if view.detail and view.detail != view.state else ""
    return (
        Text(short[permit.id], style="bold"),
        str(permit.source),
        Text(clean(permit.granted_by or "no principal")),
        "any" if permit.uses is None else str(permit.uses),
        "never" if permit.expires is None else when(permit.expires),
        Text.assemble(state(view.state), detail),
    )


def _ends(view: View, more: str) -> RenderableType:
    """Each remedy with its command."""
    if view.pending is None:
        return Text("It is closed: nothing has to be done.", style="dim")
    lines: list[RenderableType] = [Text("what can end it", style="bold")]
    remedies = list(view.pending.remedies)
    if view.pending.request_id is not None:
        remedies.insert(remedies.index("approve") + 1, "deny")
    for name in remedies:
        known = remedy(name, view.pending, short=view.short)
        lines.append(Padding(Text.assemble((name, "bold"), f"  {known.meaning}"), (0, 0, 0, 2)))
        lines.append(_command(f"{known.command}{more}"))
    return Group(*lines)
