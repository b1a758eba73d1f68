"""A run folder with a checkpoint, made without training."""

from pathlib import Path

import tf_keras as keras

from trainer.checkpoints.snapshot import snapshot
from trainer.config import TrainConfig
from trainer.model.resnet import build_resnet
from trainer.model.trained import variables_by_name
from trainer.run_folder import RunFolder, model_facts
from trainer.training.setup import Prepared, prepare

STEP = 7


def lively_model(config: TrainConfig, classes: int) -> keras.Model:
    """A network of a run whose answers depend on its input, which a new one's hardly do."""
    model = build_resnet(config.model, classes, config.compute.precision, config.seed)
    for variable in model.variables:
        if "gamma" in variable.name:
            variable.assign(variable * 0 + 1)
        elif "logits/kernel" in variable.name:
            variable.assign(variable * 20)
    return model


def make_run(path: Path, config: TrainConfig) -> tuple[RunFolder, Prepared, keras.Model]:
    """Write the folder of a run of some steps; also gives its data and its model."""
    prepared, folder = prepare(config, 1), RunFolder(path)
    model = lively_model(config, prepared.classes)
    facts = {
        "ranks": 1,
        "global_batch": config.batch_size,
        "data_version": prepared.data_version,
        **model_facts(prepared.class_names, prepared.normalization),
    }
    folder.create(config, facts)
    folder.checkpoints.save(STEP, snapshot(variables_by_name(model)), {"evaluation": None})
    return folder, prepared, model
