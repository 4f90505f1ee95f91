"""A host application as somebody would write it: one model response, its calls, and the provider that gets the results.

Run as a program, it is killed where the test says; run again, it goes on from what is on disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

import readmit
from readmit import ApprovalRequired, Batch, CallOutput, Guard, ModelCall

CALLS = {"local": ["pay", "pay"], "host": ["ask", "ask"], "mixed": ["pay", "ask"]}
FORMS = ("block", "async block", "function", "coroutine", "generator", "async generator")
Outputs = tuple[CallOutput, ...]
Fault = Callable[[], None]


class Lost(Exception):
    """The provider call came to nothing."""


class Host:
    """The application: its journal, what it wrote down for the test, and the provider's address."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.guard = guard = Guard(journal=folder / "readmit.db")

        @guard.tool(effect="write", name="pay", approval=True)
        def pay(cents: int) -> dict[str, Any]:
            self.log("paid")
            return {"paid": cents, "at": "10:00"}

        self.pay = pay

    def log(self, what: str) -> None:
        with (self.folder / "log").open("a") as log:
            log.write(what + "\n")

    def said(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def batch(self, content: str, text: str | None = None) -> Batch:
        if text is not None:
            return Batch.load(text, guard=self.guard)
        names = CALLS[content]
        calls = [ModelCall(tool=n, arguments={"cents": i}, call_id="same") for i, n in enumerate(names)]
        return Batch("resp-1", calls, guard=self.guard)

    def work(self, batch: Batch) -> None:
        """Everything up to the delivery; what was done before is not done again."""
        if batch.charge():
            self.log("charged")
        for call in batch.pending:
            result = self.run(batch, call) if call.tool == "pay" else {"answer": f"yes {call.position}"}
            if batch.add(result, call=call):
                self.log("published")

    def run(self, batch: Batch, call: readmit.PendingCall) -> Any:
        with batch.executing(call):
            try:
                return self.pay(call.position)
            except ApprovalRequired as asked:
                self.log(f"asked {asked.request_id}")
                assert asked.request_id is not None
                self.guard.approve(asked.request_id, by="ann")
            return self.pay(call.position)

    # -- the provider ---------------------------------------------------------------------------------------------

    def post(self, outputs: Outputs) -> None:
        """The provider is handed the results, and answers."""
        body = json.dumps([[o.occurrence_id, o.call_id, o.payload] for o in outputs])
        with httpx.Client() as client:
            client.post(f"{self.url}/responses", content=body).raise_for_status()

    def deliver(self, batch: Batch, form: str, before: Fault, during: Fault) -> None:
        """Around the provider call, in one of the forms; `during` comes when the provider has it, before it is seen."""

        def provider(outputs: Outputs) -> None:
            before()
            self.post(outputs)
            during()

        def streamed(outputs: Outputs) -> Iterator[str]:
            before()
            self.post(outputs)
            yield "first"
            during()
            yield "last"

        async def awaited(outputs: Outputs) -> None:
            provider(outputs)

        async def streams(outputs: Outputs) -> AsyncIterator[str]:
            for item in streamed(outputs):
                yield item

        async def entered() -> None:
            async with batch.deliver() as outputs:
                provider(outputs)

        async def read() -> None:
            async for _ in batch.deliver()(streams)():
                pass

        match form:
            case "block":
                with batch.deliver() as outputs:
                    provider(outputs)
            case "async block":
                asyncio.run(entered())
            case "function":
                batch.deliver()(provider)()
            case "coroutine":
                asyncio.run(batch.deliver()(awaited)())
            case "generator":
                list(batch.deliver()(streamed)())
            case "async generator":
                asyncio.run(read())


def nothing() -> None:
    """No fault."""


def killed() -> None:
    """The process ends here, and nothing else of it happens."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _, where, address, content, form, moment = sys.argv
    host = Host(Path(where), address)
    with readmit.scope("chat", principal="ann"):
        batch = host.batch(content)
        host.work(batch)
        (host.folder / "dump").write_text(batch.dump())
        faults = {m: killed if m == moment else nothing for m in ("before", "during", "after")}
        host.deliver(batch, form, faults["before"], faults["during"])
        faults["after"]()
