"""Metrics of objects: functions of `Precision`, a row each in the task's description. A mean over
sizes of which there are no objects is 0. NumPy only.
"""

from trainer.detection.average_precision import Precision


def mean_ap(found: Precision) -> float:
    """Return the mean average precision over IoU 0.5 to 0.95."""
    return max(found.mean(), 0.0)


def ap_at_half(found: Precision) -> float:
    """Return the mean average precision at IoU 0.5."""
    return max(found.mean(threshold=0.5), 0.0)


def ap_of_small(found: Precision) -> float:
    """Return the mean average precision of objects below 32 x 32 pixels."""
    return max(found.mean("small"), 0.0)


def ap_of_medium(found: Precision) -> float:
    """Return the mean average precision of objects between those of the other sizes."""
    return max(found.mean("medium"), 0.0)


def ap_of_large(found: Precision) -> float:
    """Return the mean average precision of objects from 96 x 96 pixels."""
    return max(found.mean("large"), 0.0)
