"""When a run is saved, what of it, and what it continues from."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.snapshot import restore
from trainer.checkpoints.writer import CheckpointWriter, Saved
from trainer.config import CheckpointConfig
from trainer.distributed.communicator import Communicator
from trainer.errors import CheckpointError


class Saver:
    """The checkpoints of one attempt of a run.

    All ranks hold the same state after the same step, so rank 0 alone writes, and its clock alone
    says when; what is continued from is agreed on by all.

    Args:
        config: when to save, and what stays.
        folder: of the run's checkpoints.
        communicator: the ranks.
        variables: every one that decides the future, by name.
        meta: what else is stored, as functions of the step.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        folder: CheckpointFolder,
        communicator: Communicator,
        variables: Mapping[str, tf.Variable],
        meta: Sequence[Callable[[int], Mapping[str, Any]]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._folder, self._world, self._clock = config, folder, communicator, clock
        self._variables, self._meta = variables, meta
        self._attempt: int | None = None
        self._writer: CheckpointWriter | None = None
        self._since = clock()
        self._step = -1
        self.newest: int | None = None
        """The newest step that is known to be on disk, on rank 0."""

    def claim(self) -> None:
        """From now on earlier attempts of this run that still live neither write nor delete."""
        if self._world.rank == 0 and self._attempt is None:
            self._attempt = self._folder.claim()

    def restore(self) -> dict[str, Any] | None:
        """Set all ranks' variables to those of the newest valid checkpoint. The order matters:

        1. Every rank has built the same variables, from the seed.
        2. Rank 0 alone looks at the folder and reads, so that ranks cannot disagree.
        3. The step and the totals go to all ranks, then the values of all variables.

        Returns:
            What was stored with them; None if there is no checkpoint.
        """
        if self._writer is not None:
            self._writer.wait()
        checkpoint = self._folder.newest() if self._world.rank == 0 else None
        if checkpoint:
            restore(self._variables, checkpoint.load(), checkpoint.path)
        meta: dict[str, Any] | None = self._world.broadcast(checkpoint.meta if checkpoint else None)
        self._world.broadcast_variables(list(self._variables.values()))
        self.newest = meta["step"] if meta else None
        self._step = meta["step"] if meta else -1
        return meta

    def begin(self) -> None:
        """Be ready to save, and count the minutes from now on."""
        self._since = self._clock()
        self.claim()
        if self._attempt is None:
            return
        self._writer = CheckpointWriter(self._folder, self._attempt, self._config)
        self._writer.reserve(self._variables)

    @property
    def late(self) -> bool:
        """Whether it is time to save by the clock."""
        minutes = self._config.every_minutes
        return bool(self._writer and minutes and self._clock() - self._since >= 60.0 * minutes)

    @property
    def urgent(self) -> bool:
        """Whether to pause after the running step: to be saved, or to hear of an error."""
        return self.late or bool(self._writer and self._writer.failed)

    def due(self, step: int, epoch: int | None) -> bool:
        """Whether to save now.

        Args:
            step: steps done.
            epoch: epochs done, if one has just ended.
        """
        every = self._config
        return (
            self.late
            or bool(every.every_steps and step % every.every_steps == 0)
            or bool(epoch and every.every_epochs and epoch % every.every_epochs == 0)
        )

    def limit_steps(self, step: int, count: int) -> int:
        """How many of so many steps to take at once, so that none is missed after which to save."""
        every = self._config.every_steps
        return min(count, every - step % every) if every else count

    def save(self, step: int) -> None:
        """Save, unless this step is saved; returns when the state is copied.

        Raises:
            CheckpointError: an earlier save has failed for another reason than a full disk.
        """
        if self._writer is None or self._step == step:
            return
        self._step, self._since = step, self._clock()
        self._writer.save(step, self._variables, self._meta_of(step))

    def save_now(self, step: int) -> None:
        """Save, unless this step is saved; returns when it is on disk.

        Raises:
            CheckpointError: it cannot be saved.
        """
        if self._writer is None:
            return
        if not self._writer.save_now(step, self._variables, self._meta_of(step)):
            raise CheckpointError(
                f"{self._folder.folder}: the disk is full, so the state after step {step:,} is"
                " lost; make room, and run the same command again: it continues from the newest"
                " checkpoint"
            )
        self._step = self.newest = step

    def landed(self) -> list[Saved]:
        """What has reached the disk since the last call; raises what went wrong in between."""
        landed = self._writer.check() if self._writer else []
        self.newest = landed[-1].step if landed else self.newest
        return landed

    def close(self) -> None:
        """Write what is left to be written, and give the memory back."""
        if self._writer is not None:
            self._writer.close()

    def _meta_of(self, step: int) -> dict[str, Any]:
        return {key: value for part in self._meta for key, value in part(step).items()}
