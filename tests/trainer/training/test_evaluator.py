"""The arithmetic of an evaluation against NumPy, and what `evaluate` says of damaged data."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.trainer.support.data_sets.records import plain_record, write_records
from tests.trainer.support.made_run import make_run
from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer.data.manifest import Normalization
from trainer.distributed.communicator import Alone
from trainer.errors import DataError, NonFiniteError
from trainer.tasks.classification.files import mistakes
from trainer.tasks.classification.task import Classification
from trainer.training.evaluator import Evaluator, evaluate_run
from trainer.training.options import EvaluateOptions

NORMALIZATION = Normalization((100.0, 110.0, 120.0), (50.0, 60.0, 70.0))


def linear_model(classes=12):
    image = keras.Input((4, 4, 3))
    logits = keras.layers.Dense(classes, kernel_initializer=keras.initializers.RandomNormal(seed=1))
    return keras.Model(image, logits(keras.layers.Flatten()(image)))


def make_batch(noise, weights):
    size = len(weights)
    return {
        "image": tf.constant(noise.integers(0, 256, [size, 4, 4, 3]), tf.uint8),
        "target": tf.constant(noise.integers(0, 12, [size]), tf.int32),
        "weight": tf.constant(weights, tf.float32),
        "flip": tf.zeros([size], tf.bool),
    }


def reference(model, batches):
    top1 = top5 = loss = count = 0.0
    for batch in batches:
        image = (batch["image"].numpy().astype(float) - NORMALIZATION.mean) / NORMALIZATION.std
        kernel, bias = (w.numpy().astype(float) for w in model.weights)
        logits = image.reshape(len(image), -1) @ kernel + bias
        for row, label, weight in zip(
            logits, batch["target"].numpy(), batch["weight"].numpy(), strict=True
        ):
            if weight:
                better = int((row > row[label]).sum())
                top1, top5 = top1 + (better < 1), top5 + (better < 5)
                loss += np.log(np.exp(row).sum()) - row[label]
                count += 1
    return top1 / count, top5 / count, loss / count, count


def test_counts_and_loss_equal_numpys_and_fillers_do_not_count():
    noise, model = np.random.default_rng(0), linear_model()
    batches = [make_batch(noise, [1.0] * 40), make_batch(noise, [1.0] * 13 + [0.0] * 27)]
    found = Evaluator(Classification(12), model, Alone(), NORMALIZATION, xla=False).run(batches)
    top1, top5, loss, count = reference(model, batches)
    assert found.examples == count == 53
    assert (found.metrics["top1"], found.metrics["top5"]) == (top1, top5)
    assert np.isclose(found.loss, loss, rtol=1e-5)
    assert 0 < top1 < top5 < 1


def test_the_loss_is_rounded_once_whatever_the_order_of_examples():
    noise, model = np.random.default_rng(0), linear_model()
    batches = [make_batch(noise, [1.0] * 7) for _ in range(40)]
    evaluator = Evaluator(Classification(12), model, Alone(), NORMALIZATION, xla=False)
    losses = {
        evaluator.run([batches[number] for number in noise.permutation(40)]).loss for _ in range(9)
    }
    assert len(losses) == 1


def test_predictions_are_those_that_were_counted_in_their_order():
    noise, model = np.random.default_rng(0), linear_model()
    batches = [make_batch(noise, [1.0] * 40), make_batch(noise, [1.0, 0.0] + [1.0] * 11)]
    evaluator = Evaluator(Classification(12), model, Alone(), NORMALIZATION, xla=False)
    assert evaluator.predictions is None
    result = evaluator.run(batches)
    found = evaluator.predictions
    assert found.index.tolist() == [*range(41), *range(42, 53)]
    logits = np.concatenate(
        [model((b["image"].numpy() - NORMALIZATION.mean) / NORMALIZATION.std) for b in batches]
    )[found.index]
    powers = np.exp(logits - logits.max(1, keepdims=True))
    probabilities = powers / powers.sum(1, keepdims=True)
    labels = np.concatenate([b["target"].numpy() for b in batches])[found.index]
    rows = np.arange(len(labels))
    assert found["label"].tolist() == labels.tolist()
    assert found["predicted"].tolist() == logits.argmax(1).tolist()
    np.testing.assert_allclose(found["probability"], probabilities.max(1), rtol=1e-4)
    np.testing.assert_allclose(
        found["probability_of_label"], probabilities[rows, labels], rtol=1e-4
    )
    assert (found["label"] == found["predicted"]).mean() == result.metrics["top1"]
    assert len(mistakes(found)) == round(52 * (1 - result.metrics["top1"]))


def test_a_filler_with_an_infinite_loss_leaves_the_result_finite():
    noise = np.random.default_rng(0)
    image = keras.Input((4, 4, 3))
    # A black picture, as fillers are, gets logits of (inf, 0).
    darkness = keras.layers.Lambda(
        lambda x: tf.stack([1.0 / (x[:, 0, 0, 0] + 2.0), x[:, 0, 0, 1]], 1)
    )
    model = keras.Model(image, darkness(image))
    batch = make_batch(noise, [1.0] * 3 + [0.0])
    pictures = batch["image"].numpy()
    pictures[3], pictures[:3] = 0, 200
    batch |= {"image": tf.constant(pictures), "target": tf.constant([1, 1, 1, 1])}
    assert np.isinf(
        model((pictures[3:].astype(np.float32) - NORMALIZATION.mean) / NORMALIZATION.std)
    ).any()
    found = Evaluator(Classification(2), model, Alone(), NORMALIZATION, xla=False).run([batch])
    assert np.isfinite(found.loss)
    assert found.examples == 3


def test_an_evaluation_of_damaged_images_alone_says_so():
    batch = make_batch(np.random.default_rng(0), [0.0] * 3)
    evaluator = Evaluator(Classification(12), linear_model(), Alone(), NORMALIZATION, xla=False)
    with pytest.raises(DataError, match="none of the images to evaluate can be decoded"):
        evaluator.run([batch])


class TwoRanks(Alone):
    """This rank as the second one of two, of which the first has two images, of the same counts."""

    size = 2

    def gather(self, value):
        return [value[:2], value]


@pytest.mark.parametrize(
    ("world", "named"),
    [(Alone(), "the image 3, counted from 0"), (TwoRanks(), "the image 3 of rank 1's share")],
)
def test_an_image_whose_outputs_are_not_finite_is_named_by_its_place(world, named):
    image = keras.Input((4, 4, 3))
    # Only an image whose first value is 255 gets infinite logits.
    broken = keras.layers.Lambda(
        lambda x: tf.stack([1.0 / (x[:, 0, 0, 0] - 3.1), x[:, 0, 0, 1]], 1)
    )
    model = keras.Model(image, broken(image))
    batch = make_batch(np.random.default_rng(0), [1.0, 1.0, 0.0, 1.0])
    pictures = np.full([4, 4, 4, 3], 7, np.uint8)
    pictures[3] = 255
    batch |= {"image": tf.constant(pictures), "target": tf.constant([1, 1, 1, 1])}
    evaluator = Evaluator(Classification(2), model, world, NORMALIZATION, xla=False)
    with pytest.raises(NonFiniteError, match=named):
        evaluator.run([batch])


def test_the_command_names_a_held_out_image_that_cannot_be_read(tmp_path, monkeypatch):
    records = [plain_record(number, number % 3) for number in range(40)]
    damaged = replace(records[5], encoded=b"this is not a picture")
    write_records(tmp_path / "set", records, [*records[:5], damaged], "abc")
    monkeypatch.setattr("trainer.model.weights.build_model", small_model)
    # TensorFlow's threads are set once in a process.
    monkeypatch.setattr("trainer.training.evaluator.set_up_device", lambda *_: None)
    run, _, _ = make_run(tmp_path / "run", tiny_config(str(tmp_path / "set"), name="run"))
    with pytest.raises(DataError, match="record 5: cannot be read as an image"):
        evaluate_run(EvaluateOptions(run=str(run.path)))
