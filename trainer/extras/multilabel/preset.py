"""The preset of the embedded data set of several classes per image."""

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
    preset="tiles",
    task="multilabel",
    ranks=2,
    batch_size=32,
    epochs=16,
    data=DataConfig(
        source="tiles",
        streams=8,
        shuffle_window=256,
        augment="shift",
        shift_pixels=1,
        flip=False,
        eval_crop=1.0,
    ),
    model=ModelConfig(network="resnet", depth=18, width=12, stem="3x3", image_size=16),
    optimizer=OptimizerConfig(
        kind="adamw",
        rate_scaling="none",
        learning_rate=0.003,
        weight_decay=0.01,
        warmup_epochs=1.0,
        label_smoothing=0.0,
    ),
    # Its held-out images are for the result alone: no epoch is chosen by them.
    checkpoint=CheckpointConfig(keep_best=False),
    log=LogConfig(every_steps=20),
)

TILES: Final = Preset(
    _CONFIG,
    Expectation(
        "a mean AP of at least 95 % on 400 held-out images in less than two minutes on 2 CPU"
        " cores, 2 ranks",
        "tests/trainer/extras/multilabel/test_tiles.py, with three seeds",
    ),
)
