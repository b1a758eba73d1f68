"""Cost of the statements of a run: CPU time of the statement about a checkpoint, compared with that
of the steps between two checkpoints.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from benchmarks.measure import BenchmarkOptions, read_samples, table, take_turns
from benchmarks.processes import in_world, join_world
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.snapshot import snapshot
from trainer.checkpoints.writer import Saved
from trainer.classification.task import Classification
from trainer.config import DataConfig, ModelConfig, Positive, TrainConfig
from trainer.data.manifest import Normalization
from trainer.data.rank_data import synthetic_batch
from trainer.evidence.leaf import EvidenceOptions
from trainer.evidence.observer import EvidenceObserver
from trainer.evidence.statements import CHECKPOINTS
from trainer.leaf import Exchanges
from trainer.model.weights import variables_by_name
from trainer.training.loop import Loop
from trainer.training.stepper import divide, step_rule
from trainer.updates.loss_scale import LossScale
from trainer.updates.step_rule import StepContext

STEP, STATEMENT, CHECKPOINT = "a step", "a statement about a checkpoint", "a checkpoint"
CLASSES = 1000


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Milliseconds of a step of a ResNet, of a checkpoint of it, and of the statement about the
    checkpoint.
    """

    rounds: Annotated[int, Positive] = 11
    """Number of turns of each contender."""

    steps: Annotated[int, Positive] = 5
    """Steps per turn."""

    between: Annotated[int, Positive] = 100
    """Steps between two checkpoints, for the share that is shown."""

    batch_size: Annotated[int, Positive] = 16
    """Images per step."""

    image_size: Annotated[int, Positive] = 64
    """Height and width of an image."""

    depth: Annotated[int, Positive] = 50
    """Layers of the ResNet."""


def measure(options: Options) -> dict[str, Any]:
    """Measure steps, checkpoints and statements."""
    settings = options.settings()
    between = settings.pop("between")
    found = in_world("benchmarks.training.evidence:take_turns_in_world", **settings, ranks=1)
    return {**found, "between": between}


def show(data: Mapping[str, Any]) -> str:
    """Format the times, and the share of the statements."""
    samples = read_samples(data["samples"])
    shares = sorted(
        100 * statement.cpu_ms / (data["between"] * step.cpu_ms)
        for statement, step in zip(samples[STATEMENT], samples[STEP], strict=True)
    )
    return (
        f"{table(samples, 'unit', [STEP])}\n\nWith a checkpoint of {data['bytes']:,} bytes every"
        f" {data['between']} steps, statements take {shares[len(shares) // 2]:.2f} % of the CPU"
        f" time of steps ({shares[0]:.2f} to {shares[-1]:.2f} %)."
    )


def take_turns_in_world(
    rounds: int, steps: int, batch_size: int, image_size: int, depth: int
) -> dict[str, Any]:
    """Measure the contenders in turns; arguments as in `Options`."""
    world = join_world()
    config = TrainConfig(
        preset="synthetic",
        batch_size=batch_size,
        data=DataConfig(source="synthetic"),
        model=ModelConfig(depth=depth, image_size=image_size),  # type: ignore[arg-type]
    )
    division, scale = divide(config, CLASSES, world), LossScale(config)
    rule = step_rule(StepContext(config, world, division, scale, Exchanges()))
    batch = synthetic_batch(batch_size, image_size, CLASSES, 0)
    normalization = Normalization((127.5,) * 3, (73.9,) * 3)
    loop = Loop(
        *(Classification(CLASSES), division, rule, scale, world, normalization, config),
        lambda: batch,
    )
    with tempfile.TemporaryDirectory() as scratch:
        run, number = Path(scratch) / "run", iter(range(10**6))
        folder = CheckpointFolder(run / CHECKPOINTS)
        state = snapshot({**variables_by_name(division.model), **rule.state})
        paths: list[Saved] = []

        def take() -> int:
            return loop.run([1e-3] * steps, lambda _: None).steps

        def save() -> int:
            saved = folder.save(next(number), state, {"evaluation": None}, 1)
            paths.append(Saved(saved.step, saved.path, saved.bytes, 0.0))
            return 1

        def declare() -> int:
            observer = EvidenceObserver(run, EvidenceOptions())
            observer.saved(paths[-1])
            observer.end(1, failed=True)
            return 1

        contenders = {STEP: take, CHECKPOINT: save, STATEMENT: declare}
        samples = take_turns(contenders, rounds, world)
        return {"samples": samples, "bytes": paths[-1].bytes}
