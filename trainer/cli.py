"""The command line: `python -m trainer COMMAND`.

TensorFlow is not imported before the configuration has been validated.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from common.arguments import parse, split_positional, without_options
from common.errors import INTERRUPTED, ConfigError, UserError
from trainer.options import (
    EvaluateOptions,
    ExportOptions,
    InspectOptions,
    PredictOptions,
    PrepareDigitsOptions,
    PrepareFolderOptions,
    PrepareImagenetOptions,
    PrepareSyntheticOptions,
    PrepareTfrecordsOptions,
    ReportOptions,
    VerifyOptions,
)
from trainer.presets import parse_train

USAGE = """\
usage: python -m trainer COMMAND [options]

  train      train a ResNet; by default on the handwritten digits that scikit-learn ships
  evaluate   print top-1 and top-5 of a checkpoint on the held-out images
  export     write a run's model as a SavedModel (and as ONNX), usable without this code
  predict    print the classes of images or folders of images, using an exported model
  report     write a page about a run, or a comparison: python -m trainer report RUN [RUN...]
  prepare    write a data set as TFRecords with a manifest:
             prepare {imagenet, folder, tfrecords, digits, synthetic}
  verify     check a data set against its manifest: python -m trainer verify DIR
  inspect    write a page that shows a data set: python -m trainer inspect DIR

python -m trainer COMMAND --help lists the options of a command.

exit status: 0 done; 1 failed; 2 bad configuration; 3 bad data; 4 bad checkpoint or run folder;
5 non-finite loss; 6 another rank failed; 7 hung and ended by its watchdog; 130, 138 or 143 stopped
by SIGINT, SIGUSR1 or SIGTERM, after saving the state (a second Ctrl-C ends it without saving)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; print user errors without a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    # TensorFlow's start-up notes would bury the run's own output; warnings and errors still appear.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # Otherwise importing TensorFlow also imports Keras 3, unused, which takes a third of the time.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    try:
        return _run(args)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return UserError.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(args: list[str]) -> int:
    match args:
        case ["train", *rest]:
            return _train(rest)
        case ["evaluate", *rest]:
            options = parse(EvaluateOptions(), "evaluate", rest)
            from trainer.training.evaluator import evaluate_run

            evaluate_run(options.run, options.checkpoint, options.data_dir)
        case ["export", *rest]:
            export = parse(ExportOptions(), "export", rest)
            from trainer.export.exporter import export_run

            export_run(export.run, export.checkpoint, export.output, export.top, onnx=export.onnx)
        case ["predict", *rest]:
            images, others = split_positional(rest)
            prediction = parse(PredictOptions(), "predict", others)
            from trainer.export.predict import predict

            predict(
                images, prediction.run, prediction.model, prediction.top, as_json=prediction.json
            )
        case ["report", *rest]:
            runs, others = split_positional(rest)
            page = parse(ReportOptions(), "report", others)
            from trainer.report.write import write_report

            folders = [Path(run) for run in runs or ["runs/latest"]]
            print(write_report(folders, Path(page.output) if page.output else None))
        case [
            "prepare",
            "imagenet" | "folder" | "tfrecords" | "digits" | "synthetic" as what,
            *rest,
        ]:
            _prepare(what, rest)
        case ["verify" | "inspect" as what, *rest]:
            _look(what, rest)
        case ["-h" | "--help"] | ["prepare", "-h" | "--help"]:
            print(USAGE, end="")
        case _:
            wrong = f"error: unknown command {' '.join(args[:2])!r}\n\n" if args else ""
            print(f"{wrong}{USAGE}", end="", file=sys.stderr)
            return ConfigError.exit_code
    return 0


def _prepare(what: str, args: list[str]) -> None:
    command = f"prepare {what}"
    # For the manifest, which must not depend on the output folder or the number of processes.
    shaping = without_options(args, "--output", "--processes", "--max-rejected")
    line = shlex.join(["python", "-m", "trainer", "prepare", what, *shaping])
    match what:
        case "folder":
            from trainer.data.prepare.folder import prepare_folder

            prepare_folder(parse(PrepareFolderOptions(), command, args), line)
        case "imagenet":
            from trainer.data.prepare.imagenet import prepare_imagenet

            prepare_imagenet(parse(PrepareImagenetOptions(), command, args), line)
        case "tfrecords":
            from trainer.data.prepare.tfrecords import prepare_tfrecords

            prepare_tfrecords(parse(PrepareTfrecordsOptions(), command, args), line)
        case "digits":
            from trainer.data.builtin.digits import prepare_digits

            prepare_digits(parse(PrepareDigitsOptions(), command, args).output)
        case "synthetic":
            noise = parse(PrepareSyntheticOptions(), command, args)
            from trainer.data.builtin.synthetic import prepare_noise

            prepare_noise(noise.output, noise.images)


def _look(what: str, args: list[str]) -> None:
    named, others = split_positional(args, ["--deep"])
    if what == "verify":
        check = parse(VerifyOptions(), what, others)
        from trainer.data.verify import verify

        verify(_one_folder(what, named), check)
    else:
        shown = parse(InspectOptions(), what, others)
        from trainer.report.data_set_page import write_inspection

        print(write_inspection(_one_folder(what, named), shown))


def _one_folder(command: str, named: list[str]) -> Path:
    if len(named) != 1:
        raise ConfigError([f"{command}: expected one data set folder, got {len(named)}"])
    return Path(named[0])


def _train(args: list[str]) -> int:
    dry_run = "--dry-run" in args
    config = parse_train([arg for arg in args if arg != "--dry-run"])
    if dry_run:
        from trainer.training.setup import print_dry_run

        print_dry_run(config)
        return 0
    from trainer.distributed.launcher import is_rank, launch_with_restarts

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
