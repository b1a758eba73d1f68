"""Which features go together: the table is complete, has reasons, and is in the documents."""

from itertools import combinations

import pytest

from common.errors import ConfigError
from tests import ROOT
from trainer.combinations import FEATURES, UNSUPPORTED
from trainer.config import (
    ComputeConfig,
    DataConfig,
    ExchangeConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)


def config_with(features):
    """A configuration that asks for these features and no others."""
    segmentation = "segmentation" in features
    return TrainConfig(
        task="segmentation" if segmentation else "classification",
        data=DataConfig(source="tfrecords", dir="data"),
        model=ModelConfig(
            network="unet" if segmentation else "resnet",
            head_groups=2 if "head groups" in features else 1,
            stages=2 if "stages" in features else 1,
        ),
        optimizer=OptimizerConfig(
            kind="adamw" if "adamw" in features else "momentum",
            sharded="sharded state" in features,
        ),
        exchange=ExchangeConfig(
            every=4 if "periodic averaging" in features else 1,
            compression="fp16" if "float16 exchange" in features else "none",
        ),
        compute=ComputeConfig(
            precision="mixed_float16" if "float16" in features else "float32",
            xla="xla" in features,
        ),
    )


@pytest.mark.parametrize("features", UNSUPPORTED, ids=" and ".join)
def test_what_is_not_supported_is_refused_with_the_options_and_the_reason(features):
    with pytest.raises(ConfigError) as refused:
        config_with(features)
    said = str(refused.value)
    assert UNSUPPORTED[features] in said
    assert all(FEATURES[feature] in said for feature in features)


@pytest.mark.parametrize(
    "pair",
    [pair for pair in combinations(FEATURES, 2) if set(pair) not in map(set, UNSUPPORTED)],
    ids=" and ".join,
)
def test_every_other_pair_is_accepted(pair):
    # Float16 on the wire needs float16 in the network.
    config_with({*pair, "float16"} if "float16 exchange" in pair else set(pair))


def test_the_document_has_the_table():
    rows = [
        f"| {' with '.join(f'`{FEATURES[name]}`' for name in names)} | {reason} |"
        for names, reason in UNSUPPORTED.items()
    ]
    text = (ROOT / "docs" / "parallelism.md").read_text()
    assert [line for line in text.splitlines() if line in rows] == rows
