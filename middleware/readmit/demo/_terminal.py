"""The demo as a person reads it: what each server saw, what was decided, and why. Good from 80 columns on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import readmit
from readmit._fold import Head
from readmit._operator import Pending
from readmit.cli._text import called
from readmit.demo._layout import as_gates, as_lines, as_rows
from readmit.demo._narrator import Narrator
from readmit.demo._report import GUARDED, UNGUARDED, DemoReport
from readmit.demo._sides import Told

_WIDEST = 110  # columns: longer lines are hard to read


class Terminal(Narrator):
    """Tells the story on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, _WIDEST)
        self._step = 0

    # -- the steps ------------------------------------------------------------------------------------------------

    def opens(self, folder: Path) -> None:
        """Who plays, and what for."""
        self._print(
            Text.assemble(
                ("One tool, twice. ", "bold"),
                "An agent sends a message. The server loses its answer, the sign-in expires, the agent signs in again "
                "and repeats the call. On the left the tool is guarded by readmit, on the right it is not. ",
                "Each has a real HTTP server on loopback that counts what really happened.",
            ),
            Text.assemble(("Written to ", "dim"), (str(folder), "dim")),
        )

    def first_call(self, ours: Told, theirs: Told, head: Head) -> None:
        """The first attempt lost its answer."""
        self._begin(
            "The call",
            "The server sends the message, then the connection drops. The tool looks whether it arrived, and learns "
            "that the sign-in has expired: a 401 with two challenges.",
        )
        epoch, challenge = head.epochs()[0], head.challenge
        assert challenge is not None and epoch.evidence is not None
        schemes = ", ".join(asked.scheme for asked in challenge.challenges)
        decided = (
            ("admitted", f"epoch 1, {epoch.admitted.justification}", ""),
            ("effect", f"{epoch.evidence.state} ({epoch.evidence.rule})", "bold red"),
            ("recovery", f"{head.recovery_state}: {schemes}", "yellow"),
        )
        self._sides(as_lines(ours, decided), as_lines(theirs, (("agent", "told 401: sign in again", ""),)))

    def login(self, head: Head) -> None:
        """The login was renewed."""
        self._begin("The login is renewed", "It answers the challenge. It says nothing about the message.")
        (_, granted), effect = head.grants[-1], head.effects()
        who = f"{granted.permit.source} of {granted.permit.granted_by}"
        self._print(
            as_gates(
                ("recovery", True, f"{head.recovery_state}: the challenge is answered"),
                ("authority", True, f"{who}, granted after epoch {granted.permit.after_epoch}"),
                ("effect", False, f"still {effect.state} ({effect.rule})"),
            )
        )

    def repeat(self, ours: Told, theirs: Told, head: Head) -> None:
        """The call was made again."""
        self._begin("The call again", "Equal arguments, a new call id: the agent only knows that it may go on now.")
        refused = ours.error
        assert isinstance(refused, readmit.Refused)
        decided = (
            ("refused", f"{refused.reason}", "bold red"),
            ("authority", "open", "green"),
            ("effect", "closed: nothing justifies a repeat", "bold red"),
            ("ends it", ", ".join(refused.remedies), ""),
        )
        self._sides(
            as_lines(ours, decided), as_lines(theirs, (("agent", f"told that it is sent, {theirs.value}", ""),))
        )
        self._print(Text.assemble(("The model reads: ", "dim"), (f"“{refused.for_model}”", "italic")))

    def settled(self, again: Told, head: Head, receipt: str, *, by: str) -> None:
        """A person found the effect, and the call was made once more."""
        self._begin(
            "A person looks",
            f"{by} finds the message in the service's outbox and records it; the agent asks once more.",
        )
        effect = head.effects()
        rows = (
            ("recorded", f"reconcile: present, “{receipt}”, by {by}", ""),
            ("effect", f"{effect.state} ({effect.rule}, {effect.strength})", "green"),
            ("server", ", ".join(again.seen) or "nothing: no request left", ""),
            (
                "returned",
                f"the recorded result {again.value!r}; the occurrence is {'closed' if head.closed else 'open'}",
                "green",
            ),
        )
        self._print(as_rows(rows))

    def straight_through(self, refused: Exception, head: Head, status: int, effects: int) -> None:
        """A call that never left was made again."""
        self._begin(
            "And what is proved never sent goes straight through", "Another tool meets a server that is down, then up."
        )
        first, second = head.epochs()
        assert first.evidence is not None
        rows = (
            ("epoch 1", f"{type(refused).__name__}: {first.evidence.state} by {first.evidence.rule}", "yellow"),
            ("epoch 2", f"admitted: {second.admitted.justification}; no person was asked", "green"),
            ("server", f"one request, effect {effects}, answered {status}", ""),
        )
        self._print(as_rows(rows))

    def left_open(self, left: Sequence[Pending]) -> None:
        """What is open now, and stays so."""
        self._begin(
            "Two are left for you",
            "Nobody answers now, and the journal keeps them: the commands at the end are for you to try.",
        )
        rows = []
        for pending in left:
            text = "its answer was lost: the effect is unknown, and nobody has looked"
            if pending.request_id is not None:
                text = "asked for an approval, and nobody has answered: nothing was sent"
            rows.append((pending.tool, text, "yellow"))
        self._print(as_rows(tuple(rows)))

    def analysed(self, report: DemoReport) -> None:
        """The traces were read."""
        self._begin(
            "The traces",
            "All of it was traced: the twin as agent frameworks do it, without readmit. DuckDB reads the files:",
        )
        accusing = [finding for finding in report.findings if not finding.benign]
        table = Table(expand=True, header_style="dim", border_style="dim", show_lines=True)
        table.add_column("finding", overflow="fold", min_width=22)
        table.add_column("why", overflow="fold", ratio=1)
        for finding in accusing:
            what = Text.assemble(
                (finding.verdict, "bold red"), f"\n{finding.confidence}\n", (finding.tool or "no tool", "bold")
            )
            because = f"\nnot benign: {finding.not_benign_because}" if finding.not_benign_because else ""
            table.add_row(what, Text.assemble(finding.why, (because, "dim")))
        benign = [f"{finding.verdict} of {finding.tool}" for finding in report.findings if finding.benign]
        named = {finding.tool for finding in accusing}
        innocent = [tool for tool in (GUARDED, "post_status") if tool not in named]
        self._print(table if accusing else Text("No finding.", style="bold red"))
        said = f"Nothing is held against {' and '.join(innocent)}." if innocent else ""
        self._print(Text.assemble(said, (f" Benign, for the record: {', '.join(benign)}." if benign else "", "dim")))

    def closes(self, report: DemoReport) -> None:
        """Where it all is, what to try, and the servers' own count."""
        self._begin("Look for yourself", None)
        command, journal = called(), shlex.quote(str(report.journal))
        commands = [
            ("the story above", f"{command} show {report.occurrence_id} --journal {journal}"),
            ("what is open", f"{command} pending --journal {journal}"),
        ]
        for waiting in report.left:
            what = f"a finding on {waiting.tool}"
            act = f"reconcile {waiting.occurrence_id} --epoch {waiting.epoch} --by me --present receipt-1"
            if waiting.request_id is not None:
                what = f"a verdict on {waiting.tool}"
                act = f"approve {waiting.request_id} --by me"
            commands.append((what, f"{command} {act} --journal {journal}"))
        commands.append(("the findings", f"{command} analyze {shlex.quote(str(report.traces))}"))
        for what, line in commands:
            self._print(Text(f"# {what}", style="dim"))
            self._console.print(Text(f"  {line}", style="cyan"), soft_wrap=True)
        self._print(Text("# reconcile and approve ask you first; a script needs the key that this makes", style="dim"))
        self._console.print(Text(f"  {command} operator-key set --journal {journal}", style="cyan"), soft_wrap=True)
        self._console.print()
        for name, path in (("folder", report.directory), ("journal", report.journal), ("traces", report.traces)):
            self._console.print(Text.assemble((f"  {name:<8}", "dim"), str(path)), soft_wrap=True)
        self._console.print()
        if not report.ok:
            wanted = f"guarded 1, unguarded 2, and a duplicate_effect of {UNGUARDED} alone"
            self._console.print(Text(f"This is not what should have happened: {wanted}.", style="bold red"))
        took = f"Effects that the servers counted, after {report.seconds:.1f} s:"
        self._console.print(Text(took, style="dim"))
        self._console.print(Text(report.line, style="bold green" if report.ok else "bold red"))

    # -- how it is set --------------------------------------------------------------------------------------------

    def _begin(self, title: str, text: str | None) -> None:
        self._step += 1
        self._console.print()
        self._console.print(
            Rule(Text(f"{self._step}  {title}", style="bold"), align="left", style="dim"), width=self._width
        )
        if text is not None:
            self._print(Text(text))

    def _print(self, *what: RenderableType) -> None:
        for one in what:
            self._console.print(Padding(one, (0, 0, 0, 1)), width=self._width)

    def _sides(self, ours: RenderableType, theirs: RenderableType) -> None:
        grid = Table.grid(expand=True, padding=(0, 1))
        grid.add_column(ratio=1)
        grid.add_column(ratio=1)
        grid.add_row(
            Panel(ours, title="guarded", title_align="left", border_style="green"),
            Panel(theirs, title="unguarded", title_align="left", border_style="red"),
        )
        self._print(grid)
