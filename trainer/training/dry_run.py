"""`train --dry-run`: the resolved configuration and what follows from it."""

import os

from common import fields
from trainer.config import TrainConfig
from trainer.data.source import input_memory
from trainer.distributed.rank import launched_as
from trainer.errors import DataError
from trainer.presets import EXPECTATIONS
from trainer.training.plan import DIGITS_EXAMPLES, make_plan
from trainer.training.schedule import learning_rate
from trainer.training.setup import prepare


def print_dry_run(config: TrainConfig) -> None:
    """Print every key with its value, then the derived numbers; writes and starts nothing."""
    place = launched_as(os.environ)
    ranks = place.size if place else config.ranks
    width = max(len(leaf.key) for leaf in fields.leaves(TrainConfig))
    for leaf in fields.leaves(TrainConfig):
        print(f"{leaf.key:<{width}}  {fields.get(config, leaf.key)}")
    print()
    prepared = None
    try:
        prepared = prepare(config, ranks)
        plan = prepared.plan
    except DataError as error:
        if config.data.source != "digits":
            print(f"The derived numbers need the data set's manifest: {error}")
            return
        plan = make_plan(config, ranks, DIGITS_EXAMPLES)
    schedule = plan.schedule
    derived = {
        "ranks": f"{ranks}",
        "global batch": f"{plan.global_batch} images a step",
        "training images": f"{plan.examples:,}",
        "steps per epoch": f"{plan.examples / plan.global_batch:.2f}",
        "steps": f"{plan.last_step:,}"
        + (f" of {plan.total_steps:,}" if plan.last_step < plan.total_steps else ""),
        "images": f"{plan.last_step * plan.global_batch:,}",
        "warm-up": f"{schedule.warmup_steps:.1f} steps",
        "learning rate": ", ".join(
            f"{rate:.4g} {when}"
            for rate, when in (
                (learning_rate(0, schedule), "at first"),
                (schedule.peak, "at its peak"),
                (learning_rate(plan.total_steps - 1, schedule), "at last"),
            )
        ),
    }
    for name, value in derived.items():
        print(f"{name:<{width}}  {value}")
    if prepared is not None and prepared.manifest is not None:
        held = input_memory(
            prepared.manifest.splits["train"], config.data, ranks, config.batch_size,
            config.model.image_size,
        )  # fmt: skip
        print(f"{'input memory':<{width}}  at most {held / 1e9:.1f} GB a rank")
    expectation = EXPECTATIONS.get(config.preset)
    if expectation:
        print(f"{'expected':<{width}}  {expectation.result} ({expectation.source})")
