"""The command line: `ml-trainer COMMAND`, a table of commands.

TensorFlow is not imported before the options have been validated.
"""

import shlex
from collections.abc import Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from common import fields
from common.arguments import parse
from common.program import Command, Program
from trainer.data.duplicates.leaf import DuplicateOptions
from trainer.data.intake.names import without_names
from trainer.data.prepare.options import NAME_FILES
from trainer.diagnostics.environment import set_defaults_of_tensorflow
from trainer.errors import DataError
from trainer.leaves import LEAVES, with_workers

_DATA: Final = "data"
_RUNS: Final = "look at runs"
_MODEL: Final = "use a model"
_PREPARE: Final = "trainer.data.prepare"

COMMANDS: Final = (
    Command(
        "train",
        "train",
        "train a network; by default a ResNet on the handwritten digits that scikit-learn ships",
        "trainer.training.command:run",
    ),
    Command(
        "fit",
        "train",
        "train on a folder of images, from its files to the report: ml-trainer fit DIR",
        "trainer.api:run",
        "trainer.fitting.options:FitOptions",
    ),
    Command(
        "prepare folder",
        _DATA,
        "write a folder of images, one folder a class, as TFRecords with a manifest",
        f"{_PREPARE}.folder:prepare_folder",
        f"{_PREPARE}.options:PrepareFolderOptions",
    ),
    Command(
        "prepare table",
        _DATA,
        "write images whose classes, and patients, are in a CSV file",
        "trainer.data.tables.prepare:prepare_table",
        "trainer.data.tables.options:PrepareTableOptions",
    ),
    Command(
        "prepare imagenet",
        _DATA,
        "write ILSVRC2012, from its archives or unpacked",
        f"{_PREPARE}.imagenet:prepare_imagenet",
        f"{_PREPARE}.options:PrepareImagenetOptions",
    ),
    Command(
        "prepare webdataset",
        _DATA,
        "write the images of WebDataset's archives",
        f"{_PREPARE}.foreign.webdataset:prepare_webdataset",
        f"{_PREPARE}.options:PrepareWebdatasetOptions",
    ),
    Command(
        "prepare tfrecords",
        _DATA,
        "write only the manifest for TFRecords of other tools",
        f"{_PREPARE}.foreign.tfrecords:prepare_tfrecords",
        f"{_PREPARE}.options:PrepareTfrecordsOptions",
    ),
    Command(
        "prepare digits",
        _DATA,
        "write the embedded handwritten digits",
        "trainer.data.builtin.writer:run",
        "trainer.data.builtin.options:PrepareDigitsOptions",
    ),
    Command(
        "prepare synthetic",
        _DATA,
        "write noise that costs as much to read as photographs, for measurements",
        "trainer.data.builtin.synthetic:run",
        "trainer.data.builtin.options:PrepareSyntheticOptions",
    ),
    Command(
        "verify",
        _DATA,
        "check a data set against its manifest: ml-trainer verify DIR",
        "trainer.data.verify:run",
        f"{_PREPARE}.options:VerifyOptions",
    ),
    Command(
        "inspect",
        _DATA,
        "write a page that shows a data set: ml-trainer inspect DIR",
        "trainer.report.data_set_page:run",
        "trainer.report.options:InspectOptions",
    ),
    Command(
        "evaluate",
        _RUNS,
        "print the metrics of a checkpoint on the held-out images",
        "trainer.training.evaluator:evaluate_run",
        "trainer.training.options:EvaluateOptions",
    ),
    Command(
        "report",
        _RUNS,
        "write a page about a run, or a comparison: ml-trainer report RUN [RUN...]",
        "trainer.report.write:run",
        "trainer.report.options:ReportOptions",
    ),
    Command(
        "stacks",
        _RUNS,
        "print where the ranks of a run on this machine are: ml-trainer stacks RUN",
        "trainer.stacks:print_local_stacks",
        "trainer.stacks:StacksOptions",
    ),
    Command(
        "export",
        _MODEL,
        "write a run's model as a SavedModel, usable without this code",
        "trainer.export.exporter:export_run",
        "trainer.export.options:ExportOptions",
    ),
    Command(
        "predict",
        _MODEL,
        "print the classes of images or folders of images, using an exported model",
        "trainer.export.predict:predict",
        "trainer.export.options:PredictOptions",
    ),
    Command(
        "score",
        _MODEL,
        "write the classes of all images in a folder to files, using an exported model",
        "trainer.scoring.batch:run",
        "trainer.scoring.options:ScoreOptions",
    ),
    Command(
        "serve",
        _MODEL,
        "answer requests for the classes of images, using an exported model",
        "trainer.scoring.server:serve",
        "trainer.scoring.options:ServeOptions",
    ),
    *(command for leaf in LEAVES for command in leaf.commands),
)

PROGRAM: Final = Program(
    "trainer",
    COMMANDS,
    ("train", _DATA, _RUNS, _MODEL),
    "COMMAND [options]",
    """
ml-trainer COMMAND --help lists the options of a command.

exit status: 0 done; 1 failed; 2 bad configuration; 3 bad data; 4 bad checkpoint or run folder; 5 a
loss, weight or output that is not finite; 6 another rank failed; 7 hung and ended by its watchdog;
8 stopped at its --max-seconds, after saving the state; 9 out of memory, once in a run: the same
command continues in smaller micro-batches; 130, 138 or 143 stopped by SIGINT, SIGUSR1 or SIGTERM,
after saving the state (a second Ctrl-C ends it without saving); 141 stdout was closed
""",
    environment=".venv-trainer",
    script="ml-trainer",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; print user errors without a traceback."""
    set_defaults_of_tensorflow()
    return PROGRAM.main(argv, _run)


def _run(command: Command, args: list[str]) -> int:
    if not command.options:
        status: int = command.load_run()(args)
        return status
    options = parse(command.load_options()(), command.name, args)
    if command.name.startswith("prepare "):
        _prepare(command, options)
    else:
        command.load_run()(options)
    return 0


def _prepare(command: Command, options: Any) -> None:
    """Run a preparation, and print with which run to begin.

    Args:
        command: Its row, whose function takes the options, the command line for the manifest, and
            a function with the arguments of `trainer.data.prepare.pool.work_through`.
        options: Its options. The data set is in the folder `folder`, or else `output`, or else
            `input`.
    """
    from trainer.fitting.suggestion import print_suggestion

    changed, work_through = with_workers(options)
    try:
        command.load_run()(changed, _recorded(command.name, options), work_through)
    except (DataError, OSError) as error:
        if getattr(options, "names", "kept") == "kept":
            raise
        raise without_names(error) from error
    names = ("folder", "output", "input")
    print_suggestion(Path(next(path for name in names if (path := getattr(options, name, None)))))


def _recorded(name: str, options: Any) -> str:
    """Return a preparation's command line for the manifest, which must not depend on the output
    folder or on what does the work, and tells no path if records do not have the names of files.
    """
    default = type(options)()
    # They change no record.
    duplicates = {option.name for option in dataclass_fields(DuplicateOptions)}
    left_out = {"output", "processes", "max_rejected", "with_", *NAME_FILES, *duplicates}
    if getattr(options, "names", "kept") != "kept":
        left_out.update(options.paths)
    left_out &= vars(default).keys()
    shaping = replace(options, **{key: getattr(default, key) for key in left_out})
    words = fields.to_flags(shaping, default)
    return shlex.join(["ml-trainer", *name.split(), *words])
