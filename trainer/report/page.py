"""Parts that the sections of the pages about runs and data sets share, and their formats."""

from collections.abc import Sequence
from pathlib import Path

from common import text
from common.page.parts import Block, Figure, Gallery, Section
from common.page.render import data_url
from common.text import plural

MAX_IMAGE_BYTES = 1 << 20
"""Largest size of an image of a run, in bytes; a larger file was not written by a run."""
SMALL = 64
"""Width, in pixels, up to which an image is enlarged without smoothing."""

_PNG, _PNG_WIDTH = b"\x89PNG", slice(16, 20)


def count(value: float | None) -> str | None:
    """Format a whole number, if there is one."""
    return None if value is None else f"{value:,.0f}"


def percent(value: float | None) -> str | None:
    """Format a fraction as a percentage, if there is one."""
    return None if value is None else f"{value:.2%}"


def duration(seconds: float | None) -> str | None:
    """Format a duration, if there is one."""
    return None if seconds is None else text.duration(seconds)


def about_predictions(confused: Sequence[Block], mistakes: Sequence[Block]) -> list[Section]:
    """Return the sections of a run's report about its predictions."""
    return [
        Section("confusion", "Which classes are confused", confused),
        Section("mistakes", "Mistakes", mistakes),
    ]


def image_file(path: Path) -> bytes | None:
    """Read an image that a run has kept as PNG or JPEG; None if there is none.

    Args:
        path: Path without its suffix.
    """
    for suffix in (".png", ".jpg"):
        file = path.with_name(path.name + suffix)
        try:
            if file.stat().st_size <= MAX_IMAGE_BYTES:
                return file.read_bytes()
        except OSError:
            continue
    return None


def kept_image(
    image: bytes | None, index: int, shows: str, lines: Sequence[tuple[str, str, str]]
) -> Figure:
    """Return the figure of an evaluated example.

    Args:
        image: PNG or JPEG; None if it was not kept.
        index: Number of the example.
        shows: Description of the image.
        lines: Label, text and value of each line below it.
    """
    if image is None:
        return Figure(None, f"image {index:,} was not kept", lines)
    is_png = image.startswith(_PNG)
    small = is_png and int.from_bytes(image[_PNG_WIDTH]) <= SMALL
    url = data_url(image, "image/png" if is_png else "image/jpeg")
    return Figure(url, f"Image {index}: {shows}", lines, pixelated=small)


def holds_images(sections: Sequence[Section]) -> list[str]:
    """Return a sentence for the top of a page that contains images of the data set, if it does."""
    blocks = (block for section in sections for block in section.blocks)
    galleries = (block for block in blocks if isinstance(block, Gallery))
    return copies(sum(figure.url is not None for g in galleries for figure in g.figures))


def copies(images: int) -> list[str]:
    """Return a sentence for the top of a page with so many images of the data set, if any."""
    if not images:
        return []
    number = plural(images, "copy of an image", "copies of images")
    return [
        f"This page contains {number} of the data set. Share it only with people who may see them."
    ]


def missing(problem: str | None) -> str:
    """Return a sentence on why images are missing, if one could not be read when the run ended."""
    return f" Images are missing: {problem}." if problem else ""
