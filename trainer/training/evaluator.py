"""An evaluation over a whole split: all ranks take part, and every example counts exactly once.

The ranks evaluate equally many batches, which `evaluation_batches` pads with examples of weight 0.
An image that cannot be decoded has weight 0 as well with `--data.on-corrupt skip`.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf
import tf_keras as keras

from common.errors import UserError
from trainer.checkpoints.format import Checkpoint
from trainer.data.data_set import DataSet, load_data_set
from trainer.data.images import flip_and_normalize
from trainer.data.manifest import Normalization
from trainer.data.rank_data import RankData
from trainer.diagnostics.device import set_up_device
from trainer.diagnostics.environment import cores
from trainer.distributed.communicator import Alone, Communicator
from trainer.errors import DataError, NonFiniteError
from trainer.model.weights import load_model
from trainer.own_code.code import code_of_checkpoint
from trainer.report.evaluated import evaluation_name, write_evaluation
from trainer.run_folder import RunFolder, RunRecord
from trainer.tasks.shortcomings import shortcomings
from trainer.tasks.task import Array, Evaluation, HeldOut, Predictions, Task, make_task
from trainer.training.options import CheckpointOptions, EvaluateOptions


def gather(mine: Predictions, begin: int, world: Communicator) -> Predictions:
    """Join the predictions of all ranks; every rank must call it.

    Args:
        mine: Predictions for this rank's share.
        begin: First example of that share in the split.
        world: Ranks, which hold consecutive shares in rank order.
    """
    columns = {"index": mine.index + begin, **mine.columns}
    parts = world.gather([column.tolist() for column in columns.values()])
    index, *others = (
        np.asarray(list(chain(*pieces)), column.dtype)
        for column, pieces in zip(columns.values(), zip(*parts, strict=True), strict=True)
    )
    return Predictions(index, dict(zip(mine.columns, others, strict=True)))


class Evaluator:
    """A compiled forward pass, and the counts of a task in it."""

    def __init__(
        self,
        task: Task,
        model: keras.Model,
        communicator: Communicator,
        normalization: Normalization,
        *,
        xla: bool,
    ) -> None:
        self._task, self.model = task, model
        self._communicator, self._normalization = communicator, normalization
        self._graph = tf.function(self._counts, autograph=False, jit_compile=xla)
        self._outputs = tf.function(self._forward, autograph=False, jit_compile=xla)
        self.predictions: Predictions | None = None
        """Predictions for this rank's share in the last evaluation; `index` counts from the first
        example of the share."""

    def run(self, batches: Iterable[dict[str, Any]]) -> Evaluation:
        """Evaluate this rank's batches, and join the counts of all ranks in the order of examples,
        so the result depends neither on the number of ranks nor on that of batches.

        Args:
            batches: Batches of this rank's share. Examples of weight 0 are padding and not counted.

        Raises:
            DataError: No image can be decoded.
            NonFiniteError: The outputs for an image are not finite.
        """
        counts: list[Array] = []
        parts: list[tuple[Array, dict[str, Array]]] = []
        for batch in batches:
            per_example, weight, columns = self._graph(batch)
            counts.append(per_example.numpy())
            parts.append((weight.numpy(), {name: value.numpy() for name, value in columns.items()}))
        counted = np.flatnonzero(np.concatenate([weight for weight, _ in parts]))
        self.predictions = Predictions(
            counted,
            {
                name: np.concatenate([columns[name] for _, columns in parts])[counted]
                for name in parts[0][1]
            },
        )
        mine = np.concatenate(counts)[counted]
        everything = np.asarray(list(chain(*self._communicator.gather(mine.tolist()))))
        if not len(everything):
            raise DataError(
                "none of the images to evaluate can be decoded; repair the data set, or prepare it"
                " again"
            )
        bad = np.flatnonzero(~np.isfinite(everything).all(axis=1))
        if len(bad):
            shares = enumerate(self._communicator.gather(counted.tolist()))
            rank, image = [(rank, image) for rank, share in shares for image in share][bad[0]]
            of_rank = f" of rank {rank}'s share" if self._communicator.size > 1 else ""
            raise NonFiniteError(
                f"the outputs of the network for {len(bad):,} of {len(everything):,} held-out"
                f" images are not finite, such as for the image {image}{of_rank}, counted from 0;"
                " use --compute.precision float32 or a lower --optimizer.learning-rate"
            )
        return self._task.evaluation(everything)

    def outputs(self, batches: Iterable[dict[str, Any]]) -> Iterator[tuple[Array, Array]]:
        """Yield the logits, float32, and the targets of the examples of each batch that count."""
        for batch in batches:
            logits, target = self._outputs(batch)
            counted = batch["weight"].numpy() > 0
            yield logits.numpy()[counted], target.numpy()[counted]

    def logits(self, images: Array) -> Array:
        """Apply the network to images, uint8 [b, size, size, 3]."""
        flip = tf.zeros([len(images)], tf.bool)
        inputs = flip_and_normalize(tf.constant(images), flip, self._normalization)
        result: Array = self.model(inputs, training=False).numpy()
        return result

    def _counts(
        self, batch: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, dict[str, tf.Tensor]]:
        """Return per example the counts of the task, the weight and the predictions."""
        per_example, columns = self._task.evaluated(*self._forward(batch))
        return per_example, batch["weight"], columns

    def _forward(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the logits and the targets of a batch."""
        image = flip_and_normalize(batch["image"], batch["flip"], self._normalization)
        return self.model(image, training=False), batch["target"]


_CLASSES_NAMED: Final = 5
"""Most names of classes in an error."""


@dataclass(frozen=True)
class OpenCheckpoint:
    """A checkpoint whose network and data set are loaded."""

    checkpoint: Checkpoint
    task: Task
    evaluator: Evaluator
    data: RankData
    record: RunRecord
    """Record of the run, with the data set that is evaluated."""
    own: bool
    """Whether the data set is the run's own."""


def open_checkpoint(
    options: CheckpointOptions, split: str = "validation", *, others: bool = False
) -> OpenCheckpoint:
    """Load a checkpoint and its data set, for this process alone.

    Args:
        options: Run, checkpoint and data set.
        split: See `EvaluateOptions.split`.
        others: Whether another data set than the run's own may be evaluated.

    Raises:
        CheckpointError: The folder is not a run folder, has no valid checkpoint, or does not have
            the code of its own network.
        DataError: The data set is missing, or another version than the run was trained on; or,
            where others are allowed, has other classes or levels, or no such split.
    """
    run_folder, world = RunFolder(Path(options.run)), Alone()
    record = run_folder.read()
    config = record.config
    if options.data_dir is not None:
        config = replace(config, data=replace(config.data, dir=options.data_dir))
    checkpoint = run_folder.find_checkpoint(options.checkpoint)
    data_set = load_data_set(config)
    if data_set.manifest is None:
        raise DataError(
            f"{run_folder.path}: was trained on synthetic data, so there is nothing to evaluate"
        )
    own = data_set.version == record.data_version
    if own or not others or options.data_dir is None:
        data_set.check_version(record.data_version, run_folder.path)
    else:
        _check_same_meaning(data_set, record, run_folder.path)
        if data_set.reencode != record.reencode:
            print(
                f"warning: {data_set.folder}: its images were not shrunk like those of the run, so"
                " a network sees them a little differently; see --reencode of prepare",
                file=sys.stderr,
                flush=True,
            )
    if own and split == "all":
        raise DataError(
            f"{data_set.folder}: is the data set of the run, so most of all its images were trained"
            " on; evaluate the split validation or test, or another data set (--data-dir)"
        )
    normalization = data_set.normalization
    if not own and record.normalization is not None:
        normalization = record.normalization
    data_set = data_set.evaluating(split)
    set_up_device(config, world)
    task = make_task(config, data_set.classes)
    threads = config.data.decode_threads or cores()
    rank_data = RankData(config, data_set, world, threads)
    precision, tensors = config.compute.precision, checkpoint.load()
    code = code_of_checkpoint(
        config.model.builder,
        run_folder.path,
        checkpoint.meta,
        accept=options.accept_changed_code,
    )
    model = load_model(config, data_set.classes, precision, tensors, checkpoint.path, code)
    evaluator = Evaluator(task, model, world, normalization, xla=config.compute.xla)
    evaluated = replace(
        record,
        config=config,
        data_version=data_set.version,
        class_names=record.class_names or data_set.class_names,
        normalization=record.normalization or normalization,
    )
    return OpenCheckpoint(checkpoint, task, evaluator, rank_data, evaluated, own)


def _check_same_meaning(data_set: DataSet, record: RunRecord, run: Path) -> None:
    """Check that a run can be evaluated on a data set that is not its own.

    Raises:
        DataError: Its classes are others, or its images were treated otherwise.
    """
    if record.class_names is None or record.normalization is None:
        raise DataError(
            f"{run}: was trained by a version that did not store the names of its classes, so"
            f" it can only be evaluated on its own data set, not on {data_set.folder}"
        )
    if data_set.class_names != record.class_names:
        raise DataError(
            f"{data_set.folder}: has the classes {_named(data_set.class_names)}, but {run} was"
            f" trained on {_named(record.class_names)}; prepare images with folders, or values, of"
            " the same names"
        )
    if data_set.levels and data_set.levels != record.levels:
        own, other = data_set.levels, record.levels
        remedy = "--levels full" if other is None else f"--levels {other[0]}:{other[1]}"
        remedy = "--levels bits" if other and other[0] == other[1] else remedy
        raise DataError(
            f"{data_set.folder}: the values {own[0]} to {own[1]} of its images became 0 to 255, but"
            f" {run} was trained with others; prepare it again with {remedy}"
        )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _CLASSES_NAMED:,} more" if len(names) > _CLASSES_NAMED else ""
    return f"{', '.join(names[:_CLASSES_NAMED])}{more}"


_IMAGES: Final = {
    "validation": "held-out images",
    "test": "images of the split for tests",
    "all": "images",
}
"""Names for the images of a split."""


def evaluate_run(options: EvaluateOptions) -> Evaluation:
    """`ml-trainer evaluate`: evaluate a checkpoint in this process and print the result.

    Raises:
        CheckpointError: See `open_checkpoint`.
        DataError: See `open_checkpoint`.
    """
    opened = open_checkpoint(options, options.split, others=True)
    result = opened.evaluator.run(opened.data.validation())
    task = opened.task.description
    words = ", ".join(task.words({**result.metrics, "baseline": result.baseline}))
    sentence = (
        f"{opened.checkpoint.path}: {words}, loss {result.loss:.4f} on {result.examples:,}"
        f" {_IMAGES[options.split]}{'' if opened.own else f' of {options.data_dir}'}"
    )
    print(json.dumps(result.to_json()) if options.json else sentence)
    record = opened.record
    for doubt in shortcomings(task, record.config.metric, result, record.class_names or ()):
        print(f"warning: {doubt}", file=sys.stderr)
    if options.split != "validation" or not opened.own:
        page = _write_evaluation(opened, options, result)
        print(f"report: {page}", file=sys.stderr)
    return result


def _write_evaluation(opened: OpenCheckpoint, options: EvaluateOptions, result: Evaluation) -> Path:
    """Write the folder of an evaluation on other images than those that the run holds out.

    Raises:
        UserError: It cannot be written.
    """
    record, data, evaluator = opened.record, opened.data, opened.evaluator
    folder = Path(options.data_dir or "").resolve().name
    version, split = record.data_version, options.split
    name = split if opened.own else evaluation_name(folder, version, split)
    assert record.class_names is not None
    predictions = evaluator.predictions
    assert predictions is not None

    def predict(example: int) -> tuple[Array, Array, Array]:
        image, target = data.validation_example(example)
        return image, target, evaluator.logits(image[None])[0]

    shown = record.config.log.keeps_images
    groups = data.validation_groups(options.split)
    held_out = HeldOut(record.class_names, data.validation_image, predict, shown, groups)
    try:
        return write_evaluation(
            Path(options.run), name, record, opened.checkpoint.step, result.to_json(),
            lambda path: opened.task.write_predictions(path, predictions, held_out),
        )  # fmt: skip
    except OSError as error:
        raise UserError(f"{options.run}: cannot be written ({error.strerror})") from error
