"""Small texts for people: ages, times, ids. Whatever comes from outside is cleaned before it reaches a terminal."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

WHOLE_TIME = 13  # characters of a UUIDv7 that hold its millisecond


def clean(text: str) -> str:
    r"""A text without control or invisible characters: names and receipts come from tools, models and services.

    One that moves the cursor or reverses the writing direction could show a person another call than the one that is
    approved.

    Example:
        >>> clean("pay 5\x1b[2Kpay 1")
        'pay 5\\x1b[2Kpay 1'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def called() -> str:
    """How the reader can call this command: by its name, else as it was called."""
    if shutil.which("readmit"):
        return "readmit"
    name = Path(sys.argv[0])
    return shlex.quote(str(name)) if name.name == "readmit" else f"{shlex.quote(sys.executable)} -m readmit.cli"


def age(span: timedelta) -> str:
    """A span of time, in its largest unit that fills it.

    Example:
        >>> age(timedelta(hours=30)), age(timedelta(seconds=90)), age(timedelta(milliseconds=12))
        ('30 h', '90 s', '12 ms')
    """
    seconds = span.total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{max(0.0, seconds) * 1000:.0f} ms"


def moment(at: int) -> datetime:
    """Nanoseconds since the Unix epoch, as local time with its zone."""
    return datetime.fromtimestamp(at / 1_000_000_000).astimezone()


def when(at: int) -> str:
    """Nanoseconds since the Unix epoch, as local time to the second."""
    return moment(at).strftime("%Y-%m-%d %H:%M:%S %Z")


def since(at: int, start: int) -> str:
    """How long after `start`: for the rows of a timeline."""
    return "+" + age(timedelta(microseconds=(at - start) // 1000))


def shortened(one: str, beginning: Callable[[str], Sequence[str]]) -> str:
    """The shortest prefix of an id that no other has; never shorter than a UUIDv7's whole time.

    Args:
        one: the id.
        beginning: all ids that begin with a text.

    Example:
        >>> known = ["0199b2c4-1a2b-7f31-8000", "0199b2c4-1a2b-7f42-8000"]
        >>> shortened(known[0], lambda text: [one for one in known if one.startswith(text)])
        '0199b2c4-1a2b-7f3'
    """
    length = WHOLE_TIME
    while length < len(one) and (one[length - 1] == "-" or len(beginning(one[:length])) > 1):
        length += 1
    return one[:length]
