"""What the benchmarks can be told."""

from dataclasses import dataclass
from typing import Annotated

from common.fields import Bounds
from trainer.config import NotNegative, Positive


@dataclass(frozen=True)
class LoopBenchmark:
    """CPU-milliseconds of a step on a network of 20 small dense layers: our loop, a bare loop
    inside the graph, one tf.function call a step, and Keras fit.
    """

    ranks: Annotated[tuple[int, ...], Positive] = (1, 2)
    """Worlds to measure in, one after the other, by their number of ranks."""

    rounds: Annotated[int, Positive] = 11
    """How often each contender has its turn."""

    steps: Annotated[int, Positive] = 1000
    """Steps in a turn."""

    json: str | None = None
    """File for the raw rounds."""


@dataclass(frozen=True)
class ExchangeBenchmark:
    """CPU-milliseconds of an exchange of ResNet50's gradients: ours in 1, 2 and 4 groups and with a
    loss scale, one bare grouped all-reduce, and DistributedGradientTape. Bytes sent are held
    against the ring's formula.
    """

    ranks: Annotated[int, Bounds(at_least=2)] = 2
    """Ranks that exchange."""

    rounds: Annotated[int, Positive] = 11
    """How often each contender has its turn."""

    exchanges: Annotated[int, Positive] = 8
    """Exchanges in a turn."""

    json: str | None = None
    """File for the raw rounds."""


@dataclass(frozen=True)
class TrainBenchmark:
    """Images a second of the synthetic preset: one rank, two independent trainings at once, and two
    ranks, with the preset's cycle time and with Horovod's. Takes about half an hour on two cores.
    """

    image_sizes: Annotated[tuple[int, ...], Positive] = (224, 64)
    """Heights and widths of images to train on."""

    steps: Annotated[tuple[int, ...], Positive] = (6, 20)
    """Timed steps of a training, for each image size."""

    rounds: Annotated[int, Positive] = 5
    """How often each contender has its turn."""

    json: str | None = None
    """File for the raw rounds."""


@dataclass(frozen=True)
class CheckpointBenchmark:
    """Milliseconds that a training of ResNet50 stands still to save its state, 205 MB with
    momentum, and what it loses while they are written in the background; beside a synchronous save.
    """

    folder: str | None = None
    """Folder to write into, on the disk or mount to be measured; none is the system's for temporary
    files. All that is written is deleted."""

    steps: Annotated[int, Positive] = 10
    """Undisturbed steps before each save."""

    rounds: Annotated[int, Positive] = 5
    """How often each contender has its turn."""

    json: str | None = None
    """File for the raw rounds."""


@dataclass(frozen=True)
class InputBenchmark:
    """CPU-milliseconds of an image from shard to batch, beside decoding and resizing alone and
    beside a textbook pipeline.
    """

    data: str | None = None
    """Folder of a data set; none makes 1,000 images of noise for the time of the measurement."""

    reencoded: str | None = None
    """Folder of the same images prepared with --reencode, to be compared with them."""

    image_size: Annotated[int, Positive] = 224
    """Height and width of the input, in pixels."""

    batch_size: Annotated[int, Positive] = 64
    """Images of a batch."""

    batches: Annotated[int, Positive] = 140
    """Batches in a turn. Windows are read as a whole and ahead, so a turn should be about an epoch
    of a small data set; fewer would count too much or too little reading."""

    threads: Annotated[int, NotNegative] = 0
    """Images decoded at once; 0 is as many as there are cores."""

    rounds: Annotated[int, Positive] = 9
    """How often each contender has its turn."""

    json: str | None = None
    """File for the raw rounds."""
