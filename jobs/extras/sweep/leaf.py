"""Sweeps as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "sweep",
            "train",
            "train all combinations of values of options, each on one GPU: sweep"
            " optimizer.learning-rate=0.003,0.01 --preset images-224-finetune --submit",
            "jobs.extras.sweep.command:run",
            former={"spec --sweep": ()},
            program=True,
        ),
    ),
)
