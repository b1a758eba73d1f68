"""Scoring in batch as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, JobKind, Leaf

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "score-batch",
            "use a model",
            "write the classes of all images in a folder of storage to files, as a job on many"
            " nodes",
            "jobs.extras.batch.command:run",
            program=True,
            data=True,
        ),
    ),
    kinds=(
        JobKind(
            "score",
            duty="prepare",
            continues="skips files that it has written",
            completed="jobs.extras.batch.command:completed",
        ),
    ),
)
