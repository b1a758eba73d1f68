"""The preset of the embedded data set for segmentation."""

from typing import Final

from trainer.config import (
    CheckpointConfig,
    DataConfig,
    LogConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)
from trainer.leaf import Expectation, Preset

_CONFIG = TrainConfig(
    preset="scenes",
    task="segmentation",
    ranks=2,
    batch_size=16,
    epochs=24,
    data=DataConfig(
        source="scenes",
        streams=8,
        shuffle_window=256,
        augment="shift",
        shift_pixels=3,
        flip=False,
        eval_crop=1.0,
    ),
    model=ModelConfig(network="dilated", width=32, image_size=32),
    optimizer=OptimizerConfig(
        learning_rate=6.0, warmup_epochs=1.0, nesterov=True, label_smoothing=0.0
    ),
    # Its held-out images are for the result alone: no epoch is chosen by them.
    checkpoint=CheckpointConfig(keep_best=False),
    log=LogConfig(every_steps=20),
)

SCENES: Final = Preset(
    _CONFIG,
    Expectation(
        "a mean IoU without background of at least 75 % on 240 held-out images in two to three"
        " minutes on 2 CPU cores, 2 ranks",
        "held by tests/trainer/extras/segmentation/test_scenes.py",
    ),
)
