"""The exported SavedModel compared with ONNX Runtime, from the bytes of an image to its classes.

ONNX has no portable way to decode an image, so there Pillow decodes it, crops it and resizes it
bilinearly without antialiasing, as the evaluation does. Each call is for one image, with one
thread. ResNet50 has random weights, which do not change its time.
"""

import io
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from PIL import Image

from benchmarks.data.photos import crops
from benchmarks.measure import BenchmarkOptions, columns, ratio, read_samples, table, take_turns
from benchmarks.processes import in_process
from benchmarks.serving.score import ONE_THREAD
from trainer.config import ModelConfig, Positive
from trainer.data.builtin.digits import VALIDATION_PER_CLASS, load_records, split
from trainer.data.manifest import Normalization
from trainer.distributed.communicator import Alone
from trainer.export.layout import FACTS, exported_model

SAVED_MODEL, ONNX = "SavedModel", "Pillow and ONNX Runtime"
PHOTOS: Final = 8
CLASSES: Final = 1000
WORTH: Final = 1.3
"""Factor in speed from which ONNX Runtime would replace the SavedModel in the server."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU time from the bytes of an image to its classes, of the SavedModel and of ONNX Runtime.
    Needs a run of the digits.
    """

    run: str = "runs/latest"
    """Folder of a run of the digits, with an export."""

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the digits' network and ResNet50."""
    saved_model = exported_model(options.run, None).resolve()
    function = "benchmarks.serving.engines:{}"
    return {
        "networks": {
            "digits": in_process(
                function.format("digits"),
                ONE_THREAD,
                saved_model=str(saved_model),
                rounds=options.rounds,
            ),
            "ResNet50, 224 pixels, photographs": in_process(
                function.format("resnet50"), ONE_THREAD, rounds=options.rounds
            ),
        }
    }


def digits(saved_model: str, rounds: int) -> dict[str, Any]:
    """Compare the engines on the held-out digits."""
    facts = json.loads((Path(saved_model).parent / FACTS).read_text())
    records = split(load_records(), VALIDATION_PER_CLASS, "digits")[1]
    images = [record.encoded for record in records]
    return _compare(Path(saved_model), images, facts["image_size"], facts["eval_crop"], rounds)


def resnet50(rounds: int) -> dict[str, Any]:
    """Compare the engines on photographs."""
    from trainer.classification.task import Classification  # noqa: PLC0415
    from trainer.export.saved_model import save_model  # noqa: PLC0415 - in the process that measures
    from trainer.model.build import build_model  # noqa: PLC0415
    from trainer.tasks.task import Serving  # noqa: PLC0415

    config = ModelConfig(depth=50, image_size=224)
    names = tuple(f"class {number}" for number in range(CLASSES))
    normalization = Normalization((123.7, 116.3, 103.5), (58.4, 57.1, 57.4))
    images = []
    for _, image, quality in crops(PHOTOS):
        buffer = io.BytesIO()
        image.save(buffer, format="JPEG", quality=quality)
        images.append(buffer.getvalue())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "saved_model"
        serving = Serving(names, normalization, 224, 0.875, 5)
        save_model(Classification(CLASSES), build_model(config, CLASSES), folder, serving)
        return _compare(folder, images, 224, 0.875, rounds)


def _compare(
    saved_model: Path, images: list[bytes], size: int, crop: float, rounds: int
) -> dict[str, Any]:
    """Let both engines take turns, and count the images with the same class."""
    import onnxruntime  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    from trainer.onnx.exporter import write_onnx  # noqa: PLC0415

    exported = tf.saved_model.load(str(saved_model))
    signature = exported.signatures["serving_default"]
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "model.onnx"
        write_onnx(saved_model, file)
        threads = onnxruntime.SessionOptions()
        threads.intra_op_num_threads = threads.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(file), threads, ["CPUExecutionProvider"])

    def by_saved_model(image: bytes) -> int:
        outputs = signature(images=tf.constant([image]))
        return int(outputs["class_ids"].numpy()[0, 0])

    def by_onnx(image: bytes) -> int:
        (probabilities,) = session.run(None, {"pixels": pixels(image, size, crop)[None]})
        return int(np.argsort(-probabilities[0])[0])

    def all_images(engine: Callable[[bytes], int]) -> Callable[[], int]:
        return lambda: len([engine(image) for image in images])

    engines = {SAVED_MODEL: by_saved_model, ONNX: by_onnx}
    same = sum(by_saved_model(image) == by_onnx(image) for image in images)
    turns = {name: all_images(engine) for name, engine in engines.items()}
    return {
        "samples": take_turns(turns, rounds, Alone()),
        "images": len(images),
        "same_class": same,
    }


def pixels(encoded: bytes, size: int, crop: float) -> "np.ndarray[Any, Any]":
    """Decode the central square of an image, uint8 [size, size, 3], with Pillow."""
    image = Image.open(io.BytesIO(encoded)).convert("RGB")
    side = max(round(min(image.size) * crop), 1)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    # Cropped first, or the pixels around would be mixed into the border.
    square = image.crop((left, top, left + side, top + side)).transform(
        (size, size), Image.Transform.EXTENT, (0, 0, side, side), Image.Resampling.BILINEAR
    )
    return np.asarray(square)


def show(data: Mapping[str, Any]) -> str:
    """Format the tables, and say whether ONNX Runtime is worth it."""
    parts, rows = [], [["", f"{SAVED_MODEL} / {ONNX}, CPU time", "images with the same class"]]
    for name, measured in data["networks"].items():
        samples = read_samples(measured["samples"])
        parts += [f"{name}:", "", table(samples, "image", [SAVED_MODEL]), ""]
        same = f"{measured['same_class']} of {measured['images']}"
        rows.append([name, ratio(samples, SAVED_MODEL, ONNX).text(), same])
    return "\n".join([*parts, columns(rows), "", f"- another engine is worth it from {WORTH}"])
