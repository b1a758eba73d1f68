"""RUN/evaluations/NAME: an evaluation on other images than those that the run holds out.

It is like the folder of a run, so that `report` and `compare` read it: config.json, one evaluation
in metrics.jsonl, predictions, result.json and report.html, but no checkpoint.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trainer.report.run_data import EVALUATIONS
from trainer.report.write import write_report
from trainer.run_folder import RunFolder, RunRecord

_LONGEST: Final = 80
"""Most characters of a folder's name in that of an evaluation, of which `--name` allows 100."""


def evaluation_name(folder: str, version: str, split: str) -> str:
    """Return the name of an evaluation on another data set, which `--name` accepts as well.

    Args:
        folder: Name of the folder of the data set. If it is too long, or has characters that a name
            cannot have, a checksum tells it from others that look like it.
        version: Version of the data set.
        split: See `EvaluateOptions.split`.
    """
    fitting = re.sub(r"[^A-Za-z0-9._-]+", "-", folder).lstrip("._-")[:_LONGEST]
    if fitting != folder or not folder:
        checksum = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
        fitting = f"{fitting[: _LONGEST - 9] or 'data'}-{checksum}"
    return f"{fitting}-{version[:8]}-{split}"


def write_evaluation(
    run: Path,
    name: str,
    record: RunRecord,
    step: int,
    values: Mapping[str, Any],
    write_predictions: Callable[[Path], Mapping[str, Any]],
) -> Path:
    """Write the folder of an evaluation; an earlier one of the same name is replaced.

    Args:
        run: Folder of the run.
        name: Name of the evaluation.
        record: The run's record, with the data set that was evaluated.
        step: Step of the evaluated checkpoint.
        values: Metrics, loss and number of images, as `Evaluation.to_json` returns them.
        write_predictions: Writes predictions into a folder, and returns facts for metrics.jsonl.

    Returns:
        The page.

    Raises:
        OSError: The folder cannot be written.
    """
    path = run / EVALUATIONS / name
    shutil.rmtree(path, ignore_errors=True)
    folder = RunFolder(path)
    config = replace(record.config, name=name, runs_dir=str(path.parent))
    folder.create(replace(record, config=config))
    metrics = {key: value for key, value in values.items() if key != "loss"}
    evaluated = {**metrics, "validation_loss": values["loss"]}
    folder.metrics.append("evaluation", step, evaluated)
    folder.metrics.append("predictions", step, write_predictions(path))
    result = {"steps": step, **metrics}
    folder.metrics.append("finish", step, result)
    folder.write_result(result)
    return write_report([path])
