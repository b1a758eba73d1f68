"""Metrics of independent classes, against their definitions, pair by pair, and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from trainer.extras.multilabel.metrics import class_metrics, micro_f1, reliability
from trainer.tasks.by_class import mean_of_known
from trainer.tasks.classification.trust import BINS


def defined_ap(scores, there):
    """The mean precision at the images that have the class, each among all with at least its
    score."""
    if not there.any():
        return np.nan
    return np.mean([there[scores >= score].mean() for score in scores[there]])


def defined_auc(scores, there):
    """The part of pairs that are in the right order, a tie counting as half."""
    pairs = np.sign(scores[there][:, None] - scores[~there][None]).astype(float)
    return (1 + pairs.mean()) / 2 if pairs.size else np.nan


@pytest.mark.parametrize("seed", range(40))
def test_every_metric_is_as_it_is_defined_with_and_without_ties(seed):
    random = np.random.default_rng(seed)
    images, classes, threshold = random.integers(1, 30), 6, 0.4
    scores = random.random([images, classes]).astype(np.float32)
    if seed % 2:
        scores = (scores * 4).round() / 4
    there = random.random([images, classes]) < random.choice([0.1, 0.5, 0.95])
    there[:, 0], there[:, 1] = False, True
    found = class_metrics(scores, there, threshold)
    each = [(scores[:, one], there[:, one]) for one in range(classes)]
    np.testing.assert_allclose(found.ap, [defined_ap(*one) for one in each], rtol=1e-12)
    np.testing.assert_allclose(found.auc, [defined_auc(*one) for one in each], rtol=1e-12)
    said = scores >= np.float32(threshold)
    with np.errstate(invalid="ignore"):
        precision, recall = ((there & said).sum(0) / part.sum(0) for part in (said, there))
        f1 = np.nan_to_num(2 * precision * recall / (precision + recall))
    np.testing.assert_allclose(found.f1, np.where(there.any(0), f1, np.nan), rtol=1e-12)
    for one in np.flatnonzero(there.any(0)):
        true, score = there[:, one], scores[:, one]
        assert found.ap[one] == pytest.approx(average_precision_score(true, score))
        assert found.f1[one] == pytest.approx(f1_score(true, said[:, one], zero_division=0))
        if not true.all():
            assert found.auc[one] == pytest.approx(roc_auc_score(true, score))
    wrong = (there != said).sum()
    hits = (there & said).sum()
    assert micro_f1(found) == pytest.approx(hits / (hits + wrong / 2))


def test_a_class_without_images_has_no_metrics_and_counts_in_no_mean():
    found = class_metrics(np.array([[0.9, 0.2], [0.1, 0.8]]), np.array([[1, 0], [0, 0]]) > 0, 0.5)
    assert np.isnan([found.ap[1], found.auc[1], found.f1[1]]).all()
    assert [mean_of_known(part) for part in (found.ap, found.auc, found.f1)] == [1, 1, 1]
    # Both probabilities of 0.5 and more are said, of which one is right.
    assert micro_f1(found) == pytest.approx(2 / 3)
    nothing = class_metrics(np.zeros([3, 2]), np.zeros([3, 2], bool), 0.5)
    assert (mean_of_known(nothing.ap), micro_f1(nothing)) == (0.0, 1.0)


def test_reliability_counts_every_pair_once():
    probabilities = np.array([[0.05, 0.95], [1.0, 0.05], [np.nan, 0.5]], np.float32)
    bins = reliability(probabilities, np.array([[0, 1], [1, 1], [1, 0]]) > 0)
    assert bins[:, 0].tolist() == [2, 0, 0, 0, 0, 1, 0, 0, 0, 2]
    assert bins[:, 1].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    np.testing.assert_allclose(bins[[0, 5, 9], 2], [0.1, 0.5, 1.95], rtol=1e-6)
    assert len(bins) == BINS
