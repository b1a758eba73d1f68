"""The presets for detection: of the embedded data set, and of your own images."""

from dataclasses import replace
from typing import Any, Final

from trainer.config import (
    CheckpointConfig,
    DataConfig,
    EvaluationConfig,
    LogConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)
from trainer.extras.detection.leaf import DetectionOptions
from trainer.leaf import Expectation, Preset

_SHAPES = TrainConfig(
    preset="shapes",
    task="detection",
    ranks=2,
    batch_size=8,
    epochs=18,
    data=DataConfig(
        source="shapes",
        streams=8,
        shuffle_window=256,
        min_crop_area=0.5,
        flip=False,
        eval_crop=1.0,
    ),
    model=ModelConfig(network="fcos-small", depth=18, width=16, image_size=96),
    optimizer=OptimizerConfig(
        kind="adamw",
        rate_scaling="none",
        learning_rate=0.002,
        weight_decay=0.01,
        warmup_epochs=1.0,
        label_smoothing=0.0,
    ),
    # An evaluation takes as long as twelve steps.
    evaluation=EvaluationConfig(every_epochs=9),
    # Its held-out images are for the result alone: no epoch is chosen by them.
    checkpoint=CheckpointConfig(keep_best=False),
    log=LogConfig(every_steps=20),
)

_FEW: Final[dict[str, Any]] = {"detection": DetectionOptions(boxes=8)}
"""An image has at most five shapes, and each place for a box takes time in every step."""

SHAPES: Final = Preset(
    replace(_SHAPES, **_FEW),
    Expectation(
        "a mAP at 0.5 of at least 90 % on 200 held-out images in about three minutes on 2 CPU"
        " cores, 2 ranks",
        "seen with three seeds, for which tests/trainer/extras/detection/test_shapes.py asks for it"
        " within ten minutes",
    ),
)

OBJECTS: Final = Preset(
    replace(
        _SHAPES,
        preset="objects",
        epochs=40,
        evaluation=EvaluationConfig(),
        data=replace(
            _SHAPES.data, source="tfrecords", dir="data/objects", flip=True, min_crop_area=0.3
        ),
        model=replace(_SHAPES.model, image_size=128),
    ),
    Expectation(
        "a first look at hundreds or thousands of images with boxes on a CPU, at 128 pixels",
        "an expectation: it depends on the images",
    ),
)
