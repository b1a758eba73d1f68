"""JSON schemas of the files of a run and of a data set; config.json's follows from the options.

Objects may have more keys than a schema names: tasks and leaves add theirs.
"""

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Final, Literal, Union

from common.annotations import Bounds
from tools.references.documented import docstrings
from trainer.config import TrainConfig
from trainer.leaves import TASKS

Schema = dict[str, Any]

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def _of(kind: str | list[str], text: str, **more: Any) -> Schema:
    return {"type": kind, "description": text, **more}


def _whole(text: str, least: int = 0) -> Schema:
    return _of("integer", text, minimum=least)


def _amount(text: str, **more: Any) -> Schema:
    return _of("number", text, minimum=0, **more)


def _numbers(text: str) -> Schema:
    return _of("array", text, items={"type": "number"})


def _object(text: str, properties: Mapping[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    required = [key for key in properties if key not in optional]
    return _of("object", text, properties=dict(properties), required=required)


def _texts(text: str) -> Schema:
    return _of("array", text, items={"type": "string"})


def of_options(cls: type) -> Schema:
    """Return the schema of a frozen dataclass of options, as `common.fields.to_dict` writes it."""
    hints = typing.get_type_hints(cls, include_extras=True)
    texts = docstrings(cls)
    properties = {}
    for field in fields(cls):
        text = texts.get(field.name, "")
        properties[field.name] = {
            **_hint(hints[field.name]),
            **({"description": text} if text else {}),
        }
    return {"type": "object", "properties": properties}


def _hint(hint: Any) -> Schema:
    """Return the schema of the values of a type."""
    notes: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, *rest = typing.get_args(hint)
        notes = tuple(rest)
    items = typing.get_args(hint)
    simple = {str: "string", bool: "boolean", int: "integer", float: "number"}
    if is_dataclass(hint):
        return of_options(typing.cast("type", hint))
    if hint in simple:
        return {"type": simple[hint], **_limits(notes)}
    if typing.get_origin(hint) is Literal:
        return {"enum": list(items)}
    if typing.get_origin(hint) in (Union, types.UnionType):
        parts = [_hint(part) for part in items if part is not type(None)]
        none: list[Schema] = [{"type": "null"}] if type(None) in items else []
        return {"anyOf": [*({**part, **_limits(notes)} for part in parts), *none]}
    if typing.get_origin(hint) is tuple:
        return {"type": "array", "items": _hint(items[0])}
    return {"type": "object", "additionalProperties": _hint(items[1])}


def _limits(notes: tuple[Any, ...]) -> Schema:
    words = {
        "minimum": "at_least",
        "maximum": "at_most",
        "exclusiveMinimum": "above",
        "exclusiveMaximum": "below",
    }
    bounds = ((word, getattr(note, name)) for note in notes if isinstance(note, Bounds)
             for word, name in words.items())  # fmt: skip
    return {word: bound for word, bound in bounds if bound is not None}


_SECONDS: Final = _of(
    "object",
    "Seconds of wall time by phase: compile, train, evaluation, checkpoint.",
    additionalProperties={"type": "number", "minimum": 0},
)
_MEAN: Final = _numbers("Mean of the training images' pixels in red, green and blue, 0 to 255.")
_DEVIATION: Final = _numbers("Standard deviation of the same pixels.")
_BEST: Final = _of(
    ["object", "null"],
    "Step and metric of the best evaluation, by the metric that compares them.",
    properties={"step": _whole("Its step.")},
)
_RESULT: Final[Mapping[str, Schema]] = {
    "examples": _whole("Held-out images that the metrics are of; 0 if there are none."),
    "training_seconds": _amount("Seconds of all attempts, from their first step on."),
    "images_per_second": _of(["number", "null"], "Over the last attempt."),
    "ranks": _whole("Ranks of the last attempt.", 1),
    "steps": _whole("Steps of the whole run."),
    "epochs": _amount("Epochs of the whole run."),
    "attempts": _whole("How many times the run was started.", 1),
    "best": _BEST,
    "seconds": _SECONDS,
    "validation_loss": _of("number", "Mean loss of the held-out images for these weights."),
    "baseline": _of(
        "object",
        "The same metrics of the same answer for every image, such as the largest class; empty if "
        "the task has none.",
        additionalProperties={"type": "number", "minimum": 0, "maximum": 1},
    ),
    "evaluated_step": _whole("Step of the weights that the metrics are of."),
    "warnings": _texts("Reasons to doubt the result, in sentences."),
}
_LATER: Final = ("validation_loss", "baseline", "evaluated_step", "warnings")
"""Keys that earlier versions did not write, or only a run with held-out images has."""
_OF_TASKS: Final = "; ".join(
    f"{task.name}: {', '.join(f'`{metric.key}` ({metric.label})' for metric in task.evaluation)}"
    for task in TASKS.values()
)
_METRICS: Final = (
    f"It also has the metrics of the task, fractions from 0 to 1. {_OF_TASKS[0].upper()}"
    f"{_OF_TASKS[1:]}."
)


def _event(name: str, text: str, properties: Mapping[str, Schema], **more: Any) -> Schema:
    return {
        "description": text,
        "properties": {"event": {"const": name}, **properties},
        "required": ["event", *(key for key in properties if key not in more.get("optional", ()))],
    }


_EPOCH: Final = {"epoch": _amount("Passes over the training images so far.")}
_EVENTS: Final = (
    _event(
        "start",
        "An attempt begins. `environment` has versions and the machine.",
        {
            "attempt": _whole("Number of the attempt.", 1),
            "ranks": _whole("Ranks of the attempt.", 1),
            "global_batch": _whole("Images per step, over all ranks.", 1),
            "data_version": _of("string", "Version of the data set."),
            "environment": _of("object", "Versions of packages, system, processor, memory."),
        },
    ),
    _event(
        "train",
        "Means since the line before, every `log.every_steps` steps. Metrics of the task on "
        "training images begin with `train_`.",
        {
            **_EPOCH,
            "loss": _of(
                "number",
                "Mean of the loss that the optimizer lowers, with label smoothing and weights. A "
                "value that is not finite is left out.",
            ),
            "training_loss": _of(
                "number",
                "Mean loss without smoothing and weights, the same quantity as `validation_loss`; "
                "left out if not finite.",
            ),
            "learning_rate": _amount("Of the last step."),
            "images_per_second": _amount("Of all ranks."),
            "images_per_second_per_rank": _amount("Of one rank."),
            "gradient_norm": _amount("Norm of the whole gradient."),
            "data_wait_percent": _amount("Share of the time in which a step waited for images."),
        },
        optional=("loss", "training_loss", "gradient_norm", "data_wait_percent"),
    ),
    _event(
        "evaluation",
        "The held-out images were evaluated. " + _METRICS,
        {**_EPOCH, "validation_loss": _of("number", "Mean loss; left out if not finite.")},
        optional=("validation_loss",),
    ),
    _event(
        "checkpoint",
        "A checkpoint is on disk.",
        {
            "bytes": _whole("Its size."),
            "write_seconds": _amount("Seconds of writing, in the background."),
            "seconds": _SECONDS,
        },
    ),
    _event(
        "roll_back",
        "A step was not finite; the run continues from `step`, and later lines are dropped.",
        {
            "bad_step": _whole("The step that was not finite."),
            "images": _whole("Images that are left out."),
        },
    ),
    _event(
        "predictions",
        "Predictions of the final weights are written.",
        {"examples": _whole("Held-out examples.")},
    ),
    _event("stop", "The run was asked to stop, and its state is saved.", {}),
    _event(
        "finish",
        "The run is complete; the values are those of result.json.",
        _RESULT,
        optional=_LATER,
    ),
)
_SHARD: Final = _object(
    "A file of records.",
    {
        "file": _of("string", "File name, relative to the manifest."),
        "examples": _whole("Number of records."),
        "bytes": _whole("Size of the file."),
        "xxh128": _of("string", "XXH3-128 of the file.", pattern="^[0-9a-f]{32}$"),
        "index": _of("array", "Byte offsets or row groups.", items={"type": "integer"}),
    },
)
_SPLIT: Final = _object(
    "Shards of one split.",
    {
        "shards": _of("array", "Files of records.", items=_SHARD),
        "class_counts": _of("array", "Images of each class.", items={"type": "integer"}),
    },
    optional=("class_counts",),
)


def _titled(name: str, schema: Schema) -> Schema:
    return {"$schema": DRAFT, "title": name, **schema}


SCHEMAS: Final[Mapping[str, Schema]] = {
    "config": _titled(
        "config.json",
        _object(
            "The configuration of a run, and its software and machine.",
            {
                "config": {
                    **of_options(TrainConfig),
                    "description": "Options of the run: [options of the trainer](trainer.md).",
                },
                "config_hash": _of("string", "SHA-256 of the options that decide the result."),
                "code_version": _of("string", "Version of the trainer."),
                "ranks": _whole("Number of ranks.", 1),
                "global_batch": _whole("Images per step, over all ranks.", 1),
                "data_version": _of("string", "Version of the data set."),
                "threads": _whole("Threads of a rank, on a CPU.", 1),
                "meaning": _object(
                    "Classes and normalization.",
                    {
                        "classes": _texts("Class names in the order of the outputs."),
                        "mean": _MEAN,
                        "deviation": _DEVIATION,
                    },
                ),
                "own_network": _of("object", "Digests of the code of an own network."),
            },
            optional=("threads", "meaning", "own_network"),
        ),
    ),
    "metrics": _titled(
        "metrics.jsonl",
        {
            **_object(
                "One line, with at least these keys.",
                {
                    "event": _of("string", "What happened: the events below."),
                    "step": _whole("Steps done."),
                    "time": _amount("Seconds since 1970-01-01 UTC."),
                },
            ),
            "oneOf": list(_EVENTS),
        },
    ),
    "result": _titled(
        "result.json",
        _object("The result of the final weights. " + _METRICS, _RESULT, optional=_LATER),
    ),
    "export": _titled(
        "export.json",
        _object(
            "Inputs and outputs of an exported model.",
            {
                "schema": _whole("Version of this file.", 1),
                "run": _of("string", "Name of the run."),
                "step": _whole("Step of the weights."),
                "data_version": _of("string", "Version of the data set."),
                "class_names": _texts("Class names in the order of the outputs."),
                "top": _whole("Number of classes that `serving_default` returns.", 1),
                "image_size": _whole("Side of the network's input in pixels.", 1),
                "eval_crop": _amount("Side of the central part that is scaled to it."),
                "mean": _MEAN,
                "deviation": _DEVIATION,
                "task": _of("string", "Task of the model."),
                "model": _of("object", "The network."),
                "evaluation": _of(
                    ["object", "null"],
                    "Metrics of the same weights.",
                ),
                "evaluated_in": _of(["string", "null"], "Precision of the evaluation."),
                "changed_code": _of("boolean", "Whether an own network's code has changed."),
                "code_version": _of("string", "Version of the trainer."),
            },
        ),
    ),
    "manifest": _titled(
        "manifest.json",
        _object(
            "Contents of a data set.",
            {
                "schema": _whole("Version of this file.", 1),
                "version": _of("string", "Version of the data set: a hash of its content."),
                "classes": _texts("Class names in the order of labels."),
                "mean": _MEAN,
                "deviation": _DEVIATION,
                "splits": _of(
                    "object",
                    "`train`, `validation` and, if there is one, `test`.",
                    additionalProperties=_SPLIT,
                ),
                "origin": _of("object", "The command that wrote it, and its changes to images."),
                "first_label": _whole("Label of the first class in the records."),
            },
            optional=("origin", "first_label"),
        ),
    ),
}
"""Schemas by the names of their files in docs/reference/schemas/."""
