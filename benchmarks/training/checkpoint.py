"""How long a training of ResNet50 stands still to save its 205 MB, and what it loses afterwards,
while the copy is written in the background.

One rank takes steps of 8 images of 32 pixels: the variables are those of any image size, and a step
is short enough to see what disturbs it. All contenders write the same files with the same checks.
The synchronous one copies, writes and syncs, as training did before it had a thread for this.
"""

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from benchmarks.tables import FIRST_SAVE, IN_BACKGROUND, RESERVED, SYNCHRONOUS
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.snapshot import snapshot
from trainer.checkpoints.writer import CheckpointWriter, Policy
from trainer.config import DataConfig, ModelConfig, TrainConfig
from trainer.data.builtin.synthetic import synthetic_batch
from trainer.data.manifest import Normalization
from trainer.distributed.horovod import Alone
from trainer.model.resnet import build_resnet
from trainer.training.loop import Loop
from trainer.training.optimizer import Momentum

CLASSES, PIXELS, BATCH = 1000, 32, 8
RATE = 1e-3
NORMALIZATION = Normalization((127.5,) * 3, (73.9,) * 3)
META = {"evaluation": None}


@dataclass(frozen=True)
class Turn:
    """One save."""

    step_ms: float
    """A step before it, undisturbed: the median."""
    stall_ms: float
    """Until training could go on."""
    step_with_save_ms: float
    """By how much the step with the save in it took longer than one without."""
    lost_ms: float
    """By how much all steps took longer until the save was on disk."""
    background_s: float
    """Writing in the background."""
    slow_down: float | None
    """A step while it was written, as a multiple of an undisturbed one; none if none was taken."""


class Contenders:
    """A training, and ways to save it.

    Args:
        folder: where to.
        steps: undisturbed ones before each save.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        self._steps, self._number = steps, 0
        config = TrainConfig(
            preset="synthetic",
            batch_size=BATCH,
            data=DataConfig(source="synthetic"),
            model=ModelConfig(image_size=PIXELS),
        )
        model = build_resnet(config.model, CLASSES)
        optimizer = Momentum(model.trainable_variables, config.optimizer)
        batch = synthetic_batch(BATCH, PIXELS, CLASSES, seed=0)
        self._loop = Loop(model, optimizer, Alone(), NORMALIZATION, config, lambda: batch)
        slots = {f"momentum/{number}": slot for number, slot in enumerate(optimizer.slots)}
        self._variables: dict[str, tf.Variable] = {
            **{variable.name: variable for variable in model.variables},
            **slots,
            **self._loop.state,
        }
        self._folder = CheckpointFolder(folder / "checkpoints")
        self._attempt = self._folder.claim()
        self._writer = self._new_writer()
        self.bytes = 0
        """Of a checkpoint."""

    @property
    def all(self) -> Mapping[str, Callable[[], Turn]]:
        """The contenders by name; each saves once."""
        return {
            IN_BACKGROUND: lambda: self._in_background(self._writer),
            FIRST_SAVE: lambda: self._first_save(reserve=False),
            RESERVED: lambda: self._first_save(reserve=True),
            SYNCHRONOUS: self._synchronous,
        }

    def close(self) -> None:
        """End the training."""
        self._writer.close()
        self._loop.close()

    def _new_writer(self) -> CheckpointWriter:
        return CheckpointWriter(self._folder, self._attempt, Policy(keep=1, keep_best=False))

    def _first_save(self, *, reserve: bool) -> Turn:
        # Else the memory of the last round's would be at hand, which a real first save has not.
        ctypes.CDLL(None).malloc_trim(0)
        writer = self._new_writer()
        if reserve:
            writer.reserve(self._variables)
        turn = self._in_background(writer)
        writer.close()
        return turn

    def _in_background(self, writer: CheckpointWriter) -> Turn:
        undisturbed = self._undisturbed()
        begin = time.perf_counter()
        writer.save(self._number, self._variables, META)
        stall = 1000 * (time.perf_counter() - begin)
        meanwhile, saved = [self._step()], writer.check()
        while not saved:
            meanwhile.append(self._step())
            saved = writer.check()
        writer.wait()
        self.bytes = saved[0].bytes
        return Turn(
            undisturbed,
            stall,
            stall + meanwhile[0] - undisturbed,
            stall + sum(meanwhile) - len(meanwhile) * undisturbed,
            saved[0].seconds,
            statistics.mean(meanwhile) / undisturbed,
        )

    def _synchronous(self) -> Turn:
        undisturbed = self._undisturbed()
        begin = time.perf_counter()
        self._folder.save(self._number, snapshot(self._variables), META)
        stall = 1000 * (time.perf_counter() - begin)
        after = self._step()
        self._folder.retain(1, keep_best=False)
        lost = stall + after - undisturbed
        return Turn(undisturbed, stall, lost, lost, 0.0, None)

    def _undisturbed(self) -> float:
        return statistics.median(self._step() for _ in range(self._steps))

    def _step(self) -> float:
        """Take a step; its milliseconds."""
        begin = time.perf_counter()
        report = self._loop.run([RATE], lambda _: None, self._number)
        assert report.bad_step is None, report
        self._number += 1
        return 1000 * (time.perf_counter() - begin)
