"""The command line: `python -m trainer COMMAND`.

TensorFlow is not imported before the configuration has been validated.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from common import commands, fields
from common.arguments import parse
from common.errors import ConfigError
from trainer.options import (
    COPIED,
    EvaluateOptions,
    ExportOptions,
    InspectOptions,
    PredictOptions,
    PrepareDigitsOptions,
    PrepareFolderOptions,
    PrepareImagenetOptions,
    PrepareParquetOptions,
    PrepareScenesOptions,
    PrepareSegmentationOptions,
    PrepareSyntheticOptions,
    PrepareTfrecordsOptions,
    PrepareWebdatasetOptions,
    ReportOptions,
    ScoreOptions,
    ServeOptions,
    SparkOptions,
    StacksOptions,
    VerifyOptions,
)
from trainer.presets import parse_train, to_args

USAGE = """\
usage: python -m trainer COMMAND [options]

  train      train a network; by default a ResNet on the handwritten digits that scikit-learn ships
  spark      train on a Spark cluster: spark --num-proc 8 -- OPTIONS of train
  evaluate   print the metrics of a checkpoint on the held-out images
  export     write a run's model as a SavedModel (and as ONNX), usable without this code
  predict    print the classes of images or folders of images, using an exported model
  score      write the classes of all images in a folder to files, using an exported model
  serve      answer requests for the classes of images, using an exported model
  report     write a page about a run, or a comparison: python -m trainer report RUN [RUN...]
  stacks     print where the ranks of a running training are: python -m trainer stacks RUN
  prepare    write a data set as TFRecords with a manifest:
             prepare {imagenet, folder, webdataset, segmentation, digits, scenes, synthetic}, or
             only the manifest for files of other tools: prepare {tfrecords, parquet}
  verify     check a data set against its manifest: python -m trainer verify DIR
  inspect    write a page that shows a data set: python -m trainer inspect DIR

python -m trainer COMMAND --help lists the options of a command.

exit status: 0 done; 1 failed; 2 bad configuration; 3 bad data; 4 bad checkpoint or run folder;
5 non-finite loss; 6 another rank failed; 7 hung and ended by its watchdog; 8 stopped at its
--max-seconds, after saving the state; 130, 138 or 143 stopped by SIGINT, SIGUSR1 or SIGTERM, after
saving the state (a second Ctrl-C ends it without saving)
"""


OPTIONS: Final[Mapping[str, type]] = {
    "evaluate": EvaluateOptions,
    "export": ExportOptions,
    "predict": PredictOptions,
    "score": ScoreOptions,
    "serve": ServeOptions,
    "report": ReportOptions,
    "stacks": StacksOptions,
    "prepare imagenet": PrepareImagenetOptions,
    "prepare folder": PrepareFolderOptions,
    "prepare segmentation": PrepareSegmentationOptions,
    "prepare tfrecords": PrepareTfrecordsOptions,
    "prepare parquet": PrepareParquetOptions,
    "prepare webdataset": PrepareWebdatasetOptions,
    "prepare digits": PrepareDigitsOptions,
    "prepare scenes": PrepareScenesOptions,
    "prepare synthetic": PrepareSyntheticOptions,
    "spark": SparkOptions,
    "verify": VerifyOptions,
    "inspect": InspectOptions,
}
"""Options of the commands other than `train`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; print user errors without a traceback."""
    # TensorFlow's start-up notes would bury the run's own output; warnings and errors still appear.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # Otherwise importing TensorFlow also imports Keras 3, unused, which takes a third of the time.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    try:
        return commands.run("trainer", ["train", *OPTIONS], USAGE, _run, argv)
    except commands.REPORTED as error:
        return commands.report(error)


def _run(name: str, args: list[str]) -> int:
    if name == "train":
        return _train(args)
    if name == "spark":
        return _train_on_spark(args)
    options: Any = parse(OPTIONS[name](), name, args)
    if name.startswith("prepare "):
        from trainer.suggestion import print_suggestion

        _prepare(name, options)
        print_suggestion(_prepared_folder(options))
    else:
        _examine(name, options)
    return 0


def _examine(name: str, options: Any) -> None:
    """Run a command about a run or a data set that is there."""
    match options:
        case EvaluateOptions():
            from trainer.training.evaluator import evaluate_run

            evaluate_run(options.run, options.checkpoint, options.data_dir, as_json=options.json)
        case ReportOptions():
            from trainer.report.write import write_report

            page = Path(options.output) if options.output else None
            print(write_report([Path(run) for run in options.runs], page))
        case StacksOptions():
            from trainer.distributed.run_requests import print_local_stacks

            print_local_stacks(Path(options.run), options.seconds)
        case VerifyOptions():
            folder = _data_set(name, options.folder)
            from trainer.data.verify import verify

            verify(folder, options)
        case InspectOptions():
            folder = _data_set(name, options.folder)
            from trainer.report.data_set_page import write_inspection

            print(write_inspection(folder, options))
        case _:
            _use_model(options)


def _use_model(options: Any) -> None:
    """Run a command that exports a model, or uses the exported one."""
    match options:
        case ExportOptions():
            from trainer.export.exporter import export_run

            export_run(
                options.run, options.checkpoint, options.output, options.top, onnx=options.onnx
            )
        case PredictOptions():
            from trainer.export.predict import predict

            predict(options.images, options.run, options.model, options.top, as_json=options.json)
        case ScoreOptions():
            from trainer.scoring.batch import score

            score(*_placed(options))
        case ServeOptions():
            from trainer.scoring.server import serve

            serve(options)


def _placed(options: Any) -> tuple[Any, Any]:
    """Return the options of a command that writes by units, and what does its units: processes of
    this machine, or tasks of Spark.
    """
    if getattr(options, "with_", "") != "spark":
        from trainer.data.prepare.pool import work_through

        return options, work_through
    from trainer.spark.place import absolute_paths
    from trainer.spark.preparation import on_spark
    from trainer.spark.session import get_session

    return absolute_paths(options, Path.cwd()), on_spark(get_session())


def _prepare(name: str, options: Any) -> None:
    line = _line(name, options)
    options, work_through = _placed(options)
    match options:
        case PrepareImagenetOptions():
            from trainer.data.prepare.imagenet import prepare_imagenet

            prepare_imagenet(options, line, work_through)
        case PrepareFolderOptions():
            from trainer.data.prepare.folder import prepare_folder

            prepare_folder(options, line, work_through)
        case PrepareSegmentationOptions():
            from trainer.data.prepare.segmentation import prepare_segmentation

            prepare_segmentation(options, line, work_through)
        case PrepareTfrecordsOptions():
            from trainer.data.prepare.in_place.tfrecords import prepare_tfrecords

            prepare_tfrecords(options, line)
        case PrepareWebdatasetOptions():
            from trainer.data.prepare.packed.webdataset import prepare_webdataset

            prepare_webdataset(options, line, work_through)
        case PrepareParquetOptions():
            from trainer.data.prepare.packed.rows import describe_or_copy

            describe_or_copy(options, line, work_through)
        case _:
            _write_embedded(options)


def _write_embedded(options: Any) -> None:
    match options:
        case PrepareDigitsOptions():
            from trainer.data.builtin.digits import prepare_digits

            prepare_digits(options.output)
        case PrepareScenesOptions():
            from trainer.data.builtin.scenes import prepare_scenes

            prepare_scenes(options.output)
        case PrepareSyntheticOptions():
            from trainer.data.builtin.synthetic import prepare_noise

            prepare_noise(options.output, options.images)


def _prepared_folder(options: Any) -> Path:
    """Return the folder of the data set that a preparation has written or described."""
    if isinstance(options, PrepareParquetOptions) and options.copy:
        return Path(options.output or COPIED)
    return Path(getattr(options, "output", None) or options.input)


def _line(name: str, options: Any) -> str:
    """Return a preparation's command line for the manifest, which must not depend on the output
    folder or on what does the work.
    """
    default = type(options)()
    left_out = {"output", "processes", "max_rejected", "with_"} & vars(default).keys()
    shaping = replace(options, **{key: getattr(default, key) for key in left_out})
    words = fields.to_flags(shaping, default)
    return shlex.join(["python", "-m", "trainer", *name.split(), *words])


def _data_set(command: str, folder: str) -> Path:
    if not folder:
        raise ConfigError([f"{command}: DIR is missing; name the folder of the data set"])
    return Path(folder)


def _train(args: list[str]) -> int:
    dry_run = "--dry-run" in args
    config = parse_train([arg for arg in args if arg != "--dry-run"])
    if dry_run:
        from trainer.training.setup import print_dry_run

        print_dry_run(config)
        return 0
    from trainer.distributed.hold import hold_minutes, run_and_hold
    from trainer.distributed.launcher import is_rank, launch_with_restarts
    from trainer.distributed.rank import launched_as

    minutes = hold_minutes(os.environ)
    if minutes:
        launched = launched_as(os.environ)
        run = Path(config.runs_dir, config.name) if config.name else None
        return run_and_hold(["train", *args], run, launched.rank if launched else 0, minutes)

    # A job of Azure ML is restarted by the service itself.
    restarts = 0 if "AZUREML_RUN_ID" in os.environ else config.restarts
    if (config.ranks > 1 or restarts) and not is_rank(os.environ):
        from trainer.training.setup import set_up_for_launch

        setup = set_up_for_launch(config)
        named = ["train", *args, "--name", str(setup.config.name)]
        newest_step = setup.folder.checkpoints.newest_step
        return launch_with_restarts(named, config.ranks, newest_step, restarts)
    from trainer.training.run import train

    return train(config)


def _train_on_spark(args: list[str]) -> int:
    end = args.index("--") if "--" in args else len(args)
    options = parse(SparkOptions(), "spark", args[:end])
    config = parse_train(args[end + 1 :])
    from trainer.spark.driver import run
    from trainer.spark.session import get_session

    spark = get_session(str(options.num_proc))
    try:
        run(spark, to_args(config), options.num_proc, options.restarts)
    finally:
        spark.stop()
    return 0
