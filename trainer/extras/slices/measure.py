"""Measures the slices of a run: at its end, or later by a command."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from common.errors import ConfigError
from common.text import plural
from trainer.data.data_set import load_data_set, manifest_folder
from trainer.data.rank_data import RankData
from trainer.distributed.communicator import Alone
from trainer.errors import DataError
from trainer.extras.slices.counts import FILE, check, count, save, slicer
from trainer.extras.slices.leaf import SlicesOptions
from trainer.extras.slices.options import SlicesCommandOptions
from trainer.leaves import tell_rewritten
from trainer.report.write import PAGE, write_report
from trainer.run_folder import RunFolder
from trainer.training.predicted import Predicted

PREDICTIONS = "predictions.csv"


def measure_run(predicted: Predicted) -> None:
    """Count the final evaluation by slice, on rank 0.

    Raises:
        DataError: The table of slices, or a record, cannot be read.
    """
    if predicted.world.rank:
        return
    config = predicted.config
    options, predictions = config.of(SlicesOptions), predicted.predictions
    of_name = slicer(options, manifest_folder(config), predicted.names())
    # Examples that cannot be decoded have no prediction.
    places = set(predictions.index.tolist())
    slices = (of_name(name) for place, name in enumerate(predicted.names()) if place in places)
    right = (predictions["label"] == predictions["predicted"]).tolist()
    rows = count(slices, zip(right, predictions["probability"].tolist(), strict=True))
    check(rows, options, next(predicted.names(), ""))
    save(predicted.folder, rows)
    predicted.say(f"{plural(len(rows), 'slice')} of held-out images: {FILE}")


def run(options: SlicesCommandOptions) -> None:
    """`ml-trainer slices`: count a finished run's predictions by slice.

    Raises:
        ConfigError: The options are missing or contradict each other.
        DataError: The run has no predictions of classes, or its data set or the table cannot be
            read.
    """
    problems = options.problems("--")
    if not options.asked:
        problems.append("--pattern, or --column: say what the slices are")
    if problems:
        raise ConfigError(problems)
    folder = RunFolder(Path(options.run))
    record = folder.read()
    config = record.config
    if options.data_dir is not None:
        config = replace(config, data=replace(config.data, dir=options.data_dir))
    data_set = load_data_set(config)
    data_set.check_version(record.data_version, folder.path)
    predictions = list(_predictions(folder.path))
    if not predictions:
        raise DataError(f"{folder.path / PREDICTIONS}: has no line of a prediction")
    places = {place for place, _, _ in predictions}
    data = RankData(config, data_set, Alone(), 1)
    of_name = slicer(options, manifest_folder(config), data.validation_names())
    names = enumerate(data.validation_names())
    slices = (of_name(name) for place, name in names if place in places)
    rows = count(slices, ((right, probability) for _, right, probability in predictions))
    check(rows, options, next(data.validation_names(), ""))
    save(folder.path, rows)
    if (folder.path / PAGE).exists():
        write_report([folder.path])
    tell_rewritten(folder.path, FILE, PAGE)
    for row in rows[:10]:
        low, high = row.interval
        print(
            f"{row.accuracy:>8.2%}  ({low:.2%} to {high:.2%})  {row.name},"
            f" {plural(row.images, 'image')}"
        )
    print(f"{folder.path / FILE}: {plural(len(rows), 'slice')}, the least accurate first")


def _predictions(run: Path) -> Iterator[tuple[int, bool, float]]:
    """Yield place, whether it is right, and probability, of each prediction in their order."""
    path = run / PREDICTIONS
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                right = row["label"] == row["predicted"]
                yield int(row["index"]), right, float(row["probability"])
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise DataError(
            f"{path}: has no predictions of one class per image that can be read"
            f" ({type(error).__name__}: {error}); they are written when a run is finished"
        ) from error
