"""Options of `trainer verify-model` and `trainer describe-model`. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Positional


@dataclass(frozen=True)
class VerifyModelOptions:
    """Check the statements that a run has written about itself against its files, then repeat the
    steps between some of its checkpoints on this machine and compare the results bit by bit.
    """

    run: Annotated[str, Positional("RUN")] = "runs/latest"
    """Folder of the run."""

    key: str | None = None
    """PEM file of the public key that must have signed every statement."""

    data_dir: str | None = None
    """Folder of the data set, if it has moved since the run."""

    shards: bool = True
    """Read all files of the data set and compare their checksums."""

    from_: Annotated[int | None, Bounds(at_least=0)] = None
    """Replay from the checkpoint of this step; 0 begins with the seed."""

    to: Annotated[int | None, Bounds(at_least=1)] = None
    """Replay up to this step; every checkpoint that was stated on the way is compared, also one
    that was deleted since."""

    sample: Annotated[int, Bounds(at_least=0)] = 1
    """Links from one checkpoint to the next to replay, chosen at random among those whose first
    checkpoint is there; 0 replays nothing."""

    ranks: Annotated[int | None, Bounds(at_least=1)] = None
    """Ranks of the replay; None is the number that the run had. Another number is refused where it
    would change the result."""

    tolerance: Annotated[float, Bounds(above=0)] = 0.05
    """Largest difference where bits are not promised, because hardware, packages or code differ
    from the run's: norm of the difference of the weights, by the norm of their change."""

    json: bool = False
    """Print one JSON object."""

    def problems(self) -> list[str]:
        """List contradictions."""
        if (self.from_ is None) != (self.to is None):
            return ["--from and --to: give both, or neither"]
        if self.from_ is not None and self.to is not None and self.from_ >= self.to:
            return [f"--from: {self.from_} must be below --to {self.to}"]
        return []


@dataclass(frozen=True)
class DescribeModelOptions:
    """Write the statements of a run as README.md, a model card with Hugging Face's metadata."""

    run: Annotated[str, Positional("RUN")] = "runs/latest"
    """Folder of the run."""

    output: str | None = None
    """Folder to write to; None is RUN/evidence/views."""
