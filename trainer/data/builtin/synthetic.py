"""A data set of noise that costs as much to read as photographs, for measurements only.

Its images have the size of ImageNet's average photograph and the spectrum of natural images (power
falling with the square of the frequency: Field 1987), so their JPEGs have a photograph's size.
"""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from rich.progress import track

from trainer.data.builtin.options import PrepareSyntheticOptions
from trainer.data.builtin.writer import write_data_set
from trainer.data.example import Record
from trainer.data.manifest import Manifest, Normalization

WIDTH, HEIGHT, CLASSES = 500, 375, 10
QUALITY = 90
COLOUR = 0.3
"""Spread of the colours of a pixel, relative to the spread of pixels."""
CONTRAST = 55.0
"""Standard deviation of the pixels, about that of photographs."""


def run(options: PrepareSyntheticOptions, *_: object) -> None:
    """`ml-trainer prepare synthetic`; see `prepare_noise`."""
    prepare_noise(options.output, options.images)


def prepare_noise(output: str, count: int) -> Manifest:
    """Write `count` training images and a tenth as many held-out images.

    Raises:
        DataError: The folder exists and contains something else.
    """
    train, validation = (
        list(track(noise_records(number, seed), f"making {number:,} images", number))
        for seed, number in enumerate((count, max(count // 10, CLASSES)))
    )
    classes = tuple(f"class {number}" for number in range(CLASSES))
    normalization = Normalization((127.5,) * 3, (CONTRAST,) * 3)
    command = f"ml-trainer prepare synthetic --output {output} --images {count}"
    return write_data_set(Path(output), train, validation, classes, normalization, command)


def noise_records(count: int, seed: int) -> Iterator[Record]:
    """Yield JPEG records, the same for the same seed."""
    y, x = np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)[None]
    frequency = np.maximum(np.hypot(y, x), 1 / max(WIDTH, HEIGHT))
    for number in range(count):
        noise = np.random.default_rng([seed, number])
        white = np.fft.rfft2(noise.standard_normal([4, HEIGHT, WIDTH]))
        light, *colours = np.fft.irfft2(white / frequency, s=(HEIGHT, WIDTH))
        pixels = np.stack([light + COLOUR * colour for colour in colours], 2)
        pixels = 127.5 + CONTRAST * pixels / pixels.std()
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        buffer = io.BytesIO()
        image.save(buffer, format="JPEG", quality=QUALITY)
        label = number % CLASSES
        name = f"noise-{seed}-{number:06d}.jpg"
        text = f"class {label}"
        yield Record(buffer.getvalue(), "JPEG", HEIGHT, WIDTH, label, text, name)
