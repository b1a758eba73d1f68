"""Assignment of targets and losses of FCOS, against plain loops in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.extras.detection.found import MOST, find_objects
from trainer.extras.detection.loss import assign, losses, split_outputs
from trainer.extras.detection.targets import IGNORED, OBJECT
from trainer.extras.detection.task import Detection

CLASSES, SIDES = 3, (12, 6, 3)
TASK = Detection(CLASSES)


def places():
    """x, y and stride of each location of three levels."""
    return np.array(
        [
            ((x + 0.5) / side, (y + 0.5) / side, 1 / side)
            for side in SIDES
            for y in range(side)
            for x in range(side)
        ],
        np.float32,
    )


def batch(seed=0, size=3, boxes=6):
    noise = np.random.default_rng(seed)
    target = np.zeros([size, 1 + boxes, 7], np.float32)
    target[:, 0, :2] = 200, 100
    corner = noise.uniform(0, 0.7, [size, boxes, 2])
    target[:, 1:, :2] = corner
    target[:, 1:, 2:4] = np.minimum(corner + noise.uniform(0.05, 0.8, [size, boxes, 2]), 1)
    target[:, 1:, 4] = noise.integers(0, CLASSES, [size, boxes])
    target[:, 1:, 5] = noise.choice([0, OBJECT, OBJECT, IGNORED], [size, boxes])
    target[:, 1:, 6] = (target[:, 1:, 2:4] - target[:, 1:, :2]).prod(-1) * 20_000
    target[:, 1:][target[:, 1:, 5] == 0] = 0
    where = places()
    outputs = noise.normal(0, 1, [size, len(where), CLASSES + 5])
    logits = np.concatenate([outputs, np.broadcast_to(where, [size, *where.shape])], 2)
    return logits.astype(np.float32), target


def box_of(place, target):
    """The smallest object whose location, distance and level fit; or whether it is ignored."""
    x, y, stride = (float(number) for number in place)
    chosen, smallest, ignored = None, np.inf, False
    for left, top, right, bottom, label, kind, _ in target[1:].astype(float):
        sides = (x - left, y - top, right - x, bottom - y)
        if min(sides) <= 0:
            continue
        ignored |= kind == IGNORED
        low = 0 if stride < 1 / 10 else 4 * stride
        high = np.inf if stride > 1 / 4 else 8 * stride
        near = max(abs(x - (left + right) / 2), abs(y - (top + bottom) / 2)) < 1.5 * stride
        area = (right - left) * (bottom - top)
        if kind == OBJECT and near and low < max(sides) <= high and area < smallest:
            chosen, smallest = ((left, top, right, bottom), int(label), sides), area
    return chosen, ignored


def sigmoid(x):
    return 1 / (1 + np.exp(-np.float64(x)))


def expected(logits, target):
    total, positive, ious = 0.0, 0, []
    for row in logits.astype(np.float64):
        chosen, ignored = box_of(row[-3:], target)
        if chosen or not ignored:
            for label in range(CLASSES):
                p = sigmoid(row[label])
                if chosen and chosen[1] == label:
                    total += -0.25 * (1 - p) ** 2 * np.log(p)
                else:
                    total += -0.75 * p**2 * np.log(1 - p)
        if not chosen:
            continue
        positive += 1
        (left, top, right, bottom), _, sides = chosen
        x, y, stride = row[-3:]
        a, b, c, d = np.exp(row[CLASSES + 1 : CLASSES + 5]) * stride
        mine = (x - a, y - b, x + c, y + d)
        wide = max(0, min(mine[2], right) - max(mine[0], left))
        high = max(0, min(mine[3], bottom) - max(mine[1], top))
        union = (a + c) * (b + d) + (right - left) * (bottom - top) - wide * high
        hull = (max(mine[2], right) - min(mine[0], left)) * (
            max(mine[3], bottom) - min(mine[1], top)
        )
        ious.append(wide * high / union)
        total += 1 - (ious[-1] - (hull - union) / hull)
        center = np.sqrt(
            min(sides[0], sides[2]) / max(sides[0], sides[2])
            * min(sides[1], sides[3]) / max(sides[1], sides[3])
        )  # fmt: skip
        p = sigmoid(row[CLASSES])
        total += -center * np.log(p) - (1 - center) * np.log(1 - p)
    return total / max(positive, 1), np.sum(ious) / max(positive, 1), positive


@pytest.mark.parametrize("seed", range(4))
def test_loss_and_assignment_are_those_of_plain_loops(seed):
    logits, target = batch(seed)
    loss, iou = losses(tf.constant(logits), tf.constant(target))
    outputs = split_outputs(tf.constant(logits))
    aim = assign(outputs.place, outputs.stride, tf.constant(target))
    counts = 0
    for image in range(len(logits)):
        wanted, mean, positive = expected(logits[image], target[image])
        assert loss[image].numpy() == pytest.approx(wanted, rel=2e-4)
        assert iou[image].numpy() == pytest.approx(mean, rel=2e-4)
        assert aim.positive[image].numpy().sum() == positive
        counts += positive
    assert counts > 5


def test_an_image_without_objects_has_a_finite_loss_and_gradient():
    logits, target = batch()
    variable = tf.Variable(logits * 30)
    with tf.GradientTape() as tape:
        loss, iou, _ = TASK.training(variable, tf.zeros_like(target))
    gradient = tape.gradient(loss, variable).numpy()
    assert np.isfinite(loss.numpy()).all()
    assert np.isfinite(gradient).all()
    assert not gradient[..., CLASSES:].any()
    assert iou.numpy().tolist() == [0, 0, 0]


def test_a_mirrored_image_has_its_boxes_mirrored():
    _, target = batch()
    found = TASK.mirrored(tf.constant(target), tf.constant([True, False, True])).numpy()
    assert np.array_equal(found[1], target[1])
    for before, after in zip(target[0, 1:], found[0, 1:], strict=True):
        there = before[5] > 0
        mirrored = [1 - before[2], before[1], 1 - before[0], before[3]] if there else [0] * 4
        np.testing.assert_allclose(after[:4], mirrored, atol=1e-6)
        assert np.array_equal(after[4:], before[4:])
    assert np.array_equal(found[:, 0], target[:, 0])


def greedy(logits, score, overlap):
    """Objects by plain loops: the best 400, then one after the other."""
    found = []
    for row in logits.astype(np.float64):
        x, y, stride = row[-3:]
        a, b, c, d = np.exp(row[CLASSES + 1 : CLASSES + 5]) * stride
        box = np.clip([x - a, y - b, x + c, y + d], 0, 1)
        center = sigmoid(row[CLASSES])
        found += [(np.sqrt(sigmoid(row[n]) * center), n, box) for n in range(CLASSES)]
    found = sorted(found, key=lambda one: -one[0])[:400]
    kept = []
    for one in (one for one in found if one[0] >= score):
        for other in kept:
            low, high = np.maximum(one[2][:2], other[2][:2]), np.minimum(one[2][2:], other[2][2:])
            shared = np.maximum(high - low, 0).prod()
            areas = [(box[2:] - box[:2]).prod() for box in (one[2], other[2])]
            if one[1] == other[1] and shared > overlap * (sum(areas) - shared):
                break
        else:
            kept.append(one)
    return kept[:MOST]


@pytest.mark.parametrize(("score", "overlap"), [(0.05, 0.6), (0.6, 0.3)])
def test_objects_are_those_of_greedy_suppression(score, overlap):
    logits, _ = batch(3)
    found = find_objects(tf.constant(logits), score, overlap).numpy()
    assert found.shape == (3, MOST, 6)
    for image, rows in zip(logits, found, strict=True):
        wanted = greedy(image, score, overlap)
        mine = rows[rows[:, 4] > 0]
        assert len(mine) == len(wanted) > 3
        np.testing.assert_allclose(mine[:, 4], [one[0] for one in wanted], rtol=1e-5)
        assert mine[:, 5].tolist() == [one[1] for one in wanted]
        np.testing.assert_allclose(mine[:, :4], [one[2] for one in wanted], atol=1e-5)


def test_what_is_evaluated_does_not_depend_on_how_images_are_divided():
    logits, target = batch(5, 6)
    together = TASK.evaluated(tf.constant(logits), tf.constant(target))[0].numpy().astype(float)
    parts = [
        TASK.evaluated(tf.constant(logits[i : i + 2]), tf.constant(target[i : i + 2]))[0].numpy()
        for i in range(0, 6, 2)
    ]
    whole = TASK.evaluation(together)
    assert whole == TASK.evaluation(np.concatenate(parts).astype(float))
    assert whole.examples == 6
    assert 0 < whole.metrics["map"] < whole.metrics["map50"] < 1
