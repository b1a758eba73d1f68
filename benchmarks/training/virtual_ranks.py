"""Cost of sums whose bits do not depend on the number of ranks: of a whole step without
accumulation, and of an exchange by its size, compared with the default exchange.

Sums over more than two ranks can be added in the tree in two ways. By parts, each rank adds up one
part of all tensors, and sends as many bytes as in a ring. By pairs, each level of the tree is an
all-reduce of two ranks, which sends all bytes once for each level.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import tensorflow as tf

from benchmarks.measure import BenchmarkOptions, read_samples, table, take_turns
from benchmarks.processes import in_world, join_world
from common.annotations import Bounds
from trainer.classification.task import Classification
from trainer.config import DataConfig, ModelConfig, Positive, TrainConfig
from trainer.data.manifest import Normalization
from trainer.data.rank_data import synthetic_batch
from trainer.distributed.communicator import Communicator
from trainer.distributed.horovod import Horovod
from trainer.leaf import Exchanges
from trainer.training.loop import Loop
from trainer.training.stepper import divide, step_rule
from trainer.updates.loss_scale import LossScale
from trainer.updates.step_rule import StepContext
from trainer.virtual_ranks.division import over_ranks
from trainer.virtual_ranks.leaf import VirtualRankOptions

DEFAULT, VIRTUAL = "default exchange", "virtual ranks"
ALL_REDUCE, PARTS, PAIRS = "all-reduce", "tree by parts", "tree by pairs"
CLASSES = 10


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Milliseconds of a step of a ResNet with as many virtual ranks as ranks, and of exchanges, by
    size.
    """

    ranks: Annotated[int, Bounds(at_least=2)] = 2
    """World size, a power of two."""

    rounds: Annotated[int, Positive] = 11
    """Number of turns of each contender."""

    steps: Annotated[int, Positive] = 20
    """Steps, or exchanges, per turn."""

    batch_size: Annotated[int, Positive] = 16
    """Images of a rank."""

    image_size: Annotated[int, Positive] = 64
    """Height and width of an image."""

    kilobytes: Annotated[tuple[int, ...], Positive] = (4, 256, 4096, 32768)
    """Sizes of an exchange, in KiB."""


def measure(options: Options) -> dict[str, Any]:
    """Measure steps and exchanges."""
    # The pairs of ranks are made after Horovod has started.
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    return in_world("benchmarks.training.virtual_ranks:take_turns_in_world", **options.settings())


def show(data: Mapping[str, Any]) -> str:
    """Format the times of all contenders."""
    parts = ["A step:", table(read_samples(data["step"]), "step", [DEFAULT])]
    for size, samples in data["exchanges"].items():
        parts += [f"{size} KiB:", table(read_samples(samples), "exchange", [ALL_REDUCE])]
    return "\n\n".join(parts)


def take_turns_in_world(
    rounds: int, steps: int, batch_size: int, image_size: int, kilobytes: Sequence[int]
) -> dict[str, Any]:
    """Measure the contenders in turns, in the world of this rank; arguments as in `Options`."""
    world = join_world()
    assert isinstance(world, Horovod)
    config = TrainConfig(
        preset="synthetic",
        batch_size=batch_size,
        data=DataConfig(source="synthetic"),
        model=ModelConfig(depth=18, width=32, image_size=image_size),
    )
    # The groups of leaves are no fields that mypy knows.
    options: dict[str, Any] = {"virtual_ranks": VirtualRankOptions(world.size)}
    virtual = replace(config, **options)
    contenders = {DEFAULT: _steps(config, world, steps), VIRTUAL: _steps(virtual, world, steps)}
    step = take_turns(contenders, rounds, world)
    exchanges = {
        str(size): take_turns(_exchanges(world, size << 8, steps), rounds, world)
        for size in kilobytes
    }
    world.shutdown()
    return {"step": step, "exchanges": exchanges}


def _steps(config: TrainConfig, world: Communicator, steps: int) -> Callable[[], int]:
    """Return what takes steps of a run with a configuration."""
    division, scale = divide(config, CLASSES, world), LossScale(config)
    rule = step_rule(StepContext(config, world, division, scale, Exchanges()))
    batch = synthetic_batch(config.batch_size, config.model.image_size, CLASSES, world.rank)
    normalization = Normalization((127.5,) * 3, (73.9,) * 3)
    task = Classification(CLASSES)
    loop = Loop(task, division, rule, scale, world, normalization, config, lambda: batch)

    def take() -> int:
        return loop.run([1e-3] * steps, lambda _: None).steps

    return take


def _exchanges(world: Horovod, floats: int, count: int) -> dict[str, Callable[[], int]]:
    """Return the ways to add up a tensor over ranks, by name."""
    tensor = tf.random.stateless_normal([floats], [world.rank, 0])
    pairs = _pairs(world)

    def by_pairs() -> tf.Tensor:
        total = tensor
        for number, pair in enumerate(pairs):
            total = world.module.allreduce(
                total, op=world.module.Sum, process_set=pair, name=f"pair{number}.{floats}"
            )
        return total

    ways = {
        ALL_REDUCE: lambda: world.everyone.sum([tensor], f"sum{floats}")[0],
        PARTS: lambda: over_ranks(world.everyone, [tensor])[0],
        PAIRS: by_pairs,
    }

    def repeated(way: Callable[[], tf.Tensor]) -> Callable[[], int]:
        graph = tf.function(way, autograph=False)
        return lambda: len([graph() for _ in range(count)])

    return {name: repeated(way) for name, way in ways.items()}


def _pairs(world: Horovod) -> list[Any]:
    """Return this rank's pair at each level of the tree, the highest bit first."""
    mine, bit = [], world.size >> 1
    while bit:
        for low in (rank for rank in range(world.size) if not rank & bit):
            members = [low, low | bit]
            hvd = world.module
            whole = len(members) == world.size
            pair = hvd.global_process_set if whole else _process_set(hvd, members)
            if world.rank in members:
                mine.append(pair)
        bit >>= 1
    return mine


_SETS: dict[tuple[int, ...], Any] = {}


def _process_set(hvd: Any, members: list[int]) -> Any:
    """Return the process set of some ranks, which Horovod makes once."""
    if tuple(members) not in _SETS:
        _SETS[tuple(members)] = hvd.add_process_set(members)
    return _SETS[tuple(members)]
