"""From the outputs of the network to objects: scores, boxes, and non-maximum suppression. Plain
TensorFlow, which XLA and exporters accept.
"""

from typing import Final

import tensorflow as tf

from trainer.extras.detection.loss import Outputs, split_outputs

CANDIDATES: Final = 400
"""Boxes with the highest scores among which overlapping ones are suppressed."""
MOST: Final = 100
"""Most objects of an image, as in COCO's metric."""
SCORE: Final = 0.05
"""Lowest score of an object that an evaluation counts. FCOS's own code asks the probability of the
class alone for as much."""
OVERLAP: Final = 0.6
"""Intersection over union above which the lower of two boxes of a class is suppressed; the value of
FCOS."""


def find_objects(
    logits: tf.Tensor, score: tf.Tensor | float = SCORE, overlap: tf.Tensor | float = OVERLAP
) -> tf.Tensor:
    """Return the objects of each image, the highest score first, float32 [b, `MOST`, 6]: left, top,
    right and bottom as fractions of the image, the score and the class. Rows behind the last object
    have the score 0.

    Args:
        logits: Outputs of the network.
        score: Lowest score.
        overlap: Largest intersection over union of two objects of a class.
    """
    outputs = split_outputs(logits)
    classes = int(outputs.classes.shape[-1])
    scores = scores_of(outputs)
    flat = tf.reshape(scores, [-1, int(scores.shape[1]) * classes])
    count = min(CANDIDATES, int(flat.shape[1]))
    best, index = tf.math.top_k(flat, count)
    boxes = tf.gather(tf.clip_by_value(outputs.boxes, 0.0, 1.0), index // classes, batch_dims=1)
    label = index % classes
    valid = (best >= score) & tf.reduce_all(boxes[..., 2:] > boxes[..., :2], -1)
    remaining = suppressed(boxes, label, valid, overlap)
    ranked, order = tf.math.top_k(tf.where(remaining, best, 0.0), min(MOST, count))
    rows = tf.concat([boxes, best[..., None], tf.cast(label, tf.float32)[..., None]], 2)
    rows = tf.where((ranked > 0)[..., None], tf.gather(rows, order, batch_dims=1), 0.0)
    return tf.pad(rows, [[0, 0], [0, MOST - min(MOST, count)], [0, 0]])


def scores_of(outputs: Outputs) -> tf.Tensor:
    """Return the scores of locations, [b, l, classes]: the root of the product of the probabilities
    of class and centerness.
    """
    return tf.sqrt(tf.sigmoid(outputs.classes) * tf.sigmoid(outputs.center)[..., None])


def suppressed(
    boxes: tf.Tensor, label: tf.Tensor, valid: tf.Tensor, overlap: tf.Tensor | float
) -> tf.Tensor:
    """Return which boxes are kept by greedy non-maximum suppression within classes, bool [b, n].

    A box is kept if no earlier box that is kept overlaps it. Repeating this rule from all boxes on
    settles at least one more box a turn, so it ends with the boxes that the greedy pass would keep,
    usually after a few turns.

    Args:
        boxes: float32 [b, n, 4], the highest score first.
        label: Classes, int32 [b, n].
        valid: Whether a box counts, bool [b, n].
        overlap: Intersection over union from which the later of two boxes is left out.
    """
    low = tf.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
    high = tf.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
    shared = tf.reduce_prod(tf.maximum(high - low, 0.0), -1)
    area = tf.reduce_prod(boxes[..., 2:] - boxes[..., :2], -1)
    union = area[:, :, None] + area[:, None] - shared
    number = tf.range(tf.shape(boxes)[1])
    earlier = number[None, :] < number[:, None]
    hides = (shared > overlap * union) & (label[:, :, None] == label[:, None]) & earlier
    by = tf.cast(hides, tf.float32)

    def turn(remaining: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        hidden = tf.linalg.matvec(by, remaining) > 0
        again = tf.cast(valid & ~hidden, tf.float32)
        return again, tf.reduce_any(again != remaining)

    start = tf.cast(valid, tf.float32)
    remaining, _ = tf.while_loop(
        lambda _, changed: changed,
        turn,
        (start, tf.constant(value=True)),
        shape_invariants=(start.shape, tf.TensorShape([])),
    )
    return remaining > 0
