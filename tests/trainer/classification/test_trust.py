"""Intervals and calibration, compared with SciPy and with a sum over single predictions."""

import numpy as np
import pytest
from scipy.stats import binomtest

from trainer.classification.trust import BINS, Bin, bin_of, calibration_error, wilson


@pytest.mark.parametrize(("hits", "of"), [(0, 1), (1, 1), (0, 40), (39, 40), (353, 360)])
def test_intervals_are_those_of_scipy(hits, of):
    expected = binomtest(hits, of).proportion_ci(method="wilson")
    assert wilson(hits, of) == pytest.approx((expected.low, expected.high), abs=1e-6)


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
