"""Images/s of `python -m trainer score` in a process, compared with decoding and predicting alone.

Both take turns in one process with one thread. Ours reads the files, predicts, and writes a Parquet
file with its description; the other calls the SavedModel on batches of images in memory.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from benchmarks.data.photos import write_photos
from benchmarks.measure import (
    BenchmarkOptions,
    columns,
    ratio,
    read_samples,
    table,
    take_turns,
)
from benchmarks.processes import in_process
from trainer.config import Positive
from trainer.data.builtin.digits import VALIDATION_PER_CLASS, load_records, split
from trainer.distributed.communicator import Alone
from trainer.export.layout import exported_model

OURS, ALONE = "trainer score", "decode and predict alone"
PHOTOS: Final = 400
BATCH: Final = 32
GOAL: Final = 0.9
"""Goal: least images/s, as part of those of decoding and predicting alone."""
ONE_THREAD: Final = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Images/s of files of scores, compared with decoding and predicting alone. Needs a run of the
    digits.
    """

    run: str = "runs/latest"
    """Folder of a run with an export; its small network makes everything else weigh more."""

    rounds: Annotated[int, Positive] = 9
    """Number of turns of each."""


def measure(options: Options) -> dict[str, Any]:
    """Measure with the held-out digits, and with photographs."""
    saved_model = exported_model(options.run, None).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        digits, photos = Path(scratch) / "digits", Path(scratch) / "photos"
        digits.mkdir()
        for record in split(load_records(), VALIDATION_PER_CLASS, "digits")[1]:
            (digits / record.filename).write_bytes(record.encoded)
        write_photos(photos, PHOTOS)
        function = "benchmarks.serving.score:take_turns_in_process"
        return {
            "samples": {
                name: in_process(
                    function,
                    ONE_THREAD,
                    saved_model=str(saved_model),
                    folder=str(folder),
                    rounds=options.rounds,
                )["samples"]
                for name, folder in (("digits, 8 pixels", digits), ("photographs, 500", photos))
            }
        }


def take_turns_in_process(saved_model: str, folder: str, rounds: int) -> dict[str, Any]:
    """Measure both on a folder of images."""
    import tensorflow as tf  # noqa: PLC0415 - in the process that measures

    from trainer.export.image_files import find_images  # noqa: PLC0415
    from trainer.export.predict import load_exported  # noqa: PLC0415
    from trainer.scoring.unit import Unit, score_unit  # noqa: PLC0415

    paths = find_images([folder])
    names = tuple(path.relative_to(folder).as_posix() for path in paths)
    encoded = [path.read_bytes() for path in paths]
    exported = load_exported(Path(saved_model))
    signature = exported.signatures["serving_default"]
    top = signature.structured_outputs["probabilities"].shape[1]

    def alone() -> int:
        for begin in range(0, len(encoded), BATCH):
            batch = tf.constant(encoded[begin : begin + BATCH], tf.string)
            for output in signature(images=batch).values():
                output.numpy()
        return len(encoded)

    with tempfile.TemporaryDirectory() as output:
        unit = Unit(Path(saved_model), Path(folder), Path(output), "parquet", "", 0, names, top)

        def ours() -> int:
            score_unit(unit, lambda _: None)
            return len(names)

        return {"samples": take_turns({OURS: ours, ALONE: alone}, rounds, Alone())}


def show(data: Mapping[str, Any]) -> str:
    """Format the tables, and compare the results with the goal."""
    parts = []
    for name, rounds in data["samples"].items():
        parts += [f"{name}:", "", table(read_samples(rounds), "image", [ALONE]), ""]
    rows = [["", f"images/s, part of {ALONE}"]]
    for name, rounds in data["samples"].items():
        rows.append([name, ratio(read_samples(rounds), ALONE, OURS, "wall_ms").text()])
    return "\n".join([*parts, columns(rows), "", f"- the goal is at least {GOAL}"])
