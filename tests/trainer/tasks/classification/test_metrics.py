"""Metrics of one class per image, against scikit-learn, and what follows from the same counts."""

import csv

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import (
    balanced_accuracy_score,
    precision_score,
    recall_score,
    roc_auc_score,
    top_k_accuracy_score,
)

from trainer.leaves import TASKS
from trainer.tasks.by_class import ByClass
from trainer.tasks.classification.files import COLUMNS, PROBABILITIES, write_predictions
from trainer.tasks.classification.task import MOST_AREAS, Classification
from trainer.tasks.shortcomings import shortcomings
from trainer.tasks.task import Evaluation, Predictions
from trainer.training.console import class_lines

TASK = TASKS["classification"]
TOP1, BALANCED = TASK.evaluation[:2]


def drawn(seed, classes=7, images=200, missing=()):
    random = np.random.default_rng(seed)
    of = [n for n in range(classes) if n not in missing]
    labels = random.choice(of, images, p=np.arange(1, len(of) + 1) / np.arange(len(of) + 1).sum())
    logits = random.normal(size=[images, classes]) + 1.5 * np.eye(classes)[labels]
    return labels.astype(np.int32), logits.astype(np.float32)


def evaluated(labels, logits):
    task = Classification(logits.shape[1])
    counted, columns = task.evaluated(tf.constant(logits), tf.constant(labels))
    return task, counted.numpy().astype(float), {key: one.numpy() for key, one in columns.items()}


@pytest.mark.parametrize("seed", range(5))
def test_metrics_are_those_of_scikit_learn_in_whatever_order_the_examples_come(seed):
    labels, logits = drawn(seed, missing=(2,))
    task, counted, _ = evaluated(labels, logits)
    found, predicted = task.evaluation(counted), logits.argmax(1)
    assert list(found.metrics) == ["top1", "balanced_accuracy", "top5"]
    assert found.metrics["top1"] == np.mean(labels == predicted)
    # A class that is predicted and has no examples has no recall.
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        balanced = balanced_accuracy_score(labels, predicted)
    assert found.metrics["balanced_accuracy"] == pytest.approx(balanced, rel=1e-12)
    five = top_k_accuracy_score(labels, logits, k=5, labels=range(7))
    assert found.metrics["top5"] == pytest.approx(five)
    order = np.random.default_rng(seed).permutation(len(labels))
    assert task.evaluation(counted[order]) == found


def test_the_baseline_is_the_largest_class_for_every_image():
    labels = np.repeat([0, 1, 2, 3, 4, 5, 6], [5, 9, 70, 3, 2, 4, 7]).astype(np.int32)
    task, counted, _ = evaluated(labels, np.zeros([100, 7], np.float32))
    baseline = task.evaluation(counted).baseline
    assert baseline == pytest.approx({"top1": 0.7, "balanced_accuracy": 1 / 7, "top5": 0.95})
    said = TASK.words({"top1": 0.8, "top5": 1.0, "baseline": baseline})
    assert said == [
        "top-1 80.00% (largest class 70.00%)",
        "top-5 100.00% (five largest classes 95.00%)",
    ]


def test_five_guesses_among_five_classes_are_no_metric():
    labels, logits = drawn(0, classes=5)
    task, counted, _ = evaluated(labels, logits)
    assert list(task.evaluation(counted).metrics) == ["top1", "balanced_accuracy"]
    assert [metric.key for metric in TASK.metrics(6)] == ["top1", "balanced_accuracy", "top5"]


def test_every_class_has_a_line_with_its_recall_precision_and_area(tmp_path):
    labels, logits = drawn(1, classes=4, missing=(3,))
    logits[:, 0] = -9.0
    _, _, columns = evaluated(labels, logits)
    predictions, names = Predictions(np.arange(len(labels)), columns), ("a", "b", "c,", "d")
    write_predictions(tmp_path, predictions, names, None)
    with (tmp_path / "classes.csv").open(newline="") as file:
        rows = {row["class"]: row for row in csv.DictReader(file)}
    predicted = logits.argmax(1)
    options = {"labels": range(4), "average": None, "zero_division": np.nan}
    recalls, precisions = (
        of(labels, predicted, **options) for of in (recall_score, precision_score)
    )
    for number, name in enumerate(names):
        row, own = rows[name], labels == number
        assert (int(row["images"]), int(row["predicted"])) == (
            own.sum(),
            (predicted == number).sum(),
        )
        for key, value in (("recall", recalls[number]), ("precision", precisions[number])):
            assert row[key] == ("" if np.isnan(value) else f"{value:.6f}")
        area = roc_auc_score(own, columns[PROBABILITIES][:, number]) if own.any() else None
        assert row["auc"] == ("" if area is None else f"{area:.6f}")
    lines = class_lines(tmp_path)
    assert lines[0].split() == [
        "class",
        "images",
        "predicted",
        "right",
        "recall",
        "precision",
        "auc",
    ]
    assert lines[1].split()[4:6] == ["0.00%", "-"]
    said = str((predicted == 3).sum())
    assert lines[4].split() == ["d", "0", said, "0", "-", "0.00%", "-"]


def test_of_many_classes_the_worst_are_printed_and_no_areas_are_computed(tmp_path):
    labels, logits = drawn(2, classes=MOST_AREAS + 1, images=3000)
    _, _, columns = evaluated(labels, logits)
    assert tuple(columns) == COLUMNS
    names = tuple(f"class {n}" for n in range(MOST_AREAS + 1))
    write_predictions(tmp_path, Predictions(np.arange(3000), columns), names, None)
    head, *lines, rest = class_lines(tmp_path)
    assert rest == "(91 better classes are in classes.csv)"
    recalls = [float(line.split()[5].rstrip("%")) for line in lines]
    assert recalls == sorted(recalls)
    assert len(head) == len(lines[0])
    assert class_lines(tmp_path / "none") == []


def evaluation(top1=0.9, baseline=0.7, predicted=(5.0, 5.0, 0.0), balanced=0.6):
    by_class = ByClass(np.array([5.0, 3.0, 2.0]), np.array(predicted), np.array([4.0, 3.0, 0.0]))
    metrics = {"top1": top1, "balanced_accuracy": balanced}
    return Evaluation(metrics, 1.0, 10, {"top1": baseline, "balanced_accuracy": 1 / 3}, by_class)


def test_what_a_reader_must_know_is_a_sentence_each():
    names = ("Normal", "Pneumonie", "Erguss")
    fine = evaluation(predicted=(5.0, 4.0, 1.0))
    assert shortcomings(TASK, TOP1, fine, names, 0.95) == []
    assert shortcomings(TASK, TOP1, evaluation(), names) == [
        "Never predicted, 1 of 3 classes: Erguss."
    ]
    nothing, _ = shortcomings(TASK, TOP1, evaluation(0.7081, 0.7081), names)
    assert (
        "its top-1 is 70.81%, and that of the same answer for every image (largest class) is"
        in nothing
    )
    below = evaluation(0.6, 0.7, (5.0, 4.0, 1.0), 0.6)
    assert len(shortcomings(TASK, TOP1, below, names)) == 1
    # By the metric that the run was asked to compare, it has learned something.
    assert shortcomings(TASK, BALANCED, below, names) == []


def test_a_network_that_has_learned_its_images_by_heart_is_named():
    names, found = ("a", "b", "c"), evaluation(0.77, 0.5, (5.0, 4.0, 1.0))
    assert shortcomings(TASK, TOP1, found, names, 0.99) == [
        "Overfitted by 22 points: training top-1 is 99.00%, held-out 77.00%."
    ]
    assert shortcomings(TASK, TOP1, found, names, 0.86) == []
    # A run that shows its classes equally often trains on another mixture.
    balanced = evaluation(0.77, 0.5, (5.0, 4.0, 1.0), 0.95)
    assert shortcomings(TASK, TOP1, balanced, names, 0.99) == []
