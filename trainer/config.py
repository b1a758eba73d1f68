"""TrainConfig: everything that decides a training run, as plain data.

Standard library only, so that the side that submits jobs builds the very same object. A
`TrainConfig` that exists is valid: types, bounds and contradictions are checked when it is made,
and every problem is reported at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from common import fields
from common.annotations import Bounds, Formerly
from common.errors import ConfigError
from trainer import gone
from trainer.combinations import contradictions
from trainer.early_stop import leaf as early_stop
from trainer.leaf import Feature, StrategyDescription
from trainer.leaves import EMBEDDED, LEAVES, TASKS, WithLeaves, in_use, metrics_in
from trainer.model_config import (
    ModelConfig,
    NotNegative,
    OptimizerConfig,
    Positive,
)
from trainer.task_descriptions import Metric, TaskDescription

__all__ = [
    "DEVICE_KEYS",
    "CheckpointConfig",
    "ComputeConfig",
    "DataConfig",
    "EvaluationConfig",
    "ExchangeConfig",
    "LogConfig",
    "Metric",
    "ModelConfig",
    "NotNegative",
    "OptimizerConfig",
    "Positive",
    "TrainConfig",
    "WatchdogConfig",
    "metrics_in",
]

if TYPE_CHECKING:
    PresetName: TypeAlias = str
    TaskName: TypeAlias = str
    SourceName: TypeAlias = str
else:
    PresetName = Literal[
        (
            "digits",
            *(name for leaf in LEAVES for name in leaf.presets),
            "images",
            "synthetic",
            "imagenet-1gpu",
            "imagenet-ndv2",
            "imagenet-bfloat16",
            "imagenet-lars-4096",
            "imagenet-lars-8192",
            "imagenet-lars-13056",
            "imagenet-lars-32768",
        )
    ]
    TaskName = Literal[tuple(TASKS)]
    SourceName = Literal[(*EMBEDDED, "tfrecords", "synthetic")]
DEVICE_KEYS = tuple(
    leaf.strategy.devices_key for leaf in LEAVES if leaf.strategy and leaf.strategy.devices_key
)
"""Keys of the options that give each rank several devices."""


@dataclass(frozen=True)
class DataConfig:
    """The data set, its order, and the way from an image to an input."""

    source: SourceName = "tfrecords"
    """tfrecords: shards, or files of another format, with a manifest in `dir`; synthetic: one
    random batch that stays on the device, for measuring; others are embedded, such as digits,
    scikit-learn's handwritten digits, and are prepared on first use."""

    dir: str | None = None
    """Folder with manifest.json and its shards. Embedded data sets default to data/SOURCE."""

    streams: Annotated[int, Positive] = 64
    """Streams into which the records of an epoch are divided. With every world size that divides
    this number, the global batches are the same; more streams mix better and open more files."""

    shuffle_window: Annotated[int, Positive] = 512
    """Records shuffled together inside one stream. A rank holds up to 2 x window x streams / ranks
    encoded images in memory, and reads at most one window per stream again when it resumes."""

    augment: Literal["random-resized-crop", "shift", "none"] = "random-resized-crop"
    """random-resized-crop: Inception's crop of random area and aspect; shift: the whole image moved
    by up to `shift_pixels`, for small centred images; none: the whole image."""

    min_crop_area: Annotated[float, Bounds(above=0, at_most=1)] = 0.08
    """Smallest part of the image's area that a random crop keeps (0.08 in Szegedy et al. 2014)."""

    shift_pixels: Annotated[int, NotNegative] = 2
    """Largest move of `shift` in each direction, in pixels of the input."""

    flip: bool = True
    """Mirror half of the training images left to right; wrong for digits and text."""

    rand_augment: Annotated[int, Bounds(at_least=0, at_most=10)] = 0
    """RandAugment: two operations on each image, drawn from 14 that move or recolour it, at this
    magnitude; 0 for none; 9 is the paper's for ResNet50 on ImageNet. Targets move along."""

    colour_jitter: Annotated[float, Bounds(at_least=0, at_most=1)] = 0.0
    """Change brightness, contrast and saturation by random factors from 1 - this to 1 + this, and
    turn hues by up to a quarter of this, in turns; 0.4 is usual."""

    erase: Annotated[float, Bounds(at_least=0, at_most=1)] = 0.0
    """Probability of random erasing: noise in place of a rectangle of 2 to 33 % of an image (0.5 in
    Zhong et al. 2017). Targets stay as they are."""

    mixup: Annotated[float, Bounds(at_least=0, at_most=10)] = 0.0
    """Blend each image and its target with another of its micro-batch, by a share of Beta(this,
    this): MixUp (0.2 for ImageNet in Zhang et al. 2017). For tasks with one target per image."""

    cutmix: Annotated[float, Bounds(at_least=0, at_most=10)] = 0.0
    """Paste a part of another image of the micro-batch over each, of an area of Beta(this, this),
    and mix the targets by area: CutMix (1 in Yun et al. 2019). With MixUp, each image draws one."""

    eval_crop: Annotated[float, Bounds(above=0, at_most=1)] = 0.875
    """Central part of the short side that an evaluation sees: 224 of 256 is 0.875; 1 is all of
    it."""

    on_corrupt: Literal["fail", "skip"] = "fail"
    """An image that cannot be decoded ends the run with its shard and index (fail), or is left out,
    named and counted (skip; slower, as each image becomes a separate data set). Another image of
    the batch takes its place in the statistics of batch norm, and does not count in the loss."""

    decode_threads: Annotated[int, NotNegative] = 0
    """Images decoded at once in a rank; 0 is the rank's share of the cores."""

    prefetch_batches: Annotated[int, Positive] = 2
    """Decoded batches kept ready in a rank, in host memory."""

    synthetic_examples: Annotated[int, Positive] = 1_281_167
    """Length of an epoch of synthetic data, in images (the default is ImageNet's)."""


@dataclass(frozen=True)
class ComputeConfig:
    """How a step is computed on the device."""

    precision: Literal["float32", "mixed_float16", "mixed_bfloat16"] = "float32"
    """mixed_float16: float16 convolutions with float32 weights and a dynamic loss scale;
    mixed_bfloat16: bfloat16 convolutions with float32 weights, and no loss scale, because bfloat16
    has the exponents of float32. NVIDIA's GPUs have it since the A100."""

    xla: bool = False
    """Compile the forward and backward pass; faster on a GPU, 2-4 times slower on a CPU."""

    steps_per_loop: Annotated[int, Positive] = 100
    """Steps that run inside the graph per call from Python. Stop requests and the heartbeat do not
    wait for its end."""

    threads: Annotated[int, NotNegative] = 0
    """Threads with which a rank computes; 0 is the rank's share of the cores."""

    deterministic: bool = False
    """Have TensorFlow use deterministic operations, which may be slower, and refuse those that it
    has none for. Needed on GPUs only: on a CPU a run ends with the same bits each time without
    it, although with other bits than with it."""


@dataclass(frozen=True)
class ExchangeConfig:
    """How ranks find each other and sum their gradients. Read by Horovod when it starts."""

    groups: Annotated[int, Positive] = 1
    """Grouped all-reduces per step. One is cheapest; several can overlap with the backward pass."""

    compression: Literal["none", "fp16"] = "none"
    """fp16 halves the bytes, for mixed_float16 only: its loss scale keeps small gradients from
    vanishing. Slower where the CPU adds them (Gloo), so for GPUs."""

    cycle_time_ms: Annotated[float, Bounds(above=0, at_most=1000)] = 1.0
    """Pause between two rounds of Horovod's background thread, in milliseconds. A step waits for up
    to two of them; each takes CPU time, which matters where the CPU computes too."""

    fusion_threshold_mb: Annotated[int, NotNegative] = 128
    """Largest buffer that tensors are fused into, in MiB; holds all of ResNet50's gradients."""

    infiniband: bool = False
    """Whether the exchange should use InfiniBand: a run over several nodes then prints a warning if
    a node cannot use it, or if NCCL has chosen another network. Changes nothing else."""

    timeline: str | None = None
    """File in which Horovod notes when each tensor of rank 0 was negotiated, queued and summed
    (HOROVOD_TIMELINE), for Perfetto or chrome://tracing; slows every step down."""

    timeout_seconds: Annotated[int, Positive] = 300
    """How long Gloo waits for another rank, at the start and in a step; must cover the difference
    in the ranks' compile times, and a checkpoint, which rank 0 writes while the others wait."""


@dataclass(frozen=True)
class WatchdogConfig:
    """When a rank that hangs ends itself, with exit status 7, so that the run can be restarted."""

    step_seconds: Annotated[int, NotNegative] = 600
    """Longest time without a completed step, in seconds; 0 switches the watchdog off. Must cover a
    step, and whatever rank 0 does while the others wait. Longer than `exchange.timeout_seconds`, so
    that Gloo's own error comes first; MPI and NCCL raise none, and would wait forever."""

    startup_seconds: Annotated[int, Positive] = 1800
    """Longest time without progress outside of steps, in seconds: during start-up, compilation, a
    batch of an evaluation, a checkpoint or the export."""


@dataclass(frozen=True)
class EvaluationConfig:
    """Metrics over the whole validation split, each image that can be decoded exactly once."""

    every_epochs: Annotated[int, NotNegative] = 1
    """Epochs between two evaluations; 0 evaluates at the end only."""

    batch_size: Annotated[int | None, Positive] = None
    """Images that a rank evaluates at once; None is the training batch."""


@dataclass(frozen=True)
class CheckpointConfig:
    """When the state is saved, in addition to the end and stop requests, which checkpoints are
    kept, and when the run rolls back to one.
    """

    every_minutes: Annotated[float, NotNegative] = 10.0
    """Minutes between two checkpoints, by the clock of rank 0; 0 does not save by the clock. A
    killed run loses at most this, an evaluation, the time of writing, and its start-up."""

    every_steps: Annotated[int, NotNegative] = 0
    """Steps between two checkpoints; 0 does not save by steps."""

    every_epochs: Annotated[int, NotNegative] = 1
    """Epochs between two checkpoints, each after the epoch's evaluation; 0 does not save by epochs,
    and then no checkpoint but the last knows how good it is."""

    keep: Annotated[int, Positive] = 3
    """Newest checkpoints that stay."""

    keep_best: bool = True
    """Keep the best one by the task's first metric, such as top-1, or by another that is chosen to
    compare evaluations, as well. The result is of the final weights nevertheless, unless early
    stopping is on."""

    keep_every_steps: Annotated[int, NotNegative] = 0
    """Also keep the first one in each interval of that many steps, as history; 0 keeps none."""

    when_busy: Literal["wait", "skip"] = "wait"
    """If a save is due while the previous one is still being written: wait for that; or skip:
    continue training, and write only the newest of the saves that are due, which takes the memory
    of a second copy."""

    on_non_finite: Literal["stop", "roll-back"] = "stop"
    """When a loss or gradient is not finite: stop with status 5, or go back to the newest
    checkpoint and leave out the images of all steps since."""

    rollbacks: Annotated[int, Positive, Formerly("roll_backs")] = 3
    """How often `roll-back` may happen in a run; after that the run stops as with `stop`."""


@dataclass(frozen=True)
class LogConfig:
    """Reports while it trains."""

    every_steps: Annotated[int, Positive] = 100
    """Steps between two lines of metrics."""

    detail: bool | None = None
    """Print steps, ranks, waits for data and the machine as well as epochs, images, the metric and
    the time that is left. None is True in a job of Azure ML and under another launcher, such as
    mpirun, and False on your own machine."""

    tensorboard_dir: str | None = None
    """Folder for TensorBoard, with a folder for each run in it; None is tblogs in the run folder,
    and outputs/tblogs inside an Azure ML job, which uploads it while the job runs."""

    report: bool = True
    """Write report.html, a page of curves, mistakes and facts, when the run ends or stops."""

    images: Literal["none", "thumbnails"] | None = None
    """Whether the run keeps small copies of the held-out images that it got most wrong, in its
    folder and in report.html. None is thumbnails; jobs that `python -m jobs` submits keep none."""

    @property
    def keeps_images(self) -> bool:
        """Whether a run and its evaluations keep copies of images."""
        return self.images != "none"


@dataclass(frozen=True)
class TrainConfig(WithLeaves):
    """One training run. Its last groups are the options of the leaves; see `of`."""

    GONE: ClassVar[Mapping[str, str]] = gone.OPTIONS
    """Options of earlier versions; see `common.fields.gone`."""

    preset: PresetName = "digits"
    """Preset whose values the other options change."""

    task: TaskName = "classification"
    """Target of the network, which each record holds in addition to an image. classification:
    one class per image."""

    name: str | None = None
    """Name of the run and its folder; None makes one of preset and time. An existing run is
    resumed."""

    runs_dir: str = "runs"
    """Folder of all runs."""

    resume: Literal["auto", "never"] = "auto"
    """auto: continue from the newest valid checkpoint of the run, if there is one; never: refuse a
    run that exists."""

    accept_changed_code: bool = False
    """Continue a run of your own network with the files of the builder as they are now, if they
    have changed; otherwise it continues with those that it keeps."""

    ranks: Annotated[int, Positive] = 1
    """Processes to start on this machine. Ignored if a launcher (mpirun, horovodrun) has started
    them, because its world size then counts."""

    restarts: Annotated[int, NotNegative] = 3
    """How often in a row a crashed run is restarted without a newer checkpoint; never under
    mpirun, horovodrun or Azure ML. With 0, a single rank runs without a launcher."""

    batch_size: Annotated[int, Positive] = 256
    """Images per rank and step; the global batch is this times the number of ranks."""

    epochs: Annotated[int, Positive] = 90
    """Passes over the training split."""

    max_steps: Annotated[int | None, Positive] = None
    """End after this many steps, for trials, or with the next step after which all ranks are equal;
    the learning rate still follows `epochs`."""

    max_seconds: Annotated[float | None, Bounds(above=0)] = None
    """Save the state and end this attempt, with status 8, after this many seconds since its start;
    the same command continues the run. A step, an evaluation or a save that has begun ends first,
    and an attempt takes at least one step."""

    seed: Annotated[int, Bounds(at_least=0, below=2**31)] = 0
    """Decides initial weights, data order and augmentation."""

    export: bool = True
    """Write a SavedModel into the run folder at the end."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    compute: ComputeConfig = field(default_factory=ComputeConfig)
    exchange: ExchangeConfig = field(default_factory=ExchangeConfig)
    watchdog: WatchdogConfig = field(default_factory=WatchdogConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        problems = fields.problems(self) or contradictions(self)
        if problems:
            raise ConfigError(problems)

    @property
    def described_task(self) -> TaskDescription:
        """The facts about the task that need none of its code."""
        return TASKS[self.task]

    @property
    def metric(self) -> Metric:
        """Metric of an evaluation that says which weights are the best."""
        key, metrics = self.of(early_stop.EarlyStopOptions).metric, self.described_task.evaluation
        return next((metric for metric in metrics if metric.key == key), metrics[0])

    @property
    def features(self) -> list[Feature]:
        """Features of leaves that it asks for."""
        return [
            feature for leaf in in_use(self) for feature in leaf.features if feature.wanted(self)
        ]

    @property
    def strategy(self) -> StrategyDescription:
        """How it updates its weights."""
        strategies = (leaf.strategy for leaf in in_use(self) if leaf.strategy)
        return next(strategies, StrategyDescription)(self)

    def rank_batch(self, ranks: int) -> int:
        """Return the images that each of a number of ranks takes per step."""
        return self.batch_size * self.strategy.batches(ranks) // ranks

    @property
    def result_of(self) -> Literal["last", "best"]:
        """The weights that the result of the run is of."""
        return "best" if early_stop.wanted(self) else "last"

    def misfits(self, ranks: int, classes: int | None = None) -> list[str]:
        """List why a number of ranks, and of classes, does not fit, with the options to change."""
        return self.strategy.misfits(ranks, classes) + early_stop.misfits(self, classes)
