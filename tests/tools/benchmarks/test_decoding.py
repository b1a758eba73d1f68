"""The fit of the CPU time of decoding."""

import pytest

from tools.benchmarks.images.decoding import fitted


def test_a_cost_by_pixels_and_bytes_is_found_again_and_never_negative():
    sizes = [(0.2, 0.05), (0.2, 0.1), (3.0, 0.5), (3.0, 1.5), (12.0, 1.5), (12.0, 5.0)]
    points = [(pixels, size, 1.0 + 0.8 * pixels + 6.0 * size) for pixels, size in sizes]
    assert fitted(points) == pytest.approx((1.0, 0.8, 6.0))
    by_bytes = [(pixels, size, 5.0 * size - 0.1 * pixels) for pixels, size in sizes]
    assert min(fitted([(a, b, max(ms, 0.1)) for a, b, ms in by_bytes])) >= 0
