"""Three calls from Python: `fit` trains on a folder, `load` predicts, `evaluate` measures.

They are also attributes of the package `trainer`. Neither imports TensorFlow before it is used.
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from PIL import Image

from common.errors import ConfigError
from common.image_files import find_images
from common.program import load as load_object
from trainer.config import TrainConfig
from trainer.data.manifest import check_trainable, load_manifest
from trainer.diagnostics.environment import set_defaults_of_tensorflow
from trainer.diagnostics.nccl import has_gpus
from trainer.errors import CheckpointError, DataError
from trainer.export.layout import export_facts, exported_model
from trainer.fitting.choice import ChosenRun, choose
from trainer.fitting.options import FitOptions
from trainer.fitting.steps import answer_of, preparation, run_step
from trainer.fitting.suggestion import facts_of, stored_depth, suggest, task_of
from trainer.presets import check_options, parse_train, to_args
from trainer.run_folder import new_name

__all__ = ["Model", "Prediction", "Run", "evaluate", "fit", "load"]

Picture = str | Path | bytes | np.ndarray[Any, Any]
"""An image: a file, its content, or pixels, uint8 or uint16 [height, width] or uint8 [height,
width, 3] in red, green and blue, or [height, width, 4] with an opacity."""
_STEPS: Final = 4
_CHANNELS: Final = (3, 4)


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    path: Path
    """Its folder."""

    @property
    def report(self) -> Path:
        """Its page."""
        return self.path / "report.html"

    @property
    def result(self) -> Mapping[str, Any]:
        """The content of result.json: metrics on the held-out images, 0 to 1, and times."""
        data: dict[str, Any] = json.loads((self.path / "result.json").read_text())
        return data


@dataclass(frozen=True)
class Prediction:
    """The answer of a model for one image."""

    image: str
    """Path of the image; empty for content and pixels."""
    classes: tuple[Mapping[str, Any], ...]
    """`class_id`, `class_name` and `probability` of each class, the most probable first; models of
    other tasks have other keys, as `ml-trainer predict --json` prints them."""
    error: str = ""
    """Why the image cannot be read; then there are no classes."""

    @property
    def class_name(self) -> str:
        """Name of the most probable class; empty if the image cannot be read."""
        return str(self.classes[0]["class_name"]) if self.classes else ""

    @property
    def probability(self) -> float:
        """Probability of that class, 0 to 1; 0 if the image cannot be read."""
        return float(self.classes[0].get("probability", 0.0)) if self.classes else 0.0


class Model:
    """The exported model of a run."""

    def __init__(self, folder: Path) -> None:
        """Args:
        folder: Folder of the SavedModel.
        """
        self._folder = folder

    @cached_property
    def _exported(self) -> Any:
        return load_object("trainer.export.predict:load_exported")(self._folder)

    def predict(self, images: Picture | Iterable[Picture]) -> list[Prediction]:
        """Predict images as `ml-trainer predict` does: turned upright, with the levels and the crop
        of the run.

        Args:
            images: One image, a folder of images, or several images, also as an array [images,
                height, width] or [images, height, width, 3].

        Returns:
            A prediction for each image, in their order. That of an image which cannot be read says
            why.

        Raises:
            DataError: A folder has no images, or an array is not an image.
        """
        set_defaults_of_tensorflow()
        classify = load_object("trainer.export.predict:classify_files")
        signature = self._exported.signatures["serving_default"]
        if isinstance(images, str | Path):
            images = find_images([str(images)], DataError).paths
        elif isinstance(images, bytes) or (isinstance(images, np.ndarray) and _is_one(images)):
            images = [images]
        contents = (_content(image) for image in images)
        return [
            _prediction(image, outcome)
            for image, outcome in classify(signature, contents, export_facts(self._folder))
        ]


def _prediction(image: Path | bytes, outcome: list[dict[str, Any]] | str) -> Prediction:
    path = str(image) if isinstance(image, Path) else ""
    if isinstance(outcome, str):
        return Prediction(path, (), outcome)
    return Prediction(path, tuple(outcome))


def fit(
    folder: str | Path,
    *,
    data: str | Path | None = None,
    name: str | None = None,
    weights: str | Path | None = None,
    mirror: bool | None = None,
    table: str | Path | None = None,
    file_column: str | None = None,
    class_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    test: float | None = None,
    group_by: str | None = None,
    max_rejected: str | None = None,
    levels: str | None = None,
    runs_dir: str | Path = "runs",
    options: Sequence[str | float] = (),
) -> Run:
    """Train on a folder of images with one folder for each class, from its files to the report.

    Each step is a command of `ml-trainer`, which is printed. If the training is interrupted, its
    printed command continues it; before, call `fit` again. Call it from the main thread, which
    receives signals.

    Args:
        folder: Folder of the images, or a data set.
        data: Folder of the data set to write; None is data/NAME-set, by that of `folder`.
        name: Name of the run; None makes one of the preset and the time.
        weights: File of weights to start from; None starts from random weights.
        mirror: Whether to mirror half of the training images; None does it with photographs in
            colour from 64 pixels on.
        table: CSV file with the class of each image, in place of folders.
        file_column: Column of the table with the file names; None finds it.
        class_column: Column of the table with the classes; None finds it.
        group_column: Column of the table with the groups, such as patients; None finds it.
        split_column: Column of the table with the splits; None finds it.
        test: Part of the images to keep for tests; see `evaluate`.
        group_by: Regular expression of the group of an image; see `ml-trainer prepare folder`.
        max_rejected: Most files that may be unusable: a number, or a percentage; None is 1%.
        levels: Values that become black and white in images of more than 8 bits; None is auto.
        runs_dir: Folder of all runs.
        options: Options of `ml-trainer train` that replace those of the choice, and their values;
            unknown ones are refused before the first step.

    Raises:
        UserError: A step has failed; it has printed why.
        ConfigError: An option of the run is invalid.
        DataError: The images cannot be trained on.
    """
    if isinstance(options, str):
        raise ConfigError([f"options: {options!r} is a text; give a list: {options.split()}"])
    changes = [str(option) for option in options]
    check_options(changes)
    if name is not None:
        parse_train(["--name", name])
    if weights is not None and not Path(weights).exists():
        raise ConfigError(
            [f"--weights: {weights}: does not exist; `ml-trainer weights` lists files"]
        )
    folder = Path(folder)
    target = Path(data) if data is not None else Path("data", f"{folder.resolve().name}-set")
    preparing = {
        "table": table,
        "file_column": file_column,
        "class_column": class_column,
        "group_column": group_column,
        "split_column": split_column,
        "test": test,
        "group_by": group_by,
        "max_rejected": max_rejected,
        "levels": levels,
    }
    prepare = preparation(folder, target, preparing)
    if prepare is None:
        target = folder
    else:
        run_step(1, _STEPS, prepare)
    run_step(2, _STEPS, ["verify", str(target)])
    run_step(3, _STEPS, ["inspect", str(target)])
    choice = choice_for(target, weights=str(weights) if weights else None, mirror=mirror)
    config = replace(choice.config, runs_dir=str(runs_dir), name=name)
    config = parse_train([*to_args(config), *changes])
    if config.name is None:
        config = replace(config, name=new_name(config, datetime.now().astimezone()))
    print(f"\nthe run: --preset {config.preset}. {'; '.join(choice.reasons)}".rstrip(". ") + ".")
    run_step(4, _STEPS, ["train", *to_args(config)])
    return Run(Path(config.runs_dir) / str(config.name))


def run(options: FitOptions) -> None:
    """`ml-trainer fit`: train on a folder, and print what to do next; see `fit`."""
    made = fit(
        options.folder,
        data=options.data,
        name=options.name,
        weights=options.weights,
        mirror=options.mirror,
        runs_dir=options.runs_dir,
        options=options.trainer,
        table=options.table,
        file_column=options.file_column,
        class_column=options.class_column,
        group_column=options.group_column,
        split_column=options.split_column,
        test=options.test,
        group_by=options.group_by,
        max_rejected=options.max_rejected,
        levels=options.levels,
    )
    print(f"the report: {made.report}")
    if options.weights is None:
        print(
            "to start from published weights instead: `ml-trainer weights` lists files, which"
            " --weights takes"
        )


def choice_for(data: Path, *, weights: str | None = None, mirror: bool | None = None) -> ChosenRun:
    """Return the run that fits a data set on this machine.

    Raises:
        DataError: It cannot be trained on.
    """
    manifest = load_manifest(data)
    task = task_of(manifest, data)
    check_trainable(manifest, None, str(data), task)
    facts = facts_of(manifest, gpu=has_gpus())
    if task.suggestion.finetune:
        depth = stored_depth(weights) if weights else None
        return choose(
            facts, str(data), task.suggestion, weights=weights, depth=depth, mirror=mirror
        )
    configs = suggest(facts, str(data), task)
    config: TrainConfig = configs[-1] if facts.gpu else configs[0]
    return ChosenRun(config, (f"its records are for {task.name}",))


def load(run: str | Path = "runs/latest") -> Model:
    """Return the exported model of a run.

    Args:
        run: Folder of the run, or of an export.

    Raises:
        CheckpointError: It has no exported model.
    """
    path = Path(run)
    is_run = (path / "config.json").exists() or not path.exists()
    return Model(exported_model(str(path), None if is_run else str(path)))


def evaluate(
    run: str | Path = "runs/latest",
    *,
    checkpoint: Literal["last", "best"] | None = None,
    data: str | Path | None = None,
) -> Mapping[str, Any]:
    """Evaluate a checkpoint of a run on the held-out images, in a process of its own.

    Args:
        run: Folder of the run.
        checkpoint: `last` or `best`; None is the one that the result of the run is of.
        data: Folder of the data set, if it has moved.

    Returns:
        The metrics of the task by key, 0 to 1, `loss`, the number of `examples`, and `baseline`,
        the metrics of an answer that no image changes, if the task has one.

    Raises:
        CheckpointError: The folder is not that of a run.
        StepError: It cannot be evaluated, and stderr says why.
    """
    if not Path(run, "config.json").exists():
        raise CheckpointError(f"{run}: is not a run folder; it has no config.json")
    words = ["evaluate", "--run", str(run), "--json", "True"]
    words += ["--checkpoint", checkpoint] if checkpoint else []
    words += ["--data-dir", str(data)] if data is not None else []
    result: dict[str, Any] = json.loads(answer_of(words).splitlines()[-1])
    return result


def _is_one(pixels: np.ndarray[Any, Any]) -> bool:
    """Whether an array is one image, not several."""
    return pixels.ndim < 3 or (pixels.ndim == 3 and pixels.shape[-1] in _CHANNELS)


def _content(image: Picture) -> Path | bytes:
    if isinstance(image, np.ndarray):
        grey = image.ndim == 2 and image.dtype in (np.uint8, np.uint16)
        colour = image.ndim == 3 and image.shape[-1] in _CHANNELS and image.dtype == np.uint8
        if not (grey or colour) or not image.size:
            raise DataError(
                f"an array of {image.dtype} {list(image.shape)} is not an image; give uint8 or"
                " uint16 [height, width], or uint8 [height, width, 3], red, green and blue"
            )
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "PNG")
        return buffer.getvalue()
    return image if isinstance(image, bytes) else Path(image)
