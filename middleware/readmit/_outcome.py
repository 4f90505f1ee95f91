"""What the end of an epoch says, as events: evidence, the result, and why it stopped."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from readmit import _findings
from readmit._contract import Contract
from readmit._effect import unknown
from readmit._fold import Head, settled
from readmit._model import (
    AnyEvent,
    Challenge,
    EffectState,
    Ended,
    Evidence,
    Outcome,
    Reconciled,
    RecoveryKind,
    Strength,
    Suspended,
)
from readmit._remarks import remark
from readmit._result import Unstorable, encode_result
from readmit._steps import Done

if TYPE_CHECKING:
    from readmit._call import Declaration
    from readmit._epoch import Epoch, Send
    from readmit.journal._port import Journal

RETURNED = Outcome.RETURNED
_log = logging.getLogger("readmit")
_FAILURE_TEXT = re.compile(
    r"\s*((an )?(error|exception)|traceback|failed|failure|timed out|timeout)\b"
    r"|\s*tool (call |execution )?(failed|timed out)\b"
    r"|\s*\{\s*[\"']error[\"']\s*:\s*+(?!null|none|false|[\"'][\"']|[\[{]\s*[\]}])",
    re.I,
)
_FAILED = frozenset({"error", "failed", "failure"})


def events(tool: Declaration, epoch: Epoch, done: Done, now: int) -> tuple[AnyEvent, ...]:
    """Everything to be recorded at the end of an epoch, in one transaction."""
    with epoch.lock:
        epoch.end()
        sends, observed = tuple(epoch.sends), tuple(epoch.observed)
    said: list[AnyEvent] = list(observed)
    for send in sends:
        if not send.journalled:
            said.append(send.started)
        said += send.observed(now)
    ended = _ended(tool, epoch, done, now)
    said.append(ended)
    said += _suspensions(epoch, sends, done, now)
    if ended.outcome is RETURNED and not tool.read:
        remark(tool.name, epoch, ended, sends)
    return tuple(said)


def reached(head: Head, done: Done, recorded: Iterable[AnyEvent]) -> bool:
    """Whether the outcome is a delivery: a result did return, or the caller was told of a settled rejection."""
    if done.error is None and not any(isinstance(e, Ended) and e.unclear for e in recorded):
        return True
    effect = head.effects()
    return effect.state is EffectState.REJECTED and settled(effect, head.accept, waiting=bool(head.waiting))


def _ended(tool: Declaration, epoch: Epoch, done: Done, now: int) -> Ended:
    if done.error is not None:
        claim = _claim(tool.contract, done)
        error = type(done.error).__qualname__
        return Ended(
            at=now,
            epoch=epoch.number,
            call=epoch.call,
            outcome=done.outcome,
            claim=claim,
            error=error,
            stray=epoch.stray,
        )
    try:
        claim, doubt = _classified(tool, done.value)
    except BaseException as error:  # even an exit must leave a record of the epoch, and goes on once it has
        _log.exception("The result of %s could not be classified; its effect is unknown.", tool.name)
        claim, doubt = None, "tool.classify_failed"
        epoch.interrupted = None if isinstance(error, Exception) else error
    result, unstorable = None, "the items of a generator are not recorded" if done.stream else ""
    if not done.stream:
        try:
            result = encode_result(done.value)
        except Unstorable as why:
            unstorable = str(why)
        except Exception as why:  # code of the result's own class; what it did has been done
            unstorable = f"it could not be taken apart: {why!r}"
    return Ended(
        at=now,
        epoch=epoch.number,
        call=epoch.call,
        outcome=done.outcome,
        claim=claim,
        unclear=doubt,
        result=result,
        unstorable=unstorable,
        stray=epoch.stray,
    )


def _claim(contract: Contract, done: Done) -> Evidence | None:
    if not done.started:
        return Evidence(state=EffectState.NOT_SENT, strength=Strength.PROOF, rule="cancelled_before_dispatch")
    return contract.claim(done.error) if done.outcome is Outcome.RAISED and done.error is not None else None


def _classified(tool: Declaration, value: Any) -> tuple[Evidence | None, str]:
    """What the tool's classifier, or the default one, says of a result: a claim, or a doubt."""
    if tool.read:
        return None, ""
    if tool.classify is None:
        return None, looks_failed(value)
    verdict = tool.classify(value)
    if verdict is None or verdict == EffectState.COMMITTED:
        return None, ""
    if verdict == EffectState.UNKNOWN:
        return None, "tool.classified"
    if verdict in (EffectState.REJECTED, EffectState.NOT_SENT):
        return Evidence(state=EffectState(verdict), strength=Strength.CONTRACT, rule="tool.classified"), ""
    raise ValueError(f"it returned {verdict!r}; write 'committed', 'rejected', 'not_sent', 'unknown' or None")


def looks_failed(value: Any) -> str:
    """The rule by which a returned value is no proof of success, or an empty text.

    An `isError` result, an `{"error": …}` dict, a `{"status": "error"}` dict and a text that reports a failure are what
    frameworks hand a model instead of an exception.
    """
    if isinstance(value, str):
        return "tool.error_text" if _FAILURE_TEXT.match(value) else ""
    if isinstance(value, Mapping):
        if value.get("isError") is True or value.get("is_error") is True:
            return "tool.is_error"
        status = value.get("status")
        failed = bool(value.get("error")) or (isinstance(status, str) and status.lower() in _FAILED)
        return "tool.error_value" if failed else ""
    flagged = getattr(value, "isError", None) is True or getattr(value, "is_error", None) is True
    return "tool.is_error" if flagged else ""


def _suspensions(epoch: Epoch, sends: Sequence[Send], done: Done, now: int) -> list[AnyEvent]:
    """Why it stopped: challenges that no later equal request answered, else the failure and its position."""
    unanswered: list[Challenge] = []
    for i, send in enumerate(sends):
        if send.challenges and not any(s.started.request == send.started.request for s in sends[i + 1 :]):
            unanswered += send.challenges
    unanswered += [challenge for met in epoch.surfaced.values() for challenge in met]
    if unanswered:
        return [
            Suspended(
                at=now,
                suspension=RecoveryKind.CHALLENGE,
                id=f"{epoch.occurrence_id}:{epoch.number}:challenge",
                epoch=epoch.number,
                challenges=tuple(unanswered),
                position="wait",
                conditions=("sign_in",),
            )
        ]
    if done.error is None:
        return []
    position = next((s.position for s in reversed(sends) if s.position), "tool")
    return [
        Suspended(
            at=now,
            suspension=RecoveryKind.FAILURE,
            id=f"{epoch.occurrence_id}:{epoch.number}:failure",
            epoch=epoch.number,
            position=position,
        )
    ]


def inner_deliveries(epoch: Epoch | None) -> list[tuple[Journal, str, str]]:
    """Calls inside a tool whose results reach their reader with the tool's own, each with the journal that has it."""
    if epoch is None:
        return []
    with epoch.lock:
        return list(epoch.inner)


def begin_inside(epoch: Epoch, tool: Declaration) -> None:
    """From here on an inner guarded call may have its effect, whatever becomes of the epoch around it meanwhile."""
    if epoch.outer is not None and not tool.read:
        epoch.within = epoch.outer.inner_began(epoch.occurrence_id)


def speak_for_outer(epoch: Epoch, head: Head) -> None:
    """An inner guarded call counts as a send of the outer epoch.

    Where `effects_through="tools"` it speaks for it. Elsewhere it says only that something left, of which an exception,
    `Rejected` and `NotSent` included, says nothing.
    """
    outer, send = epoch.outer, epoch.within
    if outer is None or send is None:
        return
    effect = head.effects()
    if effect.state is None:
        outer.inner_ended(send, None)
        return
    state, strength = _plain(effect.state, effect.present), effect.strength or Strength.TESTIMONY
    if outer.contract.effects_through == "tools":
        outer.inner_ended(send, Evidence(state=state, strength=strength, rule=effect.rule))
    else:
        left = state in (EffectState.COMMITTED, EffectState.UNKNOWN)
        outer.inner_ended(send, unknown("tool.inner") if left else None)


def refused_inside(outer: Epoch | None, tool: Declaration, occurrence_id: str) -> None:
    """A refused inner call sent nothing. Beside others that did, the outer epoch has done its work in part."""
    if outer is not None and outer.contract.effects_through == "tools" and not tool.read:
        nothing = Evidence(state=EffectState.NOT_SENT, strength=Strength.PROOF, rule="tools.refused")
        outer.inner_ended(outer.inner_began(occurrence_id), nothing)


def _plain(state: EffectState, present: bool) -> EffectState:
    """A finding, as the evidence it amounts to."""
    if state is EffectState.RECONCILED:
        return EffectState.COMMITTED if present else EffectState.NOT_SENT
    return EffectState.REJECTED if state is EffectState.COMPENSATED else state


def reconciled(
    finding: _findings.Finding, question: _findings.Question, *, at: int, by: str | None, via: str
) -> Reconciled:
    """A finding as an event; its fence is the last epoch that existed when the question was asked."""
    match finding:
        case _findings.Present(receipt=receipt):
            receipt = _written(receipt)
            echoed = bool(receipt) and (question.occurrence_id in receipt or question.idempotency_key in receipt)
            result = _stored(finding.result, question) if finding.has_result else None
            strength = Strength.TESTIMONY if by else _findings.present_strength(echoed=echoed)
            return Reconciled(
                at=at,
                fence=question.epoch,
                finding="present",
                strength=strength,
                receipt=receipt,
                result=result,
                by=by,
                via=via,
            )
        case _findings.Absent(authoritative=True):
            strength = Strength.TESTIMONY if by else Strength.CONTRACT
            return Reconciled(at=at, fence=question.epoch, finding="absent", strength=strength, by=by, via=via)
        case _findings.Absent():
            return Reconciled(
                at=at, fence=question.epoch, finding="absent_for_now", strength=Strength.TESTIMONY, by=by, via=via
            )
        case _findings.Unclear(why=why):
            return Reconciled(
                at=at,
                fence=question.epoch,
                finding="unclear",
                strength=Strength.TESTIMONY,
                receipt=_written(why),
                by=by,
                via=via,
            )


def _written(text: object) -> str:
    """A hook's word as it can be written down: half an emoji cannot."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def _stored(value: Any, question: _findings.Question) -> bytes | None:
    """A result that was found; that it is there is recorded also where it cannot be stored."""
    try:
        return encode_result(value)
    except Exception as why:  # of the result's own class, too
        _log.warning(
            "%s: the result that was found of occurrence %s cannot be recorded (%s): a repeat is told that its effect "
            "is there, and gets no result.",
            question.tool,
            question.occurrence_id,
            why,
        )
        return None
