"""A run folder with a checkpoint, made without training."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import tf_keras as keras

from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer.checkpoints.snapshot import snapshot
from trainer.config import TrainConfig
from trainer.export.exporter import export_run
from trainer.export.options import SavedModelOptions
from trainer.model import weights
from trainer.model.weights import variables_by_name
from trainer.run_folder import RunFolder, RunRecord
from trainer.training.setup import set_up

STEP = 7


def lively_model(config: TrainConfig, classes: int) -> keras.Model:
    """A network of a run whose answers depend on its input, which a new one's hardly do."""
    build = vars(weights)["build_model"]
    model: keras.Model = build(config.model, classes, config.compute.precision, config.seed)
    for variable in model.variables:
        if "gamma" in variable.name:
            variable.assign(variable * 0 + 1)
        elif "logits/kernel" in variable.name:
            variable.assign(variable * 20)
    return model


def make_run(
    path: Path, config: TrainConfig, evaluation: Mapping[str, float] | None = None
) -> tuple[RunFolder, RunRecord, keras.Model]:
    """Write the folder of a run of some steps; also gives its record and its model."""
    setup = set_up(replace(config, runs_dir=str(path.parent)), 1, path.name)
    model = lively_model(config, setup.data_set.classes)
    setup = setup.built(getattr(model, "graph_digest", None))
    setup.folder.create(setup.record)
    if setup.code is not None:
        setup.code.keep(setup.folder.path)
    meta = {**setup.record.to_json(), "evaluation": evaluation}
    setup.folder.checkpoints.save(STEP, snapshot(variables_by_name(model)), meta)
    return setup.folder, setup.record, model


def make_exported_run(path: Path, data: Path) -> Path:
    """Write the folder of a run of a small network on some data, with its export."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainer.model.weights.build_model", small_model)
        folder, _, _ = make_run(path, tiny_config(str(data), name=path.name))
        export_run(SavedModelOptions(run=str(folder.path)))
    return folder.path
