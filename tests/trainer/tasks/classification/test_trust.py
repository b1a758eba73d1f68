"""Intervals and calibration, compared with SciPy and with a sum over single predictions."""

import numpy as np
import pytest
from scipy.stats import binomtest

from trainer.tasks.classification.trust import (
    BINS,
    Bin,
    bin_of,
    calibration_error,
    wilson,
    wilson_of_groups,
)


@pytest.mark.parametrize(("hits", "of"), [(0, 1), (1, 1), (0, 40), (39, 40), (353, 360)])
def test_intervals_are_those_of_scipy(hits, of):
    expected = binomtest(hits, of).proportion_ci(method="wilson")
    assert wilson(hits, of) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_an_interval_of_groups_covers_the_truth_and_one_of_images_does_not():
    # 30 patients with up to 19 images, whose own accuracies are between 0 and 1.
    random, truth = np.random.default_rng(0), 0.71
    covered = np.zeros(2)
    for _ in range(400):
        sizes = random.integers(1, 20, 30)
        hits = random.binomial(sizes, random.beta(2 * truth, 2 * (1 - truth), 30))
        groups = list(zip(hits.tolist(), sizes.tolist(), strict=True))
        intervals = (wilson_of_groups(groups), wilson(hits.sum(), sizes.sum()))
        covered += [low <= truth <= high for low, high in intervals]
    # The page on trust names both, in percent.
    assert (covered / 4).round().tolist() == [93, 65]


def test_groups_of_one_image_are_as_good_as_images():
    hits = [1] * 300 + [0] * 100
    found, wanted = wilson_of_groups([(hit, 1) for hit in hits]), wilson(300, 400)
    assert found == pytest.approx(wanted, abs=2e-3)
    # As many images as groups are known to be independent.
    assert wilson_of_groups([(10, 10)] * 5) == wilson(5, 5)
    assert wilson_of_groups([(0, 3), (0, 9)]) == wilson(0, 2)


def counted(probabilities, right):
    bins = {}
    for probability, hit in zip(probabilities, right, strict=True):
        number = bin_of(probability)
        bins[number] = bins.get(number, Bin(0, 0, 0.0)).plus(probability, right=hit)
    return bins


def test_the_calibration_error_is_that_of_the_single_predictions():
    rng = np.random.default_rng(0)
    probabilities, right = rng.uniform(size=500), rng.uniform(size=500) < 0.5
    numbers = np.minimum(np.floor(probabilities * BINS), BINS - 1)
    gaps = [
        abs(right[numbers == n].mean() - probabilities[numbers == n].mean()) * (numbers == n).sum()
        for n in range(BINS)
    ]
    bins = counted(probabilities, right)
    assert calibration_error(bins) == pytest.approx(sum(gaps) / 500)
    assert sum(one.count for one in bins.values()) == 500


def test_probabilities_that_are_as_often_right_have_no_error_and_certain_mistakes_all():
    assert calibration_error(counted([0.75] * 4, [True, True, True, False])) == 0
    assert calibration_error(counted([1.0, 1.0], [False, False])) == 1
