"""Size, result and time of a run's model in each precision in which it can be exported.

Exports the run into a scratch folder, and asks each model, with one thread and in turns, for the
probabilities of the same cropped images. The result is that of the whole validation split.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import tensorflow as tf

from benchmarks.measure import BenchmarkOptions, columns, read_samples, spread, take_turns
from common.text import size
from trainer.config import Positive
from trainer.distributed.communicator import Alone
from trainer.export.exported import Probabilities, Validation, bytes_in, of_signature
from trainer.export.exporter import export_run
from trainer.export.layout import SAVED_MODEL
from trainer.export.options import ExportOptions
from trainer.float16.exporter import FOLDER as HALF
from trainer.onnx.exporter import FILE, INT8_FILE, probabilities_of
from trainer.run_folder import RunFolder

BATCHES: Final = (1, 32)
"""Images in a call."""
IMAGES: Final = 64
"""Images in a turn."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Size, result and time of the models of a run in float32, float16 and int8."""

    run: str = "runs/latest"
    """Folder of a run, with its data set."""

    rounds: Annotated[int, Positive] = 7
    """Number of turns of each model."""


def measure(options: Options) -> dict[str, Any]:
    """Export, evaluate and time all models."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    folder = RunFolder(Path(options.run))
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "export"
        wanted: dict[str, Any] = {"precision": "float16", "onnx": True, "int8": True}
        export_run(ExportOptions(run=options.run, output=str(output), **wanted))
        validation = Validation(folder.path, folder.read())
        models: dict[str, Probabilities] = {}
        loaded = [tf.saved_model.load(str(output / name)) for name in (SAVED_MODEL, HALF)]
        for name, model in zip((SAVED_MODEL, HALF), loaded, strict=True):
            models[name] = of_signature(model.signatures["pixels"])
        for name in (FILE, INT8_FILE):
            models[name] = probabilities_of(output / name, threads=1)
        facts = {
            name: {"bytes": bytes_in(output / name), "score": validation.score(model)}
            for name, model in models.items()
        }
        pixels = next(validation.training_pixels(1))[: max(BATCHES)]
        samples = {}
        for batch in BATCHES:
            turns = {
                name: partial(_ask, model, pixels[:batch], IMAGES // batch)
                for name, model in models.items()
            }
            samples[batch] = take_turns(turns, options.rounds, Alone())
    return {"models": facts, "metric": validation.metric.label, "samples": samples}


def _ask(model: Callable[[Any], Any], pixels: Any, calls: int) -> int:
    for _ in range(calls):
        model(pixels)
    return calls * len(pixels)


def show(data: Mapping[str, Any]) -> str:
    """Format the table."""
    samples = {batch: read_samples(found) for batch, found in data["samples"].items()}
    head = [f"CPU-ms/image, {batch} in a call" for batch in samples]
    rows = [["", "size", data["metric"], *head]]
    for name, facts in data["models"].items():
        times = [spread([turn.cpu_ms for turn in found[name]]).text() for found in samples.values()]
        rows.append([f"`{name}`", size(facts["bytes"]), f"{facts['score']:.2%}", *times])
    return columns(rows)
