"""Metrics of one class per image: functions of `Classified`, a row each in the task's description.
NumPy only.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from trainer.tasks.by_class import Array, ByClass, mean_of_known


@dataclass(frozen=True)
class Classified:
    """Examples whose class was predicted."""

    labels: Array
    """Class of each example, int64 [n]."""
    predicted: Array
    """The most probable class, int64 [n]."""
    among_five: Array
    """Whether the class is among the five most probable ones, bool [n]."""
    classes: int

    @cached_property
    def by_class(self) -> ByClass:
        """Examples by class."""
        return by_class(self.labels, self.predicted, self.classes)

    def largest_class(self) -> Self:
        """Return the same examples, of which all are predicted to be of the class that most of them
        are of; and of the five largest classes.
        """
        sizes = self.by_class.true
        largest = np.argsort(-sizes, kind="stable")
        among = np.isin(self.labels, largest[:5])
        return type(self)(self.labels, np.full_like(self.labels, largest[0]), among, self.classes)


def by_class(labels: Array, predicted: Array, classes: int) -> ByClass:
    """Count examples by class.

    Args:
        labels: Class of each example, int [n].
        predicted: The predicted one, int [n].
        classes: Number of classes.
    """
    columns = (labels, predicted, labels[labels == predicted])
    return ByClass(*(np.bincount(column, minlength=classes).astype(float) for column in columns))


def top1(examples: Classified) -> float:
    """Return the fraction of examples whose class is predicted."""
    return float(np.mean(examples.labels == examples.predicted))


def top5(examples: Classified) -> float:
    """Return the fraction of examples whose class is among the five most probable ones."""
    return float(np.mean(examples.among_five))


def balanced_accuracy(examples: Classified) -> float:
    """Return the mean over the classes that occur of the fraction of a class that is predicted as
    it: scikit-learn's `balanced_accuracy_score`.
    """
    return mean_of_known(examples.by_class.recall)


def areas(scores: Array, positive: Array) -> tuple[float, float]:
    """Return the average precision and the area under the ROC curve of one class against the rest.

    Average precision is that of scikit-learn's `average_precision_score`: the sum of the precision
    at each distinct score, weighted by the recall that it adds, without interpolation. The area is
    that of `roc_auc_score`: the probability that an example of the class has a larger score than
    another, ties counted as half (Mann-Whitney).

    Args:
        scores: Score of each example, such as the probability of the class, [n].
        positive: Whether the example is of the class, bool [n].

    Returns:
        NaN in place of both if no example is of the class, and of the area if all are.
    """
    order = np.argsort(-scores, kind="stable")
    # Where the last one of equal scores is: no order among them counts.
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    right = np.cumsum(positive[order])[last].astype(np.float64)
    wrong = last + 1.0 - right
    positives, negatives = right[-1], wrong[-1]
    if not positives:
        return np.nan, np.nan
    ap = np.sum(right / (right + wrong) * np.diff(right, prepend=0.0)) / positives
    if not negatives:
        return float(ap), np.nan
    before = np.concatenate([[0.0], right[:-1]])
    area = np.sum(np.diff(wrong, prepend=0.0) * (right + before)) / 2
    return float(ap), float(area / (positives * negatives))
