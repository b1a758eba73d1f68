"""What the output of commands says. Pure."""

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
    """What Pulumi counts at its end, such as {"created": 118}; empty if it says nothing.

    `up` counts twice: what it foresaw, and what it did. The last count is taken.
    """
    _, _, counted = text.rpartition(_RESOURCES)
    return {what: int(number) for number, what in _CHANGES.findall(counted)}


def differences(text: str) -> list[str]:
    """The values that Pulumi shows to differ, such as `maxNodeCount: 2 => 1`."""
    return [f"{name}: {' '.join(values.split())}" for name, values in _DIFFERENCE.findall(text)]


def continued_at(text: str) -> int | None:
    """The step at which a training went on, the last time it did; None if it never did."""
    steps = _STEP.findall(text)
    return int(steps[-1].replace(",", "")) if steps else None


def last_step(text: str) -> int | None:
    """The last step that is told of a training, before a summary or at its end; None if none is."""
    steps = _LAST_STEP.findall(text)
    return int(steps[-1].replace(",", "")) if steps else None


def accuracy(text: str) -> tuple[str, int] | None:
    """Top-1 in percent as it is written, and the number of images; None if there is none."""
    match = _ACCURACY.search(text)
    return (match[1], int(match[2].replace(",", ""))) if match else None
