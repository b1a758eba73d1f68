"""Names of the entries of a run's checkpoint folder.

step-0000000460.a3    the checkpoint after 460 steps, written by the third attempt
step-0000000460       of an older version, which did not know attempts: counts as attempt 0
attempt-0000000003    the third attempt has begun; an earlier one that still lives has to end
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

_CHECKPOINT = re.compile(r"step-(\d{10,})(?:\.a([1-9]\d*))?")
_MARKER = re.compile(r"attempt-(\d{10,})")


class Key(NamedTuple):
    """Identity of a checkpoint. The greater key is the newer one: a later attempt resumed from the
    checkpoints that were valid then, so its checkpoints count before all those of earlier attempts,
    whatever their steps.
    """

    attempt: int
    step: int


def checkpoint_name(key: Key) -> str:
    """Return the name of a checkpoint's folder."""
    return f"step-{key.step:010d}" + (f".a{key.attempt}" if key.attempt else "")


def marker_name(attempt: int) -> str:
    """Return the name of the file by which an attempt claims its number."""
    return f"attempt-{attempt:010d}"


def key_of(name: str) -> Key | None:
    """Parse the name of a checkpoint's folder; return None for any other name."""
    match = _CHECKPOINT.fullmatch(name)
    return Key(int(match[2] or 0), int(match[1])) if match else None


def highest_attempt(names: Iterable[str]) -> int:
    """Return the latest attempt that left a trace; 0 if there is none."""
    attempts = [0]
    for name in names:
        key, marker = key_of(name), _MARKER.fullmatch(name)
        if key:
            attempts.append(key.attempt)
        if marker:
            attempts.append(int(marker[1]))
    return max(attempts)
