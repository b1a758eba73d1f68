"""Presets: named configurations, such as one for a machine, each with its expected result and who
measured it; and the conversion between a configuration and its command line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from common import fields
from common.errors import ConfigError
from common.program import load
from common.text import plural
from trainer.config import (
    CheckpointConfig,
    ComputeConfig,
    DataConfig,
    EvaluationConfig,
    ExchangeConfig,
    LogConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)
from trainer.leaf import Expectation, Preset
from trainer.leaves import LEAVES

_OF_LEAVES: Mapping[str, Preset] = {
    name: load(path) for leaf in LEAVES for name, path in leaf.presets.items()
}

_DIGITS = TrainConfig(
    preset="digits",
    ranks=2,
    batch_size=32,
    epochs=20,
    data=DataConfig(
        source="digits",
        streams=8,
        shuffle_window=256,
        augment="shift",
        shift_pixels=2,
        flip=False,
        eval_crop=1.0,
    ),
    model=ModelConfig(width=16, stem="3x3", image_size=16),
    optimizer=OptimizerConfig(
        learning_rate=0.4, warmup_epochs=2.0, nesterov=True, label_smoothing=0.1
    ),
    # Its held-out images are for the result alone: no epoch is chosen by them.
    checkpoint=CheckpointConfig(keep_best=False),
    log=LogConfig(every_steps=20),
)

_IMAGES = TrainConfig(
    preset="images",
    ranks=2,
    batch_size=16,
    epochs=15,
    data=DataConfig(
        source="tfrecords",
        dir="data/images",
        streams=16,
        shuffle_window=128,
        # At 64 pixels a smaller part of an image is not recognisable.
        min_crop_area=0.25,
    ),
    model=ModelConfig(depth=18, width=32, image_size=64),
    optimizer=OptimizerConfig(
        learning_rate=0.4, warmup_epochs=2.0, nesterov=True, label_smoothing=0.1
    ),
    checkpoint=CheckpointConfig(keep_best=False),
    log=LogConfig(every_steps=20),
)

_IMAGENET_1GPU = TrainConfig(
    preset="imagenet-1gpu",
    batch_size=256,
    epochs=90,
    data=DataConfig(source="tfrecords", dir="data/imagenet"),
    optimizer=OptimizerConfig(
        learning_rate=0.256, warmup_epochs=8.0, momentum=0.875, weight_decay=2.0**-15
    ),
    compute=ComputeConfig(precision="mixed_float16", xla=True),
)


@dataclass(frozen=True)
class LarsReference:
    """A row of MLPerf's reference points for ResNet50 (mlcommons/logging,
    mlperf_logging/rcp_checker/training_1.1.0/rcps_resnet.json), and how a preset reaches its batch.
    """

    global_batch: int
    rate: float
    """Peak learning rate, not scaled by the batch."""
    warmup_epochs: float
    momentum: float
    weight_decay: float
    epochs_to_target: int
    """Median epochs until 75.9 % top-1."""
    epochs: int
    """Epochs of the whole schedule. The rows give decay steps, which include the warm-up in some
    implementations and follow it in others (train_steps - warmup_steps + 1 in Google's): here, the
    shorter reading in which every run of the row reached its target."""
    batch_size: int
    """Images per rank."""

    @property
    def ranks(self) -> int:
        """Ranks that make the global batch."""
        return self.global_batch // self.batch_size

    @property
    def name(self) -> str:
        """Name of the preset."""
        return f"imagenet-lars-{self.global_batch}"

    def config(self) -> TrainConfig:
        """Return the preset."""
        optimizer = OptimizerConfig(
            kind="lars",
            learning_rate=self.rate,
            rate_scaling="none",
            warmup_epochs=self.warmup_epochs,
            schedule="polynomial",
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )
        # The name is checked against the choices of the field.
        values: dict[str, Any] = {"preset": self.name}
        return replace(
            PRESETS["imagenet-ndv2"],
            batch_size=self.batch_size,
            epochs=self.epochs,
            optimizer=optimizer,
            **values,
        )

    def expectation(self) -> Expectation:
        """Return what MLPerf measured."""
        return Expectation(
            f"75.9 % top-1 after {self.epochs_to_target} epochs in the median, with a global batch"
            f" of {self.global_batch:,} images: {self.ranks} ranks, which are"
            f" {self.ranks // 8} nodes of 8 GPUs, x {self.batch_size}",
            "measured by MLPerf's submitters with their own implementations (reference convergence"
            " points, Training 1.1); not measured by this project",
            self.global_batch,
        )


LARS_REFERENCES = (
    LarsReference(4096, 10.0, 5.0, 0.9, 2e-4, 40, 42, 256),
    LarsReference(8192, 17.0, 5.0, 0.9, 2e-4, 42, 44, 256),
    LarsReference(13056, 12.8, 9.0, 0.94, 2.5e-5, 45, 48, 204),
    LarsReference(32768, 21.2, 16.0, 0.94, 2.5e-5, 56, 58, 256),
)
"""MLPerf's rows that have a preset."""

PRESETS: dict[str, TrainConfig] = {
    "digits": _DIGITS,
    **{name: preset.config for name, preset in _OF_LEAVES.items()},
    "images": _IMAGES,
    "synthetic": TrainConfig(
        preset="synthetic",
        ranks=2,
        batch_size=16,
        max_steps=20,
        # Random weights on random data.
        export=False,
        data=DataConfig(source="synthetic"),
        compute=ComputeConfig(steps_per_loop=5),
        # A step takes seconds, and every cycle of Horovod's thread takes CPU time from it.
        exchange=ExchangeConfig(cycle_time_ms=20.0),
        evaluation=EvaluationConfig(every_epochs=0),
        checkpoint=CheckpointConfig(every_epochs=0),
        log=LogConfig(every_steps=5),
    ),
    "imagenet-1gpu": _IMAGENET_1GPU,
    # The same recipe: the rate scales with the global batch, and the launcher sets the ranks.
    "imagenet-ndv2": replace(
        _IMAGENET_1GPU, preset="imagenet-ndv2", exchange=ExchangeConfig(infiniband=True)
    ),
}
"""Configurations by name; the command line starts from one of them."""
PRESETS["imagenet-bfloat16"] = replace(
    PRESETS["imagenet-ndv2"],
    preset="imagenet-bfloat16",
    compute=replace(_IMAGENET_1GPU.compute, precision="mixed_bfloat16"),
)
PRESETS |= {reference.name: reference.config() for reference in LARS_REFERENCES}

EXPECTATIONS: dict[str, Expectation] = {
    "digits": Expectation(
        "about 99 % of 360 held-out images in one to four minutes on 2 CPU cores, 2 ranks",
        "measured by tools/benchmarks/training/digits.py",
    ),
    **{name: preset.expectation for name, preset in _OF_LEAVES.items()},
    "images": Expectation(
        "a first look at a folder of hundreds or thousands of images on a CPU; at least 94 % of 50"
        " held-out crops of ten photographs",
        "measured by tests/repository/test_own_images_example.py, the example of a page",
    ),
    "synthetic": Expectation(
        "images/s of ResNet50 at 224 pixels, without reading data",
        "depends on the machine: it is the measurement",
    ),
    "imagenet-1gpu": Expectation(
        "1,270 images/s on one V100, and about the accuracy of imagenet-ndv2",
        "the speed published by NVIDIA for this recipe (DeepLearningExamples, ResNet50 v1.5, AMP);"
        " neither measured by this project",
    ),
    "imagenet-ndv2": Expectation(
        "76.99 % top-1 after 90 epochs, 9,510 images/s on one node of 8 V100",
        "published by NVIDIA for this recipe (DeepLearningExamples, ResNet50 v1.5, AMP, DGX-1); not"
        " measured by this project",
    ),
    "imagenet-bfloat16": Expectation(
        "about the accuracy of imagenet-ndv2, whose recipe this is, on A100 or H100 GPUs",
        "an expectation: neither published for this recipe nor measured by this project",
    ),
    **{reference.name: reference.expectation() for reference in LARS_REFERENCES},
}


def preset_warnings(config: TrainConfig, ranks: int) -> list[str]:
    """Return warnings if a preset is for another global batch than that of a run, or for options
    that the run does not give.

    Args:
        config: Configuration of the run.
        ranks: World size.
    """
    expected = EXPECTATIONS[config.preset]
    global_batch = config.batch_size * config.strategy.batches(ranks)
    preset = PRESETS[config.preset]
    warnings = [
        f"{leaf.flag}: is missing, without which --preset {config.preset} is not meant to be used;"
        " add it, or choose another preset"
        for leaf in fields.leaves(TrainConfig)
        if leaf.flag in expected.needs
        and fields.get(config, leaf.key) == fields.get(preset, leaf.key)
    ]
    if expected.global_batch not in (None, global_batch):
        warnings.append(
            f"--preset: {config.preset} is for a global batch of {expected.global_batch:,} images,"
            f" but {plural(ranks, 'rank')} x --batch-size {config.batch_size} make"
            f" {global_batch:,}, for which its learning rate was not chosen; change one of them, or"
            " choose a rate for this batch"
        )
    return warnings


def to_args(config: TrainConfig) -> list[str]:
    """Return the command line of a configuration: its preset and every option that differs."""
    return ["--preset", config.preset, *fields.to_flags(config, PRESETS[config.preset])]


def parse_train(args: Sequence[str], elsewhere: Mapping[str, str] | None = None) -> TrainConfig:
    """Parse a training configuration: the named preset, overridden by the other options.

    Args:
        args: The command line.
        elsewhere: Options that belong to another place of it: see `common.arguments.parse`.

    Raises:
        ConfigError: The command line has errors; lists every unknown option, unreadable value and
            contradiction.
    """
    # tyro is needed only to parse a command line.
    from common.arguments import parse  # noqa: PLC0415

    default, text = _preset(args), _train_help()
    return parse(default, "train", args, text, others=["--dry-run"], elsewhere=elsewhere)


def check_options(args: Sequence[str]) -> None:
    """Check options before the preset is known that they change.

    Raises:
        ConfigError: Some are unknown, or have no readable value; lists all of them.
    """
    from common.arguments import unreadable  # noqa: PLC0415

    problems = unreadable(TrainConfig, args, others=["--dry-run"])
    if problems:
        raise ConfigError(problems)


def _preset(args: Sequence[str]) -> TrainConfig:
    """Return the preset that the other options override."""
    # An unknown preset is reported later, together with all other problems.
    preset = PRESETS.get(_last(args, "--preset") or "digits", PRESETS["digits"])
    builder = _last(args, "--model.builder")
    if builder is None:
        return preset
    # It is in place of the network of the preset and of its stages, not in contradiction to them.
    network, stages = ModelConfig().network, ModelConfig().frozen_stages
    model = replace(preset.model, network=network, frozen_stages=stages, builder=builder)
    decay = OptimizerConfig().layer_decay
    try:
        return replace(preset, model=model, optimizer=replace(preset.optimizer, layer_decay=decay))
    except ConfigError:
        # Reported later as well.
        return preset


def _last(args: Sequence[str], flag: str) -> str | None:
    """Return the last value of an option of a command line; None without one."""
    value = None
    for arg, following in zip_longest(args, args[1:]):
        if arg == flag:
            value = following
        elif arg.startswith(f"{flag}="):
            value = arg.removeprefix(f"{flag}=")
    return value


_EXAMPLES = """\
$ ml-trainer train                                   digits, a first run
$ ml-trainer train --preset images                   your own images, on a CPU
$ ml-trainer train --epochs 5 --name first           other options, and a name
$ ml-trainer train --name first                      resume the run "first"
$ ml-trainer train --preset images --dry-run         print the configuration alone"""

_BEGINNERS = """\
--preset NAME                 defaults of all other options
--name NAME                   name of the run; that of an interrupted one resumes it
--data.dir DIR                data set that `prepare` has written
--epochs N                    passes over the training images
--batch-size N                images per rank and step
--ranks N                     processes on this machine
--model.image-size PIXELS     side of the network's input
--optimizer.learning-rate X   for a global batch of 256; it is scaled to that of the run
--seed N                      order of images, augmentation and initial weights
--dry-run                     print the configuration and the numbers derived from it"""


def _train_help() -> str:
    width = max(map(len, PRESETS)) + 2
    presets = "\n".join(f"- {name:<{width}}{EXPECTATIONS[name].result}" for name in PRESETS)
    return (
        "Train a network. --preset NAME selects the defaults of all other options (shown: digits,"
        " or the preset given before --help).\n\n"
        f"Examples:\n{_EXAMPLES}\n\nOptions to begin with:\n{_BEGINNERS}\n\n"
        f"Presets (results of imagenet-* are published: docs/tested.md):\n{presets}\n\n"
        "All options, by group:"
    )
