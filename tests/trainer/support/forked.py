"""The trainer's commands in ranks that are forked from a process which has loaded TensorFlow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.trainer.support import scenarios
from tests.trainer.support.world import run_world
from trainer.distributed.restart_policy import AttemptResult


@dataclass(frozen=True)
class Ended:
    """How a command ended that several ranks have run."""

    statuses: list[int]
    """By rank."""
    outputs: list[str]
    """The stdout of each rank."""
    stderr: str
    """Of all ranks, one after the other."""

    @property
    def stdout(self) -> str:
        """What rank 0 has written."""
        return self.outputs[0]

    @property
    def returncode(self) -> int:
        """The status of a launcher of these ranks."""
        return AttemptResult(tuple(self.statuses)).status


def fork_trainer(
    *args: str,
    cwd: Path,
    ranks: int = 2,
    small: bool = True,
    stop_at: tuple[int, int, int | Sequence[str]] | None = None,
    env: Sequence[Mapping[str, str]] | None = None,
    launched: bool = True,
) -> Ended:
    """Run `python -m trainer ARGS` as ranks, without the seconds that starting them takes.

    Args:
        args: the command line.
        cwd: where it runs.
        ranks: how many, without a launcher.
        small: whether to train a small model in place of a ResNet, whose tracing takes seconds.
        stop_at: a rank, a signal that it sends to itself, and after how many steps, or at the first
            call of some functions, each MODULE:NAME or MODULE:CLASS.NAME.
        env: environment of each rank, in addition to the launcher's.
        launched: whether the ranks have the environment that our launcher gives them.
    """
    if args[0] == "train" and ranks == 1:
        # Else the preset's two would be launched.
        args = (*args, "--ranks", "1")
    ended = run_world(
        scenarios.run_command,
        ranks,
        *(args, str(cwd), small, stop_at),
        overrides=env,
        launched=launched,
    )
    statuses, outputs, errors = zip(*ended, strict=True)
    return Ended(list(statuses), list(outputs), "".join(errors))
