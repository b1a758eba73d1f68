"""Set-up of a run before its ranks start: data set, plan and run folder.

Imports no TensorFlow, except once to write the embedded data set.
"""

import os
import sys
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from common import fields
from common.errors import ConfigError
from common.text import plural
from trainer.config import TrainConfig
from trainer.data.data_set import DataSet, load_data_set, write_digits_if_missing
from trainer.data.manifest import empty_classes
from trainer.data.source import input_memory
from trainer.diagnostics.environment import cores
from trainer.distributed.rank import launched_as
from trainer.errors import DataError
from trainer.presets import EXPECTATIONS
from trainer.run_folder import RunFolder, RunRecord, check_continues, new_name
from trainer.training.plan import DIGITS_EXAMPLES, Plan, make_plan


@dataclass(frozen=True)
class RunSetup:
    """A validated run that may start; the same on every rank."""

    config: TrainConfig
    """Configuration of the run, with its name."""
    data_set: DataSet
    plan: Plan
    folder: RunFolder
    record: RunRecord
    """Record for config.json and the checkpoints."""
    changes: list[str]
    """One sentence for each option that differs from the run's previous attempt."""


def set_up(config: TrainConfig, ranks: int, name: str) -> RunSetup:
    """Load what a run needs, and raise errors that would otherwise occur later.

    Args:
        config: Configuration of the run.
        ranks: World size.
        name: Name of the run; see `run_name`.

    Raises:
        DataError: The data are missing, or do not match their manifest.
        ConfigError: The data do not match the configuration.
        CheckpointError: The run exists and may not be continued with this configuration.
    """
    if config.name != name:
        config = replace(config, name=name)
    data_set = load_data_set(config)
    plan = make_plan(config, ranks, data_set.training_examples)
    folder = RunFolder(Path(config.runs_dir) / name)
    record = RunRecord(
        config,
        ranks,
        plan.global_batch,
        data_set.version,
        data_set.class_names,
        data_set.normalization,
    )
    return RunSetup(config, data_set, plan, folder, record, check_continues(folder, record))


def set_up_for_launch(config: TrainConfig) -> RunSetup:
    """Call `set_up` before the ranks of this machine start, so that an error that every rank would
    have is raised only once.
    """
    write_digits_if_missing(config)
    setup = set_up(config, config.ranks, run_name(config))
    path = setup.folder.path
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not os.access(existing, os.W_OK):
        raise ConfigError([f"--runs-dir: {existing} is not writable"])
    return setup


def run_name(config: TrainConfig) -> str:
    """Return the run name of a configuration, or a new name if it has none."""
    return config.name or new_name(config, datetime.now().astimezone())


def warn(data_set: DataSet, local_ranks: int) -> None:
    """Print warnings about what works, but perhaps not as intended."""
    notes = []
    if local_ranks > cores():
        notes.append(
            f"{local_ranks} ranks share {cores()} cores and will take turns; with --ranks"
            f" {cores()} each has a core of its own"
        )
    if data_set.manifest:
        empty = empty_classes(data_set.manifest, "train")
        if empty:
            shown = ", ".join(empty[:5]) + (", ..." if len(empty) > 5 else "")
            notes.append(
                f"no training images for {plural(len(empty), 'class', 'classes')}: {shown}"
            )
    for note in notes:
        print(f"warning: {note}", file=sys.stderr, flush=True)


def print_dry_run(config: TrainConfig) -> None:
    """Print every key with its value, then the derived numbers. Nothing is written or started."""
    launched = launched_as(os.environ)
    ranks = launched.size if launched else config.ranks
    width = max(len(leaf.key) for leaf in fields.leaves(TrainConfig))
    for leaf in fields.leaves(TrainConfig):
        print(f"{leaf.key:<{width}}  {fields.get(config, leaf.key)}")
    print()
    data_set = None
    try:
        data_set = load_data_set(config)
    except DataError as error:
        if config.data.source != "digits":
            print(f"The derived numbers need the data set's manifest: {error}")
            return
    plan = make_plan(config, ranks, data_set.training_examples if data_set else DIGITS_EXAMPLES)
    schedule = plan.schedule
    derived = {
        "ranks": f"{ranks}",
        "global batch": f"{plan.global_batch} images per step",
        "training images": f"{plan.examples:,}",
        "steps per epoch": f"{plan.examples / plan.global_batch:.2f}",
        "steps": f"{plan.last_step:,}"
        + (f" of {plan.total_steps:,}" if plan.last_step < plan.total_steps else ""),
        "images": f"{plan.last_step * plan.global_batch:,}",
        "warm-up": f"{schedule.warmup_steps:.1f} steps",
        "learning rate": ", ".join(
            f"{rate:.4g} {when}"
            for rate, when in (
                (schedule.learning_rate(0), "at the first step"),
                (schedule.peak, "at its peak"),
                (schedule.learning_rate(plan.total_steps - 1), "at the last step"),
            )
        ),
    }
    for name, value in derived.items():
        print(f"{name:<{width}}  {value}")
    if data_set is not None and data_set.manifest is not None:
        memory = input_memory(
            data_set.manifest.splits["train"], config.data, ranks, config.batch_size,
            config.model.image_size,
        )  # fmt: skip
        print(f"{'input memory':<{width}}  at most {memory / 1e9:.1f} GB per rank")
    expectation = EXPECTATIONS.get(config.preset)
    if expectation:
        print(f"{'expected':<{width}}  {expectation.result} ({expectation.source})")
