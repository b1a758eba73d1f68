"""`python -m trainer evaluate`: a checkpoint of a run on its validation split."""

from dataclasses import replace
from pathlib import Path

from trainer.data.rank_data import Feed
from trainer.diagnostics.device import set_up_device
from trainer.diagnostics.environment import cores
from trainer.distributed.horovod import Alone
from trainer.errors import DataError
from trainer.model.trained import Which, find_checkpoint, load_model
from trainer.run_folder import RunFolder
from trainer.training.evaluator import Evaluation, Evaluator
from trainer.training.setup import prepare


def evaluate_run(run: str, which: Which, data_dir: str | None = None) -> Evaluation:
    """Load a checkpoint, evaluate it in this process and print the result.

    Raises:
        CheckpointError: not a run, or no valid checkpoint in it.
        DataError: the data set is not there, or is another version than the run was trained on.
    """
    folder, world = RunFolder(Path(run)), Alone()
    config = folder.config()
    if data_dir is not None:
        config = replace(config, data=replace(config.data, dir=data_dir))
    found = find_checkpoint(folder, which)
    prepared = prepare(config, 1)
    if prepared.manifest is None:
        raise DataError(
            f"{folder.path}: was trained on synthetic data; there is nothing to evaluate"
        )
    trained_on = folder.stored()["data_version"]
    if prepared.data_version != trained_on:
        raise DataError(
            f"{prepared.folder}: has version {prepared.data_version}, but the run was trained on"
            f" {trained_on}; prepare that data set again"
        )
    set_up_device(config, world)
    feed = Feed(config, prepared, world, config.data.decode_threads or cores())
    precision = config.compute.precision
    model = load_model(config, prepared.classes, precision, found.load(), found.path)
    result = Evaluator(model, world, prepared.normalization, xla=config.compute.xla).run(
        feed.validation()
    )
    print(
        f"{found.path}: top-1 {result.top1:.2%}, top-5 {result.top5:.2%}, loss {result.loss:.4f} on"
        f" {result.examples:,} held-out images"
    )
    return result
