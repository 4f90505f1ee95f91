"""The operator key: what stands for a person where there is no terminal.

What it is good for. A model that runs shell commands can run `readmit approve`; it has no terminal, so it is asked for
the key, which it does not have. That keeps an agent from approving its own call in passing, also when it was talked
into it. It is no wall: a process of the same user can open a pseudo-terminal, write over the stored hash, or write the
journal itself, and whoever can read the key can use it. Where the agent is not trusted that far, run it as a user who
cannot write the journal's folder, and keep the key where it cannot read: in the environment or the files of the system
that approves, never in that of the agent.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path

# OWASP's floor for scrypt is 2**17; the key is 256 random bits, so that guessing it is out of reach whatever the cost.
_COST = {"n": 2**14, "r": 8, "p": 1}


def key_path(journal: Path) -> Path:
    """Where the hash of a journal's key is kept: beside it."""
    return journal.with_name(journal.name + "-operator-key")


def make_key(journal: Path) -> str:
    """Makes a key, keeps its hash beside the journal with mode 0600, and returns it: it cannot be shown again.

    Args:
        journal: the journal that it belongs to; its folder must be there. A key that was set before is replaced.

    Raises:
        OSError: the folder cannot be written.
    """
    key, salt = secrets.token_urlsafe(32), secrets.token_bytes(16)
    kept = {"scheme": "scrypt", **_COST, "salt": salt.hex(), "hash": _hash(key, salt, _COST).hex()}
    path = key_path(journal)
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        json.dump(kept, file)
    new.replace(path)
    return key


def fits(key: str, journal: Path) -> bool:
    """Whether a key is the one that was set for a journal.

    Raises:
        FileNotFoundError: none was set.
        ValueError: the file that holds its hash cannot be understood.
    """
    path = key_path(journal)
    try:
        kept = json.loads(path.read_text("utf-8"))
        cost = {name: int(kept[name]) for name in _COST}
        salt, wanted = bytes.fromhex(kept["salt"]), bytes.fromhex(kept["hash"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not hold the hash of an operator key: set a new one with `readmit operator-key set`"
        ) from error
    return hmac.compare_digest(_hash(key.strip(), salt, cost), wanted)


def _hash(key: str, salt: bytes, cost: dict[str, int]) -> bytes:
    return hashlib.scrypt(key.encode(), salt=salt, **cost)
