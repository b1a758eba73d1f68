"""Presets for own images: a small ResNet on a CPU, from random weights or from a file of weights;
and at 224 pixels a ResNet50, on one GPU, on one node of 8, or on several nodes.

On a CPU: AdamW, whose rate needs no scaling by the batch; crops that leave three quarters of an
image, so that a sign of a few pixels usually stays in view; no mirroring, because left and right
may differ; and no central crop in evaluations. `trainer.fitting.choice` adds what follows from the
data.

At 224 pixels:

Small data sets: Inception's crop (Szegedy et al. 2014) and mirrored images, label smoothing of 0.1
(Szegedy et al. 2015), weight decay of 0.0001 (He et al. 2015), and an end by held-out images
(Prechelt 1998). The rate of 0.1 per 256 images is that of He et al. 2015, with the linear rule and
the warm-up of Goyal et al. 2017; fine-tuning begins with 0.01, momentum 0.9 and weight decay
0.0001, the usual values by Li et al. 2020 ("Rethinking the Hyperparameters for Fine-tuning"), who
show that the best rate depends on how similar the images are: vary it. Epochs, batches and patience
are starting points that nothing was measured with.
"""

from dataclasses import replace
from typing import Any, Final

from trainer.config import (
    CheckpointConfig,
    ComputeConfig,
    DataConfig,
    ExchangeConfig,
    LogConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)
from trainer.early_stop.leaf import EarlyStopOptions
from trainer.leaf import Expectation, Preset

_UNKNOWN: Final = (
    "depends on the images; neither published for this recipe nor measured by this project"
)


def _patience(evaluations: int) -> dict[str, Any]:
    return {"early_stop": EarlyStopOptions(evaluations)}


_SCRATCH: Final = TrainConfig(
    preset="images-224",
    batch_size=128,
    epochs=120,
    data=DataConfig(source="tfrecords", dir="data/images"),
    optimizer=OptimizerConfig(learning_rate=0.1, warmup_epochs=5.0, nesterov=True),
    compute=ComputeConfig(precision="mixed_float16", xla=True),
    **_patience(30),
)
_FINETUNE: Final = replace(
    _SCRATCH,
    preset="images-224-finetune",
    epochs=30,
    optimizer=replace(_SCRATCH.optimizer, learning_rate=0.01, warmup_epochs=1.0),
    **_patience(10),
)


def _preset(base: TrainConfig, machines: str, where: str) -> Preset:
    """Return a preset for one GPU as one for other machines.

    Args:
        base: Configuration for one GPU.
        machines: End of the name.
        where: Words for the machines.
    """
    config = base
    if machines:
        # The name is checked against the choices of the field.
        name: dict[str, Any] = {"preset": f"{base.preset}{machines}"}
        exchange = ExchangeConfig(infiniband=machines == "-nodes")
        config = replace(base, batch_size=64, exchange=exchange, **name)
    start, needs = "random weights", tuple[str, ...]()
    if base is _FINETUNE:
        start, needs = "a file of weights", ("--model.weights",)
    return Preset(
        config,
        Expectation(f"own images at 224 pixels from {start}, on {where}", _UNKNOWN, needs=needs),
    )


_GPU, _NODE, _NODES = "one GPU", "one node of 8 GPUs", "several nodes"
IMAGES_224: Final = _preset(_SCRATCH, "", _GPU)
IMAGES_224_NODE: Final = _preset(_SCRATCH, "-node", _NODE)
IMAGES_224_NODES: Final = _preset(_SCRATCH, "-nodes", _NODES)
IMAGES_224_FINETUNE: Final = _preset(_FINETUNE, "", _GPU)
IMAGES_224_FINETUNE_NODE: Final = _preset(_FINETUNE, "-node", _NODE)
IMAGES_224_FINETUNE_NODES: Final = _preset(_FINETUNE, "-nodes", _NODES)

_CPU: Final = TrainConfig(
    preset="own-images",
    # As fast as two ranks on two cores, in half of the memory.
    batch_size=32,
    epochs=20,
    data=DataConfig(
        source="tfrecords",
        dir="data/images",
        streams=16,
        shuffle_window=128,
        min_crop_area=0.75,
        flip=False,
        eval_crop=1.0,
    ),
    model=ModelConfig(depth=18, width=16, image_size=64),
    optimizer=OptimizerConfig(
        kind="adamw",
        learning_rate=0.002,
        rate_scaling="none",
        weight_decay=0.05,
        warmup_epochs=1.0,
    ),
    # Few held-out images choose an epoch by chance; the schedule ends at a rate of zero.
    checkpoint=CheckpointConfig(keep_best=False),
    log=LogConfig(every_steps=20),
)
_CPU_FINETUNE: Final = replace(
    _CPU,
    preset="own-images-finetune",
    epochs=10,
    # Published weights have 64 channels in the first stage; the stages that know only edges and
    # textures stay as they are, which halves the time of a step.
    model=ModelConfig(depth=18, width=64, image_size=96, frozen_stages=2),
    optimizer=replace(_CPU.optimizer, learning_rate=0.0005, layer_decay=0.7),
)
OWN_IMAGES: Final = Preset(
    _CPU,
    Expectation(
        "own images of 64 pixels and more from random weights, on a CPU; `ml-trainer fit` chooses"
        " size, epochs and how classes count",
        "depends on the images; tools/benchmarks/own_images/ compares ways on six sets",
    ),
)
OWN_IMAGES_FINETUNE: Final = Preset(
    _CPU_FINETUNE,
    Expectation(
        "own images of 96 pixels and more from published weights of a ResNet18, on a CPU",
        _UNKNOWN,
        needs=("--model.weights",),
    ),
)
