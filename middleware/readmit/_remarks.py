"""What a return was taken for, where its author may expect something else: said once, before a call repeats."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from readmit._model import EffectState, Ended

if TYPE_CHECKING:
    from readmit._epoch import Epoch, Send

_log = logging.getLogger("readmit")
_said: set[tuple[str, str]] = set()  # of which tool what


def remark(tool: str, epoch: Epoch, ended: Ended, sends: Sequence[Send]) -> None:
    """Warns of a result that is not believed, and of one that is although a request of it got no good answer.

    Args:
        tool: the tool's name.
        epoch: the epoch that returned.
        ended: what was recorded of its end.
        sends: its requests.
    """
    if ended.unclear and ended.unclear != "tool.classify_failed":  # of which the traceback was logged
        what = f"its result reads like a failure ({ended.unclear}), so its effect is unknown"
        _once(tool, epoch, "result", f"{what}. Where it is none, say so with classify=.")
    elif ended.claim is None and (rule := _unsettled(epoch, sends)):
        what = f"it returned, which counts as done, although of a request of it that is not known ({rule})"
        _once(tool, epoch, "send", f"{what}. Raise where it was not (raise_for_status()), or tell by classify=.")


def _unsettled(epoch: Epoch, sends: Sequence[Send]) -> str:
    """The rule by which a request is not known to be carried out; empty if all are, or the tool itself knows."""
    if any(event.evidence.state is EffectState.COMMITTED for event in epoch.observed):
        return ""
    for send in {send.started.request: send for send in sends if send.started.route != "tool"}.values():
        if not any(evidence.state is EffectState.COMMITTED for evidence in send.evidence):
            return send.evidence[-1].rule if send.evidence else "http.no_response"
    return ""


def _once(tool: str, epoch: Epoch, about: str, what: str) -> None:
    if (tool, about) not in _said:
        _said.add((tool, about))
        _log.warning("%s: %s [occurrence %s]", tool, what, epoch.occurrence_id)
