"""Images of the worst held-out examples, which a run keeps in `RUN/overlays/` for its page."""

import shutil
from collections.abc import Callable, Sequence
from colorsys import hsv_to_rgb
from pathlib import Path
from typing import Any, Final

from PIL import Image

from common.errors import UserError
from trainer.tasks.task import UNWANTED, Array, HeldOut

OVERLAYS: Final = "overlays"
"""Folder of the images, which are named by the number of their example in the split."""
SHOWN: Final = 12
"""Largest number of examples whose overlays are kept."""


def write_overlays(
    folder: Path,
    index: Array,
    ratings: Sequence[float],
    held_out: HeldOut,
    draw: Callable[[int, Array, Array, Array], Image.Image],
) -> dict[str, Any]:
    """Write the overlays of the examples with the lowest ratings, in place of former ones.

    Args:
        folder: Folder of the run.
        index: Number of each example in the split, int64 [n].
        ratings: Rating of each example.
        held_out: Access to the examples.
        draw: Draws the example of a row of `index`, given its pixels, target and logits; see
            `HeldOut.predict`.

    Returns:
        The numbers of examples and overlays, and `problem` if an example could not be read.

    Raises:
        OSError: The folder cannot be written to.
    """
    shutil.rmtree(folder / OVERLAYS, ignore_errors=True)
    facts: dict[str, Any] = {"examples": len(index), "overlays": 0}
    if not held_out.shown:
        return {**facts, "problem": UNWANTED}
    (folder / OVERLAYS).mkdir()
    for row in sorted(range(len(index)), key=lambda row: ratings[row])[:SHOWN]:
        example = int(index[row])
        try:
            drawn = draw(row, *held_out.predict(example))
        except UserError as error:
            facts.setdefault("problem", f"held-out example {example}: {error}")
            continue
        drawn.save(folder / OVERLAYS / f"{example}.png")
        facts["overlays"] += 1
    return facts


def colour(number: int) -> tuple[int, int, int]:
    """Return the colour of a class, counted from 1: hues by the golden ratio, so that consecutive
    classes differ clearly.
    """
    red, green, blue = hsv_to_rgb(number * 0.618034 % 1.0, 0.85, 1.0)
    return round(255 * red), round(255 * green), round(255 * blue)
