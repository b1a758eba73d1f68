"""Scenarios of whole runs, which a rank of a test's world trains; see `world.py`."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.trainer.support.launched import wait_until
from tests.trainer.support.scenarios import (
    plain_model,
    run_command,
    tiny_config,
    use_small_model,
)
from trainer.config import CheckpointConfig, TrainConfig
from trainer.data.rank_data import RankData
from trainer.run_folder import RunFolder


def roll_back(
    workplace: str, name: str, poisoned: list[int], checkpoint: dict[str, Any], steps: int
) -> dict[str, Any]:
    """Train a small model where some global batches, counted from 0, make the loss not finite.

    Returns:
        The labels of each batch in the order in which they were used, and how it ended.
    """
    from trainer.errors import NonFiniteError
    from trainer.training.run import train

    use_small_model()
    used: list[list[int]] = []
    original = RankData.next_batch

    def note(labels: np.ndarray[Any, Any]) -> np.float32:
        used.append(labels.tolist())
        # So much weight makes a gradient that overflows.
        return np.float32(1e30 if len(used) - 1 in poisoned else 1.0)

    def next_batch(rank_data: RankData) -> dict[str, Any]:
        batch = original(rank_data)
        factor = tf.ensure_shape(tf.numpy_function(note, [batch["target"]], tf.float32), [])
        return {**batch, "weight": batch["weight"] * factor}

    RankData.next_batch = next_batch  # type: ignore[method-assign, assignment]
    runs = f"{workplace}/runs"
    data = f"{workplace}/data/digits"
    config = tiny_config(data, name=name, runs_dir=runs, max_steps=steps, ranks=1)
    config = replace(
        config,
        export=False,
        checkpoint=CheckpointConfig(every_steps=5, every_epochs=0, **checkpoint),
        evaluation=replace(config.evaluation, every_epochs=0),
        log=replace(config.log, every_steps=2, report=False),
    )
    try:
        train(config)
    except NonFiniteError as error:
        return {"used": used, "error": str(error)}
    return {"used": used, "error": None}


def poison_a_statistic(args: list[str], workplace: str, at: int) -> tuple[int, str, str]:
    """What `ml-trainer ARGS` does if a moving variance becomes infinite at a step."""
    from trainer.training.run import Attempt

    take_steps = Attempt._take_steps

    def poison(attempt: Attempt, step: int, epoch: int) -> Any:
        if step >= at:
            statistics = attempt._stepper.model.non_trainable_variables
            (one, *_) = (each for each in statistics if "moving_variance" in each.name)
            one.assign(np.inf * one)
        return take_steps(attempt, step, epoch)

    Attempt._take_steps = poison  # type: ignore[method-assign, assignment]
    return run_command(args, workplace, small=True, stop_at=None)


def run_out_of_memory(args: list[str], workplace: str, at: int) -> tuple[int, str, str]:
    """What `ml-trainer ARGS` does if steps from one on, counted from 0, do not fit into
    memory with more than 8 images in a micro-batch.
    """
    from trainer.training.loop import Loop

    run, init = Loop.run, Loop.__init__
    runs = Path(workplace) / "runs"
    images: list[int] = []
    names: list[str] = []

    def note(loop: Loop, *given: Any, **named: Any) -> None:
        (config,) = (each for each in given if isinstance(each, TrainConfig))
        images.append(config.batch_size // config.optimizer.accumulation)
        names.append(config.name or "")
        init(loop, *given, **named)

    def exhaust(loop: Loop, *given: Any) -> Any:
        if int(loop.step.numpy()) >= at and images[-1] > 8:
            # Rank 0 is out of memory a little earlier.
            if os.environ.get("HOROVOD_RANK", "0") != "0":
                wait_until(lambda: RunFolder(runs / names[-1]).accumulation > 1)
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor\n...")
        return run(loop, *given)

    Loop.__init__, Loop.run = note, exhaust  # type: ignore[method-assign, assignment]
    return run_command(args, workplace, small=True, stop_at=None)


def train_without_batch_norm(
    workplace: str, name: str, steps: int, batch_size: int
) -> dict[str, Any]:
    """Train digits up to a step, continuing the run if there is one; return the state at the
    end."""
    from trainer.checkpoints.folder import CheckpointFolder
    from trainer.training.run import train
    from trainer.updates import strategy

    vars(strategy)["build_model"] = lambda *_: plain_model()
    runs, data = f"{workplace}/runs", f"{workplace}/data/digits"
    config = tiny_config(data, name=name, runs_dir=runs, batch_size=batch_size)
    config = replace(
        config,
        max_steps=steps,
        export=False,
        evaluation=replace(config.evaluation, every_epochs=0),
        log=replace(config.log, report=False),
    )
    train(config)
    found = CheckpointFolder(Path(runs) / name / "checkpoints").newest()
    assert found is not None
    return {"tensors": found.load(), "meta": found.meta}
