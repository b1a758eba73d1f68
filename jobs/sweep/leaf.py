"""Sweeps as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "sweep",
            "train",
            "print a sweep as YAML for `az ml job create`: sweep"
            " optimizer.learning-rate=0.1,0.2 --preset imagenet-ndv2",
            "jobs.sweep.command:run",
            "jobs.sweep.command:SweepOptions",
            former={"spec --sweep": ()},
            program=True,
        ),
    ),
)
