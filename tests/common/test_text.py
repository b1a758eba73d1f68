"""Durations, sizes and counts are formatted."""

import pytest

from common.text import duration, plural, size


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (99.94, "99.9 s"),
        (99.96, "1 min 40 s"),
        (200, "3 min 20 s"),
        (7199, "119 min 59 s"),
        (7200, "2 h 0 min"),
        (90_061, "25 h 1 min"),
    ],
)
def test_durations_are_in_the_units_that_fit(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1_440_000, "1.44 MB"),
        (205_000_000, "205 MB"),
        (999_700, "1 MB"),
        (1.5e12, "1.5 TB"),
        (4.2e15, "4,200 TB"),
    ],
)
def test_sizes_have_three_digits_in_decimal_units(count, words):
    assert size(count) == words


def test_one_thing_has_no_plural():
    assert (plural(1, "rank"), plural(0, "rank"), plural(1200, "image")) == (
        *("1 rank", "0 ranks"),
        "1,200 images",
    )
