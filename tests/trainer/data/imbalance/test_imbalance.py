"""Classes of different sizes: the weights of losses, and how often each class is shown."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigError
from tests.trainer.data.duplicates.test_hashes import encode, scene
from tests.trainer.support.data_sets.image_folders import prepare
from tests.trainer.support.scenarios import tiny_config
from trainer.data.data_set import load_data_set
from trainer.data.imbalance.effective import factors
from trainer.data.imbalance.leaf import ImbalanceOptions
from trainer.data.imbalance.sampling import resampled
from trainer.data.manifest import load_manifest
from trainer.data.order import Segment
from trainer.data.pipeline import make_order, training_batches
from trainer.data.reader import locator
from trainer.data.source import Source
from trainer.presets import PRESETS, parse_train
from trainer.tasks.classification.task import Classification, cross_entropy
from trainer.tasks.weighted import weighted, with_weights

COUNTS = {"common": 180, "some": 36, "rare": 24}


def test_factors_are_one_on_average_and_make_classes_equal_at_beta_1():
    counts = [900, 90, 10, 0]
    for beta in (0.0, 0.9, 0.999, 1.0):
        found = factors(counts, beta)
        assert np.dot(found, counts) / 1000 == pytest.approx(1)
        assert found[3] == 0
    products = [f * n for f, n in zip(factors(counts, 1.0), counts, strict=True)]
    assert products[:3] == pytest.approx([1000 / 3] * 3)
    assert factors(counts, 0.0)[:3] == pytest.approx([1, 1, 1])
    # The effective number is between both.
    ratio = factors(counts, 0.99)[2] / factors(counts, 0.99)[0]
    assert 1 < ratio < 90


def test_only_the_loss_of_training_is_weighted_and_its_gradient_with_it():
    plain, weights = Classification(3), [0.5, 1.0, 4.0]
    task = with_weights(plain, weights)
    logits = tf.constant(np.random.default_rng(0).normal(size=(6, 3)), tf.float32)
    target = tf.constant([0, 1, 2, 2, 1, 0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        one, other = (each.training(logits, target, 0.1) for each in (plain, task))
    factor = np.take(weights, target.numpy())
    assert np.allclose(other[0], one[0] * factor)
    assert np.array_equal(other[1], one[1])
    # The loss that is compared with that of an evaluation has neither smoothing nor weights.
    assert np.array_equal(other[2], cross_entropy(logits, target))
    gradients = [tape.gradient(each[0], logits) for each in (one, other)]
    assert np.allclose(gradients[1], gradients[0] * factor[:, None])
    assert np.array_equal(task.evaluated(logits, target)[0], plain.evaluated(logits, target)[0])


def test_the_weights_of_a_run_come_from_its_manifest(folder):
    config, plain = source_of(folder, "weights").options, Classification(3)
    data_set = load_data_set(config)
    task = weighted(plain, config, data_set)
    target = tf.constant([0, 1, 2])
    logits = tf.zeros([3, 3])
    losses = task.training(logits, target)[0] / plain.training(logits, target)[0]
    counts = data_set.manifest.splits["train"].class_counts
    assert np.allclose(losses, [240 / (3 * count) for count in counts])
    assert weighted(plain, source_of(folder, "sampling").options, data_set) is plain


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60), st.text(max_size=4))
def test_each_record_is_shown_as_often_as_its_weight_says_to_within_one(weights, key):
    shown = resampled(weights, key)
    assert len(shown) == len(weights)
    counts, total = Counter(shown), sum(weights)
    for index, weight in enumerate(weights):
        assert abs(counts[index] - weight * len(weights) / total) < 1 + 1e-6
    assert resampled(weights, key) == shown


def test_which_records_are_shown_once_more_follows_from_the_window():
    weights = [1.0] * 20 + [3.0] * 3
    assert len({tuple(sorted(resampled(weights, f"0/{epoch}/0/0"))) for epoch in range(20)}) > 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("uneven")
    seed = 0
    for name, count in COUNTS.items():
        for split, images in (("train", count), ("validation", 1)):
            (root / "in" / split / name).mkdir(parents=True)
            for number in range(images):
                data = encode(scene(seed, (24, 18)))
                (root / "in" / split / name / f"{number}.jpg").write_bytes(data)
                seed += 1
    prepare(root / "in", root / "out")
    return root / "out"


def source_of(folder, by):
    config = tiny_config(str(folder))
    config = replace(
        config,
        data=replace(config.data, source="tfrecords", augment="none", streams=2, shuffle_window=60),
        imbalance=ImbalanceOptions(by),
    )
    train = load_manifest(folder).splits["train"]
    return Source(folder, train, 3, 8, config.data, 0, options=config)


def read(folder, by, steps, position=0, ranks=1, rank=0):
    """Labels and one pixel of each image of a rank's batches."""
    source = source_of(folder, by)
    batches = training_batches(source, rank, ranks, 12 // ranks, position, 1)
    return [
        (batch["target"].numpy(), batch["image"].numpy()[:, 4, 4].copy())
        for batch in batches.take(steps)
    ]


def test_every_class_is_shown_about_as_often_and_the_epoch_is_as_long(folder):
    plain, even = (
        Counter(np.concatenate([labels for labels, _ in read(folder, by, 20)]).tolist())
        for by in ("none", "sampling")
    )
    assert plain == dict(enumerate(COUNTS[name] for name in ("common", "rare", "some")))
    assert even.total() == 240
    assert all(60 <= count <= 100 for count in even.values())


def test_a_run_that_resumes_anywhere_reads_what_one_reads_that_does_not(folder):
    whole = read(folder, "sampling", 50)
    for step in (1, 7, 20, 33):
        rest = read(folder, "sampling", 50 - step, position=12 * step)
        for (labels, pixels), (own, seen) in zip(rest, whole[step:], strict=True):
            assert np.array_equal(labels, own)
            assert np.array_equal(pixels, seen)


def test_two_ranks_read_together_what_one_reads(folder):
    whole = read(folder, "sampling", 25)
    parts = [read(folder, "sampling", 25, ranks=2, rank=rank) for rank in range(2)]
    for step, (labels, pixels) in enumerate(whole):
        for rank, part in enumerate(parts):
            assert np.array_equal(part[step][0], labels[rank::2])
            assert np.array_equal(part[step][1], pixels[rank::2])


def test_other_epochs_show_other_images_of_the_common_class(folder):
    epochs = [
        {tuple(p) for labels, pixels in part for label, p in zip(labels, pixels, strict=True)
         if label == 0}
        for whole in [read(folder, "sampling", 100)]
        for part in (whole[:20], whole[20:40], whole)
    ]  # fmt: skip
    assert epochs[0] != epochs[1]
    assert len(epochs[2]) > 1.4 * len(epochs[0])


def test_the_record_of_a_position_is_the_one_that_is_read_there(folder):
    source = source_of(folder, "sampling")
    order = make_order(source, 1)
    at = locator(source, order)
    shown = [label for labels, _ in read(folder, "sampling", 10) for label in labels.tolist()]
    found = []
    for position in range(120):
        block, record = at(position)
        values = next(source.records(Segment(block, record, 1), source.path(block)))
        found.append(source.format.record(values).label)
    assert found == shown
    plain = locator(source_of(folder, "none"), order)
    assert [plain(position) for position in range(9)] == [order.locate(p) for p in range(9)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        *(
            (["--preset", name], "it is for one class per image")
            for name, preset in PRESETS.items()
            if preset.task != "classification"
        ),
        (["--preset", "synthetic"], "synthetic data have no classes"),
    ],
)
def test_what_cannot_be_sampled_is_refused(words, expected):
    with pytest.raises(ConfigError, match=expected):
        parse_train([*words, "--imbalance.by", "sampling"])
