"""The temperature against a grid, and its effect on an overconfident network and its export."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.trainer.support.made_run import STEP, make_run
from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer.checkpoints.snapshot import snapshot
from trainer.data.images import flip_and_normalize
from trainer.data.manifest import load_manifest
from trainer.data.pipeline import evaluation_batches
from trainer.data.source import Source
from trainer.distributed.communicator import Alone
from trainer.errors import DataError
from trainer.export.exporter import export_run
from trainer.export.options import ExportOptions
from trainer.extras.calibration.fit import calibrate, calibration, words
from trainer.extras.calibration.options import CalibrateOptions
from trainer.extras.calibration.record import read_calibration
from trainer.extras.calibration.temperature import LEAST, MOST, fit, largest, sums
from trainer.model.weights import variables_by_name
from trainer.report.run_data import read_run
from trainer.report.run_page import run_page
from trainer.tasks.classification.trust import bin_of
from trainer.training.evaluator import evaluate_run, open_checkpoint
from trainer.training.options import CheckpointOptions, EvaluateOptions

TRAINED = STEP + 1
"""Step of the weights of a run here."""


def overconfident(count, factor, seed=0, classes=5):
    """Logits that are `factor` times those by whose probabilities the classes are drawn."""
    noise = np.random.default_rng(seed)
    logits = noise.normal(0, 2, (count, classes))
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (chances.cumsum(1) > noise.uniform(size=(count, 1))).argmax(1)
    return (factor * logits).astype(np.float32), labels.astype(np.int32)


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_the_temperature_is_the_best_of_a_grid_and_the_one_by_which_logits_were_multiplied(factor):
    logits, labels = overconfident(2000, factor)
    found = fit(lambda inverse: sums(logits, labels, inverse))
    grid = np.geomspace(LEAST, MOST, 400)
    losses = [sums(logits, labels, 1 / one)[0] for one in grid]
    assert found == pytest.approx(grid[int(np.argmin(losses))], rel=0.02)
    assert found == pytest.approx(factor, rel=0.15)


def test_the_sums_are_the_loss_and_its_derivatives():
    logits, labels = overconfident(50, 2.0)
    _, slope, curvature = sums(logits, labels, 0.7)
    low, middle, high = (sums(logits, labels, b)[0] for b in (0.7 - 1e-4, 0.7, 0.7 + 1e-4))
    assert slope == pytest.approx((high - low) / 2e-4, rel=1e-5)
    assert curvature == pytest.approx((high - 2 * middle + low) / 1e-8, rel=1e-3)


@pytest.mark.parametrize("logits", [[[9.0, 1.0]] * 4, [[np.nan, 1.0]] * 4])
def test_no_temperature_fits_predictions_that_are_all_right_or_no_numbers(logits):
    labels = np.zeros(4, np.int32)
    assert fit(lambda inverse: sums(np.array(logits), labels, inverse)) is None


def test_the_calibration_error_of_images_that_it_was_not_fitted_on_falls():
    logits, labels = overconfident(4000, 4.0)
    found = calibration([(logits, labels)], 0, 9, Alone())
    assert found.before.error > 0.15
    assert found.after.error < 0.03
    assert found.after.loss < found.before.loss

    others, truth = overconfident(4000, 4.0, seed=1)
    surer = [largest(others, one) for one in (1.0, found.temperature)]
    right = others.argmax(1) == truth
    errors = []
    for probabilities in surer:
        numbers = np.array([bin_of(one) for one in probabilities])
        gaps = [abs((right - probabilities)[numbers == n].sum()) for n in set(numbers.tolist())]
        errors.append(sum(gaps) / len(right))
    assert errors[1] < errors[0] / 4


class _World(Alone):
    """Ranks that are threads."""

    def __init__(self, rank, size, shared):
        self.rank, self.size, (self._barrier, self._values) = rank, size, shared

    def gather(self, value):
        self._values[self.rank] = value
        self._barrier.wait()
        everything = list(self._values)
        self._barrier.wait()
        return everything


def test_three_ranks_fit_what_one_does():
    logits, labels = overconfident(1001, 3.0)
    alone = calibration([(logits, labels)], 0, 9, Alone())
    shared = threading.Barrier(3, timeout=60), [None] * 3
    bounds = [0, 333, 667, 1001]

    def of_rank(rank):
        begin, end = bounds[rank : rank + 2]
        parts = [(logits[a:b], labels[a:b]) for a, b in ((begin, begin + 100), (begin + 100, end))]
        return calibration(parts, begin, 9, _World(rank, 3, shared))

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(of_rank, range(3)))
    for one in found:
        assert one.temperature == alone.temperature
        assert one.after.error == pytest.approx(alone.after.error)
        assert {n: b.count for n, b in one.after.bins.items()} == {
            n: b.count for n, b in alone.after.bins.items()
        }


@pytest.fixture
def run(tmp_path, digits_folder, monkeypatch):
    """A run whose network is often right, and surer than that."""
    monkeypatch.setattr("trainer.model.weights.build_model", small_model)
    monkeypatch.setattr("trainer.training.evaluator.set_up_device", lambda *_: None)
    config = tiny_config(str(digits_folder), name="run")
    folder, record, model = make_run(tmp_path / "run", config)
    batch = next(iter(evaluation_batches(source(digits_folder, "train"), 0, 1, 600, 1)))
    manifest = load_manifest(digits_folder)
    images = flip_and_normalize(batch["image"], batch["flip"], manifest.normalization)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.legacy.Adam(0.01), loss)
    model.fit(images, batch["target"], batch_size=50, epochs=2, verbose=0)
    for variable in model.variables:
        if "logits" in variable.name:
            variable.assign(variable * 5)
    meta = {**record.to_json(), "evaluation": None}
    folder.checkpoints.save(TRAINED, snapshot(variables_by_name(model)), meta)
    return folder.path


def source(folder, split):
    config, manifest = tiny_config(str(folder)), load_manifest(folder)
    return Source(folder, manifest.splits[split], 10, 8, config.data, 0)


def test_an_export_answers_with_the_networks_logits_divided_by_the_temperature(
    run, digits_folder, capsys
):
    calibrate(CalibrateOptions(run=str(run)))
    assert "calibration error of held-out images goes from" in capsys.readouterr().out
    found = read_calibration(run)
    assert (found.step, found.temperature > 1) == (TRAINED, True)
    assert sum(one.count for one in found.before.bins.values()) == 360
    assert found.after.loss < found.before.loss

    opened = open_checkpoint(CheckpointOptions(run=str(run)))
    logits = np.concatenate([one for one, _ in opened.evaluator.outputs(opened.data.validation())])
    scaled = np.exp((logits - logits.max(1, keepdims=True)) / found.temperature)
    expected = scaled / scaled.sum(1, keepdims=True)
    folder = export_run(ExportOptions(run=str(run), precision="float16"))
    batch = next(iter(evaluation_batches(source(digits_folder, "validation"), 0, 1, 360, 1)))
    for name, tolerance in (("saved_model", 1e-5), ("saved_model_float16", 0.02)):
        exported = tf.saved_model.load(str(folder / name))
        answers = exported.signatures["pixels"](pixels=batch["image"])["probabilities"].numpy()
        assert np.allclose(answers, expected, atol=tolerance)
    facts = json.loads((folder / "export.json").read_text())
    assert facts["calibration"] == {"method": "temperature", "temperature": found.temperature}


def test_a_temperature_that_makes_probabilities_worse_is_not_used(run, capsys):
    calibrate(CalibrateOptions(run=str(run)))
    found = read_calibration(run)
    assert found.used == found.temperature
    worse = replace(found, before=found.after, after=found.before)
    assert words(worse).endswith("; worse, so it is not used")
    worse.save(run)
    assert read_calibration(run).used is None
    folder = export_run(ExportOptions(run=str(run)))
    assert "calibration" not in json.loads((folder / "export.json").read_text())
    assert "so an export does not use it" in run_page(read_run(run))


def test_weights_of_another_step_are_exported_as_they_are_with_a_warning(run, capsys):
    calibrate(CalibrateOptions(run=str(run)))
    path = run / "calibration.json"
    path.write_text(path.read_text().replace(f'"step": {TRAINED}', '"step": 3'))
    folder = export_run(ExportOptions(run=str(run)))
    assert "calibration" not in json.loads((folder / "export.json").read_text())
    assert "is of step 3, so the export of step 8 is not calibrated" in capsys.readouterr().err


def test_the_page_of_a_run_shows_both_curves(run):
    assert "Calibration</h2>" not in run_page(read_run(run))
    calibrate(CalibrateOptions(run=str(run)))
    page = run_page(read_run(run))
    found = read_calibration(run)
    assert "Calibration" in page
    assert f"A temperature of {found.temperature:.4g}" in page
    assert "at the temperature" in page


def test_the_metrics_of_a_checkpoint_do_not_change(run):
    before = evaluate_run(EvaluateOptions(run=str(run)))
    assert before.metrics["top1"] > 0.3
    calibrate(CalibrateOptions(run=str(run)))
    assert evaluate_run(EvaluateOptions(run=str(run))) == before


def test_a_data_set_that_is_gone_is_named(run):
    with pytest.raises(DataError, match="elsewhere"):
        calibrate(CalibrateOptions(run=str(run), data_dir=str(run / "elsewhere")))
