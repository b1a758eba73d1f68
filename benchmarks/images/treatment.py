"""The cost of treating images: with Pillow before a model, and of the header that the graph reads.

Photographs like ImageNet's (benchmarks/photos.py), as they are and with an EXIF orientation. The
graph decodes them in batches as an exported model does.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import tensorflow as tf
from PIL import Image

from benchmarks.measure import BenchmarkOptions, read_samples, table, take_turns
from benchmarks.photos import crops
from trainer.config import Positive
from trainer.data.images import central_image
from trainer.data.pixels.graph import reason_for_treatment, reasons_for_treatment
from trainer.data.pixels.treatment import treat
from trainer.distributed.communicator import Alone

SIZE, CROP = 224, 0.875
DECODE: Final = "decode and crop, in the graph"
HEADER: Final = "read the header, in the graph"
HEADERS: Final = "read the headers of a batch, in the graph"
KEPT: Final = "treat: kept"
UPRIGHT: Final = "treat: kept, with EXIF"
TURNED: Final = "treat: turned upright"


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of treating a photograph, compared with decoding it."""

    rounds: Annotated[int, Positive] = 7
    """Number of turns of each contender."""

    count: Annotated[int, Positive] = 64
    """Number of photographs."""


def measure(options: Options) -> dict[str, Any]:
    """Measure all contenders in turns, with one thread."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    photos = [_saved(image, quality) for _, image, quality in crops(options.count)]
    lying = [
        {value: _saved(image, quality, value) for value in (1, 6)}
        for _, image, quality in crops(options.count)
    ]
    contenders = {
        DECODE: _in_graph(
            _one_by_one(lambda one: central_image(one, SIZE, CROP), tf.uint8), photos
        ),
        HEADER: _in_graph(_one_by_one(reason_for_treatment, tf.string), photos),
        HEADERS: _in_graph(reasons_for_treatment, photos),
        KEPT: _with_pillow(photos),
        UPRIGHT: _with_pillow([each[1] for each in lying]),
        TURNED: _with_pillow([each[6] for each in lying]),
    }
    return {"samples": take_turns(contenders, options.rounds, Alone())}


def _saved(image: Image.Image, quality: int, orientation: int | None = None) -> bytes:
    buffer, tags = io.BytesIO(), Image.Exif()
    if orientation:
        tags[0x112] = orientation
    image.save(buffer, "JPEG", quality=quality, **({"exif": tags} if orientation else {}))
    return buffer.getvalue()


def _one_by_one(
    function: Callable[[tf.Tensor], tf.Tensor], kind: tf.DType
) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda images: tf.map_fn(function, images, fn_output_signature=kind)


def _in_graph(
    function: Callable[[tf.Tensor], tf.Tensor], photos: Sequence[bytes]
) -> Callable[[], int]:
    graph = tf.function(function, [tf.TensorSpec([None], tf.string)], autograph=False)

    def work() -> int:
        graph(tf.constant(photos))
        return len(photos)

    return work


def _with_pillow(photos: Sequence[bytes]) -> Callable[[], int]:
    def work() -> int:
        for photo in photos:
            treat(photo)
        return len(photos)

    return work


def show(data: Mapping[str, Any]) -> str:
    """Format the table."""
    return table(read_samples(data["samples"]), "image", [DECODE])
