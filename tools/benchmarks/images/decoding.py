"""The cost of decoding a training image, by its pixels and its bytes.

Photographs of tools/benchmarks/photos.py, enlarged to several sizes and saved as JPEG of two
qualities; each is decoded, cropped at random and resized to 224 pixels by the trainer's own graph,
with one thread. CPU-ms = base + a x megapixels + b x MB is fitted to the medians, with no negative
term. `--to FILE` writes the coefficients, by which the limit of the CPUs is planned.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import tensorflow as tf
from PIL import Image

from common.files import write_atomically
from tools.benchmarks.measure import BenchmarkOptions, read_samples, spread, table, take_turns
from tools.benchmarks.photos import crops
from trainer.config import DataConfig, Positive
from trainer.data.images import training_image
from trainer.data.manifest import Split
from trainer.data.source import Source
from trainer.distributed.communicator import Alone

MEGAPIXELS: Final = (0.2, 0.8, 3.0, 12.0)
QUALITIES: Final = (75, 95)
SIZE: Final = 224


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of decoding, cropping and resizing an image, by its pixels and bytes."""

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each size and quality."""

    count: Annotated[int, Positive] = 8
    """Photographs of each."""

    to: str | None = None
    """File to write the coefficients to."""


def measure(options: Options) -> dict[str, Any]:
    """Measure all sizes and qualities in turns, with one thread."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    contenders: dict[str, Callable[[], int]] = {}
    sizes: dict[str, tuple[float, float]] = {}
    decode = _decoder()
    for megapixels in MEGAPIXELS:
        pictures = [_enlarged(image, megapixels) for _, image, _ in crops(options.count)]
        for quality in QUALITIES:
            saved = [_saved(image, quality) for image in pictures]
            name = f"{megapixels:g} megapixels, quality {quality}"
            mean = sum(map(len, saved)) / len(saved) / 1e6
            pixels = sum(image.width * image.height for image in pictures) / len(pictures)
            contenders[name], sizes[name] = _work(decode, saved), (pixels / 1e6, mean)
    samples = take_turns(contenders, options.rounds, Alone())
    medians = {
        name: spread([sample.cpu_ms for sample in timed]).median for name, timed in samples.items()
    }
    base, per_pixels, per_bytes = fitted([(*sizes[name], ms) for name, ms in medians.items()])
    coefficients = {
        "base_ms": round(base, 3),
        "ms_per_megapixel": round(per_pixels, 3),
        "ms_per_megabyte": round(per_bytes, 3),
        "source": "python -m tools.benchmarks decoding, on this project's machine of 2 cores",
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    if options.to:
        write_atomically(Path(options.to), json.dumps(coefficients, indent=1) + "\n")
    return {"samples": samples, "sizes": sizes, "fitted": coefficients}


def fitted(points: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Return base, ms per megapixel and ms per megabyte that fit best, none of them negative.

    Relative errors count, so that small images are fitted as well as large ones.

    Args:
        points: Megapixels, megabytes and milliseconds.
    """
    data = np.array([(1.0, pixels, size) for pixels, size, _ in points])
    times = np.array([ms for *_, ms in points])
    best, least = np.zeros(3), np.inf
    for count in (1, 2, 3):
        for used in map(list, combinations(range(3), count)):
            weighted = data[:, used] / times[:, None]
            terms, *_ = np.linalg.lstsq(weighted, np.ones(len(times)), rcond=None)
            error = float(((weighted @ terms - 1) ** 2).sum())
            if terms.min() >= 0 and error < least:
                best, least = np.zeros(3), error
                best[used] = terms
    return float(best[0]), float(best[1]), float(best[2])


def _enlarged(image: Image.Image, megapixels: float) -> Image.Image:
    factor = (megapixels * 1e6 / (image.width * image.height)) ** 0.5
    shape = round(image.width * factor), round(image.height * factor)
    pixels = np.asarray(image.resize(shape, Image.Resampling.BICUBIC), np.int16)
    # Sensors add noise at every size, and noise is most of the bytes of a photograph.
    noise = np.random.default_rng(0).integers(-8, 9, (*pixels.shape[:2], 1), np.int8)
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


def _saved(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    # As cameras do: the colours at half the resolution.
    image.save(buffer, "JPEG", quality=quality, subsampling="4:2:0")
    return buffer.getvalue()


def _decoder() -> Callable[[tf.Tensor], tf.Tensor]:
    split = Split((), (), encodings=("JPEG",))
    source = Source(Path(), split, 10, SIZE, DataConfig(source="tfrecords", dir="x"), 0)

    def decode(encoded: tf.Tensor) -> tf.Tensor:
        positions = tf.range(tf.size(encoded, tf.int64), dtype=tf.int64)
        return tf.map_fn(
            lambda pair: training_image(pair[0], source, pair[1]),
            (encoded, positions),
            fn_output_signature=tf.uint8,
        )

    graph: Callable[[tf.Tensor], tf.Tensor] = tf.function(
        decode, [tf.TensorSpec([None], tf.string)], autograph=False
    )
    return graph


def _work(decode: Callable[[tf.Tensor], tf.Tensor], photos: Sequence[bytes]) -> Callable[[], int]:
    def work() -> int:
        decode(tf.constant(photos))
        return len(photos)

    return work


def show(data: Mapping[str, Any]) -> str:
    """Format the table and the coefficients."""
    fitted = data["fitted"]
    formula = (
        f"{fitted['base_ms']:g} ms + {fitted['ms_per_megapixel']:g} ms x megapixels"
        f" + {fitted['ms_per_megabyte']:g} ms x MB"
    )
    return f"{table(read_samples(data['samples']), 'image', [])}\n\nCPU-ms of an image: {formula}"
