"""The command line: `python -m trainer COMMAND`.

tyro reads the options, their types and their texts from the dataclasses of `trainer.config`.
Nothing here imports TensorFlow before the configuration is known to be good.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import docstring_parser
import tyro

from trainer import fields
from trainer.config import Positive, TrainConfig
from trainer.errors import ConfigError, TrainerError
from trainer.presets import EXPECTATIONS, PRESETS

T = TypeVar("T")

USAGE = """\
usage: python -m trainer COMMAND [options]

  train      train a ResNet; without options on the handwritten digits that scikit-learn ships
  evaluate   top-1 and top-5 of a checkpoint on the held-out images
  export     a run's model as a SavedModel, and as ONNX, to be used without this code
  predict    the classes of images, and of folders of them, by an exported model
  report     a page about a run, or one that compares several: python -m trainer report RUN [RUN...]
  prepare    write a data set as TFRecords with a manifest: prepare {digits, synthetic}
  benchmark  what the trainer costs, beside others: benchmark {loop, exchange, train, input}

python -m trainer COMMAND --help lists the options of a command.

exit status: 0 done; 1 failed; 2 bad configuration; 3 bad data; 4 bad checkpoint or run folder;
5 non-finite loss; 6 another rank failed; 130 or 143 stopped by SIGINT or SIGTERM, with the state
saved unless it was asked twice
"""


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """Evaluate a checkpoint of a run."""

    run: str = "runs/latest"
    """Folder of the run."""

    checkpoint: Literal["last", "best"] = "last"
    """last: the newest valid one; best: the one with the best top-1 among those kept."""

    data_dir: str | None = None
    """Folder of the data set, if it is not where the run found it."""


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Write a run's model as a SavedModel that takes encoded images and needs none of this code."""

    run: str = "runs/latest"
    """Folder of the run; its data set need not be there."""

    checkpoint: Literal["last", "best"] = "last"
    """last: the newest valid one; best: the one with the best top-1 among those kept."""

    output: str | None = None
    """Folder to write; none is `export` in the run's. An older export in it is replaced."""

    top: Annotated[int, Positive] = 5
    """Classes that the model gives for an image; all of them if it has fewer."""

    onnx: bool = False
    """Write model.onnx as well. It takes pixels that are decoded and cropped, as ONNX has no
    portable way to decode images, and is compared with the SavedModel."""


@dataclasses.dataclass(frozen=True)
class PredictOptions:
    """Print the most probable classes of images: python -m trainer predict IMAGE... [options].
    An IMAGE is a JPEG or PNG, or a folder that is searched for .jpg, .jpeg and .png.
    """

    run: str = "runs/latest"
    """Folder of the run whose export is used."""

    model: str | None = None
    """Folder of an export that is used instead of a run's."""

    top: Annotated[int | None, Positive] = None
    """Classes to print for an image; none is all that the model gives, 5 unless it was exported
    with another --top."""

    json: bool = False
    """Print a JSON object a line for each image."""


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """Write a page about a run, or one that compares several: python -m trainer report RUN [RUN...]
    [options]. A RUN is the folder of a run; none is runs/latest.
    """

    output: str | None = None
    """File to write; none is report.html in the run's folder, and compare.html beside the first of
    several runs."""


@dataclasses.dataclass(frozen=True)
class PrepareDigitsOptions:
    """Write scikit-learn's digits as TFRecords: 1,437 images to train on, 360 held out."""

    output: str = "data/digits"
    """Folder to write; replaced if it holds the same data set already."""


@dataclasses.dataclass(frozen=True)
class PrepareSyntheticOptions:
    """Write JPEGs of noise as TFRecords, 500 x 375 pixels and 117 KB on average: for measuring what
    reading photographs costs, not for learning.
    """

    output: str = "data/synthetic"
    """Folder to write; it stays as it is if it holds the same data set already."""

    images: Annotated[int, Positive] = 1000
    """Images to train on; a tenth as many are held out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; errors of the user's come without a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    # TensorFlow's notes on start-up would bury what the run has to say; warnings and errors stay.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # Without this, importing TensorFlow imports Keras 3, which is not used: a third of the time.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    try:
        return _run(args)
    except TrainerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return TrainerError.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(args: list[str]) -> int:
    match args:
        case ["train", *rest]:
            return _train(rest)
        case ["evaluate", *rest]:
            options = _parse(EvaluateOptions(), "evaluate", rest)
            from trainer.evaluate_run import evaluate_run

            evaluate_run(options.run, options.checkpoint, options.data_dir)
        case ["export", *rest]:
            wanted = _parse(ExportOptions(), "export", rest)
            from trainer.export_run import export_run

            export_run(wanted.run, wanted.checkpoint, wanted.output, wanted.top, onnx=wanted.onnx)
        case ["predict", *rest]:
            images, others = _split_positional(rest)
            asked = _parse(PredictOptions(), "predict", others)
            from trainer.predict import predict

            predict(images, asked.run, asked.model, asked.top, as_json=asked.json)
        case ["report", *rest]:
            runs, others = _split_positional(rest)
            page = _parse(ReportOptions(), "report", others)
            from trainer.report.write import write_report

            folders = [Path(run) for run in runs or ["runs/latest"]]
            print(write_report(folders, Path(page.output) if page.output else None))
        case ["benchmark", "loop" | "exchange" | "train" | "input" as what, *rest]:
            _benchmark(what, rest)
        case ["prepare", "synthetic", *rest]:
            noise = _parse(PrepareSyntheticOptions(), "prepare synthetic", rest)
            from trainer.data.noise import prepare_noise

            prepare_noise(noise.output, noise.images)
        case ["prepare", "digits", *rest]:
            from trainer.data.digits import prepare_digits

            prepare_digits(_parse(PrepareDigitsOptions(), "prepare digits", rest).output)
        case ["-h" | "--help"]:
            print(USAGE, end="")
        case _:
            wrong = f"error: {' '.join(args[:2])!r} is not a command\n\n" if args else ""
            print(f"{wrong}{USAGE}", end="", file=sys.stderr)
            return ConfigError.exit_code
    return 0


def _benchmark(what: str, args: list[str]) -> None:
    from trainer.benchmark import command, options

    match what:
        case "loop":
            command.loop(_parse(options.LoopBenchmark(), "benchmark loop", args), args)
        case "exchange":
            command.exchange(_parse(options.ExchangeBenchmark(), "benchmark exchange", args), args)
        case "train":
            command.train(_parse(options.TrainBenchmark(), "benchmark train", args))
        case "input":
            command.input_(_parse(options.InputBenchmark(), "benchmark input", args))


def _train(args: list[str]) -> int:
    dry_run = "--dry-run" in args
    config = parse_train([arg for arg in args if arg != "--dry-run"])
    if dry_run:
        from trainer.dry_run import print_dry_run

        print_dry_run(config)
        return 0
    from trainer.launch import is_rank, launch

    if config.ranks > 1 and not is_rank(os.environ):
        from trainer.preflight import check

        return launch(["train", *args, "--name", check(config)], config.ranks)
    from trainer.train import train

    return train(config)


def parse_train(args: Sequence[str]) -> TrainConfig:
    """Read a training configuration: the named preset, then every option over it.

    Raises:
        ConfigError: with every unknown option, unreadable value and contradiction.
    """
    return _parse(_preset(args), "train", args, _train_help())


def _preset(args: Sequence[str]) -> TrainConfig:
    """The configuration that the other options change."""
    name = "digits"
    for position, arg in enumerate(args):
        if arg == "--preset":
            name = args[position + 1] if position + 1 < len(args) else ""
        elif arg.startswith("--preset="):
            name = arg.removeprefix("--preset=")
    # One that does not exist is reported with whatever else is wrong.
    return PRESETS.get(name, PRESETS["digits"])


def _train_help() -> str:
    presets = "\n\n".join(
        f"{name}: {EXPECTATIONS[name].result} ({EXPECTATIONS[name].source})." for name in PRESETS
    )
    return (
        "Train a ResNet. --preset NAME picks where the options start from (shown: digits, or the"
        " preset given before --help); --dry-run prints the resolved configuration and what follows"
        f" from it, and exits.\n\nPresets:\n\n{presets}"
    )


def _split_positional(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Positional arguments, and options with their values, of a command whose options all have
    one; after `--` everything is positional.
    """
    positional: list[str] = []
    options: list[str] = []
    remaining = list(args)
    while remaining:
        arg = remaining.pop(0)
        if arg == "--":
            positional += remaining
            break
        if not arg.startswith("-"):
            positional.append(arg)
            continue
        options.append(arg)
        has_value = arg.startswith("--") and arg != "--help" and "=" not in arg
        if has_value and remaining and not remaining[0].startswith("--"):
            options.append(remaining.pop(0))
    return positional, options


def _parse(default: T, command: str, args: Sequence[str], description: str | None = None) -> T:
    """Read options over an instance of a dataclass whose fields they are."""
    cls = type(default)
    known = {leaf.flag for leaf in fields.leaves(cls)} | {"--help", "-h"}
    strange = [
        fields.unknown_key(flag, sorted(known))
        for flag in (arg.split("=")[0] for arg in args)
        if flag.startswith("--") and flag not in known
    ]
    if "--help" in args or "-h" in args:
        _reflow(cls)
    else:
        single = {leaf.flag for leaf in fields.leaves(cls) if get_origin(leaf.type) is not tuple}
        bare = [a for a, after in pairwise([*args, "--"]) if a in single and after[:2] == "--"]
        strange += [f"{flag}: needs a value" for flag in bare]
        args = [arg for arg in args if arg not in bare]
    try:
        with _registry():
            built, left = tyro.cli(
                cls,
                prog=f"python -m trainer {command}",
                description=description,
                args=list(args),
                default=default,
                return_unknown_args=True,
                config=(tyro.conf.FlagConversionOff,),
            )
    except ConfigError as error:
        raise ConfigError([*strange, *error.problems]) from None
    strange += fields.problems(built)
    if left and not strange:
        strange = [f"{left[0]}: there is no place for this argument"]
    if strange:
        raise ConfigError(strange)
    return built


def _reflow(cls: type) -> None:
    """Give tyro each field's docstring as one paragraph; it would keep our line breaks."""
    texts = {
        p.arg_name: p.description or "" for p in docstring_parser.parse_from_object(cls).params
    }
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[field.name]):
            _reflow(cast("type", hints[field.name]))
        elif field.name in texts:
            field.metadata = MappingProxyType({"help": " ".join(texts[field.name].split())})


def _registry() -> tyro.constructors.ConstructorRegistry:
    """Readers of values that never fail: what cannot be read becomes `Unparsed`, so that the
    configuration reports it together with everything else that is wrong.
    """
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def forgiving(
        info: tyro.constructors.PrimitiveTypeInfo,
    ) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        hint: Any = info.type
        if get_origin(hint) is None and hint not in (int, float, bool, str):
            return None
        many = get_origin(hint) is tuple
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs="*" if many else 1,
            metavar=_metavar(hint),
            instance_from_str=lambda texts: (
                _read_many(hint, texts) if many else _read(hint, texts[0])
            ),
            is_instance=lambda value: (
                fields.accepts(hint, value) or isinstance(value, fields.Unparsed)
            ),
            str_from_instance=lambda value: [str(v) for v in value] if many else [str(value)],
        )

    return registry


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"{_metavar(get_args(hint)[0])} ..."
    if get_args(hint):
        return "|".join(map(_metavar, get_args(hint)))
    return {int: "INT", float: "NUMBER", bool: "True|False", str: "TEXT", type(None): "None"}[hint]


def _read_many(hint: Any, texts: list[str]) -> object:
    values = tuple(_read(get_args(hint)[0], text) for text in texts)
    broken = [value for value in values if isinstance(value, fields.Unparsed)]
    return broken[0] if broken else values


def _read(hint: Any, text: str) -> object:
    """The value that a text stands for, or `Unparsed`."""
    candidates: list[object] = [text]
    if text == "None":
        candidates.insert(0, None)
    if text in ("True", "False"):
        candidates.insert(0, text == "True")
    for number in (float, int):
        try:
            candidates.insert(0, number(text))
        except ValueError:
            continue
    return next((c for c in candidates if fields.accepts(hint, c)), fields.Unparsed(text))
