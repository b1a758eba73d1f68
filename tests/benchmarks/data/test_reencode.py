"""The interval of a proportion."""

import pytest

from benchmarks.data.reencode import show, wilson


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    # R: prop.test(x, n, correct = FALSE)$conf.int
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_the_interval_is_wilsons(successes, total, low, high):
    assert wilson(successes, total) == pytest.approx((low, high), abs=1e-4)


def test_the_table_gives_every_share_with_its_interval():
    counts = {
        "images": 200,
        "same prediction": 198,
        "right on the original": 190,
        "right on the re-encoded image": 189,
        "right only on the original": 2,
        "right only re-encoded": 1,
    }
    shown = show(counts)
    assert "99.0%" in shown
    assert "96.4%-99.7%" in shown
    assert "2 are right only on the original, 1 only on the re-encoded image." in shown
