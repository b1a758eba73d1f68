"""Percentiles of numbers of any range."""

import numpy as np
import pytest

from trainer.data.intake.histogram import LIMIT, Histogram


def total(*parts):
    whole = Histogram()
    for part in parts:
        other = Histogram()
        other.add(part)
        whole.merge(other)
    return whole


@pytest.mark.parametrize("most", [3000, 200_000])
def test_bins_do_not_depend_on_the_order_of_numbers(most, monkeypatch):
    monkeypatch.setattr("trainer.data.intake.histogram.LIMIT", 1000)
    monkeypatch.setattr("trainer.data.intake.histogram._CHUNK", 700)
    source = np.random.default_rng(0)
    numbers = source.integers(-most, most, 4000)
    numbers[::3] = 7
    wanted = total(numbers)
    assert wanted.keys.size <= 1000
    for parts in (np.split(numbers, 8), np.split(source.permutation(numbers), 2)):
        result = total(*parts)
        assert result.shift == wanted.shift > 0
        assert (result.keys == wanted.keys).all()
        assert (result.counts == wanted.counts).all()
    assert wanted.counts.sum() == 4000


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(-32_768, 98_304),
        np.arange(10_000) / 7 - 300,
        np.float32(np.arange(10_000)) * np.float32(1e-7),
        np.repeat([-0.0, 0.0, 5e-324, -5e-324, 3e38], 100),
    ],
)
def test_percentiles_are_exact_while_bins_suffice(numbers):
    flat = np.sort(numbers.ravel()).astype(float)
    least = int(flat.size * 0.005)
    low, high = total(numbers).range(0.005)
    assert flat[least - 1] <= low <= flat[least]
    assert flat[-least - 1] <= high <= flat[-least]


@pytest.mark.parametrize(("offset", "scale"), [(0, 4e9), (1e6, 100), (-5e8, 1e9), (0, 1e-3)])
def test_more_numbers_than_bins_cost_little_of_the_range(offset, scale):
    numbers = np.random.default_rng(0).random(400_000) * scale + offset
    result = total(*np.split(numbers, 4))
    assert result.keys.size <= LIMIT
    wanted = np.quantile(numbers, [0.005, 0.995])
    assert np.abs(np.subtract(result.range(0.005), wanted)).max() < scale / 2000
