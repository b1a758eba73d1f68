"""Six sets of images that are hard for a classifier, drawn from a seed.

Each is one that people bring: few patients with many images each, shapes that differ in one corner,
a class of 3 %, exposures of 12 bits, signs of a few pixels, and few real textures. Training images
and test images never share patients, photographs or halves of photographs, which a classifier could
recognise instead of the class.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, ImageDraw

from tools.benchmarks.photos import photograph
from trainer.data.builtin.photographs import TRAINING, VALIDATION

Array = np.ndarray[Any, Any]
Random = np.random.Generator


@dataclass(frozen=True)
class ImageSet:
    """A set of images, a folder for each class."""

    words: str
    """Its content, in a few words."""
    classes: tuple[str, ...]
    train: tuple[int, ...]
    """Training images of each class."""
    test: int
    """Test images of each class."""
    draw: Callable[[Random, int, bool], Array]
    """Draws an image of a class, given by its number, for training or for the test: uint8 or uint16
    [height, width], or uint8 [height, width, 3]."""

    @property
    def images(self) -> int:
        """Number of training images."""
        return sum(self.train)

    def write(self, folder: Path, seed: int) -> None:
        """Write FOLDER/train/CLASS/NUMBER.png and FOLDER/test/CLASS/NUMBER.png."""
        for part in ("train", "test"):
            for label, name in enumerate(self.classes):
                count = self.train[label] if part == "train" else self.test
                into = folder / part / name
                into.mkdir(parents=True)
                for number in range(count):
                    random = np.random.default_rng([seed, part == "test", label, number])
                    pixels = self.draw(random, label, part == "test")
                    Image.fromarray(pixels).save(into / f"{number:05d}.png")


def smooth(random: Random, side: int, cells: float) -> Array:
    """Return smooth noise with a standard deviation of 1, float [side, side]; `cells` is its number
    of cells along a side.
    """
    grid = random.normal(size=(max(int(cells), 2),) * 2).astype(np.float32)
    noise = np.asarray(Image.fromarray(grid).resize((side, side), Image.Resampling.BICUBIC))
    return np.asarray((noise - noise.mean()) / (noise.std() + 1e-6))


def as_8_bits(image: Array) -> Array:
    """Return an image of values from 0 to 1 as uint8."""
    return np.asarray(np.clip(image * 255, 0, 255), np.uint8)


def _xray(random: Random, label: int, test: bool) -> Array:  # noqa: FBT001
    """Draw a chest of one of a few patients: everything but the sign of the class, the position and
    the noise is the patient's own.
    """
    # Eight images a patient, of one class.
    patient = np.random.default_rng([7, test, label, int(random.integers(12 if test else 30))])
    return chest(random, patient, label)


def chest(random: Random, patient: Random, label: int, side: int = 96) -> Array:
    """Draw an X-ray-like image, uint8 [side, side].

    Args:
        random: Decides position, noise and the place of the sign.
        patient: Decides the anatomy and the exposure.
        label: 0 is normal, 1 is brightness with a curved upper edge at the base of a lung, 2 is a
            mottled patch in a lung.
        side: Height and width, in pixels.
    """
    y, x = np.mgrid[0 : 1 : side * 1j, 0 : 1 : side * 1j]
    y, x = y + random.normal(0, 0.02), x + random.normal(0, 0.02)
    image = 0.62 + 0.10 * smooth(patient, side, int(patient.integers(3, 7)))
    bend, ribs = patient.uniform(0.2, 0.8), patient.uniform(7, 13)
    rib = np.sin(2 * np.pi * (ribs * (y + bend * np.abs(x - 0.5)) + patient.uniform()))
    lungs = []
    for centre in (0.29, 0.71):
        wide, high = patient.uniform(0.14, 0.19), patient.uniform(0.27, 0.36)
        lungs.append(((x - centre) / wide) ** 2 + ((y - 0.47) / high) ** 2)
    lung = lungs[int(random.integers(2))]
    for distance in lungs:
        image -= 0.34 / (1 + np.exp(9 * (distance - 1)))
    image += patient.uniform(0.02, 0.05) * rib
    inside = 1 / (1 + np.exp(9 * (lung - 1)))
    if label == 1:
        level = random.uniform(0.60, 0.68) - 0.25 * (x - 0.5) ** 2
        image += random.uniform(0.12, 0.22) * inside / (1 + np.exp(-60 * (y - level)))
    if label == 2:
        where = random.uniform(0.32, 0.58), 0.29 if lung is lungs[0] else 0.71
        spread = random.uniform(0.06, 0.11)
        patch = np.exp(-((y - where[0]) ** 2 + (x - where[1]) ** 2) / (2 * spread**2))
        mottled = 0.6 + 0.5 * smooth(random, side, side / 5)
        image += random.uniform(0.16, 0.28) * inside * patch * mottled
    gain, offset = patient.uniform(0.7, 1.2), patient.uniform(-0.1, 0.1)
    # The letters of a plate, which tell a patient apart and not a class.
    row, column = (int(patient.integers(2, side // 8)) for _ in "yx")
    image[row : row + 4, column : column + 9] += 0.3 * patient.integers(0, 2, (4, 9))
    return as_8_bits(gain * image + offset + random.normal(0, 0.035, image.shape))


@cache
def _square(name: str) -> Array:
    picture = photograph(name)
    side = min(picture.size)
    return np.asarray(picture.crop((0, 0, side, side)).resize((256, 256)))


def _background(random: Random, side: int, *, test: bool) -> Array:
    """Return a turned window of a photograph, float [side, side, 3], 0 to 1."""
    picture = _square(VALIDATION if test else TRAINING)
    y, x = (int(random.integers(256 - side)) for _ in "yx")
    return np.rot90(picture[y : y + side, x : x + side], int(random.integers(4))) / 255.0


def _corner(random: Random, label: int, test: bool) -> Array:  # noqa: FBT001
    """Draw a polygon or a star of 5, 6 or 7 points, anywhere and turned, before a photograph."""
    side, scale = 64, 4
    points, star = 5 + label % 3, label >= 3
    turn, radius = random.uniform(0, 2 * np.pi), random.uniform(15, 24)
    centre = random.uniform(radius, side - radius, 2)
    inner = 0.62 if star else np.cos(np.pi / points)
    angles = turn + np.pi * np.arange(2 * points) / points
    reach = radius * np.where(np.arange(2 * points) % 2, inner, 1.0)
    corners = centre + reach[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
    cover = Image.new("L", (side * scale,) * 2)
    ImageDraw.Draw(cover).polygon([tuple(corner) for corner in corners * scale], fill=255)
    covered = np.asarray(cover.resize((side, side), Image.Resampling.BOX))[..., None] / 255.0
    back = 0.7 * _background(random, side, test=test)
    # Brighter or darker than its background, so that it can be seen.
    colour = random.uniform(0.0, 0.15, 3) if back.mean() > 0.35 else random.uniform(0.6, 1.0, 3)
    return as_8_bits(covered * colour + (1 - covered) * back + random.normal(0, 0.03, back.shape))


def _cell(random: Random, label: int, test: bool) -> Array:  # noqa: FBT001
    """Draw a stained cell whose nucleus has 1, 2 or 3 lobes, or is a ring."""
    del test
    side = 64
    y, x = np.mgrid[0:side, 0:side]
    centre, turn = random.uniform(24, 40, 2), random.uniform(0, 2 * np.pi)

    def blob(place: Array, radius: float) -> Array:
        distance = np.hypot(y - place[0], x - place[1]) + 1.2 * smooth(random, side, 7)
        return np.asarray(1 / (1 + np.exp(1.2 * (distance - radius))))

    size = random.uniform(15, 20)
    body, nucleus = blob(centre, size), np.zeros((side, side))
    # All nuclei cover about the same area, so that brightness does not tell them apart.
    lobes, radius = (1, 2, 3, 1)[label], size * (0.52, 0.38, 0.32, 0.60)[label]
    for lobe in range(lobes):
        angle, off = turn + 2 * np.pi * lobe / lobes, 0.0 if lobes == 1 else radius * 0.95
        at = centre + off * np.array([np.sin(angle), np.cos(angle)])
        nucleus = np.maximum(nucleus, blob(at, radius * random.uniform(0.9, 1.1)))
    if label == 3:
        nucleus *= 1 - blob(centre, radius * 0.5)
    light = 0.85 + 0.05 * smooth(random, side, 4)
    image = np.stack([light] * 3, 2)
    stain = random.uniform(0.15, 0.35, 3) * np.array([0.6, 1.0, 0.5])
    image = image - body[..., None] * stain - nucleus[..., None] * stain * random.uniform(0.8, 1.4)
    return as_8_bits(image + random.normal(0, 0.04, image.shape))


def _crack(random: Random, label: int, test: bool) -> Array:  # noqa: FBT001
    """Draw bone-like texture of 12 bits whose exposure varies widely, with a fine crack or not."""
    del test
    side = 112
    image = (smooth(random, side, 40) + smooth(random, side, 16)) / 2 + smooth(random, side, 5)
    cover = Image.new("L", (side * 2,) * 2)
    if label:
        angle, bend = random.uniform(0, np.pi), random.uniform(-0.4, 0.4)
        at = random.uniform(0.3, 0.7, 2) * side
        steps = np.arange(-22, 23, 2)
        way = np.stack([np.cos(angle + bend * steps / 22), np.sin(angle + bend * steps / 22)], 1)
        line = at + steps[:, None] * way + random.normal(0, 0.7, (len(steps), 2))
        ImageDraw.Draw(cover).line([tuple(point) for point in line * 2], fill=255, width=4)
    dark = np.asarray(cover.resize((side, side), Image.Resampling.BOX)) / 255.0
    image = image - 1.6 * dark + 0.15 * random.normal(size=image.shape)
    middle, gain = random.uniform(900, 2800), random.uniform(120, 300)
    return np.asarray(np.clip(middle + gain * image, 0, 4095), np.uint16)


def _sign(random: Random, label: int, test: bool) -> Array:  # noqa: FBT001
    """Draw a photograph with dots, and among them a ring or a cross of nine pixels, or neither."""
    side = 96
    image = 0.8 * _background(random, side, test=test).mean(2) + 0.05
    y, x = np.mgrid[0:side, 0:side]

    def place() -> tuple[Array, Array]:
        row, column = random.uniform(8, side - 8, 2)
        return y - row, x - column

    for _ in range(int(random.integers(2, 6))):
        high, wide = place()
        image += random.choice([-0.45, 0.45]) * np.exp(-(high**2 + wide**2) / 6)
    high, wide = place()
    if label == 1:
        shape = np.exp(-((np.hypot(high, wide) - 3.6) ** 2) / 0.9)
    else:
        angle = random.uniform(0, np.pi / 2)
        along = high * np.cos(angle) + wide * np.sin(angle)
        across = wide * np.cos(angle) - high * np.sin(angle)
        bars = np.minimum(np.abs(along), np.abs(across))
        shape = np.exp(-(bars**2) / 0.9) * (np.hypot(high, wide) < 5.0)
    if label:
        image += (0.55 if image.mean() < 0.45 else -0.55) * shape
    return as_8_bits(image + random.normal(0, 0.03, image.shape))


TEXTURES: Final = ("brick", "grass", "gravel", "ihc", "hubble_deep_field", "motorcycle_left")


def _texture(random: Random, label: int, test: bool) -> Array:  # noqa: FBT001
    """Cut a piece of a photograph, of the left half for training and of the right for the test; its
    brightness and contrast say nothing.
    """
    name = TEXTURES[label]
    picture = _grey(name + (".jpg" if name.startswith("hubble") else ".png"))
    half = picture.shape[1] // 2
    part = picture[:, half:] if test else picture[:, :half]
    side = int(random.integers(80, 161))
    y, x = (int(random.integers(length - side)) for length in part.shape)
    piece = Image.fromarray(part[y : y + side, x : x + side]).resize((100, 100))
    piece = piece.rotate(random.uniform(-20, 20), Image.Resampling.BICUBIC).crop((15, 15, 85, 85))
    values = np.asarray(np.rot90(np.asarray(piece), int(random.integers(4))), np.float64)
    values = (values - values.mean()) / (values.std() + 1e-6)
    return as_8_bits(random.uniform(0.35, 0.65) + random.uniform(0.08, 0.2) * values)


@cache
def _grey(name: str) -> Array:
    return np.asarray(photograph(name).convert("L"))


def _counts(images: int, shares: Sequence[float]) -> tuple[int, ...]:
    return tuple(round(images * share) for share in shares)


SETS: Final[Mapping[str, ImageSet]] = {
    "chests": ImageSet(
        "X-ray-like chests of 90 patients; others in the test",
        ("normal", "effusion", "patch"),
        _counts(1200, (0.6, 0.28, 0.12)), 150, _xray,
    ),
    "corners": ImageSet(
        "polygons and stars of 5, 6 or 7 points before a photograph",
        ("pentagon", "hexagon", "heptagon", "star-5", "star-6", "star-7"),
        _counts(5000, (1 / 6,) * 6), 100, _corner,
    ),
    "cells": ImageSet(
        "cells, the rarest of four kinds 3 %",
        ("one-lobe", "two-lobes", "three-lobes", "ring"),
        _counts(2000, (0.82, 0.10, 0.05, 0.03)), 150, _cell,
    ),
    "cracks": ImageSet(
        "12-bit textures of varying exposure, with a crack or not",
        ("whole", "cracked"), _counts(600, (0.5, 0.5)), 250, _crack,
    ),
    "signs": ImageSet(
        "a ring or a cross of nine pixels among dots, or neither",
        ("none", "ring", "cross"), _counts(1500, (1 / 3,) * 3), 200, _sign,
    ),
    "textures": ImageSet(
        "pieces of six photographs; the other half in the test",
        TEXTURES, _counts(300, (1 / 6,) * 6), 100, _texture,
    ),
}  # fmt: skip
"""The sets by name."""


def iterate(names: Sequence[str]) -> Iterator[tuple[str, ImageSet]]:
    """Yield sets by name; all of them if there are no names."""
    return ((name, SETS[name]) for name in names or SETS)
