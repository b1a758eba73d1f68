"""Set-up of a run, in the launcher and in each rank: data set, plan and run folder.

Imports no TensorFlow, except once to write the embedded data set.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from common import fields
from common.errors import ConfigError
from common.text import plural
from trainer.config import TrainConfig
from trainer.data.data_set import DataSet, load_data_set, write_embedded_if_missing
from trainer.data.manifest import empty_classes
from trainer.data.source import input_memory
from trainer.diagnostics.environment import cores
from trainer.distributed.communicator import Communicator
from trainer.distributed.rank import launched_as
from trainer.errors import DataError
from trainer.model.preflight import check_model_files
from trainer.own_code.code import CodeChoice, choose_code, different_ranks
from trainer.presets import EXPECTATIONS, preset_warnings
from trainer.run_folder import RunFolder, RunRecord, check_continues, new_name
from trainer.training.plan import (
    EMBEDDED_EXAMPLES,
    Plan,
    Schedule,
    batch_norm_warning,
    make_plan,
)


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
    code: CodeChoice | None = None
    """Code of an own network."""

    def built(self, graph: str | None) -> "RunSetup":
        """Return the set-up with the digest of an own network that was built.

        Args:
            graph: The digest; None if the network was built in parts.

        Raises:
            CheckpointError: The run had another network.
        """
        if self.code is None:
            return self
        own = self.code.check_graph(graph, self.folder.path)
        return replace(self, record=replace(self.record, own_network=own))


def set_up(config: TrainConfig, ranks: int, name: str, threads: int | None = None) -> RunSetup:
    """Load the parts of a run, and raise errors that would otherwise occur later.

    Args:
        config: Configuration of the run.
        ranks: World size.
        name: Name of the run; see `run_name`.
        threads: Threads with which each rank computes; None on a GPU, or if they are not known.

    Raises:
        DataError: The data are missing, or do not match their manifest.
        ConfigError: The data, or the number of ranks, do not match the configuration.
        CheckpointError: The run exists and may not be continued with this configuration, or not
            with the code of its own network.
    """
    if config.name != name:
        config = replace(config, name=name)
    folder = RunFolder(Path(config.runs_dir) / name)
    divided = smaller_micro_batches(config, folder.accumulation)
    note = ""
    if divided is not None:
        config = divided
        note = (
            f"out of memory in an earlier attempt: --optimizer.accumulation {folder.accumulation}"
            " for the rest of the run, in place of that of the command"
        )
    check_model_files(config.model, resumes=folder.exists)
    check_folders(config, folder.path)
    data_set = load_data_set(config)
    plan = make_plan(config, ranks, data_set.training_examples, data_set.classes)
    record = RunRecord(
        config,
        ranks,
        plan.global_batch,
        data_set.version,
        data_set.class_names,
        data_set.normalization,
        levels=data_set.levels,
        reencode=data_set.reencode,
        threads=threads,
    )
    changes, code = check_continues(folder, record), None
    changes += [note] if note else []
    if config.model.builder is not None:
        before = folder.read().own_network if folder.exists else None
        accept = config.accept_changed_code
        code = choose_code(config.model.builder, folder.path, before, accept=accept)
        record = replace(record, own_network=code.code)
        changes += code.notes
    return RunSetup(config, data_set, plan, folder, record, changes, code)


def check_folders(config: TrainConfig, run: Path) -> None:
    """Check that the folders that a run writes to exist or can be made.

    Raises:
        ConfigError: One cannot; names the option.
    """
    curves = config.log.tensorboard_dir
    folders = {
        "--runs-dir": run,
        "--log.tensorboard-dir": Path(curves) if curves else None,
    }
    problems = []
    for option, path in folders.items():
        if path is None:
            continue
        existing = next(each for each in (path, *path.absolute().parents) if each.exists())
        # Root may write anywhere, but not into the file systems of the kernel.
        kernel = any(existing.resolve().is_relative_to(root) for root in ("/proc", "/sys"))
        if not existing.is_dir():
            problems.append(f"{option}: {existing} is not a folder; choose another folder")
        elif kernel or not os.access(existing, os.W_OK):
            problems.append(f"{option}: {existing} is not writable; choose another folder")
    if problems:
        raise ConfigError(problems)


def smaller_micro_batches(config: TrainConfig, accumulation: int) -> TrainConfig | None:
    """Return the configuration with more micro-batches; None if it has as many already, or cannot
    have them.
    """
    if config.optimizer.accumulation >= accumulation:
        return None
    try:
        return replace(config, optimizer=replace(config.optimizer, accumulation=accumulation))
    except ConfigError:
        return None


def set_up_for_launch(config: TrainConfig) -> RunSetup:
    """Call `set_up` before the ranks of this machine start, so that an error that every rank would
    have is raised only once.
    """
    write_embedded_if_missing(config)
    return set_up(config, config.ranks, run_name(config))


def set_up_ranks(config: TrainConfig, communicator: Communicator, threads: int | None) -> RunSetup:
    """Set up the run on all ranks; raise configuration and data errors here, before a network is
    built or a file written.
    """
    if communicator.local_rank == 0:
        write_embedded_if_missing(config)
    communicator.barrier()
    name = communicator.broadcast(run_name(config))
    setup = set_up(config, communicator.size, name, threads)
    if setup.code is not None:
        setup.code.use()
        codes = communicator.gather(setup.code.code.to_json())
        problem = different_ranks(setup.code.builder, codes)
        if problem is not None:
            raise ConfigError([problem])
    if communicator.rank == 0:
        warn(setup, communicator.local_size)
    return setup


def run_name(config: TrainConfig) -> str:
    """Return the run name of a configuration, or a new name if it has none."""
    return config.name or new_name(config, datetime.now().astimezone())


def warn(setup: RunSetup, local_ranks: int) -> None:
    """Print warnings about what works, but perhaps not as intended."""
    data_set, plan = setup.data_set, setup.plan
    notes = recipe_warnings(setup.config, plan.ranks, plan.schedule)
    if local_ranks > cores():
        notes.append(
            f"{local_ranks} ranks share {cores()} cores and will take turns; with --ranks"
            f" {cores()} each has a core of its own"
        )
    # A manifest counts labels only.
    if data_set.manifest and not setup.config.described_task.features:
        empty = empty_classes(data_set.manifest, "train")
        if empty:
            shown = ", ".join(empty[:5]) + (", ..." if len(empty) > 5 else "")
            notes.append(
                f"no training images for {plural(len(empty), 'class', 'classes')}: {shown}"
            )
    _print_warnings(notes)


def recipe_warnings(config: TrainConfig, ranks: int, schedule: Schedule | None) -> list[str]:
    """Return warnings about numbers that follow from the configuration and the world size."""
    warnings = preset_warnings(config, ranks)
    # The layers of an own network need not be built with the option.
    if schedule is not None and config.model.builder is None:
        outdated = batch_norm_warning(schedule, config.model.batch_norm_momentum)
        warnings += [outdated] if outdated else []
    return warnings


def _print_warnings(texts: Sequence[str]) -> None:
    for text in texts:
        print(f"warning: {text}", file=sys.stderr, flush=True)


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
        if config.data.source not in EMBEDDED_EXAMPLES:
            print(f"The derived numbers need the data set's manifest: {error}")
            _print_warnings(recipe_warnings(config, ranks, None))
            return
    examples = data_set.training_examples if data_set else EMBEDDED_EXAMPLES[config.data.source]
    plan = make_plan(config, ranks, examples, data_set.classes if data_set else None)
    schedule = plan.schedule
    derived = {
        "ranks": f"{ranks}",
        "global batch": f"{plan.global_batch} images per step",
        "training images": f"{plan.examples:,}",
        "steps per epoch": f"{plan.examples / plan.global_batch:.2f}",
        "steps": f"{plan.last_step:,}"
        + (f" of {plan.total_steps:,}" if plan.last_step < plan.total_steps else ""),
        "images": f"{plan.last_step * plan.global_batch:,}",
        "optimizer": f"{config.optimizer.kind}, schedule {schedule.kind}",
        "warm-up": f"{schedule.warmup_steps:.1f} steps",
        "learning rate": ", ".join(
            f"{rate:.4g} {when}"
            for rate, when in (
                (schedule.learning_rate(0), "at the first step"),
                (schedule.peak, f"at its peak ({_scaling(config)})"),
                (schedule.learning_rate(plan.total_steps - 1), "at the last step"),
            )
        ),
        **plan.strategy.facts(plan.total_steps),
    }
    for name, value in derived.items():
        print(f"{name:<{width}}  {value}")
    if data_set is not None and data_set.manifest is not None:
        memory = input_memory(
            data_set.manifest.splits["train"], config.data, ranks, config.rank_batch(ranks),
            config.model.image_size,
        )  # fmt: skip
        print(f"{'input memory':<{width}}  at most {memory / 1e9:.1f} GB per rank")
    expectation = EXPECTATIONS.get(config.preset)
    if expectation:
        print(f"{'expected':<{width}}  {expectation.result} ({expectation.source})")
    _print_warnings(recipe_warnings(config, ranks, schedule))


def _scaling(config: TrainConfig) -> str:
    if config.optimizer.rate_scaling == "none":
        return "absolute"
    return f"{config.optimizer.learning_rate:g} per 256 images"
