"""Counts of each class, from which metrics of several tasks follow. NumPy only."""

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ByClass:
    """Counts of each class over all examples, in images, pixels or objects; float64 [classes]."""

    true: Array
    """Those that are of the class."""
    predicted: Array
    """Those that are predicted as it."""
    right: Array
    """Those that are both."""

    @property
    def recall(self) -> Array:
        """Part of a class that is predicted as it; NaN for a class that does not occur."""
        return ratio(self.right, self.true)

    @property
    def precision(self) -> Array:
        """Part of the predictions of a class that are of it; NaN without predictions."""
        return ratio(self.right, self.predicted)

    @property
    def never_predicted(self) -> list[int]:
        """Classes that occur, but are never predicted."""
        return [int(n) for n in np.flatnonzero((self.true > 0) & (self.predicted == 0))]


def ratio(part: Array, whole: Array) -> Array:
    """Return part / whole, float64; NaN where the whole is 0."""
    result: Array = np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)
    return result


def mean_of_known(values: Array) -> float:
    """Return the mean over the classes for which a metric is defined; 0 if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0
