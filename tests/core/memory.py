"""A journal in plain dictionaries: small, deterministic, and copied in a moment, so that all orders can be tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from readmit._fold import Head, fold
from readmit._identity import Found
from readmit._model import Decided, TraceContext
from readmit.journal import Change, Query, Stale

_encode = msgspec.json.Encoder().encode
Name = tuple[tuple[int, str], ...]  # ordinals with their occurrences, oldest first


@dataclass(slots=True)
class Store:
    """What all owners share. A name's ordinal is taken once, a head is written on the version that was read."""

    heads: dict[str, Head] = field(default_factory=dict)
    slots: dict[str, str] = field(default_factory=dict)
    names: dict[str, Name] = field(default_factory=dict)
    closed: dict[str, bool] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    dead: frozenset[str] = frozenset()
    texts: dict[str, bytes] = field(default_factory=dict)  # what was written, without what only a reader looks at

    def copy(self) -> Store:
        return Store(
            dict(self.heads),
            dict(self.slots),
            dict(self.names),
            dict(self.closed),
            dict(self.documents),
            self.dead,
            dict(self.texts),
        )

    def equal(self, slot: str, signature: str, digest: str) -> list[Head]:
        """Open occurrences that an equal call could be."""
        return [h for h in self._open(slot) if h.opened.signature == signature and h.digest == digest]

    def other_signature(self, slot: str, signature: str) -> list[Head]:
        """Open occurrences of the tool as it was declared before."""
        return [h for h in self._open(slot) if h.opened.signature != signature]

    def _open(self, slot: str) -> list[Head]:
        return [h for h in self.heads.values() if not self.closed[h.id] and self.slots[h.id] == slot]

    def apply(self, changes: Sequence[Change]) -> list[Head]:
        """All changes or none."""
        heads, names, texts = dict(self.heads), dict(self.names), dict(self.texts)
        slots = dict(self.slots)
        written = []
        for change in changes:
            head = heads.get(change.occurrence_id, Head(id=change.occurrence_id))
            if change.expected is not None and head.version != change.expected:
                raise Stale(f"version {head.version}, not {change.expected}")
            if change.check is not None:
                change.check(head)
            for name, ordinal in change.unless:
                if any(o > ordinal for o, _ in names.get(name, ())):
                    raise Stale(f"{name} was taken meanwhile")
            for event in change.events:
                head = fold(head, event)
            for name, ordinal in change.names:
                taken = names.get(name, ())
                if any(o == ordinal for o, _ in taken):
                    raise Stale(f"{name} {ordinal} is taken")
                names[name] = tuple(sorted((*taken, (ordinal or max((o for o, _ in taken), default=0) + 1, head.id))))
            texts[head.id] = texts.get(head.id, b"") + b"".join(
                _encode(e) for e in change.events if not isinstance(e, Decided)
            )
            heads[head.id] = head
            written.append(head)
            if change.expected == 0:
                beside = self.equal(change.slot, head.opened.signature, head.opened.digest)
                beside += self.other_signature(change.slot, head.opened.signature)
                if unseen := [h.id for h in beside if h.id not in change.beside]:
                    raise Stale(f"{unseen} opened meanwhile")
                slots[head.id] = change.slot
        self.heads, self.names, self.texts, self.slots = heads, names, texts, slots
        self.closed.update((head.id, head.closed) for head in written)
        return written


class MemoryJournal:
    """The journal as one owner sees it.

    Args:
        store: what all owners share.
        owner: the token of this one.
        noted: called with each note; by default it is written at once.
        waiting: what this owner has noted and not written yet: it counts as written, for this owner.
    """

    name = "memory"

    def __init__(
        self,
        store: Store,
        owner: str,
        noted: Callable[[Change], None] | None = None,
        waiting: Sequence[Change] = (),
    ) -> None:
        self.store = store
        self.owner = owner
        self.dead: frozenset[str] | None = None  # who was dead at a moment that is lived through again
        self._noted = noted
        self._waiting = waiting

    def alive(self, owner: str) -> bool:
        return owner not in (self.store.dead if self.dead is None else self.dead)

    def find(self, query: Query) -> Found:
        store = self.store
        named = {}
        for name in query.names:
            if taken := store.names.get(name):
                ordinal, occurrence = taken[-1]
                named[name] = (ordinal, self._known(store.heads[occurrence]))
        equal = [self._known(head) for head in store.equal(query.slot, query.signature, query.digest)]
        others = [self._known(head) for head in store.other_signature(query.slot, query.signature)]
        return Found(named, equal, others)

    def _known(self, head: Head) -> Head:
        return fold(head, *[e for change in self._waiting if change.occurrence_id == head.id for e in change.events])

    def load(self, occurrence_id: str) -> Head | None:
        head = self.store.heads.get(occurrence_id)
        return None if head is None else self._known(head)

    def append(self, changes: Sequence[Change], *, durable: bool) -> list[Head]:
        return self.store.apply(changes)

    def note(self, change: Change) -> None:
        if self._noted is None:
            self.store.apply([change])
        else:
            self._noted(change)

    def named(self, name: str) -> list[Head]:
        return [self.store.heads[occurrence] for _, occurrence in self.store.names.get(name, ())]

    def beginning(self, kind: str, prefix: str) -> list[str]:
        names = self.store.heads if kind == "occurrence" else [n.removeprefix(f"{kind}:") for n in self.store.names]
        return sorted(name for name in names if name.startswith(prefix))[:20]

    def open(self) -> Iterator[Head]:
        return (head for head in list(self.store.heads.values()) if not self.store.closed[head.id])

    def keep_document(self, fingerprint: str, text: bytes) -> None:
        self.store.documents[fingerprint] = text

    def document(self, fingerprint: str) -> bytes | None:
        return self.store.documents.get(fingerprint)

    def close(self) -> None:
        """Nothing waits, nothing is held."""


class Silent:
    """Spans that nobody watches."""

    span = None
    context = TraceContext(trace_id="0" * 32, span_id="0" * 16)

    def decided(self, *what: Any, **more: Any) -> None: ...
    def act(self, *what: Any, **more: Any) -> None: ...
    def end(self, *what: Any, **more: Any) -> None: ...
    def discard(self) -> None: ...

    def epoch(self, *what: Any, **more: Any) -> Silent:
        return self


SILENT = Silent()
