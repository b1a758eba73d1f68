"""When a run evaluates, and the files of the final evaluation: a line for every example, and
images of the mistakes."""

import csv
import io
from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest
from PIL import Image

from tests.trainer.support import scenarios
from tests.trainer.support.world import run_world
from trainer.data.data_set import load_data_set
from trainer.data.rank_data import RankData
from trainer.distributed.communicator import Alone
from trainer.errors import DataError
from trainer.tasks.classification.files import COLUMNS, thumbnail, write_predictions
from trainer.tasks.classification.task import Classification
from trainer.tasks.task import Evaluation, Predictions
from trainer.training.metrics import PhaseTimer
from trainer.training.validation import Validation

CLASSES = ('a "quoted", name', "b\nb", "<c>")


def test_weights_after_a_rollback_are_evaluated_even_if_those_of_the_same_step_were():
    evaluator, world, setup = MagicMock(), Alone(), MagicMock()
    setup.config.metric.key = "top1"
    evaluator.run.side_effect = [Evaluation({"top1": top1}, 1.0, 9) for top1 in (0.5, 0.25)]
    validation = Validation(
        Classification(3), evaluator, MagicMock(), setup, world, MagicMock(), PhaseTimer(),
        lambda: None, shown=True,
    )  # fmt: skip
    before = {"step": 10, **validation.to_meta(10)}
    validation.evaluate(20)
    validation.restore(before)
    assert validation.to_meta(20)["evaluation"] is None
    validation.evaluate(20)
    assert validation.latest.metrics == {"top1": 0.25}
    assert validation.best == {"step": 20, "top1": 0.25}


def test_scores_of_another_metric_are_forgotten_and_missing_metrics_are_computed(tmp_path):
    evaluator, setup = MagicMock(), MagicMock()
    setup.config.metric.key, setup.config.result_of = "balanced_accuracy", "best"
    evaluator.run.return_value = Evaluation({"top1": 0.1, "balanced_accuracy": 0.3}, 9.0, 9)
    evaluator.predictions = None
    validation = Validation(
        Classification(3), evaluator, MagicMock(), setup, Alone(), MagicMock(), PhaseTimer(),
        lambda: None, shown=True,
    )  # fmt: skip
    # A checkpoint of before has neither the metric nor what decided.
    before = {"top1": 0.5, "loss": 1.0, "examples": 9}
    best = {"step": 10, "top1": 0.5}
    validation.restore({"step": 10, "evaluation": before, "best": best, "scores": [0.4, 0.5]})
    assert validation.best is None
    assert validation.result(10) == {
        "evaluated_step": 10,
        "top1": 0.5, "balanced_accuracy": None, "examples": 9, "validation_loss": 1.0,
        "baseline": {},
    }  # fmt: skip
    validation.evaluate(20)
    assert validation.best == {"step": 20, "balanced_accuracy": 0.3}
    meta = validation.to_meta(20)
    assert (meta["scores"], meta["decided_by"]) == ([0.3], "balanced_accuracy")
    validation.restore({"step": 20, **meta})
    assert validation.best == {"step": 20, "balanced_accuracy": 0.3}


def predictions(wrong=2, right=3):
    """The first examples are wrong, each surer than the one before."""
    total = wrong + right
    probability = np.linspace(0.5, 0.9, total, dtype=np.float32)
    label = np.arange(total) % 3
    predicted = np.where(np.arange(total) < wrong, (label + 1) % 3, label)
    columns = (label, predicted, probability, 1 - probability)
    return Predictions(np.arange(total), dict(zip(COLUMNS, columns, strict=True)))


def encode(size, form="PNG", mode="L"):
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), np.uint8)
    Image.fromarray(noise).convert(mode).save(buffer, format=form)
    return buffer.getvalue()


def read(folder):
    with (folder / "predictions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_example_has_a_line_that_reads_back_as_the_same(tmp_path):
    given = predictions()
    facts = write_predictions(tmp_path, given, CLASSES, lambda _: encode((8, 8)))
    assert facts == {"examples": 5, "mistakes": 2, "images": 2}
    rows = read(tmp_path)
    assert [int(row["index"]) for row in rows] == given.index.tolist()
    assert [row["label_name"] for row in rows] == [CLASSES[label] for label in given["label"]]
    assert [row["predicted_name"] for row in rows] == [CLASSES[c] for c in given["predicted"]]
    for name in ("probability", "probability_of_label"):
        read_back = np.array([row[name] for row in rows], np.float32)
        assert read_back.tobytes() == given[name].tobytes()


def test_the_most_confident_mistakes_have_images_and_no_others(tmp_path):
    write_predictions(tmp_path, predictions(40, 9), CLASSES, lambda _: encode((8, 8)))
    names = {path.name for path in (tmp_path / "mistakes").iterdir()}
    assert names == {f"{index}.png" for index in range(16, 40)}


def test_images_of_an_earlier_end_of_the_run_do_not_stay(tmp_path):
    for wrong in (5, 1):
        write_predictions(tmp_path, predictions(wrong), CLASSES, lambda _: encode((8, 8)))
    assert [path.name for path in (tmp_path / "mistakes").iterdir()] == ["0.png"]
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"predictions.csv", "classes.csv", "mistakes"}


@pytest.mark.parametrize("error", [DataError("shard 3 is gone"), OSError("shard 3 is gone")])
def test_an_image_that_cannot_be_read_is_named_and_the_others_are_kept(tmp_path, error):
    def read_image(index):
        if index == 1:
            raise error
        return encode((8, 8))

    facts = write_predictions(tmp_path, predictions(3), CLASSES, read_image)
    assert facts["images"] == 2
    assert facts["problem"] == "held-out example 1: shard 3 is gone"
    assert len(read(tmp_path)) == 6


def test_bytes_that_are_no_image_are_a_problem_not_a_failure(tmp_path):
    broken = [b"", b"text", encode((8, 8))[:40], encode((90, 90), "JPEG")[:200]]
    facts = write_predictions(tmp_path, predictions(4), CLASSES, lambda index: broken[index])
    assert facts["images"] == 0
    assert "held-out example 3" in facts["problem"]


def test_no_image_is_kept_if_none_is_wanted(tmp_path):
    write_predictions(tmp_path, predictions(), CLASSES, lambda _: encode((8, 8)))
    facts = write_predictions(tmp_path, predictions(), CLASSES, None)
    assert (facts["images"], facts["mistakes"]) == (0, 2)
    assert "--log.images none" in facts["problem"]
    assert {path.name for path in tmp_path.iterdir()} == {"predictions.csv", "classes.csv"}


def test_predictions_that_cannot_be_written_are_absent(tmp_path):
    write_predictions(tmp_path, predictions(), CLASSES, lambda _: encode((8, 8)))
    with pytest.raises(ValueError, match="longer than"):
        write_predictions(tmp_path, predictions(), CLASSES[:1], lambda _: encode((8, 8)))
    assert not (tmp_path / "predictions.csv").exists()


def test_small_images_stay_as_they_are():
    suffix, data = thumbnail(encode((8, 8)))
    assert suffix == "png"
    with Image.open(io.BytesIO(data)) as small, Image.open(io.BytesIO(encode((8, 8)))) as original:
        assert np.array_equal(np.asarray(small), np.asarray(original))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "CMYK"])
def test_large_images_become_small_ones(mode):
    form = "TIFF" if mode == "CMYK" else "PNG"
    suffix, data = thumbnail(encode((640, 480), form, mode))
    assert suffix == "jpg"
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (160, 120)
    assert len(data) < 20_000


def test_an_image_of_the_validation_split_is_the_one_that_was_evaluated(digits_folder):
    config = scenarios.tiny_config(str(digits_folder))
    config = replace(config, data=replace(config.data, eval_crop=1.0))
    rank_data = RankData(config, load_data_set(config), Alone(), 1)
    inputs = np.concatenate([batch["image"].numpy() for batch in rank_data.validation()])
    for index in (0, 63, 64, 179, 180, 359):
        with Image.open(io.BytesIO(rank_data.validation_image(index))) as image:
            assert np.array_equal(np.asarray(image.convert("RGB")), inputs[index])


def test_an_image_of_a_damaged_shard_is_refused_with_its_place(tmp_path):
    from trainer.data.builtin.writer import write_embedded

    write_embedded("digits", str(tmp_path))
    config = scenarios.tiny_config(str(tmp_path))
    rank_data = RankData(config, load_data_set(config), Alone(), 1)
    shard = tmp_path / "validation-00001-of-00002.tfrecord"
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(DataError, match=r"validation-00001-of-00002.tfrecord, record 5: cannot be"):
        rank_data.validation_image(185)


@pytest.mark.slow
def test_predictions_do_not_depend_on_the_number_of_ranks(digits_folder):
    # 360 examples are not a whole number of batches of 32 images, on one rank or two.
    config = scenarios.tiny_config(str(digits_folder))
    ((top1, alone),) = run_world(scenarios.predict, 1, config)
    pair = run_world(scenarios.predict, 2, config)
    assert alone.index.tolist() == list(range(360))
    assert (alone["label"] == alone["predicted"]).mean() == top1
    for other_top1, together in pair:
        assert other_top1 == top1
        assert np.array_equal(together.index, alone.index)
        for name in ("label", "predicted"):
            assert np.array_equal(together[name], alone[name]), name
        for name in ("probability", "probability_of_label"):
            assert together[name].dtype == np.float32
            np.testing.assert_allclose(together[name], alone[name], rtol=1e-5)
