"""The contenders of `checkpoint`: how long a training of ResNet50 stops to save its 205 MB, and how
much it is slowed down while the copy is written in the background.

One rank takes steps of 8 images of 32 pixels: the variables are the same for any image size, and a
step is short enough to show disturbances. All contenders write the same files with the same checks.
The synchronous contender copies, writes and syncs, as the trainer did before it had a thread.
"""

import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.training.checkpoint import FIRST_SAVE, IN_BACKGROUND, RESERVED, SYNCHRONOUS
from benchmarks.training.given_network import make_loop, summed
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.snapshot import snapshot
from trainer.checkpoints.writer import CheckpointWriter
from trainer.config import CheckpointConfig, DataConfig, ModelConfig, TrainConfig
from trainer.data.manifest import Normalization
from trainer.data.rank_data import synthetic_batch
from trainer.distributed.communicator import Alone
from trainer.model.build import build_model

CLASSES, PIXELS, BATCH = 1000, 32, 8
RATE = 1e-3
NORMALIZATION = Normalization((127.5,) * 3, (73.9,) * 3)
META = {"evaluation": None}


@dataclass(frozen=True)
class Turn:
    """One save."""

    step_ms: float
    """Median of the undisturbed steps before the save, in milliseconds."""
    stall_ms: float
    """Milliseconds until training could continue."""
    step_with_save_ms: float
    """Milliseconds by which the step with the save took longer than one without."""
    lost_ms: float
    """Milliseconds by which all steps together took longer until the save was on disk."""
    background_s: float
    """Seconds of writing in the background."""
    slow_down: float | None
    """Duration of a step during writing, relative to an undisturbed one; None without a step."""


def measure(folder: str | None, steps: int, rounds: int) -> dict[str, Any]:
    """Measure the contenders in turns, after a first round that is not counted.

    Args:
        folder: Folder to write to; None is the system's for temporary files.
        steps: Undisturbed steps before each save.
        rounds: Number of turns of each contender.
    """
    with tempfile.TemporaryDirectory(dir=folder) as target:
        contenders = Contenders(Path(target), steps)
        turns: dict[str, list[dict[str, float | None]]] = {name: [] for name in contenders.all}
        for number in range(rounds + 1):
            for name, save in contenders.all.items():
                turn = asdict(save())
                if number:
                    turns[name].append(turn)
            print(f"round {number} of {rounds}" if number else "warmed up", flush=True)
        contenders.close()
    return {"rounds": turns, "bytes": contenders.bytes}


class Contenders:
    """A training, and ways to save it.

    Args:
        folder: Folder to write to.
        steps: Undisturbed steps before each save.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        self._steps, self._number = steps, 0
        config = TrainConfig(
            preset="synthetic",
            batch_size=BATCH,
            data=DataConfig(source="synthetic"),
            model=ModelConfig(image_size=PIXELS),
        )
        model = build_model(config.model, CLASSES)
        rule = summed(model, config, Alone())
        batch = synthetic_batch(BATCH, PIXELS, CLASSES, seed=0)
        self._loop = make_loop(model, rule, config, Alone(), NORMALIZATION, lambda: batch)
        self._variables: dict[str, tf.Variable] = {
            **{variable.name: variable for variable in model.variables},
            **rule.state,
            **self._loop.state,
        }
        self._folder = CheckpointFolder(folder / "checkpoints")
        self._attempt = self._folder.claim()
        self._writer = self._new_writer()
        self.bytes = 0
        """Size of a checkpoint in bytes."""

    @property
    def all(self) -> Mapping[str, Callable[[], Turn]]:
        """Return the contenders by name; each saves once."""
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
        return CheckpointWriter(
            self._folder, self._attempt, CheckpointConfig(keep=1, keep_best=False)
        )

    def _first_save(self, *, reserve: bool) -> Turn:
        # Otherwise the memory of the last round could be reused, unlike in a real first save.
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
        """Take a step and return its milliseconds."""
        begin = time.perf_counter()
        report = self._loop.run([RATE], lambda _: None)
        assert report.bad_step is None, report
        self._number += 1
        return 1000 * (time.perf_counter() - begin)
