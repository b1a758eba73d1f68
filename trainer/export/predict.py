"""`ml-trainer predict`: the classes of images, predicted by an exported model."""

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from common.errors import ConfigError
from common.image_files import find_images
from common.program import load
from common.text import plural
from trainer.checkpoints.format import not_finite
from trainer.data.pixels.treatment import RejectedError, treat, treatment_of
from trainer.errors import CheckpointError, DataError, NonFiniteError
from trainer.export.layout import export_facts, exported_model
from trainer.export.options import PredictOptions
from trainer.leaves import TASKS
from trainer.task_descriptions import Answers

BATCH = 32
READERS = 8
"""Files that are read at the same time."""
MANY = 2 * BATCH
"""Number of images from which a progress bar is shown."""

Image = TypeVar("Image", Path, bytes, Path | bytes)

Prediction = list[dict[str, Any]]
"""`class_id`, `class_name` and `probability` of an image's classes, the most probable first; other
tasks may have another number in place of the probability."""


def predict(options: PredictOptions) -> None:
    """Print the most probable classes of each image.

    Raises:
        ConfigError: No image is given, or the model returns fewer classes than requested.
        CheckpointError: There is no export.
        DataError: A folder has no images, or images could not be read; the others are printed.
    """
    if not options.images:
        raise ConfigError(
            ["IMAGE: name at least one image, or a folder with images (with make: IMAGES=...)"]
        )
    listing = find_images(options.images, DataError)
    paths = listing.paths
    saved_model = exported_model(options.run, options.model)
    exported = load_exported(saved_model)
    signature = exported.signatures["serving_default"]
    answers = answers_of(signature.structured_outputs)
    assert answers is not None
    if options.draw and not answers.draw:
        raise ConfigError(["--draw: the task of this model has nothing to draw; leave it out"])
    parts = answers.parts
    classes, top = signature.structured_outputs[parts].shape[1], options.top
    if top is not None and top > classes:
        raise ConfigError(
            [
                f"--top: {top}, but this model returns {classes} classes per image; if it has more,"
                f" export it again with --top {top}"
            ]
        )
    unreadable = 0
    with _progress(len(paths)) as progress:
        task = progress.add_task("predicting", total=len(paths))
        facts = export_facts(saved_model)
        for number, (path, outcome) in enumerate(classify_files(signature, paths, facts), 1):
            progress.advance(task)
            if isinstance(outcome, str):
                unreadable += 1
                print(f"error: {path}: {outcome}", file=sys.stderr, flush=True)
                continue
            shown = outcome[:top]
            if options.draw:
                data = load(answers.draw)(_read(path, treatment_of(facts)), shown)
                _write(Path(options.draw) / f"{number}-{path.stem}.jpg", data)
            if options.json:
                line = {"image": str(path), "classes": shown}
                print(json.dumps(line, ensure_ascii=False), flush=True)
            else:
                print(as_text(path, shown), flush=True)
    if listing.note:
        print(f"note: {listing.note}", file=sys.stderr)
    if unreadable:
        raise DataError(
            f"{plural(unreadable, 'image')} of {len(paths)} could not be read; see the errors above"
        )


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise DataError(f"--draw: {path} cannot be written ({error.strerror})") from error


def as_text(path: Path, classes: Prediction) -> str:
    """Format an image's name and a line for each of its classes."""
    lines = [f"{list(entry.values())[-1]:>9.2%}  {entry['class_name']}" for entry in classes]
    return "\n".join([str(path), *lines])


def load_exported(saved_model: Path) -> Any:
    """Load the SavedModel of an export; its signature alone would not keep the weights alive.

    Raises:
        CheckpointError: It cannot be loaded, or is not an export.
        NonFiniteError: A weight is not finite; names it.
    """
    try:
        exported = tf.saved_model.load(str(saved_model))
    except (OSError, tf.errors.OpError) as error:
        raise CheckpointError(f"{saved_model}: cannot be loaded: {error}") from error
    signature = exported.signatures.get("serving_default")
    outputs = signature.structured_outputs.keys() if signature else set()
    if answers_of(outputs) is None:
        raise CheckpointError(f"{saved_model}: is not a model that `ml-trainer export` wrote")
    try:
        stored = tf.train.load_checkpoint(str(saved_model / "variables" / "variables"))
    except (ValueError, tf.errors.OpError) as error:
        raise CheckpointError(f"{saved_model}: has no weights that can be read: {error}") from error
    for name, kind in sorted(stored.get_variable_to_dtype_map().items()):
        problem = not_finite({name: stored.get_tensor(name)}) if kind.is_floating else None
        if problem is not None:
            raise NonFiniteError(f"{saved_model}: {problem}; use the export of another checkpoint")
    return exported


def answers_of(outputs: Collection[str]) -> Answers | None:
    """Return how the outputs of a model are read; None if `ml-trainer export` did not write it."""
    known = (task.answers for task in TASKS.values())
    return next((answers for answers in known if answers.outputs <= set(outputs)), None)


def classify_files(
    signature: Any, paths: Iterable[Image], facts: Mapping[str, Any]
) -> Iterator[tuple[Image, Prediction | str]]:
    """Yield each image's classes, or its fault.

    Args:
        signature: Signature of the model.
        paths: Files of the images, or their contents.
        facts: Content of the model's export.json.
    """
    read = partial(_read, treatment=treatment_of(facts))
    for batch, encoded in _read_ahead(paths, read):
        outcomes = iter(_classify(signature, [e for e in encoded if isinstance(e, bytes)]))
        for path, content in zip(batch, encoded, strict=True):
            yield path, content if isinstance(content, str) else next(outcomes)


def _read_ahead(
    paths: Iterable[Image], read: Callable[[Image], bytes | str]
) -> Iterator[tuple[list[Image], list[bytes | str]]]:
    """Yield the files of each batch with their images, or with their faults. The next
    batch is read meanwhile, several files at once, because files on storage behind a network take
    long.
    """
    remaining = iter(paths)
    with ThreadPoolExecutor(READERS) as readers:

        def begin() -> tuple[list[Image], Iterator[bytes | str]]:
            batch = list(islice(remaining, BATCH))
            return batch, readers.map(read, batch)

        following = begin()
        while following[0]:
            (batch, contents), following = following, begin()
            yield batch, list(contents)


def _read(image: Image, treatment: Mapping[str, Any]) -> bytes | str:
    try:
        data = image if isinstance(image, bytes) else image.read_bytes()
        return treat(data, **treatment).data
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except RejectedError as error:
        return str(error)


def _classify(signature: Any, encoded: Sequence[bytes]) -> list[Prediction | str]:
    """Classify encoded images in one batch, or one by one if one of them cannot be decoded."""
    try:
        output = signature(images=tf.constant(encoded, tf.string))
    except tf.errors.InvalidArgumentError as error:
        if len(encoded) == 1:
            return [f"cannot be read as an image ({_reason(error)})"]
        return [outcome for image in encoded for outcome in _classify(signature, [image])]
    answers = answers_of(output)
    assert answers is not None
    floats = [value.numpy() for value in output.values() if value.dtype.is_floating]
    finite = np.all(
        [np.isfinite(value).all(axis=tuple(range(1, value.ndim))) for value in floats], axis=0
    )
    read: list[Prediction | str] = load(answers.read)(output)
    return [
        outcome if fine else "the outputs of the model are not finite"
        for outcome, fine in zip(read, finite, strict=True)
    ]


def _reason(error: tf.errors.OpError) -> str:
    """Return the part of TensorFlow's message that says what happened, not where in the graph."""
    lines = str(error.message).splitlines()
    telling = [
        line for line in lines if line and not line.startswith(("Graph", "Detected", "<", "\t"))
    ]
    return telling[0] if telling else lines[0]


def _progress(images: int) -> Progress:
    """Return a progress bar on stderr, so that stdout has only the results."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        # Otherwise rich would redirect stdout to stderr even if it is a file or a pipe.
        redirect_stdout=sys.stdout.isatty(),
        disable=images < MANY or not sys.stderr.isatty(),
    )
