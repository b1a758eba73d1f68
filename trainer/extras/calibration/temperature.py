"""One temperature for all logits, fitted by Newton's method. NumPy alone.

Guo et al. 2017, "On Calibration of Modern Neural Networks". The negative log-likelihood is convex
in the inverse temperature b: its first derivative is the sum of E[z] - z_y, and its second that of
Var[z], over the softmax of b z.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

LEAST: Final = 0.02
"""Lowest temperature."""
MOST: Final = 50.0
"""Highest temperature."""
_ROWS: Final = 4096
"""Examples that are computed at once, in float64."""
_STEPS: Final = 100
_DIGITS: Final = 6
"""Significant digits of a temperature, so that it does not depend on how sums were divided."""


def sums(logits: Array, labels: Array, inverse: float) -> Array:
    """Return the negative log-likelihood of some examples, summed, and its first and second
    derivative by the inverse temperature: float64 [3].

    Args:
        logits: float [n, classes].
        labels: Class of each example, int [n].
        inverse: Inverse temperature.
    """
    total = np.zeros(3)
    for begin in range(0, len(logits), _ROWS):
        part: Array = logits[begin : begin + _ROWS].astype(np.float64)
        own = np.take_along_axis(part, labels[begin : begin + _ROWS, None], 1)[:, 0]
        probabilities, logs = _softmax(part * inverse)
        mean = (probabilities * part).sum(1)
        spread = (probabilities * (part - mean[:, None]) ** 2).sum(1)
        total += [(logs - inverse * own).sum(), (mean - own).sum(), spread.sum()]
    return total


def largest(logits: Array, temperature: float) -> Array:
    """Return the probability of the most probable class of each example, float64 [n]."""
    parts = [
        _softmax(logits[begin : begin + _ROWS].astype(np.float64) / temperature)[0].max(1)
        for begin in range(0, len(logits), _ROWS)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def fit(of_all: Callable[[float], Array]) -> float | None:
    """Return the temperature of the least negative log-likelihood; None if there is none between
    `LEAST` and `MOST`, as for predictions that are all right or that are not numbers.

    Args:
        of_all: Returns `sums` over all examples at an inverse temperature.
    """
    low, high = 1 / MOST, 1 / LEAST
    if not (of_all(low)[1] < 0 < of_all(high)[1]):
        return None
    inverse = 1.0
    for _ in range(_STEPS):
        _, slope, curvature = of_all(inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        step = inverse - slope / curvature if curvature > 0 else low
        # Outside of the bracket, Newton's step is replaced by its middle.
        following = step if low < step < high else (low + high) / 2
        if abs(following - inverse) <= 1e-9 * inverse:
            break
        inverse = following
    return float(f"{1 / inverse:.{_DIGITS}g}")


def _softmax(scaled: Array) -> tuple[Array, Array]:
    """Return the probabilities of logits, [n, classes], and the logarithm of their sum, [n]."""
    top = scaled.max(1, keepdims=True)
    exponentials = np.exp(scaled - top)
    total = exponentials.sum(1, keepdims=True)
    return exponentials / total, (np.log(total) + top)[:, 0]
