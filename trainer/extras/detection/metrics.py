"""Metrics of objects: functions of `Precision`, a row each in the task's description. A mean over
sizes of which there are no objects is 0. NumPy only.
"""

from trainer.extras.detection.average_precision import Precision


def ap_of_all(precision: Precision) -> float:
    """Return the mean average precision over IoU 0.5 to 0.95."""
    return max(precision.mean(), 0.0)


def ap_at_half(precision: Precision) -> float:
    """Return the mean average precision at IoU 0.5."""
    return max(precision.mean(threshold=0.5), 0.0)


def ap_of_small(precision: Precision) -> float:
    """Return the mean average precision of objects below 32 x 32 pixels."""
    return max(precision.mean("small"), 0.0)


def ap_of_medium(precision: Precision) -> float:
    """Return the mean average precision of objects between those of the other sizes."""
    return max(precision.mean("medium"), 0.0)


def ap_of_large(precision: Precision) -> float:
    """Return the mean average precision of objects from 96 x 96 pixels."""
    return max(precision.mean("large"), 0.0)
