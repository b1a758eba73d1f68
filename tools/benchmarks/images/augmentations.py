"""The cost of each augmentation of a training image, and a picture of its effect.

CPU-milliseconds of an image of 224 pixels with one thread, besides decoding it: its own share of
the graph in which the host augments a chunk of images.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import tensorflow as tf
from PIL import Image

from tools.benchmarks.measure import BenchmarkOptions, read_samples, table, take_turns
from tools.benchmarks.photos import photograph
from trainer.config import DataConfig, Positive
from trainer.data.augmentations.table import AUGMENTATIONS, augmented, drawn_patch
from trainer.data.manifest import Split
from trainer.data.source import CHUNK, Source
from trainer.distributed.communicator import Alone
from trainer.updates.mixing import mixed_images

SIZE: Final = 224
STRENGTHS: Final[Mapping[str, float]] = {
    "rand_augment": 9,
    "colour_jitter": 0.4,
    "erase": 0.5,
    "mixup": 0.2,
    "cutmix": 1.0,
}
"""The strength of each augmentation: that of its paper, or the usual one."""
SHOWN: Final = ("chelsea.png", "coffee.png", "rocket.jpg", "china.jpg", "flower.jpg")
"""Photographs of the picture, which are mixed with the next one."""
SHOWN_STRENGTHS: Final = {**STRENGTHS, "erase": 1.0, "mixup": 1.0}
"""Strengths in the picture, by which five images show something."""
SIDE: Final = 132
"""Side of an image in the picture, in pixels."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of each augmentation of an image of 224 pixels."""

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each."""

    chunks: Annotated[int, Positive] = 8
    """Chunks of 32 images in a turn."""

    picture: str | None = None
    """File to draw a picture to: a row for each augmentation."""


def measure(options: Options) -> dict[str, Any]:
    """Measure all augmentations in turns, with one thread."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if options.picture:
        _drawn().save(options.picture, quality=88)
    images = tf.constant(np.stack([_square(SHOWN[n % len(SHOWN)], SIZE) for n in range(CHUNK)]))
    contenders = {
        name: _work(source(name, strength), images, options.chunks)
        for name, strength in {"none": 0.0, **STRENGTHS}.items()
    }
    return {"samples": take_turns(contenders, options.rounds, Alone())}


def source(name: str, strength: float, size: int = SIZE) -> Source:
    """Return a split whose images are changed by one augmentation only."""
    chosen = {name: strength} if strength else {}
    config = DataConfig(augment="none", flip=False, **chosen)  # type: ignore[arg-type]
    return Source(Path(), Split((), (), ("JPEG",)), 10, size, config, 0)


def _work(given: Source, images: tf.Tensor, chunks: int) -> Callable[[], int]:
    def change(example: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        image, position = example
        patch = drawn_patch(given, position).get("patch", tf.zeros([5]))
        return augmented(image, given, position).image, patch

    @tf.function(autograph=False)  # type: ignore[untyped-decorator] # TensorFlow has no types
    def graph(first: tf.Tensor) -> tuple[tf.Tensor, ...]:
        positions = first + tf.range(CHUNK, dtype=tf.int64)
        signature = tf.TensorSpec([SIZE, SIZE, 3], tf.uint8), tf.TensorSpec([5])
        augmented: tuple[tf.Tensor, ...] = tf.map_fn(
            change, (images, positions), fn_output_signature=signature
        )
        return augmented

    def work() -> int:
        for number in range(chunks):
            graph(tf.constant(number * CHUNK, tf.int64))
        return chunks * CHUNK

    return work


def _square(name: str, side: int) -> np.ndarray[Any, Any]:
    image = photograph(name)
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    return np.asarray(image.crop((left, top, left + short, top + short)).resize((side, side)))


def _drawn() -> Image.Image:
    """Draw the photographs as they are, and a row of them for each augmentation."""
    plain = np.stack([_square(name, SIDE) for name in SHOWN])
    rows = [plain, *(_row(plain, name, value) for name, value in SHOWN_STRENGTHS.items())]
    gap = [(0, 3), (0, 3), (0, 0)]
    lines = [np.concatenate([np.pad(picture, gap, constant_values=255) for picture in row], 1)
             for row in rows]  # fmt: skip
    return Image.fromarray(np.concatenate(lines)[:-3, :-3])


def _row(plain: np.ndarray[Any, Any], name: str, strength: float) -> Sequence[Any]:
    given = source(name, strength, SIDE)

    def positions() -> Iterator[tuple[Any, tf.Tensor]]:
        return zip(tf.constant(plain), tf.range(len(plain), dtype=tf.int64), strict=True)

    if name in AUGMENTATIONS:
        return [augmented(image, given, place).image.numpy() for image, place in positions()]
    patches = tf.stack([drawn_patch(given, place)["patch"] for _, place in positions()])
    images = tf.constant(plain, tf.float32)
    mixed, _ = mixed_images(images, tf.ones([len(plain)]), patches)
    pixels: Sequence[Any] = tf.cast(tf.round(mixed), tf.uint8).numpy()
    return pixels


def show(data: Mapping[str, Any]) -> str:
    """Format the table."""
    return table(read_samples(data["samples"]), "image", [])
