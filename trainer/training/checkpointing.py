"""When to save a run, what to save, and which checkpoint to resume from."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import tensorflow as tf

from trainer.checkpoints.divided import DividedState
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import Array, Tensors
from trainer.checkpoints.snapshot import restore
from trainer.checkpoints.writer import CheckpointWriter, Saved
from trainer.config import CheckpointConfig
from trainer.distributed.communicator import Communicator
from trainer.errors import CheckpointError
from trainer.training.plan import passed


class Saver:
    """The checkpoints of one attempt of a run.

    Only rank 0 writes, and only its clock decides when. All ranks hold the same state after the
    same step; rank 0 gathers the parts of divided state. All ranks agree on the checkpoint to
    resume from.

    Args:
        config: When to save, and which checkpoints to keep.
        folder: Folder of the run's checkpoints.
        communicator: World of ranks.
        variables: Every variable that affects the rest of the training and is the same on all
            ranks, by name.
        meta: Functions of the step that return other data to store.
        divided: State that the ranks hold in parts.
        clock: Clock in seconds; tests replace it.
    """

    def __init__(
        self,
        config: CheckpointConfig,
        folder: CheckpointFolder,
        communicator: Communicator,
        variables: Mapping[str, tf.Variable],
        meta: Sequence[Callable[[int], Mapping[str, Any]]] = (),
        divided: Sequence[DividedState] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config, self._folder, self._world, self._clock = config, folder, communicator, clock
        self._variables, self._meta, self._divided = variables, meta, divided
        self._attempt: int | None = None
        self._writer: CheckpointWriter | None = None
        self._since = clock()
        self._step = -1
        self.newest: int | None = None
        """The newest step known to be on disk; only rank 0 knows of saves in the background."""

    def claim(self) -> None:
        """Keep earlier attempts of this run that are still alive from writing or deleting."""
        if self._world.rank == 0 and self._attempt is None:
            self._attempt = self._folder.claim()

    def restore(self, which: Literal["last", "best"] = "last") -> dict[str, Any] | None:
        """Set all ranks' variables to those of a checkpoint: the newest valid one, or the best one
        by its evaluation. The order matters:

        1. Every rank has built the same variables, from the seed.
        2. Only rank 0 reads the folder, so that ranks cannot disagree.
        3. Rank 0 broadcasts the metadata, then the variables that are the same on all ranks.
        4. Rank 0 sends each rank its parts of divided state.

        Returns:
            The metadata of the checkpoint; None if there is no checkpoint.
        """
        if self._writer is not None:
            self._writer.wait()
        find = self._folder.best if which == "best" else self._folder.newest
        checkpoint = find() if self._world.rank == 0 else None
        tensors: Tensors = {}
        if checkpoint:
            tensors = checkpoint.load()
            shapes = {name: shape for part in self._divided for name, shape in part.shapes.items()}
            restore(self._variables, tensors, checkpoint.path, shapes)
        meta: dict[str, Any] | None = self._world.broadcast(checkpoint.meta if checkpoint else None)
        self._world.broadcast_variables(list(self._variables.values()))
        if meta:
            for part in self._divided:
                part.scatter(tensors)
        self.newest = meta["step"] if meta else None
        self._step = meta["step"] if meta else -1
        return meta

    def begin(self) -> None:
        """Prepare to save, and start to count the minutes between saves. Every rank must call it if
        anything is divided.
        """
        self._since = self._clock()
        self.claim()
        state = self._collect()
        if self._attempt is None:
            return
        self._writer = CheckpointWriter(self._folder, self._attempt, self._config)
        self._writer.reserve(state)

    @property
    def late(self) -> bool:
        """Whether a save is due by the clock."""
        minutes = self._config.every_minutes
        return bool(self._writer and minutes and self._clock() - self._since >= 60.0 * minutes)

    @property
    def urgent(self) -> bool:
        """Whether to pause after the current step, to save or to raise an error of the writer."""
        return self.late or bool(self._writer and self._writer.failed)

    def due(self, step: int, epochs: Sequence[int] = (), taken: int = 1) -> bool:
        """Return whether to save now, the same on all ranks if anything is divided. Every rank must
        call it then.

        Args:
            step: Steps done.
            epochs: Epochs that have just ended, by number from 1.
            taken: Steps since the last call.
        """
        every = self._config
        due = (
            self.late
            or passed(every.every_steps, step, taken)
            or any(every.every_epochs and not epoch % every.every_epochs for epoch in epochs)
        )
        return bool(self._world.broadcast(due)) if self._divided else due

    def limit_steps(self, step: int, count: int) -> int:
        """Return how many of `count` steps to take in one call, so that no save is missed."""
        every = self._config.every_steps
        return min(count, every - step % every) if every else count

    def save(self, step: int) -> None:
        """Save in the background, unless this step is saved already. Return when the state has been
        copied. Every rank must call it if anything is divided.

        Raises:
            CheckpointError: An earlier save failed for another reason than a full disk.
        """
        if self._step == step:
            return
        self._step, self._since = step, self._clock()
        state = self._collect()
        if self._writer is not None:
            self._writer.save(step, state, self._meta_of(step))

    def save_now(self, step: int) -> None:
        """Save, unless this step is saved already. Return when the checkpoint is on disk. Every
        rank must call it if anything is divided.

        Raises:
            CheckpointError: The state cannot be saved.
        """
        state, writer = self._collect(), self._writer
        if writer is not None and not writer.save_now(step, state, self._meta_of(step)):
            raise CheckpointError(
                f"{self._folder.folder}: the disk is full, so the state after step {step:,} is"
                " lost; free some space and run the same command again: it continues from the"
                " newest checkpoint"
            )
        self._step = self.newest = step

    def landed(self) -> list[Saved]:
        """Return the checkpoints written since the last call, or raise the writer's error."""
        landed = self._writer.check() if self._writer else []
        self.newest = landed[-1].step if landed else self.newest
        return landed

    def close(self) -> None:
        """Finish pending writes and release the memory."""
        if self._writer is not None:
            self._writer.close()

    def _collect(self) -> Mapping[str, tf.Variable | Array]:
        """Return the whole state by name; on ranks other than 0 without divided state."""
        state: dict[str, tf.Variable | Array] = dict(self._variables)
        for part in self._divided:
            state |= part.gather()
        return state

    def _meta_of(self, step: int) -> dict[str, Any]:
        return {key: value for part in self._meta for key, value in part(step).items()}
