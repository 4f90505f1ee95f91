"""A read-only call: outside of the table. No journal record, no epoch, no waiting; one span."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from readmit._call import Steps
from readmit._context import UNNAMED, Frame
from readmit._declare import ToolSpec
from readmit._steps import Done, Execute
from readmit._telemetry import Inside

if TYPE_CHECKING:
    from readmit._guard import Guard

_log = logging.getLogger("readmit")


class Reading:
    """One call of a read-only tool: a context manager around its body, or steps for a generator.

    What the body sends is known to be the tool's own (`reading`), so that an effectful request inside is a finding.
    """

    __slots__ = ("_span", "_spans", "inside")

    def __init__(self, guard: Guard, spec: ToolSpec, arguments: Mapping[str, Any], here: Frame) -> None:
        guard.check_journal()
        tool = spec.declaration.name
        self._spans = guard.spans
        self._span = guard.spans.read(tool, _attributes(guard, spec, arguments, here))
        self.inside = Inside(replace(here, reading=tool), self._span)

    def __enter__(self) -> None:
        self.inside.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.inside.__exit__()
        self._spans.read_ended(self._span, error)

    def steps(self) -> Steps:
        """The same for a driver, which enters `inside` whenever the body runs."""
        done: Done = yield Execute(None)
        self.collected(done)
        return done

    def collected(self, done: Done) -> None:
        """The body has ended."""
        self._spans.read_ended(self._span, done.error)


def _attributes(guard: Guard, spec: ToolSpec, arguments: Mapping[str, Any], here: Frame) -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": spec.declaration.name,
        "readmit.operation": "execute",
        "readmit.mode": guard.mode_of(spec),
    }
    if (scope := here.scope or guard.scope_name) != UNNAMED:
        attributes["gen_ai.conversation.id"] = scope
    if here.call_id is not None:
        attributes["gen_ai.tool.call.id"] = here.call_id
    try:
        attributes["readmit.input.digest"] = spec.binder.digest(arguments, secret=guard.digest_secret).digest
    except Exception as error:  # a digest only names the call here: the read does not depend on it
        warn_once(spec, error, "The read runs; its span has no digest.")
    return attributes


def warn_once(spec: ToolSpec, error: Exception, what: str) -> None:
    """What is wrong with the arguments of a call that runs all the same, said once for its tool."""
    if not spec.warned:
        spec.warned = True
        _log.warning("%s %s", f"{error}".replace(" Nothing was run.", "") or repr(error), what)
