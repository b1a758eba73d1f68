"""Parses the output of commands. Pure."""

import re
from typing import Final

_CHANGES: Final = re.compile(
    r"^\s*(?:[-+~]+ ?)?(\d+)\s+(to create|to update|to replace|to delete|created|updated|replaced"
    r"|deleted|unchanged)\b",
    re.MULTILINE,
)
_RESOURCES: Final = "Resources:"
_DIFFERENCE: Final = re.compile(r"^\s*[~+-]+\s*(\w[\w.\[\]\"-]*)\s*:\s*(.+=>.+)$", re.MULTILINE)
_STEP: Final = re.compile(r"\bcontinues at step ([\d,]+)")
_LAST_STEP: Final = re.compile(r"^step\s+([\d,]+)\s+epoch", re.MULTILINE)
_ACCURACY: Final = re.compile(r"top-1 ([\d.]+)%.* on ([\d,]+) held-out images")


def changes(text: str) -> dict[str, int]:
    """Return Pulumi's final counts, such as {"created": 118}; empty if there are none.

    `up` prints two sets of counts: the preview's and the update's. The last one is returned.
    """
    _, _, counted = text.rpartition(_RESOURCES)
    return {what: int(number) for number, what in _CHANGES.findall(counted)}


def differences(text: str) -> list[str]:
    """Return the differences that Pulumi shows, such as `maxNodeCount: 2 => 1`."""
    return [f"{name}: {' '.join(values.split())}" for name, values in _DIFFERENCE.findall(text)]


def continued_at(text: str) -> int | None:
    """Return the step at which a training last resumed; None if it never did."""
    steps = _STEP.findall(text)
    return int(steps[-1].replace(",", "")) if steps else None


def last_step(text: str) -> int | None:
    """Return the last step in a training's progress output; None if there is none."""
    steps = _LAST_STEP.findall(text)
    return int(steps[-1].replace(",", "")) if steps else None


def accuracy(text: str) -> tuple[str, int] | None:
    """Return top-1 in percent as printed, and the number of images; None if there is none."""
    match = _ACCURACY.search(text)
    return (match[1], int(match[2].replace(",", ""))) if match else None
